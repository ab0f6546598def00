//! Leases: an open file has its inode to itself until another one comes.
//!
//! A read lease says that no other open file can write, a write lease that there is no other open
//! file. Nothing waits for a lease: another open file breaks it, and the holder finds out when it
//! asks. A broken lease no longer exists, and the same open file may take a new one.
//!
//! A metadata target keeps one table, by client. Each mount keeps another one, by open file, for
//! opens that a target does not see. A lease stands as long as it stands in both. A table does not
//! know which files are open: the caller that takes a lease says so, and from then on must report
//! every use.
//!
//! **Invariant:** while a lease stands, no use that its mode excludes was reported since it was
//! taken.

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::collections::HashMap;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::LeaseMode;

/// How others have a file open when a lease is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OpenBy {
    /// There is no other open file.
    Nobody,
    /// Other open files only read.
    Readers,
    /// Another open file can write.
    Writers,
}

/// Leases by inode; `H` names a holder.
pub struct LeaseTable<H> {
    inodes: HashMap<Fid, SmallVec<[(H, LeaseMode); 1]>, FixedState>,
    count: usize,
    max: usize,
}

impl<H: Copy + Eq> LeaseTable<H> {
    /// An empty table for at most `max` leases.
    pub fn with_bound(max: usize) -> LeaseTable<H> {
        LeaseTable { inodes: HashMap::default(), count: 0, max }
    }

    /// Takes a lease, which replaces the holder's earlier one.
    ///
    /// # Errors
    /// EBUSY: the file is open elsewhere in a way that the mode excludes; ENOLCK: there are too
    /// many. Then nothing has changed.
    pub fn acquire(
        &mut self,
        fid: Fid,
        holder: H,
        mode: LeaseMode,
        others: OpenBy,
    ) -> Result<(), Errno> {
        if others != OpenBy::Nobody && mode.is_broken(others == OpenBy::Writers) {
            return Err(Errno::EBUSY);
        }
        if let Some((_, held)) =
            self.inodes.get_mut(&fid).and_then(|all| all.iter_mut().find(|(h, _)| *h == holder))
        {
            *held = mode;
            return Ok(());
        }
        if self.count >= self.max {
            return Err(Errno::ENOLCK);
        }
        self.count += 1;
        self.inodes.entry(fid).or_default().push((holder, mode));
        Ok(())
    }

    /// The lease, if it stands.
    pub fn held(&self, fid: Fid, holder: H) -> Option<LeaseMode> {
        self.inodes.get(&fid)?.iter().find(|(h, _)| *h == holder).map(|(_, mode)| *mode)
    }

    /// Gives a lease back; returns its mode, if it stood.
    pub fn release(&mut self, fid: Fid, holder: H) -> Option<LeaseMode> {
        let mode = self.held(fid, holder)?;
        self.keep(fid, |h, _| *h != holder);
        Some(mode)
    }

    /// The file is used; `writes`: it is changed. Breaks the leases that exclude this use, except
    /// the user's `own`.
    pub fn used(&mut self, fid: Fid, writes: bool, own: impl Fn(&H) -> bool) {
        if !self.inodes.is_empty() {
            self.keep(fid, |holder, mode| own(holder) || !mode.is_broken(writes));
        }
    }

    /// Ends all leases of the holders that `whose` selects.
    pub fn gone(&mut self, whose: impl Fn(&H) -> bool) {
        self.inodes.retain(|_, all| {
            all.retain(|(holder, _)| !whose(holder));
            !all.is_empty()
        });
        self.count = self.inodes.values().map(|all| all.len()).sum();
    }

