//! What an operation rests on: the changes of others that its answer shows
//! ([`Durability::depend_on`](crate::locks::context::Durability::depend_on)), and what a change has
//! read, without which it cannot be made again (docs/recovery.md, "Changes of one directory").

use super::{BASES_MAX, Records};
use disk::{dirent, inode, key};
use observe::mutant::{Mutant, is_mutant};
use smallvec::SmallVec;
use std::ops::Bound;
use types::attr::Attr;
use types::fid::Fid;
use types::session::Transno;

impl Records<'_> {
    /// A version is shown to a client, or an operation builds on it.
    pub(super) fn depend(&self, version: u64) {
        self.depend_on([Transno(version)]);
    }

    /// These changes are shown to a client, or an operation builds on them.
    pub(super) fn depend_on(&self, changes: impl IntoIterator<Item = Transno>) {
        let volatile = self.state.acks.volatile();
        if volatile.is_empty() {
            return;
        }
        let asks = self.lock_context.asked.of();
        let (mut others, mut own) = <(SmallVec<[Transno; 4]>, SmallVec<[Transno; 4]>)>::default();
        for change in changes {
            match volatile.concern(change, asks) {
                Some(true) => others.push(change),
                Some(false) => own.push(change),
                None => {}
            }
        }
        self.lock_context.durability.depend_on(others);
        self.lock_context.durability.builds_on(own);
    }

    /// A client is told that an inode does not exist.
    pub(super) fn depend_on_end(&self, fid: Fid) {
        self.depend_on(self.state.acks.volatile().destroyed_by(fid));
    }

    /// An operation reads names of a directory.
    pub(super) fn depend_on_names(&self, dir: Fid, range: (Bound<&[u8]>, Bound<&[u8]>)) {
        self.depend_on(self.state.acks.volatile().names_in(dir, range));
    }

    /// A client is told that there is no name between two of a directory; or it is shown times and
    /// link count of the directory, which follow from all of its names. No change builds on that.
    pub(super) fn show_names(&self, dir: Fid, range: (Bound<&[u8]>, Bound<&[u8]>)) {
        let volatile = self.state.acks.volatile();
        let asks = self.lock_context.asked.of();
        let names = volatile.names_in(dir, range);
        let others = names.filter(|change| volatile.concerns(*change, asks));
        self.lock_context.durability.depend_on(others);
    }

    /// Attributes and base version of an inode; `None`: there is none, or it cannot be read (an
    /// operation that read it was refused).
    pub(super) fn attr_and_base(&self, fid: Fid) -> Option<(Attr, u64)> {
        let read =
            |bytes: &[u8]| inode::decode(fid, bytes).ok().map(|record| (record.attr, record.base));
        self.tx.get(&key::inode(fid), read).ok().flatten().flatten()
    }

    /// The newest change on which a directory and one of its names, there or not, rest.
    pub(crate) fn newest_of(&self, dir: Fid, name: &[u8]) -> Transno {
        let Some((attr, base)) = self.attr_and_base(dir) else { return Transno(0) };
        let (volatile, changed) = (self.state.acks.volatile(), Transno(attr.version));
        let named = match volatile.is_watched() && changed > self.state.unwatched {
            true => volatile.named_by(dir, name).unwrap_or_default(),
            // Some name of the directory has changed, perhaps this one.
            false => changed,
        };
        named.max(Transno(base))
    }

    /// The newest change of an inode that is not just one of its names.
    pub(crate) fn base_version(&self, fid: Fid) -> Transno {
        Transno(self.attr_and_base(fid).map_or(0, |(_, base)| base))
    }

    /// The base version of a directory, as [`Records::attr_and_base`] has it, remembered if the
    /// transaction has read or put it.
    pub(super) fn base_of(&self, dir: Fid) -> Option<u64> {
        let known =
            self.bases.borrow().iter().find(|(known, _)| *known == dir).map(|(_, base)| *base);
        known.or_else(|| self.attr_and_base(dir).map(|(_, base)| base))
    }

    pub(super) fn note_base(&self, dir: Fid, base: u64) {
        let mut bases = self.bases.borrow_mut();
        match bases.iter().position(|(known, _)| *known == dir) {
            Some(at) => bases[at].1 = base,
            None if bases.len() < BASES_MAX => bases.push((dir, base)),
            None => {}
        }
    }

    /// The running change rests on an inode in this base version (0: there was none), and can be
    /// made again only over the same. These are the inodes that it changes, and the directories
    /// that it reads.
    pub(super) fn has_found(&self, fid: Fid, base: u64) {
        if self.tx.keeps_log() {
            let inodes = &mut self.lock_context.durability.found.borrow_mut().inodes;
            if !inodes.iter().any(|(known, _)| *known == fid) {
                inodes.push((fid, base));
            }
        }
    }

    /// The running change says something of an inode that it does not change: a client that brings
    /// it back brings back what the inode rests on, too.
    pub(super) fn build_on(&self, fid: Fid) {
        if self.tx.keeps_log() {
            self.depend_on([self.base_version(fid)]);
        }
    }

    /// An inode is about to be changed, read or not.
    pub(super) fn note_found(&self, fid: Fid) {
        let unknown = || {
            !self
                .lock_context
                .durability
                .found
                .borrow()
                .inodes
                .iter()
                .any(|(known, _)| *known == fid)
        };
        if self.tx.keeps_log() && unknown() {
            self.has_found(fid, self.attr_and_base(fid).map_or(0, |(_, base)| base));
        }
    }

    /// The running change is about to make a name lead elsewhere, or nowhere: it can be made again
    /// only if the name leads where it does now.
    pub(super) fn name_changes(&mut self, dir: Fid, name: &[u8]) {
        let key = key::dirent(dir, name);
        let unknown = || {
            !self
                .lock_context
                .durability
                .found
                .borrow()
                .names
                .iter()
                .any(|(known, _)| **known == *key)
        };
        if self.tx.keeps_log() && !is_mutant(Mutant::NameNotFound) && unknown() {
            let read = |bytes: &[u8]| dirent::decode(bytes).map_or(Fid::NONE, |(fid, _)| fid);
            // An entry that cannot be read was found before, and the operation was refused.
            let to = self.tx.get(&key, read).ok().flatten();
            self.lock_context.durability.found.borrow_mut().names.push((key.as_bytes().into(), to));
        }
        self.state.acks.name_changed(self.tx.transno(), dir, name);
    }
}
