//! Opening and closing regular files.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::open::{FileHandle, OpenFile, OpenMode};
use data::file::File;
use data::finish::Finish;
use data::locks::data_guards::DataAccess;
use data::node::NodeId;
use observe::cause;
use rpc::error::RpcError;
use session::error::ClientError;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use stubs::mdc::Opened;
use types::attr::SetAttr;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::REQUEST_TIMEOUT;
use types::lock::{Flock, FlockFlavor, FlockKind, InodeBits};
use types::session::OpenHandle;
use wire::mds::{Close, MdsOp};

/// Pause before dirty data of a closed file is stored again.
const FLUSH_AGAIN: Duration = Duration::from_millis(200);
/// Pauses before an open is repeated that met ETXTBSY: half a second in all.
const BUSY_PAUSE_MIN: Duration = Duration::from_millis(1);
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(256);

/// True if locks may cover such an open: it reads, and the MDT need not know.
fn only_reads(open: OpenMode) -> bool {
    open.flags.read && !(open.flags.write || open.flags.exec || open.truncate)
}

impl Client {
    /// Opens an inode that is no directory. 1 round trip; none to read what is covered by OPEN and
    /// LAYOUT.
    pub async fn open(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        open: OpenMode,
    ) -> Result<FileHandle, ClientError> {
        if let Some(handle) = self.open_known(&caller.credentials, node, open) {
            return Ok(handle);
        }
        let _timed = self.timed(Operation::Open);
        let fid = self.fid(node)?;
        if only_reads(open)
            && self.is_opened_ahead(fid).await
            && let Some(handle) = self.open_known(&caller.credentials, node, open)
        {
            return Ok(handle);
        }
        if only_reads(open) {
            self.list_for_open(&caller.credentials, fid);
        }
        let tasks = self.session.env.tasks.clone();
        let (opener, closer) = (self.clone(), self.clone());
        let work = async move { opener.open_fid(caller, fid, open).await };
        let close = |result: Result<FileHandle, ClientError>| async move {
            if let Ok(handle) = result {
                closer.close(handle).await;
            }
        };
        self.note_stale(Finish::new("open", &tasks, work).or_else(close).await)
    }

    /// Opens for reading, if locks cover it: no request, no waiting. The kernel checks the
    /// permission to read. Executing a file denies it to writers everywhere, which the MDT must
    /// know.
    pub fn open_known(
        &self,
        credentials: &Credentials,
        node: NodeId,
        open: OpenMode,
    ) -> Option<FileHandle> {
        if !only_reads(open) {
            return None;
        }
        let fid = self.nodes.fid(node).filter(|fid| self.session.has_lease(*fid))?;
        let (layout, local) = {
            let mut table = self.locks.table.lock();
            let layout = table.layout(fid).filter(|_| table.bits(fid).contains(InodeBits::OPEN))?;
            (layout, self.locks.opens.lock().open(fid))
        };
        let _timed = self.timed(Operation::Open);
        let file = self.data.files.get(fid);
        if file.layout().is_none_or(|known| known.generation != layout.generation) {
            self.data.rest_on_answers(&file);
        }
        file.learn_layout(layout);
        if let Some(entry) = self.locks.attr(fid) {
            file.learn(&entry.attr);
        }
        let handle = self.keep_open(OpenFile::new_local(file, open, credentials.clone(), local));
        self.open_next(credentials, fid, false);
        Some(handle)
    }

    /// Repeats an open that the MDT refuses because another client executes the file, or has it
    /// open for writing. The MDT hears of a close a moment after close(2) or the end of a process,
    /// so a refusal counts only after half a second. A file that shall be executed is read first:
    /// so its writer stores it, and reports the close after that.
    pub(crate) async fn if_not_executed<T, Attempt: Future<Output = Result<T, ClientError>>>(
        &self,
        to_execute: Option<Fid>,
        attempt: impl Fn() -> Attempt,
    ) -> Result<T, ClientError> {
        let mut pause = BUSY_PAUSE_MIN;
        loop {
            match attempt().await {
                Err(error) if error.errno() == Errno::ETXTBSY && pause <= BUSY_PAUSE_MAX => {
                    if let Some(fid) = to_execute.filter(|_| pause == BUSY_PAUSE_MIN) {
                        self.data
                            .data_guard(&self.data.files.get(fid), DataAccess::READ_ALL)
                            .await?;
                    }
                    self.session.env.clock.sleep(pause).await;
                    pause *= 2;
                }
                answer => return answer,
            }
        }
    }

