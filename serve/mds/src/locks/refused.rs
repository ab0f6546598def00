//! Bits that a request showed something of and was not granted.
//!
//! The grants of a reply count for all of its results. But operations of one request may run at
//! different times: one of them waits for other clients, or a long listing gives others their
//! turns. What an earlier step showed without a bit may have changed by then, so a later step does
//! not grant that bit any more.

use foldhash::HashMap;
use smallvec::SmallVec;
use types::fid::Fid;
use types::lock::InodeBits;

/// See the module. Bounded by the inodes that a reply shows.
#[derive(Default)]
pub(crate) struct Refused {
    /// By earlier steps.
    before: HashMap<Fid, InodeBits>,
    /// By this step.
    now: SmallVec<[(Fid, InodeBits); 2]>,
}

impl Refused {
    /// This step shows an inode without these bits.
    pub(crate) fn note(&mut self, fid: Fid, bits: InodeBits) {
        if !bits.is_empty() {
            self.now.push((fid, bits));
        }
    }

    /// Those of these bits that no earlier step went without.
    pub(crate) fn others(&self, fid: Fid, bits: InodeBits) -> InodeBits {
        match self.before.get(&fid) {
            Some(refused) => bits.difference(*refused),
            None => bits,
        }
    }

    /// What is shown from now on is of another moment.
    pub(crate) fn next_step(&mut self) {
        for (fid, bits) in self.now.drain(..) {
            let refused = self.before.entry(fid).or_default();
            *refused = refused.union(bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_went_without_later_steps_go_without() {
        let (one, other) = (Fid::ROOT, Fid { oid: 7, ..Fid::ROOT });
        let both = InodeBits::LOOKUP.union(InodeBits::UPDATE);
        let mut refused = Refused::default();
        refused.note(one, InodeBits::UPDATE);
        assert_eq!(refused.others(one, both), both, "of the same moment");
        refused.next_step();
        assert_eq!(refused.others(one, both), InodeBits::LOOKUP);
        assert_eq!(refused.others(other, both), both);
        refused.note(one, InodeBits::LOOKUP);
        refused.next_step();
        assert_eq!(refused.others(one, both), InodeBits::NONE);
    }
}
