//! The history of every block of data: a read returns what was written last, or what is being
//! written.
//!
//! Programs write whole blocks, each filled with a number that is used once. A block that was never
//! written, that was cut off or that lies beyond the end counts as 0. For each block a read may
//! return a value if its write began before the read ended, and no other change of the block lies
//! wholly between the two.
//!
//! After a power cut of everything, only changes that a sync of their own mount covered count as
//! made. Likewise when one mount dies or is evicted: its unsynced writes may be lost
//! (docs/client.md), but not to its own eyes before it knows.

use crate::history::{Ino, Moment};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a block.
pub const BLOCK: u64 = 1024;

/// A change of one block.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    began: Moment,
    /// `u64::MAX`: it was never answered.
    ended: Moment,
    value: u64,
    /// The mount it was made through.
    mount: usize,
    /// Time at which a sync covered it; `u64::MAX`: none did.
    synced: Moment,
}

impl Change {
    /// A write of `value` through `mount`. `ended` is `u64::MAX` if no program was told. `sync`: it
    /// was durable then.
    pub fn new(mount: usize, value: u64, (began, ended): (Moment, Moment), sync: bool) -> Change {
        Change { began, ended, value, mount, synced: if sync { ended } else { Moment::MAX } }
    }
}

/// A read of one block.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Which program.
    pub program: usize,
    /// Through which mount.
    pub mount: usize,
    /// When it was asked for.
    pub began: Moment,
    /// When it was answered.
    pub ended: Moment,
    /// What the block held.
    pub value: u64,
}

#[derive(Default)]
struct File {
    changes: BTreeMap<u64, Vec<Change>>,
    /// From a block on all are 0.
    cuts: Vec<(u64, Change)>,
    reads: BTreeMap<u64, Vec<Read>>,
}

/// A mount died, or was evicted.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The mount.
    pub mount: usize,
    /// Its servers may have given it up from here on.
    pub from: Moment,
    /// It may be told at any moment between this
    pub told: Moment,
    /// and this: from here on it knows, or is dead.
    pub until: Moment,
}

impl Loss {
    /// True if this change may be missing in this read. A sync that is answered after an eviction
    /// covers only what was written since: the loss was reported before.
    fn excuses(&self, change: &Change, read: &Read) -> bool {
        let seen = if read.mount == self.mount { self.told } else { self.from };
        change.mount == self.mount
            && change.began < self.until
            && change.synced >= self.told
            && read.ended > seen
    }
}

/// All data of a run.
#[derive(Clone, Default)]
pub struct BytesSeen(Arc<Mutex<BTreeMap<Ino, File>>>);

/// A block filled with a number.
pub fn filled(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK as usize / 8)
}

/// The number that fills a block; missing bytes must be the zeros at the end of a file.
///
/// # Errors
/// It is not filled with one number.
pub fn value_of(block: &[u8]) -> Result<u64, String> {
    let mut words = block.chunks(8).map(|word| {
        let mut whole = [0; 8];
        whole[..word.len()].copy_from_slice(word);
        u64::from_le_bytes(whole)
    });
    let first = words.next().unwrap_or(0);
    if words.any(|word| word != first) {
        return Err(format!("a block holds parts of several writes, the first {first:x}"));
    }
    if block.len() < BLOCK as usize && first != 0 {
        return Err(format!(
            "a file ends in the midst of a block that was written whole: {first:x}"
        ));
    }
    Ok(first)
}

impl BytesSeen {
    /// A block was written.
    pub fn wrote(&self, ino: Ino, block: u64, change: Change) {
        self.0.lock().entry(ino).or_default().changes.entry(block).or_default().push(change);
    }

    /// From `block` on the file was cut (or grown with zeros).
    pub fn cut(&self, mount: usize, ino: Ino, block: u64, began: Moment, ended: Moment) {
        let change = Change { began, ended, value: 0, mount, synced: Moment::MAX };
        self.0.lock().entry(ino).or_default().cuts.push((block, change));
    }

