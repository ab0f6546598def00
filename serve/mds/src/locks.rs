//! Inode-bit locks of clients: `dlm::ibits` decides, and this module asks the holders and wakes the
//! waiting operations.
//!
//! The table is a part of [`State`](crate::mds::State), so that what a reply shows and what it
//! grants always agree. Actions of the table are noted there and carried out when that lock is free
//! again. Callbacks run in tasks of their own (one per client and step, first polled in place). A
//! task ends with the client's answer, with its session, or after `MdsSettings::callback_max`, when
//! the client is evicted. So an operation waits for holders no longer than that.

use crate::acks::AckEvent;
use crate::acks::unacked::Changed;
use crate::groups::Groups;
use crate::lock_context::{LockContext, Obstacle};
use crate::lock_stats::micros;
use crate::mds::{Mds, RequestContext, State};
use crate::shared_writers::{SHARED, SHARED_BITS, SharedWriters, Turn};
use crate::waits::Noted;
use dlm::extents;
use dlm::ibits::{Action, Change, IbitsTable, Modifier, Names};
use dlm::leases::LeaseTable;
use env::clock::Monotonic;
use foldhash::HashMap;
use namespace::view;
use rpc::service::Export;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{LEASES_MAX, REVOKES_PER_CALLBACK_MAX};
use types::lock::InodeBits;
use types::ranges::ByteRange;
use types::session::ClientUuid;
use wire::client::{ClientOp, ClientReply};

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

    /// A name for one more operation, and the receiver that tells it of its turn.
    pub(crate) fn new_modifier(&mut self) -> (Modifier, oneshot::Receiver<()>) {
        self.last += 1;
        let modifier = Modifier(self.last);
        (modifier, self.wait_for(modifier))
    }

    /// Waits (once more) for the turn of an operation.
    pub(crate) fn wait_for(&mut self, modifier: Modifier) -> oneshot::Receiver<()> {
        let (sender, ready) = oneshot::channel();
        self.waiting.insert(modifier, sender);
        ready
    }

    /// A client that is itself being called back, and so must not wait for others, changes bits
    /// that others hold. They are called back nevertheless, and will know a moment later.
    pub(crate) fn enter_and_leave(&mut self, client: ClientUuid, changes: Vec<Change>, now: Monotonic) {
        self.last += 1;
        self.table.enter(Modifier(self.last), client, changes, now, &mut self.actions);
        self.table.leave(Modifier(self.last), &mut self.actions);
    }

    /// True if the mount of `client`, which is about to change this, may show the state before
    /// until it has the answer, and another client could find that out.
    pub(crate) fn may_show_old(&self, client: ClientUuid, changes: &[view::Change<'_>]) -> bool {
        // Also bits that are being called back from it: until it has answered, it shows what they
        // cover.
        let covers =
            |change: &view::Change<'_>| !self.table.shown(change.fid, client).intersection(change.bits).is_empty();
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
                extents::ExtentAction::Granted(ticket, ranges) => {
                    self.shared_writers.tell(ticket, Turn::Granted(ranges.into_vec()))
                }
                extents::ExtentAction::Again(ticket) => self.shared_writers.tell(ticket, Turn::Again),
                extents::ExtentAction::Over(fid) => {
                    _ = self.table.released(fid, SHARED, SHARED_BITS, &mut self.actions)
                }
                extents::ExtentAction::Revoke(client, fid, range) => {
                    if let Some(export) = self.exports.get(&client) {
                        asked.entry(client).or_insert_with(|| Callbacks::to(export)).extents.push((fid, range));
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
                Action::Changing(modifier, _, fid, names) => callbacks.changing.push((modifier, fid, names)),
                Action::Ready(_) | Action::Cancelled(_) => {}
            }
        }
    }
}

impl Callbacks {
    fn to(export: &Arc<Export>) -> Callbacks {
        Callbacks { export: export.clone(), revokes: Vec::new(), changing: Vec::new(), extents: Vec::new() }
    }
}

/// What a client leaves behind when its session ends.
pub(crate) struct LeftBehind {
    /// Removed inodes that it kept.
    pub(crate) orphans: Vec<Fid>,
    /// Files whose data it had to itself.
    pub(crate) written: Vec<Fid>,
}

/// One operation among those that entered; it leaves when this is dropped.
pub(crate) struct Entered<'a> {
    pub(crate) mds: &'a Mds,
    pub(crate) modifier: Modifier,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut state = self.mds.state.lock();
        let Locks { table, actions, waiting, .. } = &mut state.locks;
        waiting.remove(&self.modifier);
        table.leave(self.modifier, actions);
        // An operation whose turn comes now may ask the client whose reply is just being made:
        // after that reply, if possible.
        self.mds.carry_out(state, When::Later);
    }
}

/// An operation that entered, and its turn.
type Asked<'a> = (Entered<'a>, oneshot::Receiver<()>);

