//! Changes that are not durable: no other client may be told of them unless it can bring them back.
//!
//! After a crash, a client brings back the changes that it was told of. A change that is not
//! committed may be lost with the crash: its author may not have seen the answer, or may die with
//! the MDT. So an answer that shows such a change of another client brings it along, with
//! everything it rests on that is not committed: then its reader can bring it back, too. If that is
//! too much, or the reader keeps nothing, the answer waits until the change is committed.
//!
//! A client's own change counts only until its answer has been handed to the connection: answers on
//! one connection arrive in order, or not at all. The changes of one request are answered together,
//! and a client in this process ends with the MDT, so these do not count for themselves.
//!
//! That order ends with the connection. An answer that was handed to a lost connection comes again
//! over the next one, maybe after others. So a client's changes are durable before its next
//! connection is answered. A change that is applied later for a request of an earlier connection
//! counts until it is durable or known.
//!
//! Bound: the changes that are not committed. Empty as long as all clients are in this process,
//! because they end with the MDT.

use super::in_order::InOrder;
use bytes::Bytes;
use disk::redo::with_data;
use foldhash::HashMap;
use observe::mutant::{Mutant, is_mutant};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use types::fid::Fid;
use types::limits::{REDO_OF_OTHERS_BYTES_MAX, REDO_OF_OTHERS_MAX};
use types::session::{ClientUuid, Transno, Xid};
use wire::message::Redo;

/// Changes of others that an answer brings along; beyond it the answer waits for a commit. Few,
/// because each answer that shows them brings them again until they are durable. A reply has room
/// for more ([`REDO_OF_OTHERS_MAX`]).
pub(crate) const BROUGHT_MAX: usize = 4;
const _: () = assert!(BROUGHT_MAX <= REDO_OF_OTHERS_MAX);

/// Data of a write, in pieces: as many as its operation brought.
pub(crate) type Pieces = SmallVec<[Bytes; 1]>;

/// A change that was applied.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// Number of the change.
    pub(crate) transno: Transno,
    /// Its author. The MDT's own changes have no client and are seen when they are durable.
    pub(crate) client: ClientUuid,
    /// The request; `None`: its client is in this process.
    pub(crate) xid: Option<Xid>,
    /// Redo of the change; `None`: no client keeps it.
    pub(crate) redo: Option<Bytes>,
    /// The data that the redo names: its author has it.
    pub(crate) data: Pieces,
    /// Changes that its operation looked at and that are not durable, its author's own among them.
    pub(crate) rests_on: SmallVec<[Transno; 4]>,
}

#[cfg_attr(test, derive(Clone))]
struct Change {
    client: ClientUuid,
    xid: Option<Xid>,
    /// Its answer is not on its way yet.
    held: bool,
    redo: Option<Bytes>,
    data: Pieces,
    /// Changes that must come before it, among them the previous one of the same client as long as
    /// that may not have the answer.
    rests_on: SmallVec<[Transno; 4]>,
}

/// See the module.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct VolatileChanges {
    /// A client came over the network.
    watched: bool,
    /// Everything up to here is durable.
    committed: Transno,
    changes: InOrder<Change>,
    /// The change that destroyed an inode, as long as it is not durable: nothing else is left to
    /// show it.
    destroyed: HashMap<Fid, Transno>,
    /// The same, oldest first.
    destroyed_in: VecDeque<(Transno, Fid)>,
    /// By directory and name, the last change of where the name leads, as long as it is not
    /// durable. The record of the directory does not tell it: each name of a directory changes
    /// apart from the others.
    named: HashMap<Fid, BTreeMap<Arc<[u8]>, Transno>>,
    /// All such changes, oldest first.
    named_in: VecDeque<(Transno, Fid, Arc<[u8]>)>,
}

impl VolatileChanges {
    /// The change that destroyed this inode; `None`: that is durable, or it never was.
    pub(crate) fn destroyed_by(&self, fid: Fid) -> Option<Transno> {
        self.destroyed.get(&fid).copied()
    }

    /// The change that made this name lead where it leads; `None`: that is durable.
    pub(crate) fn named_by(&self, dir: Fid, name: &[u8]) -> Option<Transno> {
        self.named.get(&dir)?.get(name).copied()
    }

