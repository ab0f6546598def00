//! What an MDT keeps in memory only, behind one mutex.

use crate::acks::{AckAction, AckEvent, Acks};
use crate::bundles::Bundles;
use crate::dir_growth::DirGrowth;
use crate::held_names::HeldNames;
use crate::last_found::LastFound;
use crate::locks::Locks;
use crate::locks::context::{LockContext, LockRequest};
use crate::locks::groups::Groups;
use crate::opens::Opens;
use crate::records::fids::Fids;
use crate::went::Went;
use env::clock::Monotonic;
use foldhash::HashSet;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::bundle::BundleId;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::session::{ClientUuid, Transno};

/// State that is in memory only. It is lost at a crash; `recovery` describes the consequences.
pub struct State {
    /// Open handles.
    pub opens: Opens,
    /// Inode-bit locks.
    pub locks: Locks,
    /// Inodes without a name that a client has open, by a handle or under OPEN.
    pub orphans: HashSet<Fid>,
    /// What is known of answers. Tell it by [`State::acknowledge`].
    pub(crate) acks: Acks,
    /// Its actions that are still to be done.
    ack_actions: Vec<AckAction>,
    /// New FIDs.
    pub fids: Fids,
    /// Directories whose names move between their stripes, and whose first stripe is here.
    pub moving: BTreeSet<Fid>,
    /// Directories that went to other MDTs.
    pub(crate) went: Went,
    /// How fast directories grow.
    pub(crate) growth: DirGrowth,
    /// Recovery is not over: orphans may be opened again.
    pub recovering: bool,
    /// Files whose objects are being cut: no client may begin to write them.
    pub cutting: HashSet<Fid>,
    /// Operations over several MDTs.
    pub(crate) bundles: Bundles,
    /// Names that other clients must not change for a moment.
    pub(crate) held_names: HeldNames,
    /// Changes that found an inode and are not durable.
    pub(crate) last_found: LastFound,
    /// Changes up to here were made before those of names were watched.
    pub(crate) unwatched: Transno,
    /// Buffer for encoding records.
    pub scratch: Vec<u8>,
}

impl State {
    pub(crate) fn new(
        fids: Fids,
        (author_grace, names_held): (Duration, Duration),
        groups: Arc<Groups>,
        bundles: Bundles,
    ) -> State {
        State {
            opens: Opens::default(),
            locks: Locks::new(groups),
            orphans: HashSet::default(),
            moving: BTreeSet::new(),
            went: Went::default(),
            growth: DirGrowth::default(),
            acks: Acks::new(author_grace),
            ack_actions: Vec::new(),
            fids,
            recovering: false,
            cutting: HashSet::default(),
            bundles,
            held_names: HeldNames::new(names_held),
            last_found: LastFound::default(),
            unwatched: Transno(0),
            scratch: Vec::new(),
        }
    }

    /// True if a client may still have bytes of a file that it has not stored: it has the file open
    /// for writing, or holds WRITE.
    pub(crate) fn may_store(&self, client: ClientUuid, fid: Fid) -> bool {
        self.opens.is_writing(client, fid)
            || self.locks.table.shown(fid, client).contains(InodeBits::WRITE)
    }

    /// A bundle is over that changed nothing here. The names that it had pinned are held from this
    /// moment for the second try of this client; [`ClientUuid::default`]: they are not.
    pub(crate) fn unpin_and_hold(&mut self, id: BundleId, client: ClientUuid, now: Monotonic) {
        let State { bundles, held_names, .. } = self;
        if client != ClientUuid::default() {
            let names: Vec<(Fid, &Name)> = bundles.pins.names_of(id).collect();
            if held_names.hold(client, &names, now).is_err() {
                tracing::debug!(bundle = %id, "another client holds names: these are not held");
            }
        }
        bundles.pins.unpin(id);
    }

    /// Something became known of answers. To be called within `Mds::with_state`, which carries out
    /// what follows.
    pub(crate) fn acknowledge(&mut self, event: AckEvent<'_>) {
        self.acks.apply(event, &mut self.ack_actions);
    }

    /// A request says which answers its client has. That of a client on the network said so when it
    /// arrived (`Mds::arrived`).
    pub(crate) fn acknowledge_here(&mut self, request: &LockContext) {
        if request.durability.origin.is_none() {
            let LockRequest { client, xids: (_, known), now, .. } = request.asked;
            self.acknowledge(AckEvent::Known { client, known, now });
        }
    }

    /// Does what is to be done under the lock of the state. Returns whether waiting answers are to
    /// be woken, and the inodes that no client may believe open any more.
    pub(crate) fn take_acks(&mut self) -> (bool, Vec<Fid>) {
        let (mut wake, mut closed) = (false, Vec::new());
        for action in self.ack_actions.drain(..) {
            match action {
                AckAction::Wake => wake = true,
                AckAction::Close(fid) => closed.push(fid),
                AckAction::Release(fid) => self.locks.not_shown(fid),
            }
        }
        (wake, closed)
    }

    /// True if there are actions to carry out.
    pub(crate) fn has_work(&self) -> bool {
        !self.ack_actions.is_empty() || self.locks.has_work()
    }
}
