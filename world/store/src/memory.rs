//! The engine's twin in memory: for tests and simulation.
//!
//! It keeps only what was committed, so dropping the store over it is a crash. Commits can be made
//! to fail, and the capacity can be small.

use crate::batch::Batch;
use crate::engine::{Engine, EngineSpace, Fence, Visit};
use crate::error::StoreError;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use types::session::Transno;

type Records = BTreeMap<Box<[u8]>, Arc<[u8]>>;

struct State {
    /// Shared with scans that are under way, copied when a commit meets one.
    records: Arc<Records>,
    used: u64,
    transno: Transno,
    fence: Fence,
}

/// An ordered map in memory.
pub struct Memory {
    state: RwLock<State>,
    capacity: u64,
    /// Commits left before one fails.
    fail_after: Mutex<Option<u64>>,
}

impl Memory {
    /// Empty, for up to `capacity` bytes of keys and values.
    pub fn new(capacity: u64) -> Arc<Memory> {
        let state =
            State { records: Arc::default(), used: 0, transno: Transno(0), fence: Fence(0) };
        Arc::new(Memory { state: RwLock::new(state), capacity, fail_after: Mutex::new(None) })
    }

    /// The commit after this many more successes fails and changes nothing, and so do all after it;
    /// `None` heals.
    pub fn fail_after(&self, successes: Option<u64>) {
        *self.fail_after.lock() = successes;
    }

    /// Everything committed.
    pub fn snapshot(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.state.read().records.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
    }
}

impl Engine for Memory {
    fn get(&self, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        // Not under the lock: `f` may read again.
        let value = self.state.read().records.get(key).cloned();
        Ok(value.inspect(|v| f(v)).is_some())
    }

    fn scan(&self, start: &[u8], end: &[u8], f: &mut Visit<'_>) -> Result<(), StoreError> {
        if start >= end {
            return Ok(());
        }
        let records = self.state.read().records.clone();
        for (key, value) in records.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
        {
            if f(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn commit(&self, batch: &Arc<Batch>, fence: Fence) -> Result<(), StoreError> {
        if let Some(left) = self.fail_after.lock().as_mut() {
            if *left == 0 {
                return Err(StoreError::Io {
                    action: "commit to",
                    path: "memory".into(),
                    errno: types::errno::Errno::EIO,
                });
            }
            *left -= 1;
        }
        let mut state = self.state.write();
        if fence < state.fence {
            return Err(StoreError::Fenced { ours: fence.0, current: state.fence.0 });
        }
        let State { records, used, .. } = &mut *state;
        let records = Arc::make_mut(records);
        for (key, value) in batch.iter() {
            let old = match value {
                Some(value) => {
                    *used += (key.len() + value.len()) as u64;
                    records.insert(key.into(), value.into())
                }
                None => records.remove(key),
            };
            *used -= old.map_or(0, |old| key.len() + old.len()) as u64;
        }
        state.transno = batch.transno();
        Ok(())
    }

    fn claim(&self, at_least: Fence) -> Result<Fence, StoreError> {
        let mut state = self.state.write();
        state.fence = Fence(state.fence.0 + 1).max(at_least);
        Ok(state.fence)
    }

    fn last_transno(&self) -> Transno {
        self.state.read().transno
    }

    fn space(&self) -> Result<EngineSpace, StoreError> {
        let used = self.state.read().used;
        Ok(EngineSpace { used, capacity: self.capacity, reserved: self.capacity / 16 })
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
