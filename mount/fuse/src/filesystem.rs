//! The file system behind the transport.

use crate::decode::Request;
use crate::reply::Reply;
use env::BoxFuture;
use types::errno::Errno;

/// A file system: answers requests, many at once, from any thread.
pub trait FileSystem: Send + Sync + 'static {
    /// Answers one request. Must not block: a call that has to wait is returned as a future, which
    /// is polled once right here and then, if need be, on a reactor. INIT, INTERRUPT and DESTROY
    /// never come here.
    fn call(&self, request: &Request<'_>) -> Answer;
}

/// An answer, or the promise of one.
pub enum Answer {
    /// At once.
    Inline(Result<Reply, Errno>),
    /// Answered when the future is ready. Dropping it must be harmless.
    Pending(BoxFuture<'static, Result<Reply, Errno>>),
    /// As `Pending`, for a wait that any signal to the caller ends. Then `cancel` runs beside
    /// `wait`, which should answer EINTR, or success if it was granted at this very moment.
    Cancellable {
        /// The wait.
        wait: BoxFuture<'static, Result<Reply, Errno>>,
        /// The future that ends the wait.
        cancel: BoxFuture<'static, ()>,
    },
}

impl From<Result<Reply, Errno>> for Answer {
    fn from(result: Result<Reply, Errno>) -> Answer {
        Answer::Inline(result)
    }
}
