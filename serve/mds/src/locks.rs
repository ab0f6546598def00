//! Inode-bit locks of clients: `dlm::ibits` decides, this asks the holders and wakes who waits for them.
//!
//! The table is a part of [`State`](crate::mds::State), so that what a reply shows and what it grants are one. What
//! the table wants to be done is noted there and carried out when that lock is free again: callbacks run in tasks of
//! their own (one per client and step, first polled in place), which end with the client's answer, with its session, or
//! after `MdsSettings::callback_max`, when the client is evicted. So whoever waits for holders waits no longer than that.

use crate::deal::{Deal, Obstacle};
use crate::mds::{Call, Mds, State};
use dlm::ibits::{Action, Change, IbitsTable, Modifier, Names};
use env::clock::Monotonic;
use foldhash::HashMap;
use rpc::service::Export;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::REVOKES_PER_CALLBACK_MAX;
use types::lock::InodeBits;
use types::session::ClientUuid;
use wire::client::{ClientOp, ClientReply};

/// All inode-bit locks of an MDT and those who wait for holders.
#[derive(Default)]
pub struct Locks {
    /// Who holds what.
    pub(crate) table: IbitsTable,
    /// What the table wants to be done.
    pub(crate) actions: Vec<Action>,
    exports: HashMap<ClientUuid, Arc<Export>>,
    waiting: HashMap<Modifier, oneshot::Sender<()>>,
    last: u64,
}

/// What one client is asked.
struct Callbacks {
    export: Arc<Export>,
    revokes: Vec<(Fid, InodeBits)>,
    changing: Vec<(Modifier, Fid, Names)>,
}

impl Locks {
    /// A session began, or goes on.
    pub(crate) fn connect(&mut self, export: &Arc<Export>) {
        self.table.connect(export.client());
        self.exports.insert(export.client(), export.clone());
    }

    /// A session ended: what its client held.
    pub(crate) fn gone(&mut self, client: ClientUuid) -> Vec<(Fid, InodeBits)> {
        self.exports.remove(&client);
        self.table.gone(client, &mut self.actions)
    }

    /// Wakes who is ready; what clients are to be asked.
    fn take(&mut self) -> Vec<Callbacks> {
        let mut asked: BTreeMap<ClientUuid, Callbacks> = BTreeMap::new();
        for action in self.actions.drain(..) {
            let (client, action) = match action {
                Action::Ready(modifier) | Action::Cancelled(modifier) => {
                    if let Some(waiting) = self.waiting.remove(&modifier) {
                        // Nobody listens: the request was dropped, and is about to leave.
                        let _ = waiting.send(());
                    }
                    continue;
                }
                Action::Revoke(client, ..) | Action::Changing(_, client, ..) => (client, action),
            };
            let Some(export) = self.exports.get(&client) else { continue };
            let callbacks = asked.entry(client).or_insert_with(|| Callbacks {
                export: export.clone(),
                revokes: Vec::new(),
                changing: Vec::new(),
            });
            match action {
                Action::Revoke(_, fid, bits) => callbacks.revokes.push((fid, bits)),
                Action::Changing(modifier, _, fid, names) => callbacks.changing.push((modifier, fid, names)),
                Action::Ready(_) | Action::Cancelled(_) => {}
            }
        }
        asked.into_values().collect()
    }
}

/// One operation among those that entered; it leaves when this is dropped.
pub(crate) struct Entered<'a> {
    mds: &'a Mds,
    modifier: Modifier,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut state = self.mds.state.lock();
        let Locks { table, actions, waiting, .. } = &mut state.locks;
        waiting.remove(&self.modifier);
        table.leave(self.modifier, actions);
        // Who comes to its turn now asks the client whose reply is just being made: behind that, if possible.
        self.mds.carry_out(state, When::Later);
    }
}

/// When holders are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// In this very poll, as far as it goes.
    Now,
    /// From a task.
    Later,
}

impl Mds {
    /// Does what the table wants to be done, and gives the lock of the state back.
    pub(crate) fn carry_out(&self, mut state: parking_lot::MutexGuard<'_, State>, when: When) {
        if state.locks.actions.is_empty() {
            return;
        }
        let asked = state.locks.take();
        drop(state);
        for callbacks in asked {
            self.ask(callbacks, when);
        }
    }

