//! State that all roles of a process share.

use crate::error::NodeError;
use crate::host::lease_end::LeaseEnder;
use crate::manage::known::Known;
use crate::watch::audit_log::AuditLog;
use env::Env;
use fuse::jobs::JobNames;
use parking_lot::Mutex;
use rpc::Rpc;
use rpc::import::Import;
use seal::keys::Keys;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use stubs::mgc::Mgc;
use tokio::sync::oneshot;
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
    /// NIDs of the MGS; `0@lo` if it is in this process.
    pub mgs: Vec<Nid>,
    /// NIDs at which the targets of this process may be served, by it or by others.
    pub service_nodes: Vec<Nid>,
    /// Name of this host, for people.
    pub host: String,
    /// Its key; `None`: it shows none, and asks for none.
    pub keys: Option<Arc<Keys>>,
    /// Keeps what it hears of keys; `None`: it has no home.
    pub known: Option<Arc<Known>>,
    /// Ends the leases of this process when it is gone.
    pub leases: Arc<LeaseEnder>,
    /// Names the jobs of programs, for all mounts.
    pub jobs: Arc<JobNames>,
    /// The audit of its MDTs; `None`: it has no home.
    pub audit: Option<Arc<AuditLog>>,
    /// This process as a client of targets: a server that asks, not a mount.
    client: ClientUuid,
    /// Description that it gives of itself.
    description: String,
    /// Sessions of the process. One per target: two sessions of one client would share request
    /// numbers.
    sessions: Arc<Mutex<HashMap<TargetName, Arc<Import>>>>,
}

impl Parts {
    /// Parts without any session.
    ///
    /// `place` tells people which process of this host it is.
    pub fn new(env: Env, rpc: Arc<Rpc>, mgs: Vec<Nid>, place: &Path) -> Parts {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Parts::on_host(env, rpc, mgs, host, place)
    }

    /// On a host of this name.
    pub fn on_host(env: Env, rpc: Arc<Rpc>, mgs: Vec<Nid>, host: String, place: &Path) -> Parts {
        let client = ClientUuid(env.random.next_u128());
        let description = format!("{host}:{} (server)", place.display());
        let jobs = Arc::new(JobNames::new(env.clock.clone(), &host));
        Parts {
            env,
            rpc,
            mgs,
            service_nodes: Vec::new(),
            host,
            keys: None,
            known: None,
            leases: Arc::default(),
            jobs,
            audit: None,
            client,
            description,
            sessions: Arc::default(),
        }
    }

    /// The session of this process with a target; made at the first call, with these NIDs.
    pub fn session(&self, target: TargetName, nids: &[Nid]) -> Arc<Import> {
        let make =
            || self.rpc.import(target, nids.to_vec(), self.client, self.description.clone(), None);
        self.sessions.lock().entry(target).or_insert_with(make).clone()
    }

    /// The session of this process with a target, if there is one.
    pub fn known_session(&self, target: TargetName) -> Option<Arc<Import>> {
        self.sessions.lock().get(&target).cloned()
    }

    /// A session under a client name of its own, to be disconnected after use.
    pub fn short_session(&self, target: TargetName, nids: Vec<Nid>) -> Arc<Import> {
        let client = ClientUuid(self.env.random.next_u128());
        self.rpc.import(target, nids, client, self.description.clone(), None)
    }

    /// The MGS, over the session of this process.
    pub fn mgc(&self) -> Mgc {
        Mgc::new(self.session(TargetName::mgs(), &self.mgs))
    }
}

/// Runs something that blocks beside the reactors.
///
/// # Errors
/// The work panicked, or the environment ends.
pub async fn blocking<T: Send + 'static>(
    env: &Env,
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NodeError> {
    let (done, result) = oneshot::channel();
    let run = move || {
        // The receiver may be gone: the start was given up.
        let _ = done.send(work());
    };
    env.tasks.spawn_blocking(what, Box::new(run));
    result.await.map_err(|_| NodeError::Panicked(what))
}
