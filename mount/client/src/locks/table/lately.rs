//! Names that own changes altered a moment ago, and when the kernel was told of names.
//!
//! The kernel changes its own idea of a name only after it has read the answer, and nobody tells us when that is. Until then its
//! other threads see the name as it was. Nobody else can have seen it otherwise without the MDT asking for what covers
//! it here (docs/locks/kernel.md, R6): such a callback takes these names along. So a name that the kernel was told of stays
//! here for a while after an own change of it.
//!
//! Time is counted in *eras* of about a second each.

use super::invalidations::Invalidations;
use super::{LOOKUP, UPDATE};
use foldhash::HashMap;
use std::collections::VecDeque;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;

/// Names kept; if there are more, a callback makes the kernel ask for every name again.
const LATELY_MAX: usize = 8192;
/// Eras after which the kernel has surely read an answer: more than one second.
const ERAS: u32 = 2;
/// Eras after a callback for which names of directories that the kernel asks for again are not trusted.
const QUIET_ERAS: u32 = 8;
/// Inodes remembered for that; if there are more, all count as called back.
const UNQUIET_MAX: usize = 4096;

/// The kernel may trust a name: it was told so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    /// The era in which it was told last while it may have known the name already. It asks for such a name without its
    /// directory's lock and notes the answer at some later time; any other answer it notes under that lock.
    again: Option<u32>,
}

/// How the kernel asked for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It cannot have had the name.
    First,
    /// It may have had the name; of a file.
    Again,
    /// It may have had the name; of a directory. Such a name must not be dropped without need: mounts on it would go, and a
    /// program that works there would have no path.
    DirectoryAgain,
}

/// See the module's story.
#[derive(Default)]
pub(super) struct Lately {
    era: u32,
    changed: VecDeque<Changed>,
    /// The era in which there were too many.
    overflow: Option<u32>,
    /// Inodes for which UPDATE or LOOKUP was called back, and the era.
    unquiet: HashMap<(Fid, InodeBits), u32>,
    /// The era in which there were too many of these.
    unquiet_all: Option<u32>,
}

struct Changed {
    era: u32,
    dir: Fid,
    name: Name,
    trust: Trust,
    /// Where it led, and leads.
    inodes: [Fid; 2],
}

impl Lately {
    /// About a second has gone by.
    pub(super) fn tick(&mut self) {
        self.era = self.era.wrapping_add(1);
        while self.changed.front().is_some_and(|changed| !self.is_lately(changed.era)) {
            self.changed.pop_front();
        }
        if self.overflow.is_some_and(|era| !self.is_lately(era)) {
            self.overflow = None;
        }
        let era = self.era;
        let unquiet = |since: u32| era.wrapping_sub(since) < QUIET_ERAS;
        self.unquiet.retain(|_, since| unquiet(*since));
        self.unquiet_all = self.unquiet_all.filter(|since| unquiet(*since));
    }

    /// Was that a moment ago?
    fn is_lately(&self, era: u32) -> bool {
        self.era.wrapping_sub(era) < ERAS
    }

    /// The kernel is told of a name that it may trust, and was told of `before`. `None`: it shall not trust it now.
    pub(super) fn trust(&self, dir: Fid, to: Option<Fid>, asked: Asked, before: Option<Trust>) -> Option<Trust> {
        let unquiet = |fid, bit| self.unquiet_all.is_some() || self.unquiet.contains_key(&(fid, bit));
        match asked {
            Asked::First => Some(before.unwrap_or_default()),
            Asked::DirectoryAgain if unquiet(dir, UPDATE) || to.is_some_and(|to| unquiet(to, LOOKUP)) => None,
            Asked::Again | Asked::DirectoryAgain => Some(Trust { again: Some(self.era) }),
        }
    }

    /// As if it was told something again just now, whatever that was.
    pub(super) fn now(&self) -> Trust {
        Trust { again: Some(self.era) }
    }

    /// May an answer that makes the name valid still be on its way to where the kernel notes it without a lock?
    pub(super) fn is_settling(&self, trust: Trust) -> bool {
        trust.again.is_some_and(|era| self.is_lately(era))
    }

    /// UPDATE (names in this directory) or LOOKUP (names of this inode) was called back.
    pub(super) fn called_back(&mut self, fid: Fid, bit: InodeBits) {
        if self.unquiet.len() < UNQUIET_MAX || self.unquiet.contains_key(&(fid, bit)) {
            self.unquiet.insert((fid, bit), self.era);
        } else {
            self.unquiet_all = Some(self.era);
        }
    }

