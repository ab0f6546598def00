//! Since when each mount may have been given up.
//!
//! A mount that is cut off may be evicted, and others may go on without it. It learns that only
//! when it is heard again, which may not happen before it is cut off next. Then it may have been
//! given up since the first time.

use crate::history::Moment;
use std::collections::BTreeMap;
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub struct Contact(BTreeMap<usize, (Moment, Duration)>);

impl Contact {
    /// A mount is cut off at `at`, when its clock shows `now`: since when it may have been given
    /// up. `heard`: whatever it sent by then was answered, by every server, so it had not been
    /// given up; `None`: not even one session each is in service.
    pub fn lost(&mut self, mount: usize, at: Moment, now: Duration, heard: Option<Duration>) -> Moment {
        let doubtful = self.0.get(&mount).filter(|(_, cut_off)| heard.is_none_or(|heard| heard <= *cut_off));
        let since = doubtful.map_or(at, |(since, _)| *since);
        self.0.insert(mount, (since, now));
        since
    }

    /// Time since which it may have been given up; 0 if there is no reason for it.
    pub fn since(&self, mount: usize) -> Moment {
        self.0.get(&mount).map_or(0, |(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_not_heard_since_may_have_been_given_up_the_first_time() {
        let (mut contact, second) = (Contact::default(), Duration::from_secs);
        assert_eq!(contact.since(3), 0);
        assert_eq!(contact.lost(3, 10, second(1), None), 10);
        assert_eq!(contact.lost(3, 20, second(5), Some(second(1))), 10, "sent when it was cut off already");
        assert_eq!(contact.lost(3, 30, second(7), None), 10);
        assert_eq!(contact.lost(4, 31, second(7), None), 31);
        assert_eq!(contact.lost(3, 40, second(9), Some(second(6))), 10, "heard before it was cut off last");
        assert_eq!(contact.lost(3, 50, second(11), Some(second(10))), 50);
        assert_eq!((contact.since(3), contact.since(4)), (50, 31));
    }
}
