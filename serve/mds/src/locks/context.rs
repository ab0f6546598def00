//! The locks' side of one operation: what its client may be granted, what was granted, what it
//! changed, and what was in its way.

use crate::acks::kept_replies::Origin;
use crate::acks::unacked::Changed;
use dlm::ibits::{Change, Modifier};
use namespace::view;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::time::Duration;
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

/// What must be over before an operation can be applied.
pub(crate) enum Obstacle {
    /// The objects of this file are being cut.
    Cut(Fid),
    /// Other clients hold what it changes.
    Locks(Vec<Change>),
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
pub(crate) struct LockContext {
    /// The author; [`ClientUuid::default`]: the MDT itself.
    pub(crate) client: ClientUuid,
    /// Bits that the reply may grant.
    pub(crate) mask: InodeBits,
    /// The operation has entered the table of locks.
    pub(crate) modifier: Option<Modifier>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) gap: Option<Gap>,
    pub(crate) touched: Vec<Entry>,
    /// The operation changed nothing: it must be run again when the obstacle is gone.
    pub(crate) obstacle: Option<Obstacle>,
    /// The operation stores bytes of a file just now.
    pub(crate) storing: Option<Storing>,
    /// An operation of the request stored what is being called back from its client: the answer
    /// must not wait for other clients, which may themselves be waiting for this one.
    pub(crate) urgent: bool,
    /// Inodes that the operation showed and whose size another client knows, with the bits that
    /// the operation grants where it can.
    pub(crate) written_elsewhere: Vec<(Fid, InodeBits)>,
    /// Changes that the operation looked at and that their authors may not know yet.
    pub(crate) seen: Vec<(ClientUuid, Changed)>,
    /// Number of the request, and the number below which its client has all answers.
    pub(crate) xids: (Xid, Xid),
    pub(crate) now: Duration,
    /// The request, if it comes over the network: its changes are recovered after a crash.
    pub(crate) origin: Option<Origin>,
    /// Inodes that the running transaction changed, and the versions that they had; 0 = there was
    /// none.
    pub(crate) found: Vec<(Fid, u64)>,
    /// Shown versions that others may not have seen.
    pub(crate) depends: RefCell<SmallVec<[Transno; 4]>>,
    /// Redo that the client must keep.
    pub(crate) redo: Vec<Redo>,
}

impl LockContext {
    /// For a client that can keep `mask`.
    pub(crate) fn new(client: ClientUuid, mask: InodeBits) -> LockContext {
        LockContext {
            client,
            mask,
            modifier: None,
            grants: Vec::new(),
            gap: None,
            touched: Vec::new(),
            obstacle: None,
            storing: None,
            urgent: false,
            written_elsewhere: Vec::new(),
            seen: Vec::new(),
            xids: (Xid(0), Xid(0)),
            now: Duration::ZERO,
            origin: None,
            found: Vec::new(),
            depends: RefCell::default(),
            redo: Vec::new(),
        }
    }

    /// The client, and the number of its request.
    pub(crate) fn asks(&self) -> (ClientUuid, Xid) {
        (self.client, self.xids.0)
    }

    /// For the MDT itself.
    pub(crate) fn own() -> LockContext {
        LockContext::new(ClientUuid::default(), InodeBits::NONE)
    }

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
        match self.touched.iter_mut().rev().take(RECENT).find(|touched| touched.attr.fid == entry.attr.fid) {
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

/// Changes as the table of locks takes them.
pub(crate) fn owned(changes: &[view::Change<'_>]) -> Result<Vec<Change>, Errno> {
    let owned = |change: &view::Change<'_>| {
        let names = change.names.iter().flatten().map(|name| Name::new(name));
        Ok(Change { fid: change.fid, bits: change.bits, names: names.collect::<Result<_, Errno>>()? })
    };
    changes.iter().map(owned).collect()
}
