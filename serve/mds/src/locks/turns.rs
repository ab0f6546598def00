//! Operations that change what clients hold: each enters the table of locks, waits until no other
//! client is in the way, is applied, and leaves.

use crate::acks::AckEvent;
use crate::acks::unacked::Changed;
use crate::held_names::{Attempt, InTheWay};
use crate::locks::context::{LockContext, Obstacle};
use crate::locks::stats::micros;
use crate::locks::waits::Noted;
use crate::locks::{Locks, When};
use crate::mds::{Mds, RequestContext};
use crate::state::State;
use dlm::ibits::{Action, Change, IbitsTable, Modifier};
use env::clock::Monotonic;
use namespace::view::View;
use std::collections::BTreeMap;
use std::pin::pin;
use tokio::sync::oneshot;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;

/// Other clients' attempts that one waits for before it goes on as it is.
const HOLDS_MAX: usize = 16;

/// One operation among those that entered; it leaves when this is dropped, which must not be under
/// the lock of the state.
pub(crate) struct Entered<'a> {
    mds: &'a Mds,
    modifier: Modifier,
}

impl Entered<'_> {
    /// The name of the operation.
    pub(crate) fn modifier(&self) -> Modifier {
        self.modifier
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // An operation whose turn comes now may ask the client whose reply is just being made:
        // after that reply, if possible.
        self.mds.with_state(When::Later, |state| {
            let Locks { table, actions, waiting, .. } = &mut state.locks;
            waiting.remove(&self.modifier);
            table.leave(self.modifier, actions);
        });
    }
}

/// An operation that entered, and its turn.
type Asked<'a> = (Entered<'a>, oneshot::Receiver<()>);

/// Runs an operation as the one that entered, if it has.
fn run_as<C: AsMut<LockContext>, R>(
    entered: Option<&Entered<'_>>,
    context: &mut C,
    op: impl FnOnce(&mut C) -> Result<R, Errno>,
) -> Result<R, Errno> {
    context.as_mut().asked.modifier = entered.map(Entered::modifier);
    let result = op(context);
    context.as_mut().asked.modifier = None;
    result
}

impl Mds {
    /// Runs an operation that changes something, again after each obstacle, until it is applied or
    /// refused. Other clients may meanwhile change what its names lead to; then it starts again
    /// with the new state. Each time that happens another operation was applied, so the target as a
    /// whole makes progress. `context`: of a request, or of the MDT itself.
    pub(crate) async fn in_turn<C: AsMut<LockContext>, R>(
        &self,
        context: &mut C,
        mut op: impl FnMut(&mut C) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let result = op(context);
        match context.as_mut().outcome.obstacle.take() {
            None => result,
            // Apart, so that the future of the fast path stays small.
            Some(obstacle) => Box::pin(self.wait_in_turn(context, obstacle, op)).await,
        }
    }

    async fn wait_in_turn<C: AsMut<LockContext>, R>(
        &self,
        context: &mut C,
        mut obstacle: Obstacle,
        mut op: impl FnMut(&mut C) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let client = context.as_mut().asked.spared();
        let mut entered = None;
        loop {
            match obstacle {
                Obstacle::Cut(fid) => self.cut_ended(fid).await,
                Obstacle::Pinned(bundle) => {
                    drop(entered.take());
                    self.unpinned(bundle).await;
                }
                // What it has entered for stays called back.
                Obstacle::Held(held) => self.until_names_are_free(held).await,
                Obstacle::Locks(changes) => {
                    drop(entered.take());
                    entered = Some(self.enter(client, changes).await?);
                }
            }
            let result = run_as(entered.as_ref(), context, &mut op);
            match context.as_mut().outcome.obstacle.take() {
                Some(more) => obstacle = more,
                None => return result,
            }
        }
    }

