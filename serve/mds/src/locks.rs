//! Inode-bit locks of clients: `dlm::ibits` decides, and these modules ask the holders and wake the
//! waiting operations.
//!
//! The table is a part of [`State`](crate::state::State), so that what a reply shows and what it
//! grants always agree. Actions of the table are noted there and carried out when that lock is free
//! again ([`callbacks`]). An operation that finds holders in its way waits for them ([`turns`]).

pub(crate) mod callbacks;
pub(crate) mod context;
pub(crate) mod extents;
pub mod flocks;
pub mod groups;
pub(crate) mod refused;
pub(crate) mod shared_writers;
pub(crate) mod stats;
pub(crate) mod turns;
pub mod waits;

use crate::locks::groups::Groups;
use crate::locks::shared_writers::{SHARED, SHARED_BITS, SharedWriters, Turn};
use dlm::extents::ExtentAction;
use dlm::ibits::{Action, Change, IbitsTable, Modifier, Names};
use dlm::leases::LeaseTable;
use env::clock::Monotonic;
use foldhash::HashMap;
use namespace::view;
use rpc::service::Export;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use types::fid::Fid;
use types::limits::LEASES_MAX;
use types::lock::InodeBits;
use types::ranges::ByteRange;
use types::session::ClientUuid;

/// All inode-bit locks of an MDT, and the operations that wait for holders.
pub struct Locks {
    /// The table of holders.
    pub(crate) table: IbitsTable,
    /// Actions of the table that are still to be done.
    pub(crate) actions: Vec<Action>,
    pub(crate) exports: HashMap<ClientUuid, Arc<Export>>,
    /// Groups that files' data belongs to.
    pub(crate) groups: Arc<Groups>,
    /// Leases, by client and the client's name of the open file.
    pub(crate) leases: LeaseTable<(ClientUuid, u64)>,
    /// Byte ranges of files that several clients write.
    pub(crate) shared_writers: SharedWriters,
    waiting: HashMap<Modifier, oneshot::Sender<()>>,
    /// Operations that wait for their turn: cause ([`observe::cause`]) and beginning.
    pub(crate) waits: BTreeMap<Modifier, (u64, Monotonic)>,
    last: u64,
}

/// The callbacks to one client.
struct Callbacks {
    export: Arc<Export>,
    revokes: Vec<(Fid, InodeBits)>,
    changing: Vec<(Modifier, Fid, Names)>,
    extents: Vec<(Fid, ByteRange)>,
}

impl Locks {
    /// No locks.
    pub(crate) fn new(groups: Arc<Groups>) -> Locks {
        let mut table = IbitsTable::default();
        table.connect(SHARED);
        Locks {
            table,
            actions: Vec::new(),
            exports: HashMap::default(),
            groups,
            leases: LeaseTable::with_bound(LEASES_MAX),
            shared_writers: SharedWriters::default(),
            waiting: HashMap::default(),
            waits: BTreeMap::new(),
            last: 0,
        }
    }

    /// A name for one more operation.
    fn new_modifier(&mut self) -> Modifier {
        self.last += 1;
        Modifier(self.last)
    }

    /// Waits (once more) for the turn of an operation.
    pub(crate) fn wait_for(&mut self, modifier: Modifier) -> oneshot::Receiver<()> {
        let (sender, ready) = oneshot::channel();
        self.waiting.insert(modifier, sender);
        ready
    }

    /// A client that is itself being called back, and so must not wait for others, changes bits
    /// that others hold. They are called back nevertheless, and will know a moment later.
    pub(crate) fn enter_and_leave(
        &mut self,
        client: ClientUuid,
        changes: Vec<Change>,
        now: Monotonic,
    ) {
        let modifier = self.new_modifier();
        self.table.enter(modifier, client, changes, now, &mut self.actions);
        self.table.leave(modifier, &mut self.actions);
    }

    /// True if the mount of `client`, which is about to change this, may show the state before
    /// until it has the answer, and another client could find that out.
    pub(crate) fn may_show_old(&self, client: ClientUuid, changes: &[view::Change<'_>]) -> bool {
        // Also bits that are being called back from it: until it has answered, it shows what they
        // cover.
        let covers = |change: &view::Change<'_>| {
            self.table.shown(change.fid, client).intersects(change.bits)
        };
        // A client that is alone can surprise no other; and without a lock its mount shows nothing
        // without asking.
        self.exports.len() > 1 && changes.iter().any(covers)
    }

    /// An inode was destroyed: its locks go, except those of clients that may still show a name of
    /// it.
    pub(crate) fn destroyed(&mut self, fid: Fid, show: &[ClientUuid]) {
        self.table.destroyed(fid, |client| show.contains(&client), &mut self.actions);
        self.shared_writers.table.forget(fid, &mut self.shared_writers.actions);
    }

