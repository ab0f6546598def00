//! The data of one mount.

use crate::accessed::Accesses;
use crate::cache::grant::Grants;
use crate::file::FileTable;
use crate::locks::Locks;
use crate::open_prefetch::OpenPrefetch;
use crate::writeback::Writeback;
use session::session::Session;
use std::sync::{Arc, Weak};

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
            accesses,
            me: me.clone(),
        })
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
