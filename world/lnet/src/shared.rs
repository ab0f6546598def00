//! What all links of a process share: its name and secret, its settings, its bounds, its end.

use crate::budget::Budget;
use crate::error::LinkError;
use crate::fault::Faults;
use crate::local_state::LocalTransport;
use crate::nets::Nets;
use crate::relay::Relay;
use crate::seal::Seal;
use crate::traffic::Totals;
use env::Env;
use env::ration::Ration;
use env::watch;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use types::limits::{RECEIVE_BYTES_MAX, RECEIVE_BYTES_PER_ADDRESS_MAX};
use types::nid::Nid;
use types::proof::Secret;
use types::session::{ClientUuid, ClusterId};

/// See the module.
pub(crate) struct Shared {
    pub(crate) env: Env,
    /// True if sent frames carry checksums of their content.
    checksums: AtomicBool,
    pub(crate) process: ClientUuid,
    /// From it comes what is shown to the servers that this process connects to.
    pub(crate) secret: Secret,
    pub(crate) faults: Faults,
    pub(crate) budget: Arc<Budget>,
    pub(crate) nets: Arc<Nets>,
    pub(crate) relay: Arc<Relay>,
    pub(crate) local: LocalTransport,
    /// What went over links that ended.
    pub(crate) totals: Totals,
    /// NIDs at which this process accepts connections.
    pub(crate) nids: Mutex<Vec<Nid>>,
    /// Absent: no keys are asked for, and none is shown.
    seal: OnceLock<Arc<dyn Seal>>,
    /// For log lines about connections that any peer can cause.
    refusals: Ration,
    cluster: Mutex<ClusterId>,
    stopping: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(env: Env, cluster: ClusterId, checksums: bool) -> Shared {
        let process = ClientUuid(env.random.next_u128());
        let secret = Secret::new(env.random.next_u128());
        Shared {
            env,
            checksums: AtomicBool::new(checksums),
            process,
            secret,
            faults: Faults::default(),
            budget: Budget::new(RECEIVE_BYTES_MAX, RECEIVE_BYTES_PER_ADDRESS_MAX),
            nets: Arc::default(),
            relay: Arc::default(),
            local: LocalTransport::default(),
            totals: Totals::default(),
            nids: Mutex::default(),
            seal: OnceLock::new(),
            refusals: Ration::default(),
            cluster: Mutex::new(cluster),
            stopping: watch::Sender::new(false),
        }
    }

    /// True if sent frames carry checksums now.
    pub(crate) fn sends_checksums(&self) -> bool {
        self.checksums.load(Ordering::Relaxed)
    }

    /// From the next frame on.
    pub(crate) fn send_checksums(&self, on: bool) {
        self.checksums.store(on, Ordering::Relaxed);
    }

    pub(crate) fn cluster(&self) -> ClusterId {
        *self.cluster.lock()
    }

    pub(crate) fn set_cluster(&self, cluster: ClusterId) {
        *self.cluster.lock() = cluster;
    }

    /// The seal of all connections; `None`: they are plain.
    pub(crate) fn seal(&self) -> Option<&Arc<dyn Seal>> {
        self.seal.get()
    }

    /// Seals all connections from now on. `false`: they are already.
    pub(crate) fn set_seal(&self, seal: Arc<dyn Seal>) -> bool {
        self.seal.set(seal).is_ok()
    }

    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Ready once the node stops.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        async move {
            // An error means that the node is gone: stopped as well.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }

    /// Logs a connection that was refused, or closed for what the peer did: one in a second.
    pub(crate) fn refused(&self, nid: Nid, error: &LinkError) {
        if let Some(others) = self.refusals.pass(self.env.clock.now()) {
            tracing::info!(%nid, %error, others, "connection refused");
        }
    }
}
