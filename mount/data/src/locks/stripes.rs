//! Directories over several MDTs, as far as replies have shown them.
//!
//! A change of the stripes calls back what covers names and attributes of all of them. Each reply
//! that shows a stripe, or its names, says the generation of its record. So what is known is used
//! until a reply shows a newer one.
//!
//! A directory that goes to other MDTs gets other inodes. The kernel may know it by the old one,
//! which is a shard then; it leads to the directory as long as that is known.
//!
//! Bound: the directories that the kernel knows, [`UNSHOWN_MAX`], and [`LEFT_MAX`] for each.

use foldhash::HashMap;
use layout::dir_stripes::DirStripes;
use std::sync::Arc;
use types::fid::Fid;

/// Inodes that a directory has left and the kernel does not know, of which it is remembered that
/// they lead to it.
const LEFT_MAX: usize = 64;
/// Striped directories that are remembered though the kernel does not know them.
const UNSHOWN_MAX: usize = 16_384;

#[derive(Default)]
struct Directory {
    /// `None`: not asked for yet, or it is too old.
    stripes: Option<Arc<DirStripes>>,
    /// The newest generation that a reply has shown.
    seen: u32,
    /// The kernel knows the directory.
    shown: bool,
    /// Inodes that it has left.
    left: Vec<Fid>,
}

/// What is known of an inode.
#[derive(Clone, PartialEq, Debug)]
pub enum Striped {
    /// It is no stripe.
    No,
    /// It is one; of which directory, and what the others are, must be asked for.
    Unknown,
    /// It is one of these.
    Of(Arc<DirStripes>),
}

/// See the module.
#[derive(Default)]
pub struct StripedDirectories {
    known: HashMap<Fid, Directory>,
    /// By shard: the directory.
    shards: HashMap<Fid, Fid>,
    shown: usize,
}

impl StripedDirectories {
    /// A reply showed that the inode is a stripe, and the generation of its record.
    pub fn note(&mut self, fid: Fid, generation: u32) {
        let master = self.shards.get(&fid).unwrap_or(&fid);
        if let Some(directory) = self.known.get_mut(master) {
            directory.seen = directory.seen.max(generation);
            return;
        }
        if self.known.len() - self.shown >= UNSHOWN_MAX {
            let unshown: Vec<Fid> =
                self.known.iter().filter(|(_, dir)| !dir.shown).map(|(fid, _)| *fid).collect();
            unshown.into_iter().for_each(|fid| self.remove(fid));
        }
        self.known.insert(fid, Directory { seen: generation, ..Directory::default() });
    }

    /// An MDT does not have a name in this directory where it should be: what is known is too old.
    pub fn outdated(&mut self, fid: Fid) {
        self.note(fid, 0);
        let master = *self.shards.get(&fid).unwrap_or(&fid);
        if let Some(directory) = self.known.get_mut(&master) {
            directory.stripes = None;
        }
    }

    /// The inode is no stripe after all.
    pub fn is_whole(&mut self, fid: Fid) {
        self.remove(fid);
    }

    /// The stripes of which `asked` is one, or was one before the directory left it. `in_kernel`:
    /// the kernel knows an inode.
    pub fn learn(
        &mut self,
        asked: Fid,
        stripes: &Arc<DirStripes>,
        in_kernel: impl Fn(Fid) -> bool,
    ) {
        let master = stripes.master();
        let mut left = Vec::new();
        let gone = (!stripes.all().contains(&asked)).then_some(&asked);
        for old in stripes.leaves().iter().chain(gone) {
            if let Some(directory) = self.known.remove(old) {
                self.shown -= usize::from(directory.shown);
                left.extend(directory.left);
            }
            left.push(*old);
        }
        if asked != master && gone.is_none() {
            self.remove(asked);
        }
        left.iter().for_each(|old| _ = self.shards.insert(*old, master));
        let directory = self.known.entry(master).or_default();
        left.retain(|old| !directory.left.contains(old));
        directory.left.append(&mut left);
        // The oldest may be the one that the kernel knows.
        let mut beyond = directory.left.len().saturating_sub(LEFT_MAX);
        directory.left.retain(|old| {
            let stays = beyond == 0 || in_kernel(*old);
            if !stays {
                beyond -= 1;
                self.shards.remove(old);
            }
            stays
        });
        if directory.stripes.as_ref().is_none_or(|k| k.generation() < stripes.generation()) {
            directory.stripes = Some(stripes.clone());
        }
        stripes.shards().iter().for_each(|shard| _ = self.shards.insert(*shard, master));
    }

