//! Requests and replies between a client and a target, whether in this process or over the network.
//!
//! `Rpc` is one per process. Servers add a [`service::Service`] per target; clients make an [`import::Import`] per
//! target. If the target lives in this process, a call runs the service in the caller's own thread, by reference:
//! no queue, no encoding, no hand-off. Otherwise it travels over `lnet`.

pub mod error;
pub mod import;
pub mod service;

use env::Env;
use service::Service;
use std::net::SocketAddr;
use std::sync::Arc;
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
    _private: (),
}

impl Rpc {
    /// Messaging without any service or connection yet.
    pub fn new(_env: Env, _config: RpcConfig) -> Arc<Rpc> {
        unimplemented!()
    }

    /// Accepts connections at `addr` (port 0: any free one); returns the bound address, which becomes a local NID.
    pub async fn listen(self: &Arc<Self>, _addr: SocketAddr) -> Result<SocketAddr, error::RpcError> {
        unimplemented!()
    }

    /// NIDs this process is reached at; `0@lo` first.
    pub fn nids(&self) -> Vec<Nid> {
        unimplemented!()
    }

    /// The cluster became known.
    pub fn set_cluster(&self, _cluster: ClusterId) {
        unimplemented!()
    }

    /// Requests to this target are handled by `service` from now on.
    pub fn add_service(&self, _service: Arc<dyn Service>) {
        unimplemented!()
    }

    /// The target is served no longer; its exports are told `Gone::Stopped`.
    pub fn remove_service(&self, _target: TargetName) {
        unimplemented!()
    }

    /// A client's side of a session with `target`. Connects at the first call, reconnects after failures.
    pub fn import(
        self: &Arc<Self>,
        _target: TargetName,
        _nids: Vec<Nid>,
        _client: ClientUuid,
        _description: String,
        _callbacks: Option<Arc<dyn import::Callbacks>>,
    ) -> Arc<import::Import> {
        unimplemented!()
    }

    /// Stops accepting, closes connections, ends all tasks.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
