//! One operation from entering to leaving, and what it waits for.

use super::{Change, UNDER_WRITE};
#[cfg(test)]
use super::{IbitsTable, Modifier, NONE};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;

/// One operation from entering to leaving.
pub(super) struct Entered {
    /// Number of its client; [`NONE`](super::NONE): the target itself, or a client that is gone.
    pub(super) author: u32,
    /// What it changes. For a request for a lock: the bits that no other client may hold with it.
    pub(super) changes: SmallVec<[Change; 4]>,
    /// Busy directories among them: holders of UPDATE are not told the names there, but drop it.
    pub(super) busy: SmallVec<[Fid; 2]>,
    /// A request for a lock: what it wants.
    pub(super) wants: InodeBits,
    /// The holders that have not answered, with the bits.
    pub(super) pending: BTreeMap<(Fid, u32), InodeBits>,
    pub(super) ready: bool,
}

impl Entered {
    /// It asks no holder yet.
    pub(super) fn new(
        author: u32,
        changes: SmallVec<[Change; 4]>,
        busy: SmallVec<[Fid; 2]>,
        wants: InodeBits,
    ) -> Entered {
        Entered { author, changes, busy, wants, pending: BTreeMap::new(), ready: false }
    }
}

/// What an operation waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitOf {
    /// The client of the operation; `None` for the target itself.
    pub client: Option<ClientUuid>,
    /// Inodes, with the bits that it changes or wants to lock.
    pub changes: Vec<(Fid, InodeBits)>,
    /// Holders that have not answered yet, with the bits.
    pub holders: Vec<(Fid, ClientUuid, InodeBits)>,
    /// Clients of operations that entered earlier for the same inodes: their turn may come first.
    pub ahead: Vec<ClientUuid>,
}

impl Entered {
    pub(super) fn is_lock(&self) -> bool {
        !self.wants.is_empty()
    }

    pub(super) fn changed(&self, fid: Fid) -> InodeBits {
        let here = self.changes.iter().filter(|change| change.fid == fid);
        here.fold(InodeBits::NONE, |all, change| all.union(change.bits))
    }

    /// What the operation forbids this client to be granted of an inode.
    pub(super) fn changes_for(&self, fid: Fid, number: u32) -> impl Iterator<Item = &Change> {
        let foreign = self.author != number;
        self.changes.iter().filter(move |change| foreign && change.fid == fid)
    }

    /// Bits that it forbids this client to be granted.
    pub(super) fn closes(&self, fid: Fid, number: u32) -> InodeBits {
        if self.author == number {
            return InodeBits::NONE;
        }
        let changed = self.changed(fid);
        match !changed.intersects(UNDER_WRITE) {
            true => changed,
            false => changed.union(InodeBits::WRITE),
        }
    }
}

#[cfg(test)]
impl Entered {
    /// True if its client is gone.
    pub(super) fn is_orphaned(&self) -> bool {
        self.author == NONE
    }

    /// Every holder of what it changes was asked and is waited for, or kept it. If the operation is
    /// not ready, a holder is missing.
    pub(super) fn check(
        &self,
        fid: Fid,
        table: &IbitsTable,
        holders: &[(u32, u32)],
        modifier: Modifier,
    ) {
        for (holder, slot) in holders.iter().filter(|(holder, _)| *holder != self.author) {
            let held = table.locks.get(*slot).bits;
            let here = self.changes.iter().filter(|change| change.fid == fid);
            let clash = here.fold(super::clash(held, self.changed(fid)), |clash, change| {
                clash.union(table.gaps.clash(*holder, held, change))
            });
            let pending = self.pending.get(&(fid, *holder)).copied().unwrap_or_default();
            let keepers = InodeBits::UPDATE.union(InodeBits::OPEN);
            let asks_back = self.changed(fid).is_empty();
            // The holder may meanwhile have cut the gap that it was asked for.
            assert!(asks_back || clash.union(held.intersection(InodeBits::GAP)).contains(pending));
            let asks = !self.is_lock() || table.is_first(modifier);
            if asks && self.author != NONE {
                assert!(
                    pending.contains(clash.difference(keepers)),
                    "{modifier:?} does not wait for {clash:?}"
                );
            }
        }
        if !self.ready && self.pending.is_empty() && !self.changes.is_empty() {
            assert!(
                self.is_lock()
                    && (self.author == NONE
                        || !table.is_first(modifier)
                        || table.is_closed(modifier))
            );
        }
        assert!(!self.ready || self.pending.is_empty());
    }
}
