//! Names that own changes altered a moment ago.
//!
//! The kernel changes its own idea of a name only after it has read the answer, and nobody tells us when that is. Until then its
//! other threads see the name as it was. Nobody else can have seen it otherwise without the MDT asking for what covers
//! it here (`docs/locks.md`, section 3): such a callback takes these names along. So a name that the kernel was told of stays
//! here for a while after an own change of it.
//!
//! Time is counted in *eras* of about a second each.

use super::debt::Debt;
use std::collections::VecDeque;
use types::fid::Fid;
use types::name::Name;

/// Names kept; if there are more, a callback makes the kernel ask for every name again.
const LATELY_MAX: usize = 8192;
/// Eras after which the kernel has surely read an answer: more than one second.
const ERAS: u32 = 2;

/// See the module's story.
#[derive(Default)]
pub(super) struct Lately {
    era: u32,
    changed: VecDeque<Changed>,
    /// The era in which there were too many.
    overflow: Option<u32>,
}

struct Changed {
    era: u32,
    dir: Fid,
    name: Name,
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
    }

    pub(super) fn era(&self) -> u32 {
        self.era
    }

    /// Was that a moment ago?
    pub(super) fn is_lately(&self, era: u32) -> bool {
        self.era.wrapping_sub(era) < ERAS
    }

    /// An own change altered a name that the kernel was told of.
    pub(super) fn changed(&mut self, dir: Fid, name: Name, inodes: [Fid; 2]) {
        if self.changed.len() >= LATELY_MAX {
            self.changed.pop_front();
            self.overflow = Some(self.era);
        }
        self.changed.push_back(Changed { era: self.era, dir, name, inodes });
    }

    /// Something of this inode is called back: its names, or those in it, go.
    pub(super) fn take(&mut self, fid: Fid, debt: &mut Debt) {
        if self.overflow.is_some() {
            debt.all_names();
        }
        self.changed.retain(|changed| {
            let goes = changed.dir == fid || changed.inodes.contains(&fid);
            if goes {
                debt.name(changed.dir, changed.name.clone(), true);
            }
            !goes
        });
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
        let mut debt = Debt::default();
        lately.take(fid, &mut debt);
        assert!(!debt.all_names);
        debt.names.len()
    }

    #[test]
    fn a_callback_of_any_inode_concerned_takes_the_name_once() {
        for asked in [1, 2, 3] {
            let mut lately = Lately::default();
            lately.changed(fid(1), name(0), [fid(2), fid(3)]);
            assert_eq!(names(&mut lately, fid(4)), 0);
            assert_eq!(names(&mut lately, fid(asked)), 1);
            assert_eq!(names(&mut lately, fid(asked)), 0);
        }
    }

    #[test]
    fn it_is_over_after_some_time() {
        let mut lately = Lately::default();
        lately.changed(fid(1), name(0), [fid(2), Fid::NONE]);
        lately.tick();
        assert!(lately.is_lately(0));
        lately.changed(fid(1), name(1), [fid(2), Fid::NONE]);
        lately.tick();
        assert!(!lately.is_lately(0));
        assert_eq!(names(&mut lately, fid(1)), 1, "only the younger one");
    }

    #[test]
    fn too_many_are_all_names() {
        let mut lately = Lately::default();
        (0..=LATELY_MAX).for_each(|n| lately.changed(fid(1), name(n), [fid(2), Fid::NONE]));
        let mut debt = Debt::default();
        lately.take(fid(9), &mut debt);
        assert!(debt.all_names);
        lately.tick();
        lately.tick();
        assert_eq!(names(&mut lately, fid(1)), 0);
    }
}