    /// Waits until names that another client holds may be free.
    async fn until_names_are_free(&self, held: InTheWay) {
        let mut free = pin!(self.names_free.notified());
        free.as_mut().enable();
        if self.state.lock().held_names.releases() != held.releases {
            return;
        }
        let left = held.until.saturating_sub(self.env.clock.now());
        tokio::select! {
            biased;
            () = free => {}
            () = self.env.clock.sleep(left) => {}
        }
    }

    /// An attempt to change names is over. If they led elsewhere than its client expected, the
    /// client's kernel looks at them and tries once more: they stay as they are until then.
    pub(crate) async fn attempted<R>(
        &self,
        request: &mut RequestContext<'_>,
        attempt: Attempt<'_>,
        result: &Result<R, Errno>,
    ) {
        let client = request.client();
        if std::mem::take(&mut request.names_are_held) {
            return;
        }
        if request.expected.is_empty() {
            let released = {
                let held = &mut self.state.lock().held_names;
                !held.is_empty() && held.release(client, &attempt.names())
            };
            if released {
                self.names_free.notify_waiters();
            }
        } else if result.as_ref().is_err_and(|errno| *errno == Errno::ESTALE) {
            Box::pin(self.hold_names(client, attempt)).await;
        }
    }

    async fn hold_names(&self, client: ClientUuid, attempt: Attempt<'_>) {
        let names = attempt.names();
        for _ in 0..HOLDS_MAX {
            let held = self.transact(&mut LockContext::own(), |records, _| {
                let mut found = Vec::with_capacity(names.len());
                for (dir, name) in &names {
                    found.push(records.dirent(*dir, name)?.map(|entry| entry.file_type));
                }
                let now = self.env.clock.now();
                Ok(match attempt.comes_again(&found) {
                    true => records.state.held_names.hold(client, &names, now),
                    false => Ok(()),
                })
            });
            match held {
                Ok(Err(other)) => self.until_names_are_free(other).await,
                Ok(Ok(())) => return,
                Err(errno) => {
                    return tracing::error!(%errno, "names cannot be held for a second try");
                }
            }
        }
    }

    /// An operation enters the table by `enter`.
    pub(crate) fn enter_by<'a>(
        &'a self,
        state: &mut State,
        enter: impl FnOnce(Modifier, &mut IbitsTable, &mut Vec<Action>),
    ) -> Asked<'a> {
        let modifier = state.locks.new_modifier();
        let ready = state.locks.wait_for(modifier);
        enter(modifier, &mut state.locks.table, &mut state.locks.actions);
        (Entered { mds: self, modifier }, ready)
    }

    /// Enters in the name of the MDT itself, and waits until no client holds what is to be changed.
    ///
    /// # Errors
    /// Those of a target that stops.
    pub(crate) async fn enter_for_itself(
        &self,
        changes: Vec<Change>,
    ) -> Result<Entered<'_>, Errno> {
        self.enter(ClientUuid::default(), changes).await
    }

    /// Enters, and waits until no other client holds what is to be changed.
    async fn enter(&self, client: ClientUuid, changes: Vec<Change>) -> Result<Entered<'_>, Errno> {
        let now: Monotonic = self.env.clock.now();
        let (entered, ready) = self.with_state(When::Now, |state| {
            self.enter_by(state, |modifier, table, actions| {
                table.enter(modifier, client, changes, now, actions)
            })
        });
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
        self.with_state(When::Now, |state| {
            for (client, asked) in &by_author {
                state.acknowledge(AckEvent::CalledBack { client: *client, newest, asked });
            }
        });
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
    fn ask_back(
        &self,
        bits: &BTreeMap<ClientUuid, BTreeMap<Fid, InodeBits>>,
    ) -> (Vec<Asked<'_>>, u64) {
        self.with_state(When::Now, |state| {
            let mut asked = Vec::new();
            for (client, bits) in bits {
                let modifier = state.locks.new_modifier();
                let Locks { table, actions, .. } = &mut state.locks;
                if table.ask_back(modifier, *client, bits, actions) {
                    asked.push((Entered { mds: self, modifier }, state.locks.wait_for(modifier)));
                }
            }
            (asked, state.acks.unacked().newest())
        })
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
