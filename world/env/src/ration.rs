//! At most one of many equal events in a second: for log lines that any peer can cause.

use crate::clock::Monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time between two.
const EACH: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub struct Ration {
    /// Time at which the next one may pass, nanoseconds.
    next: AtomicU64,
    kept_back: AtomicU64,
}

impl Ration {
    /// `Some` if one may pass now, with the number that were kept back since the last one that
    /// passed. `None`: this one is kept back too.
    pub fn pass(&self, now: Monotonic) -> Option<u64> {
        let now_ns = now.as_nanos() as u64;
        let after = now_ns.saturating_add(EACH.as_nanos() as u64);
        let may = |next: u64| (now_ns >= next).then_some(after);
        match self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, may) {
            Ok(_) => Some(self.kept_back.swap(0, Ordering::AcqRel)),
            Err(_) => {
                self.kept_back.fetch_add(1, Ordering::AcqRel);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_passes_each_second_and_tells_of_the_others() {
        let ration = Ration::default();
        let ms = Duration::from_millis;
        assert_eq!(ration.pass(ms(10)), Some(0));
        assert_eq!((ration.pass(ms(10)), ration.pass(ms(1009))), (None, None));
        assert_eq!(ration.pass(ms(1010)), Some(2));
        assert_eq!(ration.pass(ms(1011)), None);
        assert_eq!(ration.pass(ms(9000)), Some(1));
    }
}
