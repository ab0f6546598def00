//! Files that are open for writing and lie still. Pure: the time is given.
//!
//! The writer of a quiet file gives WRITE up when another client looks at the file, so that one
//! can keep what it sees; the next write asks for WRITE again. A file that is written soon after
//! that was not quiet: its writer waits longer before it gives WRITE up again.

use env::clock::Monotonic;
use std::time::Duration;

/// Time without a write, and since the file was opened for writing, after which it is quiet.
const QUIET: Duration = Duration::from_secs(1);
/// The same of a file that was written again each time soon after WRITE was given up, at most.
const QUIET_MAX: Duration = Duration::from_secs(32);
/// A write within so many times of what counted as quiet, after WRITE was given up, came soon.
const SOON: u32 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// The last write, or open for writing.
    last: Monotonic,
    /// Doublings of [`QUIET`].
    longer: u32,
    /// WRITE was given up since.
    given_at: Option<Monotonic>,
}

impl Quiet {
    fn after(&self) -> Duration {
        QUIET.saturating_mul(1_u32.checked_shl(self.longer).unwrap_or(u32::MAX)).min(QUIET_MAX)
    }

    /// A program opens the file for writing.
    pub(crate) fn opened(&mut self, now: Monotonic) {
        self.last = self.last.max(now);
    }

    /// A program writes.
    pub(crate) fn wrote(&mut self, now: Monotonic) {
        self.last = self.last.max(now);
        if let Some(given) = self.given_at.take() {
            match now.saturating_sub(given) < self.after() * SOON {
                true if self.after() < QUIET_MAX => self.longer += 1,
                true => {}
                false => self.longer = 0,
            }
        }
    }

    /// Another client looks at the file. True if WRITE may be given up for that.
    pub(crate) fn gives_up(&mut self, now: Monotonic) -> bool {
        let quiet = now.saturating_sub(self.last) >= self.after();
        if quiet {
            self.given_at = Some(now);
        }
        quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tenths: u64) -> Monotonic {
        Monotonic::default() + Duration::from_millis(100 * tenths)
    }

    #[test]
    fn a_file_is_quiet_a_second_after_the_last_write() {
        let mut quiet = Quiet::default();
        quiet.opened(at(100));
        assert!(!quiet.gives_up(at(109)) && quiet.gives_up(at(110)));
        quiet.wrote(at(1000));
        assert!(!quiet.gives_up(at(1009)) && quiet.gives_up(at(1010)));
    }

    #[test]
    fn a_writer_that_is_asked_between_its_writes_keeps_write_longer_each_time() {
        let mut quiet = Quiet::default();
        let (mut given, mut now) = (0, 0);
        // A log grows every two seconds, and another client looks just before.
        for _ in 0..100 {
            quiet.wrote(at(now));
            given += u32::from(quiet.gives_up(at(now + 19)));
            now += 20;
        }
        assert_eq!(given, 1);
        // It is left alone for long: that is forgotten.
        assert!(quiet.gives_up(at(now + 10_000)));
        quiet.wrote(at(now + 20_000));
        assert!(quiet.gives_up(at(now + 20_010)));
    }

    #[test]
    fn no_file_is_kept_for_ever() {
        let mut quiet = Quiet::default();
        let mut now = 0;
        for _ in 0..20 {
            quiet.wrote(at(now));
            now += 321;
            assert!(quiet.gives_up(at(now)));
        }
        assert_eq!(quiet.after(), QUIET_MAX);
    }
}