/// The moment at which holders are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// In this very poll, as far as possible.
    Now,
    /// From a task.
    Later,
}

impl Mds {
    /// Carries out the actions of the tables, and gives the lock of the state back.
    pub(crate) fn carry_out(&self, mut state: parking_lot::MutexGuard<'_, State>, when: When) {
        if !state.has_work() {
            return;
        }
        let (wake, closed) = state.take_acks();
        let asked = state.locks.take();
        drop(state);
        if wake {
            self.acknowledged.notify_waiters();
        }
        self.end_orphans(&closed);
        for callbacks in asked {
            self.ask(callbacks, when);
        }
    }

    fn ask(&self, callbacks: Callbacks, when: When) {
        let Callbacks { export, revokes, changing, extents } = callbacks;
        if let Some(stats) = self.lock_stats.get() {
            stats.extents_revoked.add(extents.len() as u64);
            let gaps = revokes.iter().filter(|(_, bits)| bits.contains(InodeBits::GAP));
            stats.gaps_revoked.add(gaps.count() as u64);
        }
        let revokes = revokes.chunks(REVOKES_PER_CALLBACK_MAX).map(|locks| (None, locks.to_vec()));
        let revokes = revokes.map(|(modifier, locks)| (modifier, ClientOp::Revoke { locks }));
        let changing = changing
            .into_iter()
            .map(|(modifier, dir, names)| (Some(modifier), ClientOp::Changing { dir, names: names.into_vec() }));
        let of_bytes = !extents.is_empty();
        let extents = extents.chunks(REVOKES_PER_CALLBACK_MAX);
        let extents = extents.map(|extents| (None, ClientOp::RevokeExtents { extents: extents.to_vec() }));
        for (modifier, op) in revokes.chain(changing).chain(extents) {
            let Some(mds) = self.me.upgrade() else { return };
            let mut asking = Box::pin(mds.call_back(export.clone(), modifier, op));
            // The bits to call back may just have been granted: ask after that reply, if possible.
            if when == When::Now && !of_bytes {
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(()) = asking.as_mut().poll(&mut context) {
                    continue;
                }
            }
            self.env.tasks.spawn("lock callback", asking);
        }
    }

    /// Asks a client and reports its answer to the table.
    async fn call_back(self: Arc<Mds>, export: Arc<Export>, modifier: Option<Modifier>, op: ClientOp) {
        let asked = match &op {
            ClientOp::Revoke { locks } => locks.clone(),
            ClientOp::Changing { dir, .. } => vec![(*dir, InodeBits::UPDATE)],
            ClientOp::Glimpse { .. } | ClientOp::RevokeExtents { .. } => Vec::new(),
        };
        let of_bytes = match &op {
            ClientOp::RevokeExtents { extents } => extents.clone(),
            _ => Vec::new(),
        };
        let Some(answer) = self.answer(&export, op).await else { return };
        let client = export.client();
        let kept = match (answer, modifier) {
            (ClientReply::Done, Some(modifier)) => {
                let mut state = self.state.lock();
                if !export.is_gone() {
                    let Locks { table, actions, .. } = &mut state.locks;
                    asked.iter().for_each(|(dir, _)| table.forgot(modifier, client, *dir, actions));
                }
                self.carry_out(state, When::Now);
                return;
            }
            (ClientReply::Done | ClientReply::Dropped, _) => Vec::new(),
            (ClientReply::Kept(kept), _) => kept,
            (ClientReply::Glimpses(_), _) => {
                self.evict(&export, "it answers a revoke with sizes");
                return;
            }
        };
        if !of_bytes.is_empty() {
            self.extents_released(&export, &of_bytes);
        }
        let keeps = |fid: Fid| kept.iter().any(|(f, bits)| *f == fid && bits.contains(InodeBits::OPEN));
        self.released(&export, &asked, keeps);
    }

    /// A client gives up what it holds of these files by itself.
    pub(crate) fn extents_given_back(&self, export: &Export, files: impl Iterator<Item = Fid>) {
        let now = self.env.clock.now();
        let mut state = self.state.lock();
        if export.is_gone() {
            return;
        }
        let SharedWriters { table, actions, .. } = &mut state.locks.shared_writers;
        files.for_each(|fid| table.given_back(fid, export.client(), ByteRange::ALL, now, actions));
        self.carry_out(state, When::Now);
    }

    /// A client gave up these bytes, as it was asked.
    fn extents_released(&self, export: &Export, extents: &[(Fid, ByteRange)]) {
        let now = self.env.clock.now();
        let mut state = self.state.lock();
        if export.is_gone() {
            return;
        }
        let SharedWriters { table, actions, .. } = &mut state.locks.shared_writers;
        for (fid, range) in extents {
            table.released(*fid, export.client(), *range, now, actions);
        }
        self.carry_out(state, When::Now);
    }

