//! Group locks: the data of a file for the members of a group, however many and wherever they are;
//! other clients wait (docs/locks/protocol.md, "Group locks").
//!
//! A member is an open file. The MDT knows which clients have members (`dlm::flock`): the first
//! open file that joins sends a request, and so does the last one that leaves. Members of several
//! mounts see each other's data as always. Programs of one mount share its data locks, so there a
//! group keeps out other groups only.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::open::{FileHandle, Membership, OpenFile};
use data::finish::Finish;
use data::locks::data_guards::DataAccess;
use session::error::ClientError;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::oneshot;
use types::errno::Errno;
use types::lock::{Flock, FlockFlavor, FlockKind};

fn lock_of(group: u64, kind: FlockKind, pid: u32) -> Flock {
    Flock { flavor: FlockFlavor::Group, kind, owner: group, pid, start: 0, end: u64::MAX }
}

impl Client {
    /// Makes an open file a member of a group, as soon as no other client has the data. 3 round
    /// trips for the first member of this mount, the last of which is the callback of others.
    ///
    /// # Errors
    /// EINVAL: it is in a group, or the group is 0; EAGAIN: another group has the file (or another
    /// program of this mount waits for that), and `wait` is false; EINTR: given up.
    pub async fn group_lock(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        group: u64,
        wait: bool,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Setlk);
        let open = self.open_to_lock(handle)?;
        let (give_up, given_up) = oneshot::channel();
        {
            let membership = &mut *open.group.lock();
            if group == 0 || !matches!(membership, Membership::None) {
                return Err(Errno::EINVAL.into());
            }
            *membership = Membership::Joining(Some(give_up));
        }
        let tasks = self.session.env.tasks.clone();
        let work = async move {
            let joined = self.join(&caller, &open, group, wait, given_up).await;
            let closed = {
                let membership = &mut *open.group.lock();
                let closed = matches!(membership, Membership::Closed);
                if !closed {
                    *membership =
                        if joined.is_ok() { Membership::Of(group) } else { Membership::None };
                }
                closed
            };
            if closed && joined.is_ok() {
                self.leave(&caller, &open, group).await?;
            }
            joined
        };
        Finish::new("group lock", &tasks, work).await
    }

    /// Gives up a waiting [`Client::group_lock`], which then answers EINTR (or succeeds, if it was
    /// granted just now).
    ///
    /// # Errors
    /// There is no such open file.
    pub async fn cancel_group_lock(self: Arc<Self>, handle: FileHandle) -> Result<(), ClientError> {
        give_up(&mut self.files_open.get(handle)?.group.lock());
        Ok(())
    }

    /// Leaves the group. 1 round trip for the last member of this mount.
    ///
    /// # Errors
    /// EINVAL: it is not of this group.
    pub async fn group_unlock(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        group: u64,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Setlk);
        let open = self.open_to_lock(handle)?;
        {
            let membership = &mut *open.group.lock();
            if !matches!(membership, Membership::Of(of) if *of == group) {
                return Err(Errno::EINVAL.into());
            }
            *membership = Membership::None;
        }
        let tasks = self.session.env.tasks.clone();
        Finish::new("group unlock", &tasks, async move { self.leave(&caller, &open, group).await })
            .await
    }

    /// An open file ends: it is in no group any more.
    pub(crate) async fn leave_at_close(&self, open: &OpenFile) -> Result<(), ClientError> {
        let mut membership = std::mem::replace(&mut *open.group.lock(), Membership::Closed);
        give_up(&mut membership);
        let Membership::Of(group) = membership else { return Ok(()) };
        let caller = Caller { credentials: open.credentials.clone(), ..Caller::root() };
        self.leave(&caller, open, group).await
    }

    async fn join(
        &self,
        caller: &Caller,
        open: &OpenFile,
        group: u64,
        wait: bool,
        mut given_up: oneshot::Receiver<()>,
    ) -> Result<(), ClientError> {
        let file = &open.file;
        let turn = file.group(group);
        let mut count = match wait {
            false => turn.try_lock().map_err(|_| Errno::EAGAIN)?,
            // The holder of the lock may itself wait for another group.
            true => tokio::select! {
                biased;
                count = turn.lock() => count,
                _ = &mut given_up => return Err(Errno::EINTR.into()),
            },
        };
        if *count == 0 {
            let mdc = self.session.mdc(file.fid)?;
            let lock = lock_of(group, FlockKind::Write, caller.pid);
            let mut ask = pin!(mdc.flock_set(&caller.credentials, file.fid, lock, wait));
            tokio::select! {
                biased;
                answer = &mut ask => answer?,
                _ = &mut given_up => {
                    // The answer must be awaited together with the cancellation, because it may be
                    // a grant.
                    let cancel = mdc.flock_cancel(&caller.credentials, file.fid, lock);
                    let (answer, cancelled) = futures_util::join!(&mut ask, cancel);
                    if let Err(error) = cancelled {
                        tracing::warn!(fid = %file.fid, %error, "give up waiting for a group lock");
                    }
                    answer?;
                }
            }
            // This ends earlier grants of others; their requests from now on wait.
            if let Err(error) = self.data.data_guard(file, DataAccess::WRITE_ALL).await {
                let unlock = Flock { kind: FlockKind::Unlock, ..lock };
                mdc.flock_set(&caller.credentials, file.fid, unlock, false).await?;
                return Err(error);
            }
        }
        *count += 1;
        Ok(())
    }

    async fn leave(&self, caller: &Caller, open: &OpenFile, group: u64) -> Result<(), ClientError> {
        let file = &open.file;
        let turn = file.group(group);
        let mut count = turn.lock().await;
        *count -= 1;
        if *count == 0 {
            let unlock = lock_of(group, FlockKind::Unlock, caller.pid);
            self.session
                .mdc(file.fid)?
                .flock_set(&caller.credentials, file.fid, unlock, false)
                .await?;
        }
        drop(count);
        drop(turn);
        file.forget_groups();
        Ok(())
    }
}

fn give_up(membership: &mut Membership) {
    if let Membership::Joining(waiting) = membership
        && let Some(waiting) = waiting.take()
    {
        // The receiver is gone: it was granted just now.
        let _ = waiting.send(());
    }
}