    fn ask(&self, callbacks: Callbacks, when: When) {
        let Callbacks { export, revokes, changing } = callbacks;
        let revokes = revokes.chunks(REVOKES_PER_CALLBACK_MAX).map(|locks| (None, locks.to_vec()));
        let revokes = revokes.map(|(modifier, locks)| (modifier, ClientOp::Revoke { locks }));
        let changing = changing
            .into_iter()
            .map(|(modifier, dir, names)| (Some(modifier), ClientOp::Changing { dir, names: names.into_vec() }));
        for (modifier, op) in revokes.chain(changing) {
            let Some(mds) = self.me.upgrade() else { return };
            let mut asking = Box::pin(mds.call_back(export.clone(), modifier, op));
            if when == When::Now {
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
            ClientOp::Glimpse { .. } => Vec::new(),
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
        let keeps = |fid: Fid| kept.iter().any(|(f, bits)| *f == fid && bits.contains(InodeBits::OPEN));
        self.released(&export, &asked, keeps);
    }

    /// A client dropped these bits, but for OPEN where `keeps` says so.
    pub(crate) fn released(&self, export: &Export, bits: &[(Fid, InodeBits)], keeps: impl Fn(Fid) -> bool) {
        let mut state = self.state.lock();
        // The end of the session releases everything; what comes after it belongs to the next one.
        if export.is_gone() {
            return;
        }
        let client = export.client();
        let Locks { table, actions, .. } = &mut state.locks;
        for (fid, bits) in bits {
            let mut bits = *bits;
            if bits.contains(InodeBits::OPEN) && keeps(*fid) {
                bits = bits.without(InodeBits::OPEN);
                table.kept(*fid, client, actions);
            }
            table.released(*fid, client, bits, actions);
        }
        self.carry_out(state, When::Now);
    }

    /// One question to a client. `None`: there is no answer, its session is over (now).
    async fn answer(&self, export: &Arc<Export>, op: ClientOp) -> Option<ClientReply> {
        let silence = self.env.clock.sleep(self.settings.callback_max);
        let reason = tokio::select! {
            biased;
            answer = export.callback(op) => match answer {
                Ok(answer) => return Some(answer),
                Err(error) => error.to_string(),
            },
            () = silence => "no answer in time".to_owned(),
        };
        if !export.is_gone() {
            self.evict(export, &reason);
        }
        None
    }

    /// Ends the session of a client that does not do as it must; what it held is free.
    fn evict(&self, export: &Arc<Export>, reason: &str) {
        tracing::warn!(
            target = %self.name,
            client = %export.client(),
            nid = %export.nid(),
            description = export.description(),
            reason,
            "client evicted: it does not answer for its locks"
        );
        if !export.evict() {
            self.forget(export.client(), rpc::service::Gone::Evicted);
        }
    }

    /// Runs an operation that changes something, again whenever something was in its way: until it is applied, or
    /// refused. Others may change meanwhile what its names lead to; then it starts again with what it finds, as often as
    /// that happens: each time somebody else's operation was applied, so the target as a whole gets on.
    pub(crate) async fn in_turn<R>(
        &self,
        call: &mut Call<'_>,
        mut op: impl FnMut(&mut Call<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let result = op(call);
        match call.deal.obstacle.take() {
            None => result,
            // Apart, so that the future of the short road stays small.
            Some(obstacle) => Box::pin(self.wait_in_turn(call, obstacle, op)).await,
        }
    }

    async fn wait_in_turn<R>(
        &self,
        call: &mut Call<'_>,
        mut obstacle: Obstacle,
        mut op: impl FnMut(&mut Call<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut entered = None;
        loop {
            match obstacle {
                Obstacle::Cut(fid) => self.cut_ended(fid).await,
                Obstacle::Locks(changes) => {
                    drop(entered.take());
                    call.deal.modifier = None;
                    let place = self.enter(call.client(), changes).await?;
                    call.deal.modifier = Some(place.modifier);
                    entered = Some(place);
                }
            }
            let result = op(call);
            match call.deal.obstacle.take() {
                Some(more) => obstacle = more,
                None => {
                    call.deal.modifier = None;
                    drop(entered);
                    return result;
                }
            }
        }
    }

    /// As [`Mds::in_turn`], for a change by the MDT itself.
    pub(crate) async fn in_own_turn<R>(&self, mut op: impl FnMut(&mut Deal) -> Result<R, Errno>) -> Result<R, Errno> {
        let mut deal = Deal::own();
        let mut entered: Option<Entered<'_>> = None;
        loop {
            let result = op(&mut deal);
            match deal.obstacle.take() {
                None => return result,
                Some(Obstacle::Cut(fid)) => self.cut_ended(fid).await,
                Some(Obstacle::Locks(changes)) => {
                    drop(entered.take());
                    let place = self.enter(deal.client, changes).await?;
                    deal.modifier = Some(place.modifier);
                    entered = Some(place);
                }
            }
        }
    }

    /// Enters, and waits until nobody holds what is to be changed.
    async fn enter(&self, client: ClientUuid, changes: Vec<Change>) -> Result<Entered<'_>, Errno> {
        let now: Monotonic = self.env.clock.now();
        let (entered, ready) = {
            let mut state = self.state.lock();
            let Locks { table, actions, waiting, last, .. } = &mut state.locks;
            *last += 1;
            let modifier = Modifier(*last);
            let (sender, ready) = oneshot::channel();
            waiting.insert(modifier, sender);
            table.enter(modifier, client, changes, now, actions);
            let entered = Entered { mds: self, modifier };
            self.carry_out(state, When::Now);
            (entered, ready)
        };
        // The sender goes only with the table itself.
        ready.await.map_err(|_| Errno::ESHUTDOWN)?;
        Ok(entered)
    }
}
