//! Objects destroyed lately, so that a write that comes late does not bring one back.
//!
//! Names are never used twice, so a name in here can only mean a late message. The MDT destroys
//! objects of files that no client has open. Only messages that an evicted client had sent may
//! still come, and they come soon. Bound: [`GRAVES_MAX`].

use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use types::object::ObjectId;

/// Number of objects remembered: some minutes of the fastest removal, 24 bytes each.
pub(crate) const GRAVES_MAX: usize = 1 << 18;

#[derive(Default)]
struct Graves {
    order: VecDeque<ObjectId>,
    known: HashSet<ObjectId, foldhash::fast::RandomState>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Graveyard {
    graves: Mutex<Graves>,
}

impl Graveyard {
    /// Remembers `object`, forgets the oldest beyond the bound.
    pub(crate) fn add(&self, object: ObjectId) {
        let mut graves = self.graves.lock();
        if !graves.known.insert(object) {
            return;
        }
        graves.order.push_back(object);
        if graves.order.len() > GRAVES_MAX
            && let Some(oldest) = graves.order.pop_front()
        {
            graves.known.remove(&oldest);
        }
    }

    /// True if it was destroyed lately.
    pub(crate) fn has(&self, object: ObjectId) -> bool {
        self.graves.lock().known.contains(&object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::fid::Fid;

    #[test]
    fn the_oldest_are_forgotten() {
        let graveyard = Graveyard::default();
        let object = |stripe| ObjectId { fid: Fid::ROOT, instance: 1, stripe };
        for stripe in 0..=GRAVES_MAX as u32 {
            graveyard.add(object(stripe));
            graveyard.add(object(stripe));
        }
        assert!(!graveyard.has(object(0)));
        assert!(graveyard.has(object(1)) && graveyard.has(object(GRAVES_MAX as u32)));
    }
}
