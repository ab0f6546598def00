//! What fails again and again: said when it is news, and tried less and less often.

use crate::background::tasks::Backoff;
use std::fmt::Display;
use std::time::Duration;
use store::store::Store;
use types::errno::Errno;

/// What was said last of something that is tried until it succeeds.
#[derive(Default)]
pub(crate) struct LastSaid(Option<String>);

impl LastSaid {
    /// True if this is not what was said last.
    pub(crate) fn is_news(&mut self, what: &impl Display) -> bool {
        let what = what.to_string();
        let is_news = self.0.as_ref() != Some(&what);
        self.0 = Some(what);
        is_news
    }
}

/// Rounds of a task that failed one after the other: as of a store that has stopped, which only a
/// restart mends.
pub(crate) struct Failing {
    backoff: Backoff,
    between: Duration,
    pause: Duration,
    said: LastSaid,
}

impl Failing {
    /// Rounds are `between` apart, and up to `longest` while they fail.
    pub(crate) fn new(between: Duration, longest: Duration) -> Failing {
        let backoff = Backoff::new(2 * between, longest);
        Failing { backoff, between, pause: between, said: LastSaid::default() }
    }

    /// A round has ended. Returns why it failed, if that is news.
    pub(crate) fn note(&mut self, ended: Result<(), Errno>, store: &Store) -> Option<String> {
        let Err(error) = ended else {
            self.backoff.succeeded();
            (self.pause, self.said) = (self.between, LastSaid::default());
            return None;
        };
        self.pause = self.backoff.failed();
        let why = store.trouble().unwrap_or_else(|| error.to_string());
        self.said.is_news(&why).then_some(why)
    }

    /// Until the next round.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::real::{RealConfig, RealEnv};
    use store::memory::Memory;
    use store::store::StoreOptions;

    #[test]
    fn a_round_that_fails_again_and_again_is_said_once_and_comes_less_often() {
        let (between, longest) = (Duration::from_millis(200), Duration::from_secs(5));
        let (env, _guard) =
            RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let store = Store::open(Memory::new(1 << 20), env, StoreOptions::default()).unwrap();
        let mut failing = Failing::new(between, longest);
        assert_eq!((failing.note(Ok(()), &store), failing.pause()), (None, between));
        assert!(failing.note(Err(Errno::EIO), &store).is_some());
        let mut last = failing.pause();
        for _ in 0..100 {
            assert_eq!(failing.note(Err(Errno::EIO), &store), None, "it is no news");
            assert!(failing.pause() >= last);
            last = failing.pause();
        }
        assert_eq!(last, longest);
        assert!(failing.note(Err(Errno::ENOSPC), &store).is_some(), "another reason is");
        failing.note(Ok(()), &store);
        assert_eq!(failing.pause(), between);
        assert!(failing.note(Err(Errno::EIO), &store).is_some(), "and so is it after a good one");
        store.close_blocking().unwrap();
    }
}