    /// The directory of which this inode is known to be a stripe; else the inode.
    pub fn master(&self, fid: Fid) -> Fid {
        *self.shards.get(&fid).unwrap_or(&fid)
    }

    /// Inodes that a directory has left, the newest last.
    pub fn left(&self, master: Fid) -> &[Fid] {
        self.known.get(&master).map_or(&[], |directory| &directory.left)
    }

    /// What is known of an inode.
    pub fn of(&self, fid: Fid) -> Striped {
        if self.known.is_empty() {
            return Striped::No;
        }
        let master = self.shards.get(&fid).unwrap_or(&fid);
        match self.known.get(master) {
            None => Striped::No,
            // It has gone from one MDT to another, and is whole again.
            Some(Directory { stripes: Some(stripes), seen, .. })
                if stripes.generation() >= *seen && stripes.all() == [fid] =>
            {
                Striped::No
            }
            Some(Directory { stripes: Some(stripes), seen, .. })
                if stripes.generation() >= *seen =>
            {
                Striped::Of(stripes.clone())
            }
            Some(_) => Striped::Unknown,
        }
    }

    /// The kernel knows this inode from now on.
    pub fn shown(&mut self, fid: Fid) {
        if let Some(directory) = self.known.get_mut(&fid).filter(|directory| !directory.shown) {
            directory.shown = true;
            self.shown += 1;
        }
    }

    /// The kernel has forgotten it. Locks may show it again without a reply.
    pub(crate) fn forgotten(&mut self, fid: Fid) {
        if let Some(directory) = self.known.get_mut(&fid).filter(|directory| directory.shown) {
            directory.shown = false;
            self.shown -= 1;
        }
    }