    async fn open_fid(
        self: Arc<Self>,
        caller: Caller,
        fid: Fid,
        open: OpenMode,
    ) -> Result<FileHandle, ClientError> {
        // In use from here on: it keeps the bytes that come along.
        let _file = self.data.files.get(fid);
        let to_execute = open.flags.exec.then_some(fid);
        let attempt = || self.data.open_at_mdt(&caller.credentials, fid, open.flags, open.truncate);
        let opened = self.if_not_executed(to_execute, attempt).await?;
        let handle = self.opened(&caller, opened, open);
        if only_reads(open) {
            self.open_next(&caller.credentials, fid, true);
        }
        if open.truncate {
            let set = SetAttr { size: Some(0), ..SetAttr::default() };
            if let Err(error) = self.clone().truncate(caller.credentials, fid, set).await {
                self.close(handle).await;
                return Err(error);
            }
        }
        Ok(handle)
    }

    /// The MDT opened a file.
    pub(crate) fn opened(&self, caller: &Caller, opened: Opened, mode: OpenMode) -> FileHandle {
        let file = self.data.files.get(opened.entry.attr.fid);
        file.learn(&opened.entry.attr);
        self.data.rest_on_answers(&file);
        if let Some(layout) = opened.layout {
            self.data.open_prefetch.note(layout.mdt_bytes());
            file.learn_layout(layout);
        }
        self.keep_open(OpenFile::new(file, mode, caller.credentials.clone(), opened.handle))
    }

