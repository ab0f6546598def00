//! Callbacks to one client that it has not answered yet.
//!
//! A target evicts a client that leaves a callback open for [`LEASE`], even if it hears of the
//! client all the time. Such a client cannot always know: the callback may still be on its way to
//! it. So every reply says for how long the oldest callback has been open, and the client takes the
//! reply for that much older (`Import::prove`). Then its trust ends before it is evicted, in
//! whichever way. A reply that is made after that proves nothing at all.
//!
//! [`LEASE`]: types::limits::LEASE

use env::clock::Monotonic;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Bounded by what the service asks at once.
#[derive(Default)]
pub(crate) struct Questions(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: u64,
    open: BTreeSet<(Monotonic, u64)>,
}

/// One callback; dropped when it is answered or given up.
pub struct Question<'a> {
    questions: &'a Questions,
    key: (Monotonic, u64),
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.questions.0.lock().open.remove(&self.key);
    }
}

impl Questions {
    pub(crate) fn ask(&self, now: Monotonic) -> Question<'_> {
        let inner = &mut *self.0.lock();
        inner.last += 1;
        let key = (now, inner.last);
        inner.open.insert(key);
        Question { questions: self, key }
    }

    /// Milliseconds for which the oldest has been open, rounded up; 0: there is none.
    pub(crate) fn open_ms(&self, now: Monotonic) -> u32 {
        let oldest = self.0.lock().open.first().map(|(asked, _)| now.saturating_sub(*asked));
        oldest.map_or(0, |open| u32::try_from(open.as_micros().div_ceil(1000)).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_oldest_counts_until_it_is_answered() {
        let at = Duration::from_millis;
        let questions = Questions::default();
        assert_eq!(questions.open_ms(at(7)), 0);
        let first = questions.ask(at(10));
        let same = questions.ask(at(10));
        let later = questions.ask(at(500));
        assert_eq!(questions.open_ms(at(1010) + Duration::from_micros(1)), 1001);
        drop(first);
        assert_eq!(questions.open_ms(at(1010)), 1000, "two of one moment are two");
        drop(same);
        assert_eq!(questions.open_ms(at(1010)), 510);
        drop(later);
        assert_eq!(questions.open_ms(at(1010)), 0);
    }
}