    /// A client dropped these bits, except OPEN where `keeps` says so.
    pub(crate) fn released(&self, export: &Export, bits: &[(Fid, InodeBits)], keeps: impl Fn(Fid) -> bool) {
        let mut state = self.state.lock();
        // The end of the session releases everything; later grants belong to the next one.
        if export.is_gone() {
            return;
        }
        let client = export.client();
        let mut let_go: Vec<Fid> = Vec::new();
        let State { locks: Locks { table, actions, .. }, orphans, .. } = &mut *state;
        for (fid, bits) in bits {
            let mut bits = *bits;
            if bits.contains(InodeBits::OPEN) && keeps(*fid) {
                bits = bits.without(InodeBits::OPEN);
                table.kept(*fid, client, actions);
            }
            let had = table.released(*fid, client, bits, actions);
            if had.contains(InodeBits::OPEN) && orphans.contains(fid) {
                let_go.push(*fid);
            }
        }
        self.carry_out(state, When::Now);
        self.end_orphans(&let_go);
    }

    /// A session ended: its locks are free, and no answer to it matters any more. Returns the work
    /// that this leaves with inodes. `returns`: as [`AckEvent::Gone`] says.
    pub(crate) fn release_all(&self, client: ClientUuid, returns: bool) -> LeftBehind {
        let mut state = self.state.lock();
        state.acknowledge(AckEvent::Gone { client, returns });
        let held = state.locks.gone(client, self.env.clock.now());
        let has = |bit: InodeBits| move |(_, bits): &&(Fid, InodeBits)| bits.contains(bit);
        let orphans = held.iter().filter(has(InodeBits::OPEN)).map(|(fid, _)| *fid);
        let orphans = orphans.filter(|fid| state.orphans.contains(fid)).collect();
        let written = held.iter().filter(has(InodeBits::WRITE)).map(|(fid, _)| *fid).collect();
        self.carry_out(state, When::Later);
        LeftBehind { orphans, written }
    }

    /// Sends one callback to a client. `None`: there is no answer, and its session is over (now).
    pub(crate) async fn answer(&self, export: &Arc<Export>, op: ClientOp) -> Option<ClientReply> {
        let begun = self.env.clock.now();
        // Until it is answered, or the session has ended: in between every reply must say that an
        // answer is owed.
        let _open = export.question(begun);
        let silence = self.env.clock.sleep(self.settings.callback_max);
        let answer = tokio::select! {
            biased;
            answer = export.callback(op) => answer.map_err(|error| error.to_string()),
            () = silence => Err("no answer in time".to_owned()),
        };
        if let Some(stats) = self.lock_stats.get() {
            stats.callback.record(micros(begun, self.env.clock.now()));
        }
        let reason = match answer {
            Ok(answer) => return Some(answer),
            Err(reason) => reason,
        };
        if !export.is_gone() {
            self.evict(export, &reason);
        }
        None
    }

    /// Ends the session of a client that does not comply; its locks are then free.
    pub(crate) fn evict(&self, export: &Arc<Export>, reason: &str) {
        tracing::warn!(
            target = %self.name,
            client = %export.client().brief(),
            nid = %export.nid(),
            description = export.description(),
            reason,
            "client evicted: it does not answer for its locks"
        );
        if let Some(stats) = self.lock_stats.get() {
            stats.evictions.increment();
        }
        if !export.evict() {
            self.forget(export.client(), rpc::service::Gone::Evicted);
        }
    }

