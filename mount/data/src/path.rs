//! The data of one mount.

use crate::accessed::Accesses;
use crate::cache::batch::{BATCH_BYTES, BATCH_BYTES_FAR};
use crate::cache::grant::{self, Grants};
use crate::file::FileTable;
use crate::locks::Locks;
use crate::open_prefetch::OpenPrefetch;
use crate::read_ahead::ledger::Ledger;
use crate::writeback::Writeback;
use session::session::Session;
use std::sync::{Arc, Weak};
use types::target::TargetIndex;

/// The data of one mount.
pub struct DataPath {
    /// Sessions with the targets.
    pub session: Arc<Session>,
    /// Locks of the mount.
    pub locks: Arc<Locks>,
    /// Open files.
    pub files: Arc<FileTable>,
    /// What was written and is not stored yet.
    pub writeback: Writeback,
    /// Bytes that came with an open.
    pub open_prefetch: OpenPrefetch,
    /// Budget and account of read-ahead.
    pub ledger: Arc<Ledger>,
    /// Reads whose times the MDTs do not know yet.
    pub accesses: Accesses,
    me: Weak<DataPath>,
}

impl DataPath {
    /// Nothing dirty.
    pub fn new(
        session: Arc<Session>,
        locks: Arc<Locks>,
        files: Arc<FileTable>,
        grants: Arc<Grants>,
        accesses: Accesses,
    ) -> Arc<DataPath> {
        Arc::new_cyclic(|me| DataPath {
            session,
            locks,
            files,
            writeback: Writeback::new(grants),
            open_prefetch: OpenPrefetch::default(),
            ledger: Arc::default(),
            accesses,
            me: me.clone(),
        })
    }

    /// Where a request with data to this OST ends, bytes.
    pub(crate) fn batch_bytes(&self, ost: TargetIndex) -> u64 {
        let is_far = self.session.targets.osc(ost).is_ok_and(|osc| osc.import().is_far());
        if is_far { BATCH_BYTES_FAR } else { BATCH_BYTES }
    }

    /// Space that this mount wants to be granted by this OST, bytes.
    pub(crate) fn grant_wanted(&self, ost: TargetIndex) -> u64 {
        grant::wanted(self.session.targets.osc(ost).map_or(0, |osc| osc.import().in_flight()))
    }

    /// Itself, for a task that must not keep it.
    pub(crate) fn weak(&self) -> Weak<DataPath> {
        self.me.clone()
    }

    /// Itself, unless it is just going.
    pub fn strong(&self) -> Option<Arc<DataPath>> {
        self.me.upgrade()
    }
}
