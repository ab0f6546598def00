//! Changes whose authors' own mounts may not show them yet.
//!
//! The author of a change keeps its locks and learns of the change from the reply. From the change
//! until its kernel has read the reply, the author's other threads see the state before, while
//! every other client could see the one after. So each change stays here until its author has
//! surely read the answer.
//!
//! `Records` notes what an operation reads. An operation that looks at such a change gets its
//! answer only when the author was called back: the lock bits that cover the change are revoked, as
//! from any other holder. Usually no client looks, and then this costs one entry per change.
//!
//! The author's LOOKUP and UPDATE of an inode that it removed for good stay until then, too: they
//! may be all that covers the name and the attributes at its mount.
//!
//! A change is known to its author in two steps: the author says that it has the answer, and then
//! its kernel gets some time (`author_grace`). A client that is alone is not noted at all.

use foldhash::{HashMap, HashSet};
use namespace::view::{Change, Shown};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;

/// The inodes and bits that the author may still cover with its locks: all parts of one operation.
pub(crate) type Changed = Arc<[(Fid, InodeBits)]>;

/// One noted change of a client.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Unacked {
    number: u64,
    changed: Changed,
}

/// The part of an inode that an operation looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look<'a> {
    /// One name of a directory.
    Name(&'a [u8]),
    /// The names of a directory.
    Names,
    /// An inode, without the parts that change in a directory with each of its names.
    Inode,
    /// All attributes.
    Attr,
    /// Extended attributes.
    Xattr,
}

/// One inode of one change.
#[cfg_attr(test, derive(Clone))]
struct Part {
    number: u64,
    client: ClientUuid,
    bits: InodeBits,
    names: SmallVec<[Box<[u8]>; 2]>,
    changed: Changed,
}

impl Part {
    fn shows(&self, look: Look<'_>) -> bool {
        match look {
            Look::Name(name) => self.names.iter().any(|changed| **changed == *name),
            Look::Names => !self.names.is_empty(),
            Look::Inode => self.names.is_empty(),
            Look::Attr => self.bits.contains(InodeBits::UPDATE),
            Look::Xattr => self.bits.contains(InodeBits::XATTR),
        }
    }
}

/// See the module.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct UnackedChanges {
    last: u64,
    of: HashMap<Fid, Vec<Part>>,
    /// Inodes that were destroyed and have parts.
    destroyed: HashSet<Fid>,
    /// Destroyed inodes of which no author shows a name any more.
    over: Vec<Fid>,
    /// The changes that the running operation has seen; drained when it is over.
    seen: RefCell<BTreeMap<u64, (ClientUuid, Changed)>>,
}

impl UnackedChanges {
    /// `client` looks at something.
    pub(crate) fn look(&self, client: ClientUuid, fid: Fid, look: Look<'_>) {
        if self.of.is_empty() || client == ClientUuid::default() {
            return;
        }
        let parts = self.of.get(&fid).into_iter().flatten();
        let mut seen = self.seen.borrow_mut();
        for part in parts.filter(|part| part.client != client && part.shows(look)) {
            seen.entry(part.number).or_insert_with(|| (part.client, part.changed.clone()));
        }
    }

    /// Names of a directory that others changed, and may still show as they were.
    pub(crate) fn names(&self, client: ClientUuid, dir: Fid) -> impl Iterator<Item = &[u8]> {
        let parts = self.of.get(&dir).into_iter().flatten();
        parts
            .filter(move |part| part.client != client)
            .flat_map(|part| &part.names)
            .map(|name| &**name)
    }

    /// The changes that were looked at since the last call, with their authors.
    pub(crate) fn take_seen(&self) -> Vec<(ClientUuid, Changed)> {
        match &mut *self.seen.borrow_mut() {
            none if none.is_empty() => Vec::new(),
            seen => std::mem::take(seen).into_values().collect(),
        }
    }

    /// Number of the newest change.
    pub(crate) fn newest(&self) -> u64 {
        self.last
    }

    /// A request of `client` changes this.
    pub(super) fn note(&mut self, client: ClientUuid, changes: &[Change<'_>]) -> Unacked {
        self.last += 1;
        // Handles of removed files are handled elsewhere, and so is data.
        let attributes = InodeBits::UPDATE.union(InodeBits::PERM).union(InodeBits::XATTR);
        let mask = attributes.union(InodeBits::LOOKUP).union(InodeBits::LAYOUT);
        // The mount of a writer shows what it wrote; anything else it may hide under WRITE too.
        let bits_of = |change: &Change<'_>| match change.bits.intersection(mask) {
            bits if change.shown == Shown::Nothing && bits.contains(InodeBits::UPDATE) => {
                bits.union(InodeBits::WRITE)
            }
            bits => bits,
        };
        let changed: Changed = changes.iter().map(|change| (change.fid, bits_of(change))).collect();
        for change in changes {
            let names = change.names.iter().flatten().map(|name| Box::from(*name)).collect();
            let bits = bits_of(change);
            let part = Part { number: self.last, client, bits, names, changed: changed.clone() };
            self.of.entry(change.fid).or_default().push(part);
        }
        Unacked { number: self.last, changed }
    }

    /// A change is over: its author's mount shows it, or shows nothing any more.
    pub(super) fn remove(&mut self, change: &Unacked) {
        change
            .changed
            .iter()
            .for_each(|(fid, _)| self.retain(*fid, |part| part.number != change.number));
    }

    /// The author was asked to drop these bits, and has. Its changes up to `newest` are over if all
    /// their bits were among them: its mount now shows them as they are.
    pub(super) fn called_back(
        &mut self,
        client: ClientUuid,
        newest: u64,
        asked: &BTreeMap<Fid, InodeBits>,
    ) {
        let was_asked = |(fid, bits): &(Fid, InodeBits)| {
            asked.get(fid).is_some_and(|asked| asked.contains(*bits))
        };
        for fid in asked.keys() {
            self.retain(*fid, |part| {
                part.client != client || part.number > newest || !part.changed.iter().all(was_asked)
            });
        }
    }

    /// An inode is destroyed. Returns the clients that may still show a name of it. If there are
    /// any, [`UnackedChanges::take_over`] returns the inode when none is left.
    pub(super) fn destroyed(&mut self, fid: Fid) -> SmallVec<[ClientUuid; 1]> {
        let parts = self.of.get(&fid).into_iter().flatten();
        let shown: SmallVec<_> = parts.map(|part| part.client).collect();
        if !shown.is_empty() {
            self.destroyed.insert(fid);
        }
        shown
    }

    /// Takes the destroyed inodes of which no client shows a name any more.
    pub(super) fn take_over(&mut self) -> std::vec::Drain<'_, Fid> {
        self.over.drain(..)
    }

    /// True if no change is noted.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty() && self.destroyed.is_empty()
    }

    fn retain(&mut self, fid: Fid, keep: impl Fn(&Part) -> bool) {
        let Some(of) = self.of.get_mut(&fid) else { return };
        of.retain(keep);
        if of.is_empty() {
            self.of.remove(&fid);
            if self.destroyed.remove(&fid) {
                self.over.push(fid);
            }
        }
    }
}
