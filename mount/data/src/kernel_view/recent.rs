//! What happened a moment ago: names that own changes altered, names that the kernel was told of
//! and may still have, and inodes whose links it may count down.
//!
//! The kernel changes its own idea of a name only after it has read the answer, and does not report
//! when that is. Until then its other threads see the name as it was. No other client can have seen
//! the new state without a callback from the MDT for the bits that cover it here
//! (docs/locks/kernel.md, R6): such a callback takes these names along. So a name that the kernel
//! was told of stays here for a while after an own change of it.
//!
//! The kernel takes two steps to remove a name: it looks the name up, then sends the request. A
//! callback in between takes the name away from here, yet the kernel counts down the links of the
//! inode that it found (R12). So names that the kernel is told of without trust, and names that a
//! callback took, stay here for a while.
//!
//! Time is counted in *ticks* of about a second each.

use super::invalidations::Invalidations;
use super::timers::{RECENT_TICKS, REVOKED_TICKS};
use foldhash::HashMap;
use std::collections::VecDeque;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;

const LOOKUP: InodeBits = InodeBits::LOOKUP;
const UPDATE: InodeBits = InodeBits::UPDATE;

/// Names kept; if there are more, a callback makes the kernel ask for every name again.
const RECENT_MAX: usize = 8192;
/// Inodes remembered as called back; if there are more, all count so.
const REVOKED_MAX: usize = 4096;
/// Names kept that the kernel may still have without trust. If there are more, a removed name that
/// is not among them may have led to any inode.
const SHOWN_MAX: usize = 8192;
/// Inodes kept whose links the kernel may count down; if there are more, it may be all.
const MISCOUNTED_MAX: usize = 4096;

/// The kernel may trust a name: it was told so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The last tick in which the kernel was told while it may have known the name already. It asks
    /// for such a name without its directory's lock and notes the answer at some later time; any
    /// other answer it notes under that lock.
    again: Option<u32>,
}

/// How the kernel asked for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It cannot have had the name.
    First,
    /// It may have had the name; of a file.
    Again,
    /// It may have had the name; of a directory. Such a name must not be dropped without need:
    /// mounts on it would go, and a program that works there would have no path.
    DirectoryAgain,
}

/// Where the kernel may believe that an uncovered name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownName {
    /// To this inode.
    To(Fid),
    /// To any inode: too many names were shown.
    Anywhere,
    /// It was not told of the name a moment ago.
    Nowhere,
}

/// See the module.
#[derive(Default)]
pub struct Recent {
    tick: u32,
    changed: VecDeque<Changed>,
    /// The tick in which there were too many.
    overflow: Option<u32>,
    /// Inodes for which UPDATE or LOOKUP was called back, and the tick.
    recently_revoked: HashMap<(Fid, InodeBits), u32>,
    /// The tick in which there were too many of these.
    all_recently_revoked: Option<u32>,
    /// Where names lead that the kernel may have, and that nothing covers, and the tick.
    shown: HashMap<(Fid, Name), (Fid, u32)>,
    /// The tick in which there were too many of these.
    shown_overflow: Option<u32>,
    /// Inodes whose links the kernel may count down, and the tick of the answer.
    miscounted: HashMap<Fid, u32>,
    /// The tick in which that became true of any inode.
    all_miscounted: Option<u32>,
}

struct Changed {
    tick: u32,
    dir: Fid,
    name: Name,
    trust: Trust,
    /// The inodes that it led to, and leads to.
    inodes: [Fid; 2],
}

impl Recent {
    /// About a second has gone by.
    pub fn advance(&mut self) {
        self.tick = self.tick.wrapping_add(1);
        while self.changed.front().is_some_and(|changed| !self.is_recent(changed.tick)) {
            self.changed.pop_front();
        }
        if self.overflow.is_some_and(|tick| !self.is_recent(tick)) {
            self.overflow = None;
        }
        let tick = self.tick;
        let recently_revoked = |since: u32| tick.wrapping_sub(since) < REVOKED_TICKS;
        self.recently_revoked.retain(|_, since| recently_revoked(*since));
        self.all_recently_revoked =
            self.all_recently_revoked.filter(|since| recently_revoked(*since));
        let recent = |since: u32| tick.wrapping_sub(since) < RECENT_TICKS;
        self.shown.retain(|_, (_, since)| recent(*since));
        self.shown_overflow = self.shown_overflow.filter(|since| recent(*since));
        self.miscounted.retain(|_, since| recent(*since));
        self.all_miscounted = self.all_miscounted.filter(|since| recent(*since));
    }

    /// The kernel has this name, and nothing covers it (any more).
    pub fn note_shown(&mut self, dir: Fid, name: Name, to: Fid) {
        if self.shown.len() >= SHOWN_MAX {
            self.shown.clear();
            self.shown_overflow = Some(self.tick);
        }
        self.shown.insert((dir, name), (to, self.tick));
    }

