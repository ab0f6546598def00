//! A target that is away, or that forgot this client: how long its owner waits, and what the owner
//! is told.

use crate::error::RpcError;
use crate::import::Import;
use crate::import::hooks::{OnLost, OnRestart, Restore};
use crate::import::kept::Kept;
use crate::patience;
use env::clock::Monotonic;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::message::Op;

impl Import {
    /// True if there is no session and the last attempt to make one failed. Then a request may wait
    /// for long.
    pub fn is_away(&self) -> bool {
        let link = self.link.lock();
        link.session.is_none() && link.error.is_some()
    }

    /// From now on a target that does not answer is waited for even if it never did: it is known to
    /// exist, and is being started. Calls then fail only when their time is up.
    pub fn be_patient(&self) {
        self.link.lock().patient = true;
    }

    /// From now on a request for which a program waits has no time-out: it is sent again until it
    /// is answered, or the program gives up ([`patience`]). All others keep theirs.
    pub fn wait_for_ever(&self) {
        self.for_ever.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.for_ever.load(Ordering::Relaxed) && patience::is_awaited()
    }

    /// A request failed. If its time is up and a program waits for it, it goes on, with as much
    /// time again.
    pub(crate) fn or_go_on(
        &self,
        error: RpcError,
        deadline: &mut Monotonic,
    ) -> Result<(), RpcError> {
        match error {
            RpcError::Timeout { .. } if self.is_awaited() => {
                tracing::warn!(target = %self.target, %error, "a program goes on waiting");
                *deadline = self.rpc.env().clock.now() + self.rpc.timings().request_timeout;
                Ok(())
            }
            error => Err(error),
        }
    }

    /// How often the target forgot this client without a restart.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Acquire)
    }

    /// True if the owner has heard of all evictions. In between, another client may have what it
    /// believes to hold.
    pub fn evictions_are_told(&self) -> bool {
        self.evictions_told.load(Ordering::Acquire) == self.evictions()
    }

    /// Registers a hook; see [`OnRestart`]. Hooks stay as long as the import.
    pub fn on_restart(&self, hook: OnRestart) {
        self.hooks.lock().push(hook);
    }

    /// Registers a hook; see [`OnLost`]. The first one counts, and stays as long as the import.
    pub fn on_lost(&self, hook: OnLost) {
        if self.lost.set(hook).is_err() {
            tracing::error!(target = %self.target, "somebody is told of what is lost already");
        }
    }

    /// Registers what is brought back to a restarted target; the first registration counts.
    pub fn on_recovery(&self, restore: Arc<dyn Restore>) {
        if self.restore.set(restore).is_err() {
            tracing::error!(target = %self.target, "somebody restores this session already");
        }
    }

    /// Tells the owner what is lost.
    pub(crate) fn tell_lost(&self, lost: Vec<Kept>) {
        let ops: Vec<Op> = lost.into_iter().filter_map(Kept::into_op).collect();
        if ops.is_empty() {
            return;
        }
        tracing::error!(target = %self.target, changes = ops.len(), "the target restarted without what was answered, and is in service");
        if let Some(hook) = self.lost.get() {
            hook(&ops);
        }
    }

    /// Tells the owner that the target lost this client's session.
    pub(crate) fn tell_restart(&self, boot: u64) {
        let hooks = self.hooks.lock().clone();
        hooks.iter().for_each(|hook| hook(boot));
    }
}
