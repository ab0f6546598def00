//! The engine under a store: an ordered map of byte strings that takes atomic, durable batches.
//!
//! An engine answers reads of what it has committed; the overlay above it has the younger changes.
//! `commit` blocks and is called by one thread at a time. The fence is an epoch: an owner that lost
//! its target is refused.

use crate::batch::Batch;
use crate::error::StoreError;
use std::ops::ControlFlow;
use std::sync::Arc;
use types::session::Transno;

/// Longest key, bytes (what LMDB takes).
pub const KEY_BYTES_MAX: usize = 511;
/// A key after all keys.
pub(crate) const KEY_END: [u8; KEY_BYTES_MAX + 1] = [0xff; KEY_BYTES_MAX + 1];
/// Longest value, bytes. Larger things go to object files.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Epoch of ownership of a target; grows each time it is opened for service, here or elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Fence(pub u64);

/// Space of an engine, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EngineSpace {
    /// In use.
    pub used: u64,
    /// Could be used, at the present free space of the volume.
    pub capacity: u64,
    /// Part of `capacity` kept for operations that release space.
    pub reserved: u64,
}

impl EngineSpace {
    /// Bytes that operations which need space may still take.
    pub fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.reserved).saturating_sub(self.used)
    }
}

/// Visits one record of an ordered scan; `Break` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// An ordered map with atomic durable batches.
pub trait Engine: Send + Sync {
    /// Calls `f` with the value of `key` if there is one; returns whether there was.
    fn get(&self, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError>;

    /// Visits the records from `start` (inclusive) to `end` (exclusive) in key order until `f`
    /// breaks.
    fn scan(&self, start: &[u8], end: &[u8], f: &mut Visit<'_>) -> Result<(), StoreError>;

    /// Makes a batch durable, whole or not at all, and visible to reads. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if a newer owner exists. After any other error the engine is
    /// poisoned.
    fn commit(&self, batch: &Arc<Batch>, fence: Fence) -> Result<(), StoreError>;

    /// Begins a new epoch, durably: one more than the newest, and at least `at_least`. From then on
    /// commits with an older fence are refused. Blocks.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    fn claim(&self, at_least: Fence) -> Result<Fence, StoreError>;

    /// Transno of the newest committed batch; 0 for a new store.
    fn last_transno(&self) -> Transno;

    /// Bytes used and usable.
    fn space(&self) -> Result<EngineSpace, StoreError>;

    /// Why it cannot do all that it has to now, though nothing is lost and it goes on by itself
    /// once that is mended; `None`: nothing is in its way.
    fn hindrance(&self) -> Option<StoreError> {
        None
    }

    /// Brings everything into its resting form and ends the engine's threads. Blocks. Reads and
    /// commits after it fail.
    fn close(&self) -> Result<(), StoreError>;
}