    /// A sync that began then was answered: writes that were answered to its mount before are
    /// durable.
    pub fn synced(&self, mount: usize, ino: Ino, began: Moment, ended: Moment) {
        let mut files = self.0.lock();
        let Some(file) = files.get_mut(&ino) else { return };
        let cuts = file.cuts.iter_mut().map(|(_, change)| change);
        for change in file.changes.values_mut().flatten().chain(cuts) {
            if change.mount == mount && change.ended < began {
                change.synced = change.synced.min(ended);
            }
        }
    }

    /// A block was read.
    pub fn read(&self, ino: Ino, block: u64, read: Read) {
        self.0.lock().entry(ino).or_default().reads.entry(block).or_default().push(read);
    }

    /// A mount was cut off for good some time after this moment, without its lease: what it showed
    /// its programs from then on does not count.
    pub fn cut_off(&self, mount: usize, after: Moment) {
        let counts = |read: &Read| read.mount != mount || read.ended <= after;
        self.0.lock().values_mut().for_each(|file| {
            file.reads.values_mut().for_each(|reads| reads.retain(counts));
        });
    }

    /// Every read that nothing explains. `blackout`: when everything lost its power.
    pub fn check(&self, blackout: Option<Moment>, losses: &[Loss]) -> Vec<String> {
        let files = self.0.lock();
        let mut found = Vec::new();
        for (ino, file) in files.iter() {
            for (block, reads) in &file.reads {
                let mut changes = file.changes.get(block).cloned().unwrap_or_default();
                let cuts = file.cuts.iter().filter(|(from, ..)| from <= block);
                changes.extend(cuts.map(|(_, change)| *change));
                changes.push(Change { began: 0, ended: 0, value: 0, mount: 0, synced: 0 });
                for read in reads.iter().filter(|read| !explained(read, &changes, blackout, losses))
                {
                    found.push(format!(
                        "program {} read {:x} from block {block} of inode {ino:x} at {}..{}; it was changed: {changes:x?}",
                        read.program, read.value, read.began, read.ended
                    ));
                }
            }
        }
        found
    }
}

