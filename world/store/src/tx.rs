//! A transaction: one operation's changes, made in memory, visible at once, durable with its group.
//!
//! It holds the store's one lock from `begin` to `finish`, so transactions are serial. Callers
//! check before they change: there is no roll-back, and puts go straight into the open group.

use crate::batch::{Found, hash};
use crate::engine::Visit;
use crate::error::StoreError;
use crate::merge::Layers;
use crate::store::{Shared, State};
use parking_lot::MutexGuard;
use std::ops::ControlFlow;
use types::session::Transno;

/// One operation on a store. Not `Send`: it cannot be held across a wait.
pub struct Tx<'a> {
    shared: &'a Shared,
    state: MutexGuard<'a, State>,
    changed: bool,
    /// Its puts and deletes, if the caller asked for them.
    log: Option<disk::redo::Log>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Tx<'a> {
        Tx { shared, state: shared.state.lock(), changed: false, log: None }
    }

    /// Calls `f` with the value of `key`; `None` if there is none.
    ///
    /// # Errors
    /// The store is poisoned, or the engine cannot read.
    pub fn get<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        self.shared.check()?;
        let hash = hash(key);
        for batch in [Some(&self.state.open), self.state.frozen.as_deref()].into_iter().flatten() {
            match batch.get_hashed(hash, key) {
                Found::Unknown => {}
                Found::Deleted => return Ok(None),
                Found::Value(value) => return Ok(Some(f(value))),
            }
        }
        let (mut f, mut answer) = (Some(f), None);
        self.shared.engine.get(key, &mut |value| answer = f.take().map(|f| f(value)))?;
        Ok(answer)
    }

    /// Visits records from `start` (inclusive) to `end` (exclusive) in key order until `visit`
    /// breaks.
    ///
    /// # Errors
    /// The store is poisoned, or the engine cannot read.
    pub fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.shared.check()?;
        if start >= end {
            return Ok(());
        }
        let batches = [Some(&self.state.open), self.state.frozen.as_deref()];
        let base = |visit: &mut Visit<'_>| self.shared.engine.scan(start, end, visit);
        Layers::new(batches.into_iter().flatten(), start, end).scan_over(base, &mut visit)
    }

    /// From now on notes what it changes, for [`Tx::take_log`].
    pub fn keep_log(&mut self) {
        self.log = Some(disk::redo::Log::default());
    }

    /// True if it notes what it changes.
    pub fn keeps_log(&self) -> bool {
        self.log.is_some()
    }

    /// Takes the log.
    pub fn take_log(&mut self) -> Option<disk::redo::Log> {
        self.log.take()
    }

    /// True if it has changed anything so far.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Raises the transno of this transaction to `transno` if that is larger: redone changes of an
    /// earlier life had numbers up to that.
    pub fn raise(&mut self, transno: Transno) {
        let last = Transno(transno.0.saturating_sub(1));
        self.state.last_assigned = self.state.last_assigned.max(last);
    }

    /// Sets a record. Keys have 1 to 511 bytes, values up to `engine::VALUE_BYTES_MAX`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.changed = true;
        if let Some(log) = &mut self.log {
            log.note(key, Some(value));
        }
        self.state.open.put(key, value);
    }

    /// Sets a record, as [`Tx::put`]. `note` says in the log what that means.
    pub fn put_as(&mut self, key: &[u8], value: &[u8], note: impl FnOnce(&mut disk::redo::Log)) {
        self.changed = true;
        if let Some(log) = &mut self.log {
            note(log);
        }
        self.state.open.put(key, value);
    }

    /// Removes a record, present or not.
    pub fn delete(&mut self, key: &[u8]) {
        self.changed = true;
        if let Some(log) = &mut self.log {
            log.note(key, None);
        }
        self.state.open.delete(key);
    }

    /// The transno this transaction has if it changes something; also usable as the version of what
    /// it changes.
    pub fn transno(&self) -> Transno {
        Transno(self.state.last_assigned.0 + 1)
    }

    /// Ends it; the changes are visible to all and will be durable with their group. 0 if nothing
    /// was changed.
    pub fn finish(mut self) -> Transno {
        self.end()
    }

    fn end(&mut self) -> Transno {
        if !std::mem::take(&mut self.changed) {
            return Transno(0);
        }
        let transno = self.transno();
        self.shared.changed(&mut self.state, transno);
        transno
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        debug_assert!(
            !self.changed || std::thread::panicking(),
            "a transaction that changed something was not finished"
        );
        self.end();
    }
}