    /// No client shows a name of a destroyed inode any more: its last locks go.
    pub(crate) fn not_shown(&mut self, fid: Fid) {
        self.table.destroyed(fid, |_| false, &mut self.actions);
    }

    /// True if there are actions to carry out.
    pub(crate) fn has_work(&self) -> bool {
        !self.actions.is_empty() || !self.shared_writers.actions.is_empty()
    }

    /// The clients, except `client`, that write these inodes and so must be asked for size and
    /// times.
    pub(crate) fn writers(&self, client: ClientUuid, fids: &[Fid]) -> Vec<(Arc<Export>, Vec<Fid>)> {
        let mut writers: BTreeMap<ClientUuid, Vec<Fid>> = BTreeMap::new();
        for fid in fids {
            for writer in self.writers_of(*fid, client) {
                writers.entry(writer).or_default().push(*fid);
            }
        }
        let export = |(client, fids)| Some((self.exports.get(&client)?.clone(), fids));
        writers.into_iter().filter_map(export).collect()
    }

    /// Asks a client to give back all that it holds.
    pub(crate) fn revoke_all(&mut self, client: ClientUuid) {
        self.table.revoke_all(client, &mut self.actions);
    }

    /// The session of a client.
    pub(crate) fn export(&self, client: ClientUuid) -> Option<&Arc<Export>> {
        self.exports.get(&client)
    }

    /// A session began, or goes on.
    pub(crate) fn connect(&mut self, export: &Arc<Export>) {
        self.table.connect(export.client());
        self.exports.insert(export.client(), export.clone());
    }

    /// A session ended: what its client held.
    pub(crate) fn gone(&mut self, client: ClientUuid, now: Monotonic) -> Vec<(Fid, InodeBits)> {
        self.exports.remove(&client);
        self.leases.gone(|(holder, _)| *holder == client);
        let mut held = self.table.gone(client, &mut self.actions);
        let written = self.shared_writers.table.gone(client, now, &mut self.shared_writers.actions);
        held.extend(written.into_iter().map(|fid| (fid, InodeBits::WRITE)));
        held
    }

    /// Wakes the operations that are ready; returns the callbacks to make.
    fn take(&mut self) -> Vec<Callbacks> {
        let mut asked: BTreeMap<ClientUuid, Callbacks> = BTreeMap::new();
        // A shared owner's action may give others their turn in the table, and the other way round.
        while self.has_work() {
            self.take_of_table(&mut asked);
            self.take_of_shared_writers(&mut asked);
        }
        asked.into_values().collect()
    }

    fn take_of_shared_writers(&mut self, asked: &mut BTreeMap<ClientUuid, Callbacks>) {
        for action in std::mem::take(&mut self.shared_writers.actions) {
            match action {
                ExtentAction::Granted(ticket, ranges) => {
                    self.shared_writers.tell(ticket, Turn::Granted(ranges.into_vec()))
                }
                ExtentAction::Again(ticket) => self.shared_writers.tell(ticket, Turn::Again),
                ExtentAction::Over(fid) => {
                    _ = self.table.dropped(fid, SHARED, SHARED_BITS, &mut self.actions)
                }
                ExtentAction::Revoke(client, fid, range) => {
                    if let Some(export) = self.exports.get(&client) {
                        asked
                            .entry(client)
                            .or_insert_with(|| Callbacks::to(export))
                            .extents
                            .push((fid, range));
                    }
                }
            }
        }
    }

    fn take_of_table(&mut self, asked: &mut BTreeMap<ClientUuid, Callbacks>) {
        for action in self.actions.drain(..) {
            let (client, action) = match action {
                Action::Revoke(SHARED, fid, _) => {
                    self.shared_writers.table.call_back(fid, &mut self.shared_writers.actions);
                    continue;
                }
                Action::Ready(modifier) | Action::Cancelled(modifier) => {
                    if let Some(waiting) = self.waiting.remove(&modifier) {
                        // The receiver is gone: the request was dropped, and is about to leave.
                        let _ = waiting.send(());
                    }
                    continue;
                }
                Action::Revoke(client, ..) | Action::Changing(_, client, ..) => (client, action),
            };
            let Some(export) = self.exports.get(&client) else { continue };
            let callbacks = asked.entry(client).or_insert_with(|| Callbacks::to(export));
            match action {
                Action::Revoke(_, fid, bits) => callbacks.revokes.push((fid, bits)),
                Action::Changing(modifier, _, fid, names) => {
                    callbacks.changing.push((modifier, fid, names))
                }
                Action::Ready(_) | Action::Cancelled(_) => {}
            }
        }
    }
}

impl Callbacks {
    fn to(export: &Arc<Export>) -> Callbacks {
        Callbacks {
            export: export.clone(),
            revokes: Vec::new(),
            changing: Vec::new(),
            extents: Vec::new(),
        }
    }
}

/// The moment at which holders are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// In this very poll, as far as possible.
    Now,
    /// From a task.
    Later,
}
