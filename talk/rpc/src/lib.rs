//! Requests and replies between a client and a target, whether in this process or over the network.
//!
//! `Rpc` is one per process. Servers add a [`service::Service`] per target; clients make an [`import::Import`] per
//! target. If the target lives in this process, a call runs the service in the caller's own thread, by reference:
//! no queue, no encoding, no hand-off. Otherwise it travels over `lnet`.

mod admission;
mod callback;
mod connect;
pub mod error;
pub mod import;
mod served;
pub mod service;
mod xids;

use env::Env;
use parking_lot::Mutex;
use served::ServedTargets;
use service::Service;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId};
use types::target::TargetName;

/// Settings of a process' messaging.
#[derive(Clone, Debug)]
pub struct RpcConfig {
    /// Cluster; 0 until known (then learned from the MGS with [`Rpc::set_cluster`]).
    pub cluster: ClusterId,
    /// Verify and make checksums of data.
    pub checksums: bool,
}

/// Messaging of one process.
pub struct Rpc {
    env: Env,
    cluster: Mutex<ClusterId>,
    served: ServedTargets,
    imports: Mutex<Vec<Weak<import::Import>>>,
    stopping: AtomicBool,
}

impl Rpc {
    /// Messaging without any service or connection yet.
    pub fn new(env: Env, config: RpcConfig) -> Arc<Rpc> {
        Arc::new(Rpc {
            env,
            cluster: Mutex::new(config.cluster),
            served: ServedTargets::default(),
            imports: Mutex::default(),
            stopping: AtomicBool::new(false),
        })
    }

    /// Accepts connections at `addr` (port 0: any free one); returns the bound address, which becomes a local NID.
    pub async fn listen(self: &Arc<Self>, addr: SocketAddr) -> Result<SocketAddr, error::RpcError> {
        Err(error::RpcError::Listen { addr, reason: "the network is not built in yet".to_owned() })
    }

    /// NIDs this process is reached at; `0@lo` first.
    pub fn nids(&self) -> Vec<Nid> {
        vec![Nid::Loopback]
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        *self.cluster.lock()
    }

    /// The cluster became known.
    pub fn set_cluster(&self, cluster: ClusterId) {
        *self.cluster.lock() = cluster;
    }

    /// Requests to this target are handled by `service` from now on. A service that had the name before is stopped.
    pub fn add_service(&self, service: Arc<dyn Service>) {
        self.served.add(service);
    }

    /// The target is served no longer; its exports are told `Gone::Stopped`.
    pub fn remove_service(&self, target: TargetName) {
        self.served.remove(target);
    }

    /// A client's side of a session with `target`. Connects at the first call, reconnects after failures.
    pub fn import(
        self: &Arc<Self>,
        target: TargetName,
        nids: Vec<Nid>,
        client: ClientUuid,
        description: String,
        callbacks: Option<Arc<dyn import::Callbacks>>,
    ) -> Arc<import::Import> {
        let import = import::Import::new(self.clone(), target, nids, client, description, callbacks);
        let mut imports = self.imports.lock();
        imports.retain(|known| known.strong_count() > 0);
        imports.push(Arc::downgrade(&import));
        import
    }

    /// Stops accepting, closes connections, ends all tasks.
    pub async fn shutdown(&self) {
        self.stopping.store(true, Ordering::Release);
        let imports: Vec<_> = self.imports.lock().iter().filter_map(Weak::upgrade).collect();
        for import in imports {
            import.disconnect().await;
        }
        self.served.remove_all();
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn served(&self) -> &ServedTargets {
        &self.served
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
