//! What all roles of a process share.

use crate::error::NodeError;
use env::Env;
use rpc::Rpc;
use rpc::import::Import;
use std::sync::Arc;
use stubs::mgc::Mgc;
use types::nid::Nid;
use types::session::ClientUuid;
use types::target::TargetName;

/// Shared by all roles; cheap to clone.
#[derive(Clone)]
pub struct Parts {
    /// Doors to the outside.
    pub env: Env,
    /// Messaging.
    pub rpc: Arc<Rpc>,
    /// Where the MGS is; `0@lo` if it is in this process.
    pub mgs: Vec<Nid>,
    /// This process as a client of targets: a server that asks, not a mount.
    pub client: ClientUuid,
    /// Name of this host, for people.
    pub host: String,
}

impl Parts {
    /// A session of this process with a target.
    pub fn import(&self, target: TargetName, nids: Vec<Nid>) -> Arc<Import> {
        self.rpc.import(target, nids, self.client, format!("{} server", self.host), None)
    }

    /// A session with the MGS.
    pub fn mgc(&self) -> Mgc {
        Mgc::new(self.import(TargetName::mgs(), self.mgs.clone()))
    }
}

/// Runs something that blocks beside the reactors.
///
/// # Errors
/// It panicked.
pub async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NodeError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| NodeError::Panicked(what))
}

/// Name of this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