    /// An own change altered a name that the kernel was told of.
    pub(super) fn changed(&mut self, dir: Fid, name: Name, trust: Trust, inodes: [Fid; 2]) {
        if self.changed.len() >= LATELY_MAX {
            self.changed.pop_front();
            self.overflow = Some(self.era);
        }
        self.changed.push_back(Changed { era: self.era, dir, name, trust, inodes });
    }

    /// Something of this inode is called back: its names, or those in it, go.
    pub(super) fn take(&mut self, fid: Fid, invalidations: &mut Invalidations) {
        if self.overflow.is_some() {
            invalidations.all_names();
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.retain(|changed| {
            let goes = changed.dir == fid || changed.inodes.contains(&fid);
            if goes {
                invalidations.name(changed.dir, changed.name.clone(), self.is_settling(changed.trust));
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

    fn names(lately: &mut Lately, fid: Fid) -> usize {
        let mut invalidations = Invalidations::default();
        lately.take(fid, &mut invalidations);
        assert!(!invalidations.all_names);
        invalidations.names.len()
    }

    #[test]
    fn a_callback_of_any_inode_concerned_takes_the_name_once() {
        for asked in [1, 2, 3] {
            let mut lately = Lately::default();
            lately.changed(fid(1), name(0), Trust::default(), [fid(2), fid(3)]);
            assert_eq!(names(&mut lately, fid(4)), 0);
            assert_eq!(names(&mut lately, fid(asked)), 1);
            assert_eq!(names(&mut lately, fid(asked)), 0);
        }
    }

    #[test]
    fn it_is_over_after_some_time() {
        let mut lately = Lately::default();
        lately.changed(fid(1), name(0), Trust::default(), [fid(2), Fid::NONE]);
        lately.tick();
        assert!(lately.is_lately(0));
        lately.changed(fid(1), name(1), Trust::default(), [fid(2), Fid::NONE]);
        lately.tick();
        assert!(!lately.is_lately(0));
        assert_eq!(names(&mut lately, fid(1)), 1, "only the younger one");
    }

    #[test]
    fn only_what_was_asked_again_is_settling() {
        let mut lately = Lately::default();
        let first = lately.trust(fid(1), Some(fid(2)), Asked::First, None).unwrap();
        assert!(!lately.is_settling(first));
        let again = lately.trust(fid(1), Some(fid(2)), Asked::Again, Some(first)).unwrap();
        assert!(lately.is_settling(again));
        assert!(lately.is_settling(lately.trust(fid(1), Some(fid(2)), Asked::First, Some(again)).unwrap()));
        (0..ERAS).for_each(|_| lately.tick());
        assert!(!lately.is_settling(again));
    }

    #[test]
    fn names_of_directories_are_not_trusted_again_soon_after_a_callback() {
        for (called, bit) in [(1, UPDATE), (2, LOOKUP)] {
            let mut lately = Lately::default();
            // Of no interest: the directory's own name, and names in the one it leads to.
            lately.called_back(fid(1), LOOKUP);
            lately.called_back(fid(2), UPDATE);
            assert!(lately.trust(fid(1), Some(fid(2)), Asked::DirectoryAgain, None).is_some());
            lately.called_back(fid(called), bit);
            let asks = |lately: &Lately, how| lately.trust(fid(1), Some(fid(2)), how, None).is_some();
            assert!(asks(&lately, Asked::First) && asks(&lately, Asked::Again));
            assert!(!asks(&lately, Asked::DirectoryAgain));
            (0..QUIET_ERAS).for_each(|_| lately.tick());
            assert!(asks(&lately, Asked::DirectoryAgain));
        }
        let mut lately = Lately::default();
        (0..=UNQUIET_MAX as u32).for_each(|n| lately.called_back(fid(n), UPDATE));
        assert_eq!(lately.trust(fid(99_999), None, Asked::DirectoryAgain, None), None, "too many to know");
        (0..QUIET_ERAS).for_each(|_| lately.tick());
        assert!(lately.unquiet.is_empty() && lately.unquiet_all.is_none());
    }

    #[test]
    fn too_many_are_all_names() {
        let mut lately = Lately::default();
        (0..=LATELY_MAX).for_each(|n| lately.changed(fid(1), name(n), Trust::default(), [fid(2), Fid::NONE]));
        let mut invalidations = Invalidations::default();
        lately.take(fid(9), &mut invalidations);
        assert!(invalidations.all_names);
        lately.tick();
        lately.tick();
        assert_eq!(names(&mut lately, fid(1)), 0);
    }
}
