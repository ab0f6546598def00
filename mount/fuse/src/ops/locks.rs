//! flock(2) and fcntl(2) locks.

use super::{ClientFs, answer, done};
use crate::decode::Request;
use crate::filesystem::Answer;
use crate::reply::Reply;
use client::open::FileHandle;
use types::lock::Flock;

impl ClientFs {
    pub(super) fn getlk(&self, request: &Request<'_>, handle: u64, lock: Flock) -> Answer {
        answer(self.client().getlk(self.holder(request), FileHandle(handle), lock), Reply::Lock)
    }

    pub(super) fn setlk(&self, request: &Request<'_>, handle: u64, lock: Flock) -> Answer {
        done(self.client().setlk(self.holder(request), FileHandle(handle), lock, false))
    }

    pub(super) fn setlkw(&self, request: &Request<'_>, handle: u64, lock: Flock) -> Answer {
        let (caller, handle) = (self.holder(request), FileHandle(handle));
        let wait = self.client().setlk(caller.clone(), handle, lock, true);
        let cancel = self.client().cancel_lock(caller, handle, lock);
        Answer::Cancellable {
            wait: Box::pin(async move {
                wait.await.map(|()| Reply::Done).map_err(|error| error.errno())
            }),
            cancel: Box::pin(async move {
                if let Err(error) = cancel.await {
                    tracing::warn!(%error, "give up waiting for a lock");
                }
            }),
        }
    }
}