    /// The kernel was told something newer of this name, or changes it by itself.
    pub(crate) fn not_shown(&mut self, dir: Fid, name: &Name) {
        // Most mounts never show a name without a lock.
        if !self.shown.is_empty() {
            self.shown.remove(&(dir, name.clone()));
        }
    }

    /// Where the kernel may believe that a name leads which nothing covers.
    pub fn shown(&self, dir: Fid, name: &Name) -> ShownName {
        // Most mounts never show a name without a lock.
        if self.shown.is_empty() && self.shown_overflow.is_none() {
            return ShownName::Nowhere;
        }
        match self.shown.get(&(dir, name.clone())) {
            Some((to, _)) => ShownName::To(*to),
            None if self.shown_overflow.is_some() => ShownName::Anywhere,
            None => ShownName::Nowhere,
        }
    }

    /// The kernel may count down the links of this inode some time from now.
    pub(crate) fn miscounted(&mut self, fid: Fid) {
        if self.miscounted.len() < MISCOUNTED_MAX {
            self.miscounted.insert(fid, self.tick);
        } else {
            self.all_miscounted();
        }
    }

    /// As [`Recent::miscounted`], of some inode.
    pub(crate) fn all_miscounted(&mut self) {
        self.all_miscounted = Some(self.tick);
    }

    /// True if the kernel may have counted down the links of this inode, or may yet do so.
    pub fn is_miscounted(&self, fid: Fid) -> bool {
        self.all_miscounted.is_some()
            || !self.miscounted.is_empty() && self.miscounted.contains_key(&fid)
    }

    /// True if that was a moment ago.
    fn is_recent(&self, tick: u32) -> bool {
        self.tick.wrapping_sub(tick) < RECENT_TICKS
    }

    /// The kernel is told of a name that it may trust, and was told of `before`. `None`: it shall
    /// not trust it now.
    pub fn trust(
        &self,
        dir: Fid,
        to: Option<Fid>,
        asked: Asked,
        before: Option<Trust>,
    ) -> Option<Trust> {
        let recently_revoked = |fid, bit| {
            self.all_recently_revoked.is_some() || self.recently_revoked.contains_key(&(fid, bit))
        };
        match asked {
            Asked::First => Some(before.unwrap_or_default()),
            Asked::DirectoryAgain
                if recently_revoked(dir, UPDATE)
                    || to.is_some_and(|to| recently_revoked(to, LOOKUP)) =>
            {
                None
            }
            Asked::Again | Asked::DirectoryAgain => Some(Trust { again: Some(self.tick) }),
        }
    }

    /// As if it was told something again just now, whatever that was.
    pub fn now(&self) -> Trust {
        Trust { again: Some(self.tick) }
    }

    /// True if an answer that makes the name valid may still be on its way to where the kernel
    /// notes it without a lock.
    pub(crate) fn is_settling(&self, trust: Trust) -> bool {
        trust.again.is_some_and(|tick| self.is_recent(tick))
    }

    /// UPDATE (names in this directory) or LOOKUP (names of this inode) was called back.
    pub fn called_back(&mut self, fid: Fid, bit: InodeBits) {
        if self.recently_revoked.len() < REVOKED_MAX
            || self.recently_revoked.contains_key(&(fid, bit))
        {
            self.recently_revoked.insert((fid, bit), self.tick);
        } else {
            self.all_recently_revoked = Some(self.tick);
        }
    }

    /// An own change altered a name that the kernel was told of.
    pub fn changed(&mut self, dir: Fid, name: Name, trust: Trust, inodes: [Fid; 2]) {
        if self.changed.len() >= RECENT_MAX {
            self.changed.pop_front();
            self.overflow = Some(self.tick);
        }
        self.changed.push_back(Changed { tick: self.tick, dir, name, trust, inodes });
    }

