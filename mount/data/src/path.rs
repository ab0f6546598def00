//! The data of one mount.

use crate::accessed::Accesses;
use crate::cache::DataTarget;
use crate::cache::batch::{BATCH_BYTES, BATCH_BYTES_FAR};
use crate::cache::grant::{self, Grants};
use crate::file::FileTable;
use crate::locks::Locks;
use crate::open_prefetch::OpenPrefetch;
use crate::read_ahead::ledger::Ledger;
use crate::writeback::Writeback;
use rpc::import::Import;
use session::error::ClientError;
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

    /// The session with a target that dirty bytes go to.
    ///
    /// # Errors
    /// UnknownTarget.
    pub(crate) fn import_of(&self, target: DataTarget) -> Result<Arc<Import>, ClientError> {
        let targets = &self.session.targets;
        match target {
            DataTarget::Mdt(mdt) => Ok(targets.mdc_at(mdt)?.import().clone()),
            DataTarget::Ost(ost) => Ok(targets.osc(ost)?.import().clone()),
        }
    }

    /// Asks for a grant of up to `want` bytes, and gives `back` some: how many more were granted.
    pub(crate) async fn ask_grant(
        &self,
        target: DataTarget,
        back: u64,
        want: u64,
    ) -> Result<u64, ClientError> {
        let targets = &self.session.targets;
        Ok(match target {
            DataTarget::Mdt(mdt) => targets.mdc_at(mdt)?.grant(back, want).await?,
            DataTarget::Ost(ost) => targets.osc(ost)?.grant(back, want).await?,
        })
    }

    /// Where a request with data to this target ends, bytes.
    pub(crate) fn batch_bytes(&self, target: DataTarget) -> u64 {
        let is_far = self.import_of(target).is_ok_and(|import| import.is_far());
        if is_far { BATCH_BYTES_FAR } else { BATCH_BYTES }
    }

    /// Space that this mount wants to be granted by this target, bytes.
    pub(crate) fn grant_wanted(&self, target: DataTarget) -> u64 {
        grant::wanted(target, self.import_of(target).map_or(0, |import| import.in_flight()))
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
