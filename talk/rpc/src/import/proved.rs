//! Until when a target surely knew this client.

use env::clock::Monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time at which the newest answered request was sent, nanoseconds of the monotonic clock; 0 = none
/// was.
#[derive(Default)]
pub(crate) struct Proved(AtomicU64);

impl Proved {
    /// A request that was sent then has been answered, and a callback of the target has been open
    /// for this long. The target's patience counts from that callback on.
    pub(crate) fn prove(&self, sent: Monotonic, open_ms: u32) {
        let sent = sent.saturating_sub(Duration::from_millis(open_ms.into()));
        self.0
            .fetch_max(u64::try_from(sent.as_nanos()).unwrap_or(u64::MAX).max(1), Ordering::AcqRel);
    }

    /// The earliest time from which the target can have missed this client; `None`: no request was
    /// answered.
    pub(crate) fn at(&self) -> Option<Monotonic> {
        let nanos = self.0.load(Ordering::Acquire);
        (nanos != 0).then(|| Monotonic::from_nanos(nanos))
    }
}
