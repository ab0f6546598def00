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
pub struct Contact(BTreeMap<usize, CutOff>);

/// The last time that a mount was cut off.
struct CutOff {
    /// Since when it may have been given up.
    since: Moment,
    /// The mount's clock when it was connected again.
    healed: Option<Duration>,
}

impl Contact {
    /// A mount is cut off at `at`: since when it may have been given up. `heard`: whatever it sent
    /// by then was answered, by every server, and whatever a server asked it by then it has
    /// answered; so it is not given up for anything before. `None`: not even one session each is in
    /// service.
    pub fn lost(&mut self, mount: usize, at: Moment, heard: Option<Duration>) -> Moment {
        // A question from the time in which it was cut off may still be open.
        let proved = |healed: Option<Duration>| {
            healed.zip(heard).is_some_and(|(healed, heard)| heard > healed)
        };
        let doubtful = self.0.get(&mount).filter(|cut_off| !proved(cut_off.healed));
        let since = doubtful.map_or(at, |cut_off| cut_off.since);
        self.0.insert(mount, CutOff { since, healed: None });
        since
    }

    /// A mount is cut off no longer when its clock shows `now`.
    pub fn healed(&mut self, mount: usize, now: Duration) {
        if let Some(cut_off) = self.0.get_mut(&mount) {
            cut_off.healed.get_or_insert(now);
        }
    }

    /// Time since which it may have been given up; 0 if there is no reason for it.
    pub fn since(&self, mount: usize) -> Moment {
        self.0.get(&mount).map_or(0, |cut_off| cut_off.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    fn healed(contact: &mut Contact, mount: usize, seconds: u64) {
        contact.healed(mount, Duration::from_secs(seconds));
    }

    #[test]
    fn who_was_not_heard_since_may_have_been_given_up_the_first_time() {
        let mut contact = Contact::default();
        assert_eq!(contact.since(3), 0);
        assert_eq!(contact.lost(3, 10, None), 10);
        healed(&mut contact, 3, 2);
        assert_eq!(contact.lost(3, 20, second(1)), 10, "sent when it was cut off already");
        healed(&mut contact, 3, 6);
        assert_eq!(contact.lost(3, 30, None), 10);
        assert_eq!(contact.lost(3, 35, second(7)), 10, "it was not connected in between");
        healed(&mut contact, 3, 8);
        assert_eq!(contact.lost(4, 36, None), 36);
        assert_eq!(contact.lost(3, 40, second(7)), 10, "heard before it was connected again");
        healed(&mut contact, 3, 10);
        assert_eq!(contact.lost(3, 50, second(11)), 50);
        assert_eq!((contact.since(3), contact.since(4)), (50, 36));
    }

    /// As in seed 9109105: the MDT asked a mount, which was cut off, to give a lock back. 30 s
    /// later the mount was heard again, and answered, but too late for the question.
    #[test]
    fn a_question_from_the_time_in_which_it_was_cut_off_may_still_end_its_session() {
        let mut contact = Contact::default();
        contact.lost(3, 10, None);
        healed(&mut contact, 3, 31);
        // It was cut off at 1 s and asked at 2 s: no answer proves more than that.
        assert_eq!(contact.lost(3, 20, second(2)), 10);
        healed(&mut contact, 3, 33);
        healed(&mut contact, 3, 40);
        assert_eq!(contact.lost(3, 30, second(34)), 30, "all questions from then were answered");
    }
}
