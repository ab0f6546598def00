//! Layers: what is durable in the log and not yet in the tree.

use crate::batch::Batch;
use crate::log::Entry;
use std::sync::Arc;

/// Layers beyond which small adjacent ones are merged, so that a read that finds nothing stays
/// cheap.
const LAYERS_MAX: usize = 8;

/// Entries that are durable in the log and not yet in the tree.
pub(super) type Layer = Entry;

/// Two adjacent layers worth merging, not among the first `from`: the pair that is smallest
/// together.
pub(super) fn smallest_pair(layers: &[Layer], from: usize) -> Option<usize> {
    let free = layers.get(from..)?;
    if free.len() <= LAYERS_MAX {
        return None;
    }
    let size = |i: usize| free[i].batch.bytes() + free[i + 1].batch.bytes();
    (0..free.len() - 1).min_by_key(|i| size(*i)).map(|i| from + i)
}

pub(super) fn merge(older: &Layer, newer: &Layer) -> Layer {
    let mut batch = Batch::new();
    for (key, value) in older.batch.iter().chain(newer.batch.iter()) {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        }
    }
    batch.set_transno(newer.batch.transno());
    batch.freeze();
    Layer { batch: Arc::new(batch), fence: newer.fence, end: newer.end }
}