    /// Number of leases that stand.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if no lease stands.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn keep(&mut self, fid: Fid, keeps: impl Fn(&H, LeaseMode) -> bool) {
        let Some(all) = self.inodes.get_mut(&fid) else { return };
        let before = all.len();
        all.retain(|(holder, mode)| keeps(holder, *mode));
        self.count -= before - all.len();
        if all.is_empty() {
            self.inodes.remove(&fid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LeaseMode::{Read, Write};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const A: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const B: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 2, ver: 0 };

    #[test]
    fn a_lease_stands_until_a_use_that_it_excludes() {
        let mut table = LeaseTable::with_bound(10);
        assert_eq!(table.acquire(A, 1, Write, OpenBy::Readers), Err(Errno::EBUSY));
        assert_eq!(table.acquire(A, 1, Read, OpenBy::Writers), Err(Errno::EBUSY));
        assert_eq!(table.acquire(A, 1, Read, OpenBy::Readers), Ok(()));
        assert_eq!(table.acquire(A, 2, Read, OpenBy::Readers), Ok(()));
        table.used(A, false, |_| false);
        table.used(B, true, |_| false);
        assert_eq!(
            (table.held(A, 1), table.held(A, 2), table.held(B, 1)),
            (Some(Read), Some(Read), None)
        );
        table.used(A, true, |holder| *holder == 2);
        assert_eq!((table.held(A, 1), table.held(A, 2), table.len()), (None, Some(Read), 1));
        assert_eq!(table.acquire(A, 2, Write, OpenBy::Nobody), Ok(()), "instead of the other one");
        table.used(A, false, |_| false);
        assert_eq!((table.release(A, 2), table.is_empty()), (None, true));
        assert_eq!(table.acquire(A, 2, Write, OpenBy::Nobody), Ok(()), "after a broken one");
        assert_eq!(
            (table.release(A, 2), table.release(A, 2), table.is_empty()),
            (Some(Write), None, true)
        );
    }

    #[test]
    fn there_is_a_bound() {
        let mut table = LeaseTable::with_bound(2);
        assert_eq!(table.acquire(A, 1, Read, OpenBy::Nobody), Ok(()));
        assert_eq!(table.acquire(B, 1, Read, OpenBy::Nobody), Ok(()));
        assert_eq!(table.acquire(B, 2, Read, OpenBy::Nobody), Err(Errno::ENOLCK));
        assert_eq!(table.acquire(A, 1, Write, OpenBy::Nobody), Ok(()));
        table.gone(|holder| *holder == 1);
        assert!(table.is_empty() && table.acquire(B, 2, Read, OpenBy::Nobody).is_ok());
    }

    #[derive(Clone, Debug)]
    enum Event {
        Open(u8, Fid, bool),
        Close(usize),
        Acquire(usize, LeaseMode),
        Release(usize),
        Gone(u8),
    }

    fn event() -> impl Strategy<Value = Event> {
        let fid = || prop_oneof![Just(A), Just(B)];
        let mode = prop_oneof![Just(Read), Just(Write)];
        prop_oneof![
            4 => (0..3u8, fid(), any::<bool>()).prop_map(|(who, fid, writes)| Event::Open(who, fid, writes)),
            3 => (0..8usize).prop_map(Event::Close),
            6 => (0..8usize, mode).prop_map(|(n, mode)| Event::Acquire(n, mode)),
            1 => (0..8usize).prop_map(Event::Release),
            1 => (0..3u8).prop_map(Event::Gone),
        ]
    }

    proptest! {
        /// Open files of three clients, as a target sees them all, compared with the definition. A
        /// lease stands exactly from its grant until it is given back or another open file comes
        /// that it excludes. It is refused exactly while there is such a file.
        #[test]
        fn leases_do_what_the_words_say(events in vec(event(), 0..60)) {
            let mut table = LeaseTable::with_bound(usize::MAX);
            let mut open: Vec<(u32, u8, Fid, bool)> = Vec::new();
            let mut stand: BTreeMap<u32, LeaseMode> = BTreeMap::new();
            let mut next = 0;
            for event in events {
                match event {
                    Event::Open(who, fid, writes) => {
                        next += 1;
                        open.push((next, who, fid, writes));
                        table.used(fid, writes, |(_, file)| *file == next);
                        for (file, _, _, _) in open.iter().filter(|(file, _, of, _)| *file != next && *of == fid) {
                            let breaks = |mode: &LeaseMode| writes || *mode == Write;
                            if stand.get(file).is_some_and(breaks) {
                                stand.remove(file);
                            }
                        }
                    }
                    Event::Close(n) if n < open.len() => {
                        let (file, who, fid, _) = open.remove(n);
                        prop_assert_eq!(table.release(fid, (who, file)), stand.remove(&file));
                    }
                    Event::Acquire(n, mode) if n < open.len() => {
                        let (file, who, fid, _) = open[n];
                        let others = || open.iter().filter(|(other, _, of, _)| *other != file && *of == fid);
                        let excluded = others().any(|(_, _, _, writes)| mode == Write || *writes);
                        let most = others().map(|(.., writes)| if *writes { OpenBy::Writers } else { OpenBy::Readers });
                        let answer = table.acquire(fid, (who, file), mode, most.max().unwrap_or(OpenBy::Nobody));
                        prop_assert_eq!(answer.is_err(), excluded);
                        if answer.is_ok() {
                            stand.insert(file, mode);
                        }
                    }
                    Event::Release(n) if n < open.len() => {
                        let (file, who, fid, _) = open[n];
                        prop_assert_eq!(table.release(fid, (who, file)), stand.remove(&file));
                    }
                    Event::Gone(client) => {
                        table.gone(|(who, _)| *who == client);
                        open.retain(|(_, who, _, _)| *who != client);
                        stand.retain(|file, _| open.iter().any(|(open, ..)| open == file));
                    }
                    Event::Close(_) | Event::Acquire(..) | Event::Release(_) => {}
                }
                prop_assert_eq!(table.len(), stand.len());
                for (file, who, fid, _) in &open {
                    prop_assert_eq!(table.held(*fid, (*who, *file)), stand.get(file).copied());
                }
            }
        }
    }
}