    fn remove(&mut self, fid: Fid) {
        let Some(Directory { stripes, shown, left, .. }) = self.known.remove(&fid) else { return };
        self.shown -= usize::from(shown);
        left.iter().for_each(|old| _ = self.shards.remove(old));
        for shard in stripes.iter().flat_map(|stripes| stripes.shards()) {
            self.shards.remove(shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::dir_stripes::DirHash;

    fn fid(mdt: u64, oid: u32) -> Fid {
        Fid { seq: Fid::SEQ_NORMAL + mdt * Fid::SEQ_WIDTH, oid, ver: 0 }
    }

    fn stripes(oid: u32) -> Arc<DirStripes> {
        Arc::new(DirStripes::new(DirHash::Crush, vec![fid(1, oid), fid(0, oid)]).unwrap())
    }

    #[test]
    fn each_stripe_leads_to_all() {
        let mut known = StripedDirectories::default();
        assert_eq!(known.of(fid(1, 1)), Striped::No);
        // The first of it that is seen is a shard.
        known.note(fid(0, 1), 1);
        assert_eq!(known.of(fid(0, 1)), Striped::Unknown);
        known.learn(fid(0, 1), &stripes(1), |_| false);
        for mdt in [0, 1] {
            known.note(fid(mdt, 1), 1);
            assert_eq!(known.of(fid(mdt, 1)), Striped::Of(stripes(1)), "MDT {mdt}");
        }
        assert_eq!(known.of(fid(0, 2)), Striped::No);
        known.shown(fid(1, 1));
        known.shown(fid(1, 1));
        known.forgotten(fid(1, 1));
        assert_eq!((known.of(fid(0, 1)), known.shown), (Striped::Of(stripes(1)), 0));
        known.remove(fid(1, 1));
        assert_eq!([known.of(fid(0, 1)), known.of(fid(1, 1))], [Striped::No, Striped::No]);
        assert!(known.known.is_empty() && known.shards.is_empty() && known.shown == 0);
    }

    #[test]
    fn what_a_newer_reply_contradicts_is_asked_for_again() {
        let mut known = StripedDirectories::default();
        let (old, new) = (stripes(1), Arc::new(stripes(1).passed(None)));
        known.note(fid(1, 1), 1);
        known.learn(fid(1, 1), &old, |_| false);
        known.note(fid(0, 1), 1);
        assert_eq!(known.of(fid(1, 1)), Striped::Of(old.clone()));
        known.note(fid(0, 1), 2);
        assert_eq!(
            [known.of(fid(1, 1)), known.of(fid(0, 1))],
            [Striped::Unknown, Striped::Unknown]
        );
        known.learn(fid(1, 1), &old, |_| false);
        assert_eq!(known.of(fid(1, 1)), Striped::Unknown, "the answer is older than that");
        known.learn(fid(0, 1), &new, |_| false);
        known.learn(fid(1, 1), &old, |_| false);
        assert_eq!(known.of(fid(1, 1)), Striped::Of(new.clone()), "late");
        known.outdated(fid(0, 1));
        assert_eq!(known.of(fid(1, 1)), Striped::Unknown);
        known.learn(fid(1, 1), &new, |_| false);
        assert_eq!(known.of(fid(0, 1)), Striped::Of(new));
        // One that was taken for a whole.
        known.outdated(fid(2, 7));
        assert_eq!(known.of(fid(2, 7)), Striped::Unknown);
        known.is_whole(fid(2, 7));
        assert_eq!(known.of(fid(2, 7)), Striped::No);
    }

    #[test]
    fn an_inode_that_a_directory_has_left_leads_to_it() {
        let (old, new) = (fid(0, 1), fid(1, 5));
        let going = DirStripes::going(old, None, DirHash::Crush, vec![new]).unwrap();
        let mut known = StripedDirectories::default();
        known.note(old, 1);
        known.shown(old);
        let going = Arc::new(going);
        known.learn(old, &going, |_| false);
        known.note(new, 1);
        let now = Striped::Of(going.clone());
        assert_eq!([known.of(old), known.of(new)], [now.clone(), now]);
        assert_eq!((known.master(old), known.shown), (new, 0));
        let end = Arc::new(going.passed(None));
        known.note(new, 2);
        assert_eq!([known.of(old), known.of(new)], [Striped::Unknown, Striped::Unknown]);
        known.learn(new, &end, |_| false);
        assert_eq!([known.of(old), known.of(new)], [Striped::Of(end.clone()), Striped::No]);
        known.note(new, 3);
        assert_eq!(known.of(new), Striped::Unknown, "it goes on");
        let third = fid(2, 9);
        let on = Arc::new(DirStripes::going(new, Some(&end), DirHash::Crush, vec![third]).unwrap());
        known.learn(new, &on, |_| false);
        let then = Striped::Of(on);
        assert_eq!([old, new, third].map(|fid| known.of(fid)), [then.clone(), then.clone(), then]);
        known.remove(third);
        assert!(known.known.is_empty() && known.shards.is_empty());
        // All that is known of an inode that is gone.
        known.outdated(old);
        let one = Arc::new(DirStripes::new(DirHash::Crush, vec![third]).unwrap());
        known.learn(old, &one, |_| false);
        assert_eq!([known.of(old), known.of(third)], [Striped::Of(one), Striped::No]);
    }

    #[test]
    fn the_inode_that_the_kernel_knows_leads_to_it_however_often_it_goes() {
        let mut known = StripedDirectories::default();
        let at = |n: u32| fid(u64::from(n % 3), n);
        for n in 1..300 {
            let to = Arc::new(DirStripes::new(DirHash::Crush, vec![at(n)]).unwrap());
            known.learn(at(n - 1), &to, |fid| fid == at(0));
        }
        assert_eq!([0, 298, 299].map(|n| known.master(at(n))), [at(299); 3]);
        assert_eq!(known.master(at(7)), at(7), "forgotten");
        assert!(known.shards.len() <= LEFT_MAX + 1);
    }

    #[test]
    fn what_the_kernel_knows_stays() {
        let mut known = StripedDirectories::default();
        known.note(fid(1, 1), 1);
        known.learn(fid(1, 1), &stripes(1), |_| false);
        known.shown(fid(1, 1));
        (2..40_000).for_each(|oid| known.note(fid(1, oid), 1));
        assert!(known.known.len() <= UNSHOWN_MAX + 1);
        assert_eq!(known.of(fid(0, 1)), Striped::Of(stripes(1)));
        assert_eq!(known.of(fid(1, 39_999)), Striped::Unknown, "the newest is there");
    }
}