    /// Runs an operation that changes something, again after each obstacle, until it is applied or
    /// refused. Other clients may meanwhile change what its names lead to; then it starts again
    /// with the new state. Each time that happens another operation was applied, so the target as a
    /// whole makes progress.
    pub(crate) async fn in_turn<R>(
        &self,
        request: &mut RequestContext<'_>,
        mut op: impl FnMut(&mut RequestContext<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let result = op(request);
        match request.lock_context.obstacle.take() {
            None => result,
            // Apart, so that the future of the fast path stays small.
            Some(obstacle) => Box::pin(self.wait_in_turn(request, obstacle, op)).await,
        }
    }

    async fn wait_in_turn<R>(
        &self,
        request: &mut RequestContext<'_>,
        mut obstacle: Obstacle,
        mut op: impl FnMut(&mut RequestContext<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut entered = None;
        loop {
            match obstacle {
                Obstacle::Cut(fid) => self.cut_ended(fid).await,
                Obstacle::Locks(changes) => {
                    drop(entered.take());
                    request.lock_context.modifier = None;
                    let place = self.enter(request.client(), changes).await?;
                    request.lock_context.modifier = Some(place.modifier);
                    entered = Some(place);
                }
            }
            let result = op(request);
            match request.lock_context.obstacle.take() {
                Some(more) => obstacle = more,
                None => {
                    request.lock_context.modifier = None;
                    drop(entered);
                    return result;
                }
            }
        }
    }

    /// As [`Mds::in_turn`], for a change by the MDT itself.
    pub(crate) async fn in_own_turn<R>(
        &self,
        mut op: impl FnMut(&mut LockContext) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut lock_context = LockContext::own();
        let mut entered: Option<Entered<'_>> = None;
        loop {
            let result = op(&mut lock_context);
            match lock_context.obstacle.take() {
                None => return result,
                Some(Obstacle::Cut(fid)) => self.cut_ended(fid).await,
                Some(Obstacle::Locks(changes)) => {
                    drop(entered.take());
                    let place = self.enter(lock_context.client, changes).await?;
                    lock_context.modifier = Some(place.modifier);
                    entered = Some(place);
                }
            }
        }
    }

    /// Enters, and waits until no other client holds what is to be changed.
    async fn enter(&self, client: ClientUuid, changes: Vec<Change>) -> Result<Entered<'_>, Errno> {
        let now: Monotonic = self.env.clock.now();
        let (entered, ready) = {
            let mut state = self.state.lock();
            let (modifier, ready) = state.locks.new_modifier();
            let Locks { table, actions, .. } = &mut state.locks;
            table.enter(modifier, client, changes, now, actions);
            let entered = Entered { mds: self, modifier };
            self.carry_out(state, When::Now);
            (entered, ready)
        };
        self.wait_for_holders(entered.modifier, ready).await?;
        Ok(entered)
    }

    /// An operation looked at what others changed a moment ago: before it is answered, their mounts
    /// forget the state before.
    pub(crate) async fn call_authors_back(&self, seen: Vec<(ClientUuid, Changed)>, urgent: bool) {
        let mut by_author: BTreeMap<ClientUuid, BTreeMap<Fid, InodeBits>> = BTreeMap::new();
        for (client, changed) in seen {
            let bits = by_author.entry(client).or_default();
            for (fid, more) in changed.iter() {
                let bits = bits.entry(*fid).or_default();
                *bits = bits.union(*more);
            }
        }
        let (asked, newest) = self.ask_back(&by_author);
        if urgent {
            // Its client is itself being asked, and must not wait for others.
            return;
        }
        if self.wait_for_all(asked).await.is_err() {
            // The target goes, and so does the answer.
            return;
        }
        let mut state = self.state.lock();
        for (client, asked) in &by_author {
            state.acknowledge(AckEvent::CalledBack { client: *client, newest, asked });
        }
        self.carry_out(state, When::Now);
    }

    /// Calls these bits back from these clients, and waits until they have answered.
    ///
    /// # Errors
    /// ESHUTDOWN: the target stops.
    pub(crate) async fn call_back_and_wait(
        &self,
        bits: &BTreeMap<ClientUuid, BTreeMap<Fid, InodeBits>>,
    ) -> Result<(), Errno> {
        let (asked, _) = self.ask_back(bits);
        self.wait_for_all(asked).await
    }

    /// Calls these bits back. Returns what to wait for, and the newest unacknowledged change of
    /// that moment.
    fn ask_back(&self, bits: &BTreeMap<ClientUuid, BTreeMap<Fid, InodeBits>>) -> (Vec<Asked<'_>>, u64) {
        let mut state = self.state.lock();
        let mut asked = Vec::new();
        for (client, bits) in bits {
            let (modifier, ready) = state.locks.new_modifier();
            let Locks { table, actions, waiting, .. } = &mut state.locks;
            if table.ask_back(modifier, *client, bits, actions) {
                asked.push((Entered { mds: self, modifier }, ready));
            } else {
                waiting.remove(&modifier);
            }
        }
        let newest = state.acks.unacked().newest();
        self.carry_out(state, When::Now);
        (asked, newest)
    }

    async fn wait_for_all(&self, asked: Vec<Asked<'_>>) -> Result<(), Errno> {
        for (place, ready) in asked {
            self.wait_for_holders(place.modifier, ready).await?;
            drop(place);
        }
        Ok(())
    }

    /// Waits until the table says that no client is in the way.
    pub(crate) async fn wait_for_holders(
        &self,
        modifier: Modifier,
        mut ready: oneshot::Receiver<()>,
    ) -> Result<(), Errno> {
        let begun = self.env.clock.now();
        // Usually the holders have answered already, in the same poll.
        let result = match ready.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => {
                let _noted = Noted::new(self, modifier, begun);
                // The sender goes only with the table itself.
                ready.await.map_err(|_| Errno::ESHUTDOWN)
            }
            answer => answer.map_err(|_| Errno::ESHUTDOWN),
        };
        if let Some(stats) = self.lock_stats.get() {
            stats.wait.record(micros(begun, self.env.clock.now()));
        }
        result
    }
}