    /// Something of this inode is called back: its names, or those in it, go.
    pub fn take(&mut self, fid: Fid, invalidations: &mut Invalidations) {
        if self.overflow.is_some() {
            invalidations.all_names();
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.retain(|changed| {
            let goes = changed.dir == fid || changed.inodes.contains(&fid);
            if goes {
                invalidations.name(
                    changed.dir,
                    changed.name.clone(),
                    self.is_settling(changed.trust),
                );
            }
            !goes
        });
        self.changed = changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fid(oid: u32) -> Fid {
        Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }
    }

    fn name(number: usize) -> Name {
        Name::new(format!("n{number}").as_bytes()).unwrap()
    }

    fn names(recent: &mut Recent, fid: Fid) -> usize {
        let mut invalidations = Invalidations::default();
        recent.take(fid, &mut invalidations);
        assert!(!invalidations.all_names);
        invalidations.names.len()
    }

    #[test]
    fn a_callback_of_any_inode_concerned_takes_the_name_once() {
        for asked in [1, 2, 3] {
            let mut recent = Recent::default();
            recent.changed(fid(1), name(0), Trust::default(), [fid(2), fid(3)]);
            assert_eq!(names(&mut recent, fid(4)), 0);
            assert_eq!(names(&mut recent, fid(asked)), 1);
            assert_eq!(names(&mut recent, fid(asked)), 0);
        }
    }

    #[test]
    fn it_is_over_after_some_time() {
        let mut recent = Recent::default();
        recent.changed(fid(1), name(0), Trust::default(), [fid(2), Fid::NONE]);
        recent.advance();
        assert!(recent.is_recent(0));
        recent.changed(fid(1), name(1), Trust::default(), [fid(2), Fid::NONE]);
        recent.advance();
        assert!(!recent.is_recent(0));
        assert_eq!(names(&mut recent, fid(1)), 1, "only the younger one");
    }

    #[test]
    fn only_what_was_asked_again_is_settling() {
        let mut recent = Recent::default();
        let first = recent.trust(fid(1), Some(fid(2)), Asked::First, None).unwrap();
        assert!(!recent.is_settling(first));
        let again = recent.trust(fid(1), Some(fid(2)), Asked::Again, Some(first)).unwrap();
        assert!(recent.is_settling(again));
        assert!(
            recent.is_settling(
                recent.trust(fid(1), Some(fid(2)), Asked::First, Some(again)).unwrap()
            )
        );
        (0..RECENT_TICKS).for_each(|_| recent.advance());
        assert!(!recent.is_settling(again));
    }

    #[test]
    fn names_of_directories_are_not_trusted_again_soon_after_a_callback() {
        for (called, bit) in [(1, UPDATE), (2, LOOKUP)] {
            let mut recent = Recent::default();
            // Of no interest: the directory's own name, and names in the one it leads to.
            recent.called_back(fid(1), LOOKUP);
            recent.called_back(fid(2), UPDATE);
            assert!(recent.trust(fid(1), Some(fid(2)), Asked::DirectoryAgain, None).is_some());
            recent.called_back(fid(called), bit);
            let asks =
                |recent: &Recent, how| recent.trust(fid(1), Some(fid(2)), how, None).is_some();
            assert!(asks(&recent, Asked::First) && asks(&recent, Asked::Again));
            assert!(!asks(&recent, Asked::DirectoryAgain));
            (0..REVOKED_TICKS).for_each(|_| recent.advance());
            assert!(asks(&recent, Asked::DirectoryAgain));
        }
        let mut recent = Recent::default();
        (0..=REVOKED_MAX as u32).for_each(|n| recent.called_back(fid(n), UPDATE));
        assert_eq!(
            recent.trust(fid(99_999), None, Asked::DirectoryAgain, None),
            None,
            "too many to know"
        );
        (0..REVOKED_TICKS).for_each(|_| recent.advance());
        assert!(recent.recently_revoked.is_empty() && recent.all_recently_revoked.is_none());
    }

    #[test]
    fn too_many_shown_names_may_lead_anywhere() {
        let mut recent = Recent::default();
        assert_eq!(recent.shown(fid(1), &name(0)), ShownName::Nowhere);
        (0..=SHOWN_MAX).for_each(|n| recent.note_shown(fid(1), name(n), fid(2)));
        assert_eq!(recent.shown(fid(1), &name(SHOWN_MAX)), ShownName::To(fid(2)));
        assert_eq!(recent.shown(fid(1), &name(0)), ShownName::Anywhere);
        (0..RECENT_TICKS).for_each(|_| recent.advance());
        assert_eq!(recent.shown(fid(1), &name(SHOWN_MAX)), ShownName::Nowhere);
    }

    #[test]
    fn too_many_miscounted_inodes_are_all() {
        let mut recent = Recent::default();
        (0..MISCOUNTED_MAX as u32).for_each(|oid| recent.miscounted(fid(oid)));
        assert!(recent.is_miscounted(fid(0)) && !recent.is_miscounted(fid(1 << 20)));
        recent.miscounted(fid(1 << 20));
        assert!(recent.is_miscounted(fid(1 << 21)));
        (0..RECENT_TICKS).for_each(|_| recent.advance());
        assert!(!recent.is_miscounted(fid(0)));
    }

    #[test]
    fn too_many_are_all_names() {
        let mut recent = Recent::default();
        (0..=RECENT_MAX)
            .for_each(|n| recent.changed(fid(1), name(n), Trust::default(), [fid(2), Fid::NONE]));
        let mut invalidations = Invalidations::default();
        recent.take(fid(9), &mut invalidations);
        assert!(invalidations.all_names);
        recent.advance();
        recent.advance();
        assert_eq!(names(&mut recent, fid(1)), 0);
    }
}
