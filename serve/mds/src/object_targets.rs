//! Requests of an MDT to OSTs: space, sizes of objects, removal of objects.

use env::BoxFuture;
use parking_lot::RwLock;
use rpc::error::RpcError;
use std::collections::BTreeMap;
use std::sync::Arc;
use stubs::osc::Osc;
use types::attr::Statfs;
use types::object::{ObjectId, ObjectOffset};
use types::session::ClientUuid;
use types::target::TargetIndex;
use wire::ost::{FenceClients, PunchKind};

/// Pools of OSTs by name, bounded by the MGS.
pub type Pools = BTreeMap<String, Arc<[TargetIndex]>>;

/// The OSTs of the file system. They come and go; for an unknown index the answer is [`RpcError`].
pub trait ObjectTargets: Send + Sync + 'static {
    /// All OSTs that are known now, ascending.
    fn list(&self) -> Vec<TargetIndex>;
    /// True if it is part of the file system. A removed one is not.
    fn is_known(&self, ost: TargetIndex) -> bool {
        self.list().contains(&ost)
    }
    /// True if it is to be used. An administrator can take it out of use.
    fn is_in_use(&self, ost: TargetIndex) -> bool;
    /// Pools, by name.
    fn pools(&self) -> Arc<Pools>;
    /// OSTs of a pool; `None`: there is no such pool.
    fn pool(&self, name: &str) -> Option<Arc<[TargetIndex]>> {
        self.pools().get(name).cloned()
    }
    /// Space.
    fn statfs(&self, ost: TargetIndex) -> BoxFuture<'static, Result<Statfs, RpcError>>;
    /// Size in bytes and 512-byte blocks; zeros for an object that was never written.
    fn getattr(
        &self,
        ost: TargetIndex,
        object: ObjectId,
    ) -> BoxFuture<'static, Result<(u64, u64), RpcError>>;
    /// Cuts an object to at most `at` bytes, durably; returns its 512-byte blocks.
    fn cut(
        &self,
        ost: TargetIndex,
        object: ObjectId,
        at: ObjectOffset,
    ) -> BoxFuture<'static, Result<u64, RpcError>>;
    /// Removes objects; absent ones are no error. Durable when it returns.
    fn destroy(
        &self,
        ost: TargetIndex,
        objects: Vec<ObjectId>,
    ) -> BoxFuture<'static, Result<(), RpcError>>;
    /// Boot number of the OST at its newest session; 0: there was none.
    fn boot(&self, ost: TargetIndex) -> u64 {
        let _ = ost;
        0
    }
    /// Tells an OST which clients are evicted, also while it is out of use: its boot number, and
    /// the clients of this MDT that it refuses from now on.
    fn fence(
        &self,
        ost: TargetIndex,
        fence: FenceClients,
    ) -> BoxFuture<'static, Result<(u64, Vec<ClientUuid>), RpcError>> {
        let _ = ost;
        Box::pin(std::future::ready(Ok((0, fence.clients))))
    }
}

/// OSTs reached by stubs; the follower of the configuration adds them.
#[derive(Default)]
pub struct OscSet {
    osts: RwLock<BTreeMap<TargetIndex, Osc>>,
    pools: RwLock<Arc<Pools>>,
}

impl OscSet {
    /// A set without OSTs.
    pub fn new() -> OscSet {
        OscSet::default()
    }

    /// Adds or replaces one.
    pub fn set(&self, ost: TargetIndex, osc: Osc) {
        self.osts.write().insert(ost, osc);
    }

    /// The OST was removed from the file system.
    pub fn remove(&self, ost: TargetIndex) {
        self.osts.write().remove(&ost);
    }

    /// The pools of the file system, as the MGS keeps them.
    pub fn set_pools(&self, pools: Pools) {
        *self.pools.write() = Arc::new(pools);
    }

    fn get(&self, ost: TargetIndex) -> Result<Osc, RpcError> {
        self.osts.read().get(&ost).cloned().ok_or(RpcError::Errno(types::errno::Errno::ENODEV))
    }
}

impl ObjectTargets for OscSet {
    fn list(&self) -> Vec<TargetIndex> {
        {
            let mut all: Vec<TargetIndex> = self.osts.read().keys().copied().collect();
            all.sort_unstable();
            all
        }
    }

    fn pools(&self) -> Arc<Pools> {
        self.pools.read().clone()
    }

    fn is_in_use(&self, ost: TargetIndex) -> bool {
        self.get(ost).is_ok_and(|osc| osc.is_active())
    }

    fn statfs(&self, ost: TargetIndex) -> BoxFuture<'static, Result<Statfs, RpcError>> {
        let osc = self.get(ost);
        Box::pin(async move { osc?.statfs().await })
    }

    fn getattr(
        &self,
        ost: TargetIndex,
        object: ObjectId,
    ) -> BoxFuture<'static, Result<(u64, u64), RpcError>> {
        let osc = self.get(ost);
        Box::pin(async move { osc?.getattr(object).await })
    }

    fn cut(
        &self,
        ost: TargetIndex,
        object: ObjectId,
        at: ObjectOffset,
    ) -> BoxFuture<'static, Result<u64, RpcError>> {
        let osc = self.get(ost);
        Box::pin(async move {
            let osc = osc?;
            osc.punch(object, at, at, PunchKind::Truncate).await?;
            osc.sync(vec![object]).await?;
            osc.getattr(object).await.map(|(_, blocks)| blocks)
        })
    }

    fn destroy(
        &self,
        ost: TargetIndex,
        objects: Vec<ObjectId>,
    ) -> BoxFuture<'static, Result<(), RpcError>> {
        let osc = self.get(ost);
        Box::pin(async move { osc?.destroy(objects).await })
    }

    fn boot(&self, ost: TargetIndex) -> u64 {
        self.get(ost).map_or(0, |osc| osc.import().boot())
    }

    fn fence(
        &self,
        ost: TargetIndex,
        fence: FenceClients,
    ) -> BoxFuture<'static, Result<(u64, Vec<ClientUuid>), RpcError>> {
        let osc = self.get(ost);
        Box::pin(async move { osc?.fence(fence).await })
    }
}
