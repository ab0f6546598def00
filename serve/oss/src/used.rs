//! Space taken by the objects of one OST, for `df`: the volume may hold other things, too.
//!
//! Objects that exist at the start are counted in the background, one of the 256 upper folders
//! after the other. Meanwhile a change counts only if its object was counted already, or is not
//! among the listed ones that wait for their turn. An object's gate is held while it is changed or
//! looked at, so it counts once.

use parking_lot::Mutex;
use std::cmp::Ordering;
use std::collections::HashSet;
use store::error::StoreError;
use types::object::ObjectId;

/// Unit of blocks, bytes.
const BLOCK_BYTES: u64 = 512;

struct State {
    blocks: i64,
    objects: i64,
    /// The upper folder that is being counted; those before it are done. -1: none is yet, 256: all
    /// are.
    folder: i16,
    /// Objects of that folder that wait for their turn.
    pending: HashSet<ObjectId>,
}

/// Blocks and objects.
pub(crate) struct Used(Mutex<State>);

impl Default for Used {
    fn default() -> Used {
        Used(Mutex::new(State { blocks: 0, objects: 0, folder: -1, pending: HashSet::new() }))
    }
}

impl Used {
    /// An object, of this upper folder, grew by this many blocks; this many objects appeared. Under
    /// its gate.
    pub(crate) fn changed(&self, object: ObjectId, folder: u8, blocks: i64, objects: i64) {
        let mut state = self.0.lock();
        let counts = match i16::from(folder).cmp(&state.folder) {
            Ordering::Less => true,
            Ordering::Equal => !state.pending.contains(&object),
            Ordering::Greater => false,
        };
        if counts {
            state.blocks += blocks;
            state.objects += objects;
        }
    }

    /// (bytes, objects), as far as they are counted.
    pub(crate) fn get(&self) -> (u64, u64) {
        let state = self.0.lock();
        let natural = |n: i64| u64::try_from(n).unwrap_or(0);
        (natural(state.blocks) * BLOCK_BYTES, natural(state.objects))
    }

    /// The turn of an upper folder: `list` returns its objects.
    pub(crate) fn begin(
        &self,
        folder: u8,
        list: impl FnOnce() -> Result<Vec<ObjectId>, StoreError>,
    ) -> Result<Vec<ObjectId>, StoreError> {
        let mut state = self.0.lock();
        state.folder = folder.into();
        let listed = list()?;
        state.pending = listed.iter().copied().collect();
        Ok(listed)
    }

    /// The turn of an object of that folder: its blocks, or `None` if it is gone. Under its gate.
    pub(crate) fn found(&self, object: ObjectId, blocks: Option<u64>) {
        let mut state = self.0.lock();
        if state.pending.remove(&object)
            && let Some(blocks) = blocks
        {
            state.blocks += blocks as i64;
            state.objects += 1;
        }
    }

    /// The folder is done.
    pub(crate) fn end(&self, folder: u8) {
        self.0.lock().folder = i16::from(folder) + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::fid::Fid;

    #[test]
    fn a_change_counts_unless_the_object_is_counted_later() {
        let used = Used::default();
        let object = |stripe| ObjectId { fid: Fid::ROOT, instance: 1, stripe };
        used.changed(object(7), 0, 8, 1);
        assert_eq!(used.get(), (0, 0), "no folder was listed yet");
        {
            let mut state = used.0.lock();
            state.folder = 3;
            state.pending.insert(object(0));
        }
        used.changed(object(0), 3, 8, 0);
        used.changed(object(9), 4, 8, 1);
        assert_eq!(used.get(), (0, 0), "their turn comes");
        used.changed(object(1), 3, 8, 1);
        used.changed(object(2), 2, 16, 1);
        used.changed(object(2), 2, -8, -1);
        assert_eq!(used.get(), (8192, 1));
        used.0.lock().folder = 256;
        used.changed(object(9), 255, -100, -5);
        assert_eq!(used.get(), (0, 0), "never less than nothing");
    }
}
