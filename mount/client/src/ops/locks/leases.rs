//! Leases: an open file has its inode to itself until another one comes (docs/locks/protocol.md,
//! "Leases").
//!
//! The MDT watches other clients, this mount its own open files: a lease stands as long as both say
//! so. An open here is noted before its program has it, and a request for a lease is noted before
//! the others are looked at; so one of the two finds the other.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::open::{FileHandle, OpenFile};
use data::finish::Finish;
use dlm::leases::OpenBy;
use session::error::ClientError;
use std::sync::Arc;
use types::errno::Errno;
use types::lock::LeaseMode;
use wire::mds::LeaseAct;

impl Client {
    /// Adds an open file: leases of this mount that it breaks are over before the program has it.
    pub(crate) fn keep_open(&self, open: OpenFile) -> FileHandle {
        let (fid, writes) = (open.file.fid, open.mode.flags.write);
        if writes {
            open.file.opened_to_write(self.session.env.clock.now());
        }
        let named = open.file.layout().map_or(fid, |layout| layout.names(fid));
        self.session.tickets.used(named, fid, &open.credentials);
        let handle = self.files_open.insert(open);
        self.leases.lock().used(fid, writes, |holder| *holder == handle);
        handle
    }

    /// Takes a lease of an open file. 1 round trip, and callbacks to clients that may use the file
    /// without a request.
    ///
    /// # Errors
    /// EBUSY: there is another open file (a read lease: for writing), or this open file has a
    /// lease; ENOLCK: there are too many.
    pub async fn lease_acquire(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        mode: LeaseMode,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Setlk);
        let open = self.open_to_lock(handle)?;
        let tasks = self.session.env.tasks.clone();
        let work = async move { self.take_lease(&caller, handle, &open, mode).await };
        Finish::new("lease", &tasks, work).await
    }

    /// The lease of an open file that stands, if any. 1 round trip, none if it has none.
    ///
    /// # Errors
    /// Those of the MDT: then the state is unknown.
    pub async fn lease_check(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
    ) -> Result<Option<LeaseMode>, ClientError> {
        let _timed = self.timed(Operation::Getlk);
        let open = self.open_to_lock(handle)?;
        let _turn = open.leased.lock().await;
        let fid = open.file.fid;
        if self.leases.lock().held(fid, handle).is_none() {
            return Ok(None);
        }
        let at_mdt = self
            .session
            .mdc(fid)?
            .lease(&caller.credentials, fid, handle.0, LeaseAct::Check)
            .await?;
        let leases = &mut *self.leases.lock();
        if at_mdt.is_none() {
            leases.release(fid, handle);
        }
        // Another open file of this mount may have come meanwhile.
        Ok(leases.held(fid, handle))
    }

    /// Gives the lease of an open file back; returns the lease that stood until now, if any. 1
    /// round trip.
    ///
    /// # Errors
    /// Those of the MDT: then the previous state is unknown; it has none any more.
    pub async fn lease_release(
        self: Arc<Self>,
        handle: FileHandle,
    ) -> Result<Option<LeaseMode>, ClientError> {
        let _timed = self.timed(Operation::Setlk);
        let open = self.open_to_lock(handle)?;
        let tasks = self.session.env.tasks.clone();
        Finish::new("give a lease back", &tasks, async move { self.end_lease(handle, &open).await })
            .await
    }

    async fn take_lease(
        &self,
        caller: &Caller,
        handle: FileHandle,
        open: &Arc<OpenFile>,
        mode: LeaseMode,
    ) -> Result<(), ClientError> {
        let fid = open.file.fid;
        let mut leased = open.leased.lock().await;
        // A close meanwhile ends the lease after this.
        self.files_open.get(handle)?;
        {
            let mut leases = self.leases.lock();
            if leases.held(fid, handle).is_some() {
                return Err(Errno::EBUSY.into());
            }
            leases.acquire(fid, handle, mode, OpenBy::Nobody)?;
        }
        let excluded = |other: &OpenFile| {
            other.file.fid == fid
                && !std::ptr::eq(other, &**open)
                && mode.is_broken(other.mode.flags.write)
        };
        if self.files_open.any(excluded) {
            self.leases.lock().release(fid, handle);
            return Err(Errno::EBUSY.into());
        }
        // Also if no answer comes.
        *leased = true;
        let asked = self
            .session
            .mdc(fid)?
            .lease(&caller.credentials, fid, handle.0, LeaseAct::Acquire(mode))
            .await;
        let leases = &mut *self.leases.lock();
        if let Err(error) = asked {
            leases.release(fid, handle);
            return Err(error.into());
        }
        // Another open file of this mount may have come meanwhile.
        leases.held(fid, handle).map(drop).ok_or_else(|| Errno::EBUSY.into())
    }

    /// The lease of an open file is over; returns the lease that stood until now, if any.
    pub(crate) async fn end_lease(
        &self,
        handle: FileHandle,
        open: &OpenFile,
    ) -> Result<Option<LeaseMode>, ClientError> {
        let mut leased = open.leased.lock().await;
        let fid = open.file.fid;
        let here = self.leases.lock().release(fid, handle);
        if !std::mem::take(&mut *leased) {
            return Ok(None);
        }
        let at_mdt = self
            .session
            .mdc(fid)?
            .lease(&open.credentials, fid, handle.0, LeaseAct::Release)
            .await?;
        Ok(at_mdt.and(here))
    }
}
