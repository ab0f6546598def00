//! The locks' side of one operation: what is asked ([`LockRequest`]), what came of it
//! ([`LockOutcome`]), and what it rests on ([`Durability`]).
//!
//! All three belong to one request and go from one of its operations to the next, except where a
//! field says that it belongs to one operation.

use crate::acks::Pieces;
use crate::acks::kept_replies::Origin;
use crate::acks::unacked::Changed;
use crate::held_names::InTheWay;
use crate::locks::refused::Refused;
use crate::realm::Realm;
use disk::redo::Found;
use dlm::ibits::{Change, Modifier};
use namespace::view;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::GRANTS_PER_REPLY_MAX;
use types::lock::InodeBits;
use types::name::Name;
use types::session::{ClientUuid, Transno, Xid};
use wire::mds::Entry;
use wire::message::{Gap, Grant, Redo};

/// Number of grants and touched inodes at the end of a reply that are searched for an inode. If a
/// request comes back to one later, the reply has it twice, and the later one counts.
const RECENT: usize = 8;

/// Bits of a file that another client writes. They are granted late, when the last writer has given
/// WRITE back. Whether a client may have other bits (OPEN, WRITE) was decided when the operation
/// ran, and may be otherwise by now.
pub(crate) const OF_WRITERS: InodeBits = InodeBits::DATA.union(InodeBits::UPDATE);

/// What must be over before an operation can be applied.
pub(crate) enum Obstacle {
    /// The objects of this file are being cut.
    Cut(Fid),
    /// Other clients hold what it changes.
    Locks(Vec<Change>),
    /// An operation over several MDTs has pinned some of what it changes.
    Pinned(BundleId),
    /// Another client is about to try again to change a name.
    Held(InTheWay),
}

/// What a client may pass by while it stores bytes of a file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Storing {
    /// The client is one of the shared writers of this file, and changes what the writers share.
    pub(crate) shared_file: Option<Fid>,
    /// The operation must not wait for other clients.
    pub(crate) urgent: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct LockContext {
    pub(crate) asked: LockRequest,
    pub(crate) outcome: LockOutcome,
    pub(crate) durability: Durability,
}

/// What is asked, by which client, and when.
#[derive(Clone, Copy, Default)]
pub(crate) struct LockRequest {
    /// The author; [`ClientUuid::default`]: the MDT itself.
    pub(crate) client: ClientUuid,
    /// Bits that the reply may grant.
    pub(crate) mask: InodeBits,
    /// Number of the request, and the number below which its client has all answers.
    pub(crate) xids: (Xid, Xid),
    /// Time of the monotonic clock at which the running transaction began.
    pub(crate) now: Duration,
    /// Of one operation: it has entered the table of locks under this name
    /// ([`LockContext::entered_as`]).
    pub(crate) modifier: Option<Modifier>,
    /// Of one operation: it stores bytes just now (`Records::storing`).
    pub(crate) storing: Option<Storing>,
    /// Of one operation: writers of what it shows store what they have written before they tell
    /// its size.
    pub(crate) stored: bool,
    /// Of one operation: writers of what it shows give WRITE back.
    pub(crate) pause: bool,
    /// It is part of this operation over several MDTs: what that has pinned is not in its way. The
    /// client's own locks are, for another MDT may show the change before the client is answered.
    pub(crate) bundle: Option<BundleId>,
    /// Of a part of an operation over several MDTs: the client that asks for it at another MDT, for
    /// which names may be held here; [`ClientUuid::default`]: none does.
    pub(crate) on_behalf_of: ClientUuid,
    /// Names pass to other stripes though clients hold some.
    pub(crate) pass_held: bool,
    /// What its client reaches.
    pub(crate) realm: Realm,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct LockOutcome {
    /// Bits that the client is granted.
    pub(crate) grants: Vec<Grant>,
    /// Bits that it went without when it was shown something.
    pub(crate) refused: Refused,
    /// Absent names that it is granted.
    pub(crate) gap: Option<Gap>,
    /// Inodes that were changed and are not in the results.
    pub(crate) touched: Vec<Entry>,
    /// Of one operation, which changed nothing: it must be run again when the obstacle is gone.
    pub(crate) obstacle: Option<Obstacle>,
    /// Of one operation: inodes that it showed and whose size another client knows, with the bits
    /// that it grants where it can.
    pub(crate) written_elsewhere: BTreeMap<Fid, InodeBits>,
    /// Changes that were looked at and that their authors may not know yet.
    pub(crate) seen: Vec<(ClientUuid, Changed)>,
    /// An operation stored what is being called back from its client, or reads for pages that a
    /// callback waits for: the answer must not wait for other clients, which may themselves be
    /// waiting for this one.
    pub(crate) urgent: bool,
}

/// What recovery needs of it.
#[derive(Default)]
pub(crate) struct Durability {
    /// The request, if it comes over the network: its changes are recovered after a crash.
    pub(crate) origin: Option<Origin>,
    /// What the running change has read.
    pub(crate) found: RefCell<Found>,
    /// Changes of others that are shown, or that an operation builds on, and that are not durable.
    pub(crate) depends: RefCell<SmallVec<[Transno; 4]>>,
    /// The client's own ones on which an operation builds.
    pub(crate) own: RefCell<SmallVec<[Transno; 4]>>,
    /// Of the running change: bytes of files that it was brought, and that its redo may name.
    pub(crate) data: Option<AuthorData>,
    /// Redo that the client must keep, with the data that it names.
    pub(crate) redo: Vec<(Redo, Pieces)>,
}

/// Data that an operation of a request brought.
pub(crate) struct AuthorData {
    /// The so-and-so-many-th of the request, from 1.
    pub(crate) op: u32,
    /// The data.
    pub(crate) pieces: Pieces,
}

impl LockContext {
    /// For a client that can keep `mask`.
    pub(crate) fn new(client: ClientUuid, mask: InodeBits) -> LockContext {
        LockContext {
            asked: LockRequest { client, mask, ..LockRequest::default() },
            ..LockContext::default()
        }
    }