fn explained(read: &Read, changes: &[Change], blackout: Option<Moment>, losses: &[Loss]) -> bool {
    let survives = |change: &Change| {
        let lost = losses.iter().any(|loss| loss.excuses(change, read));
        let cut_off = blackout.is_some_and(|at| read.began >= at && change.began <= at);
        !lost && (!cut_off || change.synced != Moment::MAX)
    };
    changes.iter().filter(|change| change.value == read.value && change.began < read.ended).any(
        |change| {
            let between = |other: &Change| {
                survives(other) && change.ended < other.began && other.ended < read.began
            };
            !changes.iter().any(between)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_sees_the_last_write_or_one_under_way() {
        let seen = BytesSeen::default();
        seen.wrote(1, 0, Change::new(0, 0xa, (1, 2), false));
        seen.wrote(1, 0, Change::new(0, 0xb, (3, 6), false));
        for (value, began, ended) in [(0xa, 4, 5), (0xb, 4, 5), (0xb, 7, 8)] {
            seen.read(1, 0, Read { program: 0, mount: 0, value, began, ended });
        }
        assert_eq!(seen.check(None, &[]), Vec::<String>::new());
        seen.read(1, 0, Read { program: 0, mount: 0, value: 0xa, began: 7, ended: 8 });
        seen.read(1, 0, Read { program: 0, mount: 0, value: 0, began: 4, ended: 5 });
        seen.read(1, 0, Read { program: 0, mount: 0, value: 0xc, began: 7, ended: 8 });
        assert_eq!(seen.check(None, &[]).len(), 3);
    }

    #[test]
    fn cuts_are_zeros_and_untold_writes_may_come_at_any_time() {
        let seen = BytesSeen::default();
        seen.wrote(1, 5, Change::new(0, 0xa, (1, 2), false));
        seen.cut(0, 1, 3, 3, 4);
        seen.read(1, 5, Read { program: 0, mount: 0, value: 0, began: 5, ended: 6 });
        seen.wrote(1, 5, Change::new(0, 0xb, (7, u64::MAX), false));
        seen.read(1, 5, Read { program: 0, mount: 0, value: 0, began: 8, ended: 9 });
        seen.read(1, 5, Read { program: 0, mount: 0, value: 0xb, began: 10, ended: 11 });
        assert_eq!(seen.check(None, &[]), Vec::<String>::new());
        seen.read(1, 5, Read { program: 0, mount: 0, value: 0xa, began: 8, ended: 9 });
        assert_eq!(seen.check(None, &[]).len(), 1);
    }

    #[test]
    fn a_power_cut_takes_what_nobody_synced_and_nothing_else() {
        let seen = BytesSeen::default();
        seen.wrote(1, 0, Change::new(0, 0xa, (1, 2), false));
        seen.wrote(1, 0, Change::new(7, 0xb, (3, 4), false));
        seen.synced(0, 1, 5, 6);
        let read = |seen: &BytesSeen, value| {
            seen.read(1, 0, Read { program: 0, mount: 0, value, began: 11, ended: 12 })
        };
        read(&seen, 0xb);
        read(&seen, 0xa);
        assert_eq!(
            seen.check(Some(10), &[]),
            Vec::<String>::new(),
            "the other mount's write may be lost"
        );
        assert_eq!(seen.check(None, &[]).len(), 1);
        read(&seen, 0);
        assert_eq!(seen.check(Some(10), &[]).len(), 1, "the first one may not");
        for (value, good) in [(0xc, true), (0xd, true), (0, false)] {
            let one = BytesSeen::default();
            one.wrote(2, 0, Change::new(0, 0xc, (6, 7), true));
            one.wrote(2, 0, Change::new(0, 0xd, (8, Moment::MAX), true));
            one.read(2, 0, Read { program: 0, mount: 0, value, began: 11, ended: 12 });
            assert_eq!(one.check(Some(10), &[]).is_empty(), good, "{value:x}");
        }
    }

    #[test]
    fn a_mount_that_is_lost_takes_what_it_did_not_sync_along_but_not_before_its_own_eyes() {
        let seen = BytesSeen::default();
        seen.wrote(1, 0, Change::new(0, 0xa, (1, 2), false));
        seen.wrote(1, 0, Change::new(3, 0xb, (3, 4), false));
        let loss = [Loss { mount: 3, from: 10, told: 18, until: 20 }];
        seen.read(1, 0, Read { program: 0, mount: 0, value: 0xa, began: 11, ended: 12 });
        seen.read(1, 0, Read { program: 1, mount: 3, value: 0xb, began: 13, ended: 14 });
        seen.read(1, 0, Read { program: 1, mount: 3, value: 0xa, began: 17, ended: 19 });
        seen.read(1, 0, Read { program: 1, mount: 3, value: 0xa, began: 21, ended: 22 });
        assert_eq!(seen.check(None, &loss), Vec::<String>::new());
        assert_eq!(seen.check(None, &[]).len(), 3);
        seen.read(1, 0, Read { program: 0, mount: 0, value: 0xa, began: 8, ended: 9 });
        seen.read(1, 0, Read { program: 1, mount: 3, value: 0xa, began: 15, ended: 16 });
        seen.read(1, 0, Read { program: 0, mount: 0, value: 0, began: 30, ended: 31 });
        assert_eq!(seen.check(None, &loss).len(), 3);
        seen.synced(3, 1, 25, 26);
        assert_eq!(seen.check(None, &loss).len(), 3, "that sync knew of the loss");
        seen.synced(3, 1, 5, 6);
        assert_eq!(seen.check(None, &loss).len(), 6);
    }

    #[test]
    fn a_block_is_whole() {
        assert_eq!(value_of(&filled(7)), Ok(7));
        assert_eq!(value_of(&[]), Ok(0));
        assert_eq!(value_of(&[0; 100]), Ok(0));
        assert!(value_of(&[7; 100]).is_err());
        let mut torn = filled(7);
        torn[1000] = 1;
        assert!(value_of(&torn).is_err());
    }
}
