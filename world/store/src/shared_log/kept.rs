//! What a log keeps, as one process knows it.

use std::collections::VecDeque;

/// An entry that is kept.
#[derive(Clone, Copy)]
struct Kept {
    entry: u64,
    /// Bytes under keys.
    keys: u64,
    /// Bytes of its blob.
    blob: u64,
}

/// Entries that this process wrote or read, and that were not trimmed as far as it knows.
#[derive(Default)]
pub(super) struct AllKept(VecDeque<Kept>);

/// Bytes of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct KeptBytes {
    /// Under keys.
    pub keys: u64,
    /// In blobs.
    pub blobs: u64,
}

impl AllKept {
    /// An entry is there.
    pub fn note(&mut self, entry: u64, keys: usize, blob: u32) {
        if self.0.back().is_none_or(|last| last.entry < entry) {
            self.0.push_back(Kept { entry, keys: keys as u64, blob: u64::from(blob) });
        }
    }

    /// Entries up to there are gone.
    pub fn trimmed(&mut self, through: u64) {
        self.0.retain(|kept| kept.entry > through);
    }

    /// Bytes of the entries behind `after`.
    pub fn bytes(&self, after: u64) -> KeptBytes {
        let behind = self.0.iter().filter(|kept| kept.entry > after);
        behind.fold(KeptBytes::default(), |sum, kept| KeptBytes {
            keys: sum.keys + kept.keys,
            blobs: sum.blobs + kept.blob,
        })
    }

    /// True if all entries behind `after` are known, up to the newest known one.
    pub fn knows_all(&self, after: u64) -> bool {
        self.0.front().is_none_or(|first| first.entry <= after + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_behind_a_place() {
        let mut kept = AllKept::default();
        assert!(kept.knows_all(7));
        for (entry, keys, blob) in [(5, 10, 0), (6, 1, 100), (6, 1, 100), (7, 20, 0)] {
            kept.note(entry, keys, blob);
        }
        assert_eq!(kept.bytes(0), KeptBytes { keys: 31, blobs: 100 });
        assert_eq!(kept.bytes(6), KeptBytes { keys: 20, blobs: 0 });
        assert!(kept.knows_all(4) && !kept.knows_all(3));
        kept.trimmed(6);
        assert_eq!(kept.bytes(0), KeptBytes { keys: 20, blobs: 0 });
    }
}
