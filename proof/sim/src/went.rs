//! Directories that went to other MDTs have other inode numbers since: the judges take all numbers
//! of a directory for its first one.
//!
//! What a program sees of such a move is durable somewhere, with the record of its bundle. So the
//! records that MDTs commit tell of all of them.

use crate::history::{Answer, Call, Ino, Record};
use disk::bundle::{Kept, Step};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::errno::Errno;
use types::fid::Fid;

/// By the number of a directory: the one that it had before.
#[derive(Clone, Default)]
pub struct Went(Arc<Mutex<BTreeMap<Ino, Ino>>>);

impl Went {
    /// An MDT commits a record.
    pub fn note(&self, key: &[u8], value: &[u8]) {
        if key.first() != Some(&b'U') {
            return;
        }
        let Ok(Kept::Applied { steps, .. }) = disk::bundle::decode(value) else { return };
        let made: BTreeSet<Fid> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Make { fid, .. } => Some(*fid),
                _ => None,
            })
            .collect();
        for step in &steps {
            // The old master becomes a shard of the new one. (Its shards do, too.)
            if let Step::Home { fid, to, .. } = step
                && made.contains(to)
            {
                self.0.lock().entry(to.ino()).or_insert(fid.ino());
            }
        }
    }

    /// The first number of an inode.
    pub fn first(&self, ino: Ino) -> Ino {
        let went = self.0.lock();
        let mut at = ino;
        while let Some(before) = went.get(&at) {
            at = *before;
        }
        at
    }

    /// How many directories have gone.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// A history by first numbers. What was refused with ESTALE because a directory has another
    /// inode by now is left out: nothing was done, and the kernel looks for the path again.
    pub fn told(&self, mut records: Vec<Record>) -> Vec<Record> {
        let left: BTreeSet<Ino> = self.0.lock().values().copied().collect();
        records.retain(|record| {
            let stale = matches!(&record.ended, Some((_, Answer::Refused(Errno::ESTALE))));
            !stale || !record.call.directories().iter().any(|dir| left.contains(dir))
        });
        for record in &mut records {
            let at = |ino: &mut Ino| *ino = self.first(*ino);
            match &mut record.call {
                Call::Lookup { parent, .. }
                | Call::Make { parent, .. }
                | Call::Unlink { parent, .. }
                | Call::Rmdir { parent, .. } => at(parent),
                Call::Getattr { ino } | Call::Readdir { ino } => at(ino),
                Call::Rename { parent, new_parent, .. } => {
                    at(parent);
                    at(new_parent);
                }
                Call::Link { ino, parent, .. } => {
                    at(ino);
                    at(parent);
                }
            }
            match record.ended.as_mut().map(|(_, answer)| answer) {
                Some(Answer::Inode { ino, .. }) => at(ino),
                Some(Answer::Names(names)) => names.values_mut().for_each(at),
                Some(Answer::Done | Answer::Refused(_)) | None => {}
            }
        }
        records
    }
}