    /// The changes of names of a directory that are not durable, of those in `range`.
    pub(crate) fn names_in<'a>(
        &'a self,
        dir: Fid,
        range: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    ) -> impl Iterator<Item = Transno> + 'a {
        self.named
            .get(&dir)
            .into_iter()
            .flat_map(move |names| names.range::<[u8], _>(range))
            .map(|(_, by)| *by)
    }

    /// Whether the client that gets the answer to this request, which shows this change, must be
    /// able to bring the change back. `None`: it is durable.
    pub(crate) fn concern(
        &self,
        transno: Transno,
        (client, xid): (ClientUuid, Xid),
    ) -> Option<bool> {
        let change = self.changes.get(transno)?;
        Some(change.client != client || change.held && change.xid != Some(xid))
    }

    /// True if [`VolatileChanges::concern`] says so.
    pub(crate) fn concerns(&self, transno: Transno, asks: (ClientUuid, Xid)) -> bool {
        self.concern(transno, asks).unwrap_or(false)
    }

    /// The changes that the client must keep if it is told of these: all of them that concern it
    /// and what they rest on, oldest first. `None`: it is too much, or no client can bring it back.
    pub(crate) fn to_keep(
        &self,
        depends: &[Transno],
        asks: (ClientUuid, Xid),
    ) -> Option<Vec<Redo>> {
        let mut all = BTreeMap::new();
        let mut bytes = 0;
        let mut next: BTreeSet<Transno> = depends.iter().copied().collect();
        while let Some(transno) = next.pop_last() {
            if !self.concerns(transno, asks) {
                continue;
            }
            let Change { redo, data, rests_on, .. } = self.changes.get(transno)?;
            let mut redo = redo.clone()?;
            bytes += redo.len() + data.iter().map(Bytes::len).sum::<usize>();
            if !data.is_empty() && bytes <= REDO_OF_OTHERS_BYTES_MAX {
                redo = with_data(&redo, data.iter().map(|data| &data[..])).into();
            }
            all.insert(transno, redo);
            if all.len() > BROUGHT_MAX || bytes > REDO_OF_OTHERS_BYTES_MAX {
                return None;
            }
            if !is_mutant(Mutant::RedoAlone) {
                next.extend(rests_on);
            }
        }
        Some(all.into_iter().map(|(transno, bytes)| Redo::whole(transno, bytes)).collect())
    }

    #[cfg(test)]
    pub(super) fn has_no_names(&self) -> bool {
        self.named.is_empty() && self.named_in.is_empty()
    }

    /// True if no answer has to wait, whatever it shows.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// True if changes are watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// From now on changes are watched.
    pub(super) fn watch(&mut self) {
        self.watched = true;
    }

    /// True if a change with this number must be noted.
    pub(super) fn concerns_any(&self, transno: Transno) -> bool {
        self.watched && transno > self.committed
    }

    /// Notes a change; what it rests on is complete.
    pub(super) fn insert(&mut self, applied: Applied) {
        let Applied { transno, client, xid, redo, data, rests_on } = applied;
        let held = xid.is_some();
        self.changes.insert(transno, Change { client, xid, held, redo, data, rests_on });
    }

    /// The present change destroys an inode.
    pub(super) fn destroys(&mut self, transno: Transno, fid: Fid) {
        if self.watched {
            self.destroyed.insert(fid, transno);
            self.destroyed_in.push_back((transno, fid));
        }
    }

    /// The present change makes this name lead elsewhere, or nowhere.
    pub(super) fn names(&mut self, transno: Transno, dir: Fid, name: &[u8]) {
        if self.watched {
            let name = Arc::<[u8]>::from(name);
            self.named.entry(dir).or_default().insert(name.clone(), transno);
            self.named_in.push_back((transno, dir, name));
        }
    }

    /// The author has the answer that tells of a change.
    pub(super) fn known(&mut self, transno: Transno) {
        if is_mutant(Mutant::AuthorLives) {
            self.changes.remove(transno);
        }
        self.sent(transno);
    }

    /// The answer that tells of a change is on its way.
    pub(super) fn sent(&mut self, transno: Transno) {
        if let Some(change) = self.changes.get_mut(transno) {
            change.held = false;
        }
    }

    /// Everything up to `last` is durable: takes one more change for which that is news, with its
    /// client and request.
    pub(super) fn pop_committed(
        &mut self,
        last: Transno,
    ) -> Option<(Transno, ClientUuid, Option<Xid>)> {
        self.committed = self.committed.max(last);
        while let Some((_, fid)) = self.destroyed_in.front().filter(|(by, _)| *by <= last) {
            self.destroyed.remove(fid);
            self.destroyed_in.pop_front();
        }
        while self.named_in.front().is_some_and(|(by, ..)| *by <= last)
            && let Some((_, dir, name)) = self.named_in.pop_front()
        {
            let Some(names) = self.named.get_mut(&dir) else { continue };
            if names.get(&name).is_some_and(|by| *by <= last) {
                names.remove(&name);
            }
            if names.is_empty() {
                self.named.remove(&dir);
            }
        }
        let (transno, Change { client, xid, .. }) = self.changes.pop_up_to(last)?;
        Some((transno, client, xid))
    }
}
