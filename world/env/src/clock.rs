//! Time.

use crate::BoxFuture;
use std::time::Duration;
use types::time::Timestamp;

/// A point on a clock that never goes back: time since the process (or simulation) began.
pub type Monotonic = Duration;

/// The clock.
pub trait Clock: Send + Sync {
    /// Monotonic time.
    fn now(&self) -> Monotonic;
    /// Wall time, for inode time stamps.
    fn wall(&self) -> Timestamp;
    /// Ready after `time`. May be polled first outside the executor and again inside.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}