    /// For the MDT itself.
    pub(crate) fn own() -> LockContext {
        LockContext::default()
    }
}

impl AsMut<LockContext> for LockContext {
    fn as_mut(&mut self) -> &mut LockContext {
        self
    }
}

impl LockRequest {
    /// The client, and the number of its request.
    pub(crate) fn of(&self) -> (ClientUuid, Xid) {
        (self.client, self.xids.0)
    }

    /// The client whose held names are not in the way. [`ClientUuid::default`]: none is.
    pub(crate) fn tries(&self) -> ClientUuid {
        if self.client == ClientUuid::default() { self.on_behalf_of } else { self.client }
    }

    /// The client whose own locks are not in the way; none: [`ClientUuid::default`].
    pub(crate) fn spared(&self) -> ClientUuid {
        if self.bundle.is_some() { ClientUuid::default() } else { self.client }
    }
}

impl LockOutcome {
    /// True if the reply has room for one more inode.
    pub(crate) fn has_room(&self) -> bool {
        self.grants.len() < GRANTS_PER_REPLY_MAX && self.touched.len() < GRANTS_PER_REPLY_MAX
    }

    /// These bits were granted.
    pub(crate) fn granted(&mut self, fid: Fid, bits: InodeBits) {
        if bits.is_empty() {
            return;
        }
        match self.grants.iter_mut().rev().take(RECENT).find(|grant| grant.fid == fid) {
            Some(grant) => grant.bits = grant.bits.union(bits),
            None => self.grants.push(Grant { fid, bits }),
        }
    }

    /// Notes that this inode was changed.
    pub(crate) fn touch(&mut self, entry: Entry) {
        let room = self.has_room();
        match self
            .touched
            .iter_mut()
            .rev()
            .take(RECENT)
            .find(|touched| touched.attr.fid == entry.attr.fid)
        {
            Some(touched) => *touched = entry,
            None if room => self.touched.push(entry),
            None => {}
        }
    }

    /// This inode is shown in the results, or was destroyed.
    pub(crate) fn untouch(&mut self, fid: Fid) {
        let at = self.touched.iter().rev().take(RECENT).position(|touched| touched.attr.fid == fid);
        if let Some(back) = at {
            self.touched.remove(self.touched.len() - 1 - back);
        }
    }

    /// Others hold what is to be changed.
    pub(crate) fn held_up(&mut self, changes: &[view::Change<'_>]) -> Errno {
        match owned(changes) {
            Ok(changes) => {
                self.obstacle = Some(Obstacle::Locks(changes));
                Errno::EAGAIN
            }
            Err(errno) => errno,
        }
    }
}

impl Durability {
    /// The results show these versions, or an operation builds on them.
    pub(crate) fn depend_on(&self, versions: impl IntoIterator<Item = Transno>) {
        let mut depends = self.depends.borrow_mut();
        let before = depends.len();
        depends.extend(versions);
        if depends.len() > before {
            depends.sort_unstable();
            depends.dedup();
        }
    }

    /// An operation builds on these changes, which its own client made.
    pub(crate) fn builds_on(&self, changes: impl IntoIterator<Item = Transno>) {
        let mut own = self.own.borrow_mut();
        for change in changes {
            if own.last() != Some(&change) {
                own.push(change);
            }
        }
    }

    /// All changes on which the next one rests.
    pub(crate) fn rests_on(&self) -> SmallVec<[Transno; 4]> {
        let mut all = self.depends.borrow().clone();
        all.extend_from_slice(&self.own.borrow());
        all
    }
}

/// Changes as the table of locks takes them.
pub(crate) fn owned(changes: &[view::Change<'_>]) -> Result<Vec<Change>, Errno> {
    let owned = |change: &view::Change<'_>| {
        let names = change.names.iter().flatten().map(|name| Name::new(name));
        Ok(Change {
            fid: change.fid,
            bits: change.bits,
            names: names.collect::<Result<_, Errno>>()?,
        })
    };
    changes.iter().map(owned).collect()
}
