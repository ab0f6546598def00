//! Typed calls to the MGS.

use crate::misfit::unexpected;
use idmap::scope::{Scope, ScopedParam};
use idmap::set::{NodemapChange, Nodemaps};
use rpc::error::RpcError;
use rpc::import::Import;
use std::sync::Arc;
use types::credentials::Credentials;
use types::proof::ServerKey;
use types::session::ClusterId;
use wire::message::{Op, OpReply};
use wire::mgs::{FsConfig, MgsOp, MgsReply, PoolChange, ScopesVersion};
use wire::report::{KeptReport, NodeReport};

/// What a target is told when it registers.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its full name.
    pub name: String,
    /// The cluster.
    pub cluster: ClusterId,
    /// How often it registered.
    pub boot: u64,
    /// Key of the servers of the cluster.
    pub key: ServerKey,
}

/// Client of the MGS.
#[derive(Clone)]
pub struct Mgc {
    import: Arc<Import>,
}

impl Mgc {
    /// Over this session.
    pub fn new(import: Arc<Import>) -> Mgc {
        Mgc { import }
    }

    /// The session.
    pub fn import(&self) -> &Arc<Import> {
        &self.import
    }

    async fn call(&self, op: MgsOp) -> Result<MgsReply, RpcError> {
        match self.import.one(&Credentials::root(), Op::Mgs(op)).await? {
            OpReply::Mgs(reply) => Ok(reply),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// A target starts serving, in this epoch; `shared`: of a log that all its owners share.
    pub async fn register(
        &self,
        name: String,
        store: u128,
        nids: Vec<String>,
        (boot, shared): (u64, bool),
    ) -> Result<Registered, RpcError> {
        match self.call(MgsOp::Register { name, store, nids, boot, shared }).await? {
            MgsReply::Registered { name, cluster, boot, key } => {
                Ok(Registered { name, cluster: ClusterId(cluster), boot, key: ServerKey(key) })
            }
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// A target stops.
    pub async fn unregister(&self, name: String, store: u128) -> Result<(), RpcError> {
        match self.call(MgsOp::Unregister { name, store }).await? {
            MgsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Configuration newer than `known`, or after `wait_ms`.
    pub async fn config(
        &self,
        fsname: String,
        known: u64,
        wait_ms: u32,
    ) -> Result<FsConfig, RpcError> {
        match self.call(MgsOp::Config { fsname, known, wait_ms }).await? {
            MgsReply::Config(c) => Ok(c),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Sets or removes a persistent parameter.
    pub async fn set_param(
        &self,
        fsname: String,
        name: String,
        value: Option<String>,
    ) -> Result<(), RpcError> {
        match self.call(MgsOp::SetParam { fsname, name, value }).await? {
            MgsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Changes a pool of OSTs.
    pub async fn pool(
        &self,
        fsname: String,
        pool: String,
        change: PoolChange,
    ) -> Result<(), RpcError> {
        match self.call(MgsOp::Pool { fsname, pool, change }).await? {
            MgsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Removes a target that will never come back; `force`: even if it is in service.
    ///
    /// # Errors
    /// EBUSY: it is in service. EPERM: the root of the file system is there. ENOENT: there is no
    /// such target.
    pub async fn remove(&self, name: String, force: bool) -> Result<(), RpcError> {
        match self.call(MgsOp::Remove { name, force, dry_run: false }).await? {
            MgsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Succeeds if [`Mgc::remove`] could remove it.
    ///
    /// # Errors
    /// As [`Mgc::remove`].
    pub async fn can_remove(&self, name: String, force: bool) -> Result<(), RpcError> {
        match self.call(MgsOp::Remove { name, force, dry_run: true }).await? {
            MgsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Tells other NIDs of a target: all at which it may be served.
    pub async fn replace_nids(&self, name: String, nids: Vec<String>) -> Result<(), RpcError> {
        match self.call(MgsOp::ReplaceNids { name, nids }).await? {
            MgsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Changes a nodemap.
    pub async fn change_nodemaps(&self, change: NodemapChange) -> Result<(), RpcError> {
        match self.call(MgsOp::Nodemap(change)).await? {
            MgsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Nodemaps of another version than `known`, or after `wait_ms`.
    pub async fn nodemaps(&self, known: Option<u64>, wait_ms: u32) -> Result<Nodemaps, RpcError> {
        match self.call(MgsOp::Nodemaps { known, wait_ms }).await? {
            MgsReply::Nodemaps(nodemaps) => Ok(nodemaps),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Sets or removes a parameter of a scope.
    pub async fn set_scoped(
        &self,
        scope: Scope,
        name: String,
        value: Option<String>,
    ) -> Result<(), RpcError> {
        match self.call(MgsOp::SetScoped { scope, name, value }).await? {
            MgsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Parameters of the scopes in which this process on this host is, or of all of them, in the
    /// order in which they apply: of another version than `known`, or after `wait_ms`.
    ///
    /// # Errors
    /// EACCES: only an administrator may see all of them.
    pub async fn scoped(
        &self,
        (host, all): (String, bool),
        known: Option<ScopesVersion>,
        wait_ms: u32,
    ) -> Result<(ScopesVersion, Vec<ScopedParam>), RpcError> {
        match self.call(MgsOp::Scoped { host, all, known, wait_ms }).await? {
            MgsReply::Scoped { version, params } => Ok((version, params)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Tells the MGS how this process is; in how many milliseconds it wants to hear again.
    pub async fn report(&self, report: NodeReport) -> Result<u32, RpcError> {
        match self.call(MgsOp::Report(Box::new(report))).await? {
            MgsReply::Reported { again_ms } => Ok(again_ms),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// The newest report of every process.
    pub async fn reports(&self) -> Result<Vec<KeptReport>, RpcError> {
        match self.call(MgsOp::Reports).await? {
            MgsReply::Reports(reports) => Ok(reports),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Clients known to the MGS: description and NID.
    pub async fn clients(&self) -> Result<Vec<(String, String)>, RpcError> {
        match self.call(MgsOp::Clients).await? {
            MgsReply::Clients(c) => Ok(c),
            other => Err(unexpected(&self.import, &other)),
        }
    }
}
