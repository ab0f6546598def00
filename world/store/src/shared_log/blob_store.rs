//! The store of blobs beside a log, as it is set.

use crate::blobs::Blobs;
use std::sync::Arc;

/// Changes of an entry beyond which they go into a blob, bytes.
const BLOB_BYTES_MIN: usize = 64 << 10;
/// Bytes of entries behind a checkpoint after which another one is made, at least.
const CHECKPOINT_BYTES: u64 = 16 << 20;

/// The store of blobs beside a log.
pub struct BlobStore {
    /// A connection to it.
    pub blobs: Arc<dyn Blobs>,
    /// Where it is, in words that are the same on each host of the target.
    pub place: String,
    /// Changes of an entry beyond which they go into a blob, bytes.
    pub entry_bytes: usize,
    /// Bytes behind a checkpoint after which another one is made, at least.
    pub checkpoint_bytes: u64,
}

impl BlobStore {
    /// With the usual bounds.
    pub fn new(blobs: Arc<dyn Blobs>, place: String) -> BlobStore {
        let (entry_bytes, checkpoint_bytes) = (BLOB_BYTES_MIN, CHECKPOINT_BYTES);
        BlobStore { blobs, place, entry_bytes, checkpoint_bytes }
    }
}
