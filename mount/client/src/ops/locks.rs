//! flock(2) and fcntl(2) locks, at the MDT that owns the inode.

use crate::caller::Caller;
use crate::client::Client;
use crate::error::ClientError;
use crate::open::FileHandle;
use std::sync::Arc;
use types::lock::Flock;

impl Client {
    /// The lock that stands in the way; `None` = free.
    pub async fn getlk(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _lock: Flock,
    ) -> Result<Option<Flock>, ClientError> {
        unimplemented!()
    }

    /// Takes or releases a lock. `wait`: until granted (EDEADLK, EINTR), else EAGAIN at a conflict. Dropping the
    /// future of a waiting call gives the wait up.
    pub async fn setlk(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _lock: Flock,
        _wait: bool,
    ) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// Gives up a waiting [`Client::setlk`], which then answers EINTR (or succeeds, if it was granted just now).
    pub async fn cancel_lock(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _lock: Flock,
    ) -> Result<(), ClientError> {
        unimplemented!()
    }
}