    /// close(2) of one descriptor: drops the fcntl locks of `lock_owner`. No request if it never
    /// took one. Reports a loss of earlier writes, which still counts as unreported.
    pub async fn flush(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        lock_owner: u64,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Flush);
        let open = self.files_open.get(handle)?;
        if open.mode.flags.write {
            self.data.flush_later(&open.file);
        }
        let lost = if open.mode.flags.write { open.failed_at_close() } else { Ok(()) };
        let me = self.clone();
        let unlock = async move {
            match open.file.take_locker(FlockFlavor::Posix, lock_owner) {
                true => me.drop_locks(&caller, &open, FlockFlavor::Posix, lock_owner).await,
                false => Ok(()),
            }
        };
        let failed = |unlocked: Result<(), ClientError>| async move {
            if let Err(error) = unlocked {
                tracing::warn!(%error, "drop the fcntl locks of a closed file");
            }
        };
        let unlock = Finish::new("drop locks", &self.session.env.tasks, unlock).or_else(failed);
        tokio::select! {
            biased;
            unlocked = unlock => unlocked.and(lost),
            // A killed program closes, too, and cannot be killed again: the rest is done without
            // it.
            () = self.session.env.clock.sleep(REQUEST_TIMEOUT) => lost,
        }
    }

    /// The last descriptor is gone, and with it flock(2) and OFD locks that were taken through it.
    /// Returns at once; the MDT is told in the background.
    pub async fn release(
        self: Arc<Self>,
        _caller: Caller,
        handle: FileHandle,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Release);
        let tasks = self.session.env.tasks.clone();
        // Beyond the bound of closes under way, release waits.
        let permit = self.closes.clone().acquire_owned().await;
        let mut close = Box::pin(async move {
            self.close(handle).await;
            drop(permit);
        });
        // A target in this process has answered already, so no task is needed. No caller waits for
        // it, here or there.
        let first =
            poll_fn(|context| Poll::Ready(cause::within(0, || close.as_mut().poll(context)))).await;
        if first.is_pending() {
            tasks.spawn("close", close);
        }
        Ok(())
    }

    /// Drops locks, then closes. Errors can reach no program any more: they are logged.
    pub(crate) async fn close(&self, handle: FileHandle) {
        // Until the MDT has heard of the close, an MDT that restarts is told that the file is open:
        // else it would destroy the objects of one without a name, into which data is still stored.
        let Some(open) = self.files_open.begin_close(handle) else {
            tracing::warn!(handle = handle.0, "released, but not open");
            return;
        };
        let fid = open.file.fid;
        self.data.closed(&open.file, handle);
        if open.mode.flags.write {
            self.flush_before_close(&open.file).await;
        }
        if open.file.has_lockers(handle) {
            let caller = Caller { credentials: open.credentials.clone(), ..Caller::root() };
            let _alone = open.file.dropping.write().await;
            for (flavor, owner) in open.file.take_lockers(handle) {
                if let Err(error) = self.drop_locks(&caller, &open, flavor, owner).await {
                    tracing::warn!(%fid, %error, "drop the locks of a closed file");
                }
            }
        }
        if let Err(error) = self.leave_at_close(&open).await {
            tracing::warn!(%fid, %error, "leave the group of a closed file");
        }
        if let Err(error) = self.end_lease(handle, &open).await {
            tracing::warn!(%fid, %error, "give back the lease of a closed file");
        }
        let kept = open.local().is_some_and(|local| self.locks.opens.lock().close(fid, local));
        if kept {
            self.upkeep.unlock_open(fid);
        }
        let Some(at_mdt) = open.close() else { return };
        if let Err(error) = self.tell_close(&open, at_mdt).await {
            tracing::warn!(%fid, %error, "close");
        }
    }

    /// Tells the MDT of a close, together with what else goes there. 1 round trip.
    async fn tell_close(&self, open: &OpenFile, handle: OpenHandle) -> Result<(), ClientError> {
        let fid = open.file.fid;
        let mdc = self.session.mdc(fid)?;
        let boot = mdc.import().boot();
        let by = (open.credentials.clone(), cause::job());
        let ops = vec![MdsOp::Close(Close { fid, handle })];
        let batcher = &self.data.writeback.batcher;
        match batcher.ask(&self.session.env, &mdc, by, ops).await?.pop() {
            Some(Ok(_)) => Ok(()),
            // The MDT restarted meanwhile: the handle ended with its old process.
            Some(Err(Errno::EBADF)) if mdc.import().boot() != boot => Ok(()),
            Some(Err(errno)) => Err(errno.into()),
            None => Err(Errno::EIO.into()),
        }
    }

    /// Once the MDT knows of a close, the objects of a file without a name are destroyed, and the
    /// writer mark of a file without another writer goes: nothing may be stored in them any more.
    /// So this ends when all is stored, or lost with the lock that covered it.
    async fn flush_before_close(&self, file: &Arc<File>) {
        if !file.dirty.lock().is_clean() {
            self.data.give_time_to_record(file).await;
        }
        let mut told = false;
        while !file.dirty.lock().is_clean() && !self.session.is_ending() {
            let error = match self.data.flush_closed(file).await {
                Ok(()) => break,
                Err(ClientError::Rpc(RpcError::Shutdown)) => return,
                Err(error) => error,
            };
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(fid = %file.fid, %error, "a closed file waits for what was written to be stored");
            }
            self.session.env.clock.sleep(FLUSH_AGAIN).await;
        }
        while file.is_miscounted() && !self.session.is_ending() {
            match self.data.recount(file).await {
                Ok(()) => {}
                Err(ClientError::Rpc(RpcError::Errno(_) | RpcError::Shutdown)) => return,
                Err(error) => {
                    tracing::debug!(fid = %file.fid, %error, "count the blocks of a closed file");
                    self.session.env.clock.sleep(FLUSH_AGAIN).await;
                }
            }
        }
    }

    async fn drop_locks(
        &self,
        caller: &Caller,
        open: &OpenFile,
        flavor: FlockFlavor,
        owner: u64,
    ) -> Result<(), ClientError> {
        let lock = Flock {
            flavor,
            kind: FlockKind::Unlock,
            owner,
            pid: caller.pid,
            start: 0,
            end: u64::MAX,
        };
        let fid = open.file.fid;
        Ok(self.session.mdc(fid)?.flock_set(&caller.credentials, fid, lock, false).await?)
    }
}
