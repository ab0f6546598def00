//! flock(2) and fcntl(2) locks, at the MDT that owns the inode.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::open::{FileHandle, OpenFile};
use env::BoxFuture;
use env::tasks::Tasks;
use rpc::error::RpcError;
use session::error::ClientError;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use stubs::mdc::Mdc;
use types::credentials::Credentials;
use types::fid::Fid;
use types::lock::{Flock, FlockKind};

impl Client {
    /// The lock that is in the way; `None` = free.
    pub async fn getlk(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        lock: Flock,
    ) -> Result<Option<Flock>, ClientError> {
        let _timed = self.timed(Operation::Getlk);
        let open = self.open_to_lock(handle)?;
        let fid = open.file.fid;
        Ok(self.session.mdc(fid)?.flock_test(&caller.credentials, fid, lock).await?)
    }

    /// Takes or releases a lock. `wait`: until granted (EDEADLK, EINTR), else EAGAIN at a conflict.
    /// Dropping the future gives the wait up; should the lock be granted at that very moment, it is
    /// released again.
    pub async fn setlk(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        lock: Flock,
        wait: bool,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Setlk);
        let open = self.open_to_lock(handle)?;
        let fid = open.file.fid;
        let mdc = self.session.mdc(fid)?;
        // The kernel may give an owner's name to another one as soon as a file is closed: the locks
        // of the old one go first.
        drop(open.file.dropping.read().await);
        // Noted before it is asked for: a close that overtakes the answer must release it.
        open.file.note_locker(handle, &lock);
        let (asker, who) = (mdc.clone(), caller.credentials.clone());
        let ask = Box::pin(async move { asker.flock_set(&who, fid, lock, wait).await });
        let tasks = self.session.env.tasks.clone();
        let request =
            LockRequest { ask: Some(ask), mdc, credentials: caller.credentials, fid, lock, tasks };
        request.await?;
        // Noted again: a process that closed another descriptor meanwhile dropped its locks of that
        // time.
        open.file.note_locker(handle, &lock);
        Ok(())
    }

    /// Gives up a waiting [`Client::setlk`], which then answers EINTR (or succeeds, if it was
    /// granted just now).
    pub async fn cancel_lock(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        lock: Flock,
    ) -> Result<(), ClientError> {
        let open = self.open_to_lock(handle)?;
        let fid = open.file.fid;
        Ok(self.session.mdc(fid)?.flock_cancel(&caller.credentials, fid, lock).await?)
    }

    pub(crate) fn open_to_lock(&self, handle: FileHandle) -> Result<Arc<OpenFile>, ClientError> {
        let open = self.files_open.get(handle)?;
        open.check()?;
        Ok(open)
    }
}

/// A request for a lock that cleans up if its caller no longer waits for it.
struct LockRequest {
    ask: Option<BoxFuture<'static, Result<(), RpcError>>>,
    mdc: Mdc,
    credentials: Credentials,
    fid: Fid,
    lock: Flock,
    tasks: Arc<dyn Tasks>,
}

impl Future for LockRequest {
    type Output = Result<(), RpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ask = self.ask.as_mut().expect("not polled after it was ready");
        let poll = ask.as_mut().poll(cx);
        if poll.is_ready() {
            self.ask = None;
        }
        poll
    }
}

impl Drop for LockRequest {
    fn drop(&mut self) {
        let Some(ask) = self.ask.take() else { return };
        let (mdc, who, fid, lock) =
            (self.mdc.clone(), std::mem::take(&mut self.credentials), self.fid, self.lock);
        let clean_up = async move {
            // The answer must be awaited together with the cancellation, because it may be a grant.
            let cancel = mdc.flock_cancel(&who, fid, lock);
            let (answer, cancelled) = futures_util::join!(ask, cancel);
            if let Err(error) = cancelled {
                tracing::warn!(%fid, %error, "give up waiting for a lock");
            }
            if answer.is_ok() && lock.kind != FlockKind::Unlock {
                let unlock = Flock { kind: FlockKind::Unlock, ..lock };
                if let Err(error) = mdc.flock_set(&who, fid, unlock, false).await {
                    tracing::warn!(%fid, %error, "release a lock that nobody waited for");
                }
            }
        };
        self.tasks.spawn("give up a lock", Box::pin(clean_up));
    }
}
