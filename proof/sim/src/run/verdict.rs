//! Judgement of a run: what its programs saw, and what is left in the stores.

use super::*;
use crate::history::{Answer, Record};
use disk::inode::ItemTag;
use layout::dir_stripes::DirStripes;

impl Run {
    pub(super) fn judge(&mut self, ended: bool) -> bool {
        self.wrong.extend(self.recorder.bytes.check(self.blackout, &self.losses));
        self.wrong.extend(self.recorder.locks.check());
        // An evicted mount has lost its open files.
        let kept = |mount: usize| !self.losses.iter().any(|loss| loss.mount == mount);
        let gone: Vec<_> =
            self.recorder.gone.lock().iter().filter(|(mount, _)| kept(*mount)).cloned().collect();
        self.wrong.extend(gone.into_iter().map(|(_, text)| text));
        let records = self.recorder.history.records().into_iter();
        let records =
            self.cluster.went.told(records.filter_map(|record| self.as_told(record)).collect());
        let synced = self.recorder.durable.lock().clone();
        let mdts = self.cluster.servers.iter().filter(|server| server.kind == TargetKind::Mdt);
        let durable: BTreeMap<u16, Moment> =
            mdts.map(|mdt| (mdt.index.0, synced.get(&mdt.index.0).copied().unwrap_or(0))).collect();
        let blackout = self.blackout.map(|at| Blackout { at, durable });
        let start = Tree::new(Fid::ROOT.ino());
        let states = match linear::check_over(start, &records, blackout, self.splits) {
            Verdict::Explained(states) => states,
            Verdict::Violation(text) => {
                self.wrong.push(text);
                return false;
            }
            Verdict::TooTangled => return true,
        };
        if ended && self.wrong.is_empty() {
            self.look_for_leaks(&states);
        }
        let _end: Moment = self.recorder.history.moment();
        false
    }

    /// An operation as the living know it: a change that only a client knew that died with the MDT
    /// has happened by then, or was for nothing. What else that client was told is nothing.
    fn as_told(&self, mut record: Record) -> Option<Record> {
        let untold = self.untold.get(&self.mount_of[record.program]);
        let Some(Untold { until, .. }) = untold.filter(|untold| untold.since < record.end()) else {
            return Some(record);
        };
        let in_vain = matches!(record.ended, Some((_, Answer::Refused(_))));
        record.over = Some(*until);
        (!in_vain && !record.call.changes().is_empty()).then_some(record)
    }

    /// Nothing is left of removed files: inodes, names, objects.
    fn look_for_leaks(&mut self, states: &[Tree]) {
        let clean = |run: &Run| states.iter().any(|tree| leaks(run, tree).is_empty());
        if !self.wait(QUIET_MAX, clean)
            && let Some(tree) = states.first()
        {
            self.wrong.extend(leaks(self, tree));
        }
    }
}

/// Differences between the stores and the tree.
fn leaks(run: &Run, tree: &Tree) -> Vec<String> {
    let living: BTreeSet<u64> = tree.living().map(|(ino, _)| ino).collect();
    let files: BTreeSet<u64> =
        tree.living().filter(|(_, kind)| *kind == Kind::File).map(|(ino, _)| ino).collect();
    let mut found = Vec::new();
    let (mut inodes, mut names) = (BTreeSet::new(), BTreeMap::<u64, Vec<String>>::new());
    for MdtRecord { key, value, .. } in run.cluster.mdt_records() {
        match key.first() {
            Some(b'E') => {
                if let (Ok((fid, _)), Some(name)) =
                    (disk::dirent::decode(&value), disk::key::name_of(&key))
                {
                    names
                        .entry(run.cluster.went.first(fid.ino()))
                        .or_default()
                        .push(String::from_utf8_lossy(name).into_owned());
                }
            }
            Some(b'I') if !is_shard(&key, &value) => {
                let ino = disk::key::fid_of(&key).map(Fid::ino);
                inodes.extend(ino.map(|ino| run.cluster.went.first(ino)));
            }
            Some(b'P') => found.push(format!("an orphan is left: {:?}", disk::key::fid_of(&key))),
            Some(b'D') => found.push(format!("objects wait for their destruction: {key:x?}")),
            _ => {}
        }
    }
    found.extend(unsound(run));
    found.extend(run.misplaced(tree));
    // An inode that an unanswered operation made has an unknown number.
    let (untold, living): (BTreeSet<u64>, BTreeSet<u64>) =
        living.into_iter().partition(|ino| *ino >= SYNTHETIC);
    let unknown: Vec<u64> = inodes.difference(&living).copied().collect();
    let fits = unknown.len() == untold.len() && unknown.iter().all(|ino| names.contains_key(ino));
    found.extend(unknown.iter().filter(|_| !fits).map(|ino| {
        let names = names
            .get(ino)
            .map_or_else(|| "no name".to_owned(), |names| format!("the names {names:?}"));
        format!("inode {ino:x} is left that no program knows of; it has {names}")
    }));
    found.extend(
        living.difference(&inodes).map(|ino| format!("inode {ino:x} has a name and no record")),
    );
    // After a blackout objects may be left whose files were never durable: fsck finds those.
    for name in run.cluster.objects().into_iter().filter(|_| run.blackout.is_none()) {
        match store::objects::parse_name(&name) {
            Some(object) if files.contains(&object.fid.ino()) => {}
            Some(object) if fits && unknown.contains(&object.fid.ino()) => {}
            _ => found.push(format!("object {name} is left and has no file")),
        }
    }
    found
}

/// True if an inode is a stripe of another one, which programs do not see.
pub(super) fn is_shard(key: &[u8], value: &[u8]) -> bool {
    let stripes = disk::key::fid_of(key).and_then(|fid| {
        let inode = disk::inode::decode(fid, value).ok()?;
        let record = disk::inode::item(inode.tail, ItemTag::Stripes).ok()??;
        Some((fid, DirStripes::decode(record).ok()?))
    });
    stripes.is_some_and(|(fid, stripes)| stripes.master() != fid)
}

/// Findings of `fsck` in the records: the same rules.
fn unsound(run: &Run) -> Vec<String> {
    let records = run.cluster.mdt_records();
    let mut check = Check::default();
    for tag in FIRST.into_iter().chain(THEN) {
        let (start, end) = disk::key::all(tag);
        let these =
            records.iter().filter(|record| record.key[..] >= start[..] && record.key[..] < end[..]);
        for MdtRecord { mdt, key, value } in these {
            if check.record(mdt.0, key, value).is_err() {
                return vec!["more inodes than can be checked".to_owned()];
            }
        }
    }
    check.finish().0.iter().map(|finding| format!("fsck: {finding}")).collect()
}
