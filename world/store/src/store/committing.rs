//! Group commit: when the open group is frozen and made durable, and what stops that.

use super::{Committer, RESTART, Shared, State, TREE_BYTES_PER_BYTE};
use crate::batch::Batch;
use crate::error::StoreError;
use observe::fault;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::errno::Errno;
use types::session::Transno;

/// Shortest time between two looks at the engine's space by operations that found it full.
const SPACE_INTERVAL: Duration = Duration::from_millis(100);
/// Pause before a log that did not answer is asked again.
const UNANSWERED_PAUSE: Duration = Duration::from_millis(50);
/// How often it is asked again by a store that is closed.
const UNANSWERED_ATTEMPTS_AT_END: u32 = 20;

impl Shared {
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if !self.poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(self.failure.lock().clone().unwrap_or(StoreError::Closed))
    }

    pub(super) fn last_committed(&self) -> Transno {
        Transno(self.last_committed.load(Ordering::Acquire))
    }

    /// A transaction ended with changes.
    pub(crate) fn changed(&self, state: &mut State, transno: Transno) {
        state.last_assigned = transno;
        state.open.set_transno(transno);
        let bytes = state.open.bytes();
        self.bytes_open.store(bytes, Ordering::Relaxed);
        if state.opened.is_none() {
            state.opened = Some(self.env.clock.now());
            self.work.notify_one();
        } else if bytes >= self.options.group_bytes_soft && !state.asked {
            state.asked = true;
            self.work.notify_one();
        }
    }

    pub(super) fn has_room(&self) -> bool {
        let bytes =
            self.bytes_open.load(Ordering::Relaxed) + self.bytes_frozen.load(Ordering::Relaxed);
        bytes <= self.options.group_bytes_hard
    }

    /// Asks for a commit; returns the newest assigned transno.
    pub(super) fn ask(&self) -> Transno {
        let mut state = self.state.lock();
        if !state.open.is_empty() && !state.asked {
            state.asked = true;
            self.work.notify_one();
        }
        state.last_assigned
    }

    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.work.notify_one();
    }

    /// `None`: the open group must be committed (or the thread must end); else the time until then.
    pub(super) fn due(&self, state: &State) -> Option<Duration> {
        if state.stop || state.asked || state.unanswered.is_some() {
            return None;
        }
        let Some(opened) = state.opened else { return Some(Duration::MAX) };
        let left = (opened + self.options.commit_interval).saturating_sub(self.env.clock.now());
        (!left.is_zero()).then_some(left)
    }

    /// The commit thread.
    pub(super) fn run(&self) {
        loop {
            let mut state = self.state.lock();
            while let Some(left) = self.due(&state) {
                if left == Duration::MAX {
                    self.work.wait(&mut state);
                } else {
                    self.work.wait_for(&mut state, left);
                }
            }
            let stop = state.stop;
            drop(state);
            if stop {
                return self.end();
            }
            self.commit_step();
            self.pause_if_unanswered();
        }
    }

    /// True if the log was asked and did not answer; a moment later then.
    pub(super) fn pause_if_unanswered(&self) -> bool {
        let mut state = self.state.lock();
        if state.unanswered.is_some() && !state.stop {
            self.work.wait_for(&mut state, UNANSWERED_PAUSE);
        }
        state.unanswered.is_some()
    }

    /// Makes a group durable that an earlier step froze and got no answer for; then freezes the
    /// open one, and makes it durable.
    pub(super) fn commit_step(&self) {
        let _turn = self.turn.lock();
        let earlier = {
            let state = self.state.lock();
            state.frozen.clone().filter(|_| state.unanswered.is_some())
        };
        if let Some(batch) = earlier
            && !self.commit_frozen(batch)
        {
            return;
        }
        let batch = {
            let mut state = self.state.lock();
            state.asked = false;
            let discarding = self.discarding.load(Ordering::Acquire);
            if state.open.is_empty() || discarding || self.check().is_err() {
                // A poisoned store keeps its group for readers of memory, but never tries again.
                state.opened = None;
                return;
            }
            state.opened = None;
            let fresh = if state.open.is_ordered() { Batch::new_ordered() } else { Batch::new() };
            let mut open = std::mem::replace(&mut state.open, fresh);
            open.freeze();
            let batch = Arc::new(open);
            state.frozen = Some(batch.clone());
            self.bytes_frozen.store(batch.bytes(), Ordering::Relaxed);
            self.bytes_open.store(0, Ordering::Relaxed);
            batch
        };
        self.commit_frozen(batch);
    }

    /// True if the group is durable now.
    fn commit_frozen(&self, batch: Arc<Batch>) -> bool {
        let began = self.env.clock.now();
        let ordered = fault::hit_blocking(&fault::STORE_BEFORE_COMMIT);
        let ordered = ordered.map_err(|errno| StoreError::Io {
            action: "commit",
            path: "".into(),
            errno: Errno(errno),
        });
        match ordered.and_then(|()| self.engine.commit(&batch, self.fence)) {
            Ok(()) => {
                fault::pass(&fault::STORE_AFTER_COMMIT);
                self.commits
                    .time
                    .record(self.env.clock.now().saturating_sub(began).as_micros() as u64);
                self.commits.bytes.record(batch.bytes() as u64);
                if let Err(error) = self.look_at_space() {
                    tracing::warn!("look at the space after a commit: {error}");
                }
                {
                    let mut state = self.state.lock();
                    (state.frozen, state.unanswered) = (None, None);
                }
                self.bytes_frozen.store(0, Ordering::Relaxed);
                self.last_committed.store(batch.transno().0, Ordering::Release);
                self.progress.wake_through(batch.transno());
                true
            }
            Err(error @ StoreError::NoAnswer { .. }) => {
                let first = self.state.lock().unanswered.replace(error.clone()).is_none();
                if first {
                    tracing::warn!("commit: {error}; asking again until it does");
                }
                false
            }
            Err(error) => {
                self.poison(&error);
                false
            }
        }
    }

    fn poison(&self, error: &StoreError) {
        let failure = match error {
            StoreError::Fenced { .. } | StoreError::Poisoned { .. } => error.clone(),
            other => StoreError::Poisoned { cause: other.to_string().into() },
        };
        match error {
            StoreError::Fenced { .. } => tracing::error!("commit: {error}; the store stops"),
            _ => tracing::error!("commit: {error}; the store stops: {RESTART}"),
        }
        *self.failure.lock() = Some(failure);
        self.poisoned.store(true, Ordering::Release);
        self.progress.wake_all();
    }

    /// The last commit, then rest.
    pub(super) fn end(&self) {
        if self.closed.lock().is_some() {
            return;
        }
        self.commit_step();
        let mut left = match self.options.committer {
            Committer::Thread => UNANSWERED_ATTEMPTS_AT_END,
            Committer::Caller => 0,
        };
        while left > 0 && self.state.lock().unanswered.is_some() {
            left -= 1;
            self.work.wait_for(&mut self.state.lock(), UNANSWERED_PAUSE);
            self.commit_step();
        }
        let unanswered = self.state.lock().unanswered.clone();
        let committed = self.check().and(unanswered.map_or(Ok(()), Err));
        let rested = self.engine.close();
        let _turn = self.turn.lock();
        if self.failure.lock().is_none() {
            *self.failure.lock() = Some(StoreError::Closed);
        }
        self.poisoned.store(true, Ordering::Release);
        *self.closed.lock() = Some(committed.and(rested));
        self.progress.wake_all();
    }

    pub(super) fn look_at_space(&self) -> Result<(), StoreError> {
        let space = self.engine.space()?;
        let pending = self.bytes_open.load(Ordering::Relaxed) as u64 * TREE_BYTES_PER_BYTE;
        let promised = self.promised.get().map_or(0, |promised| promised());
        self.full.store(space.available() <= pending + promised, Ordering::Relaxed);
        *self.space_looked.lock() = self.env.clock.now();
        Ok(())
    }

    pub(super) fn check_space(&self) -> Result<(), StoreError> {
        if !self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.env.clock.now() >= *self.space_looked.lock() + SPACE_INTERVAL {
            self.look_at_space()?;
        }
        if !self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let space = self.engine.space()?;
        Err(StoreError::NoSpace {
            used: space.used,
            capacity: space.capacity,
            reserved: space.reserved,
        })
    }
}
