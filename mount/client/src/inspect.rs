//! What a mount tells of itself to whoever asks for parameters.

use crate::client::Client;
use crate::node::NodeId;
use rpc::import::Import;
use std::sync::Arc;
use stubs::mdc::Mdc;
use stubs::osc::Osc;
use types::fid::Fid;
use types::session::ClientUuid;
use types::target::TargetIndex;
use types::time::Timestamp;
use wire::mgs::PoolInfo;

impl Client {
    /// The inode behind a number that the kernel uses; `None`: it has forgotten it.
    pub fn fid_of_node(&self, node: u64) -> Option<Fid> {
        self.nodes.fid(NodeId(node))
    }

    /// Inodes of which this mount holds locks.
    pub fn lock_count(&self) -> usize {
        self.locks.table.lock().count()
    }

    /// Written by programs and not yet stored by OSTs, bytes in whole blocks.
    pub fn dirty_bytes(&self) -> u64 {
        self.writeback.bytes()
    }

    /// What this OST promised to the mount and no write has taken yet, bytes.
    pub fn granted_bytes(&self, ost: TargetIndex) -> u64 {
        self.writeback.promises.free(ost)
    }

    /// How often programs asked for each operation is counted from zero again.
    pub fn clear_counts(&self, now: Timestamp) {
        self.counters.clear(now);
    }

    /// Since when that is counted; `None`: since the mount.
    pub fn counted_since(&self) -> Option<Timestamp> {
        self.counters.cleared()
    }

    /// The client, as servers know it.
    pub fn uuid(&self) -> ClientUuid {
        self.targets.uuid()
    }

    /// Its sessions with MDTs, by index.
    pub fn mdts(&self) -> Vec<Mdc> {
        let mut mdcs = self.targets.mdcs();
        mdcs.sort_by_key(|mdc| mdc.import().target().index);
        mdcs
    }

    /// Its sessions with OSTs, by index.
    pub fn osts(&self) -> Vec<Osc> {
        let mut oscs = self.targets.oscs();
        oscs.sort_by_key(|osc| osc.import().target().index);
        oscs
    }

    /// Pools of OSTs, by name.
    pub fn pools(&self) -> Vec<PoolInfo> {
        self.targets.pools()
    }

    /// Its session with the MGS.
    pub fn mgs(&self) -> &Arc<Import> {
        self.mgc.import()
    }
}
