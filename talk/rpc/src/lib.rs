//! Requests and replies between a client and a target, whether in this process or over the network.
//!
//! `Rpc` is one per process. Servers add a [`service::Service`] per target; clients make an
//! [`import::Import`] per target. If the target lives in this process, a call runs the service in
//! the caller's own thread, by reference: no queue, no encoding, no hand-off. Otherwise it travels
//! over `lnet`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod awaited;
pub mod callbacks;
pub mod deadline;
pub mod error;
pub mod import;
pub mod line;
pub mod patience;
mod sealed;
pub mod service;
pub mod stats;
pub mod under_way;
mod weight;

use env::Env;
use env::ration::Ration;
use env::watch;
use error::RpcError;
use futures_util::future::join_all;
use import::{Import, Owner};
use lnet::error::LinkError;
use lnet::fault::Faults;
use lnet::nets::Route;
use lnet::node::{AcceptedState, Lnet, LocalState, PeerState};
use lnet::rails::Rail;
use lnet::relay::RelayCounts;
use lnet::seal::{Read, Seal, Write};
use lnet::traffic::Traffic;
use observe::mutant::{Mutant, is_mutant};
use observe::registry::Registry;
use parking_lot::Mutex;
use service::inbound::Inbound;
use service::served::ServedTargets;
use service::{Gone, Service};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::limits::{LEASE, PING_INTERVAL, REQUEST_TIMEOUT};
use types::net::Net;
use types::nid::Nid;
use types::proof::ServerKey;
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

/// The times of the conversation. The defaults are those of `types::limits`; tests shorten them.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// An idle session is pinged at this interval.
    pub ping_interval: Duration,
    /// A client unheard of for this long is evicted.
    pub lease: Duration,
    /// A request without an answer for this long fails.
    pub request_timeout: Duration,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings { ping_interval: PING_INTERVAL, lease: LEASE, request_timeout: REQUEST_TIMEOUT }
    }
}

type ImportKey = (TargetName, ClientUuid);

/// Messaging of one process.
pub struct Rpc {
    env: Env,
    cluster: Mutex<ClusterId>,
    /// Key of the servers, if this process serves a target.
    server_key: Mutex<ServerKey>,
    timings: Timings,
    lnet: Lnet,
    served: ServedTargets,
    metrics: Arc<Registry>,
    under_way: Arc<under_way::Table>,
    callers: awaited::Callers,
    imports: Mutex<BTreeMap<ImportKey, Weak<Import>>>,
    /// Requests of imports that ended have numbers up to this one.
    xids_taken: AtomicU64,
    stopping: watch::Sender<bool>,
    /// For log lines about requests that any peer can cause.
    complaints: Ration,
    /// True if the tasks run that ping and that watch leases.
    pings: AtomicBool,
    leases: AtomicBool,
}

impl Rpc {
    /// Messaging without any service or connection yet.
    pub fn new(env: Env, config: RpcConfig) -> Arc<Rpc> {
        Rpc::with_timings(env, config, Timings::default())
    }

    /// With other times than the usual.
    pub fn with_timings(env: Env, config: RpcConfig, timings: Timings) -> Arc<Rpc> {
        Arc::new_cyclic(|me| Rpc {
            lnet: Lnet::new(
                env.clone(),
                config.cluster,
                config.checksums,
                Arc::new(Inbound { rpc: me.clone() }),
            ),
            metrics: Arc::new(Registry::new(env.clock.wall())),
            env,
            cluster: Mutex::new(config.cluster),
            server_key: Mutex::default(),
            timings,
            served: ServedTargets::default(),
            under_way: Arc::default(),
            callers: awaited::Callers::default(),
            imports: Mutex::default(),
            xids_taken: AtomicU64::new(0),
            stopping: watch::Sender::new(false),
            complaints: Ration::default(),
            pings: AtomicBool::new(false),
            leases: AtomicBool::new(false),
        })
    }

    /// Accepts connections at `addr` (port 0: any free one); returns the bound address, which
    /// becomes a local NID.
    pub async fn listen(self: &Arc<Self>, addr: SocketAddr) -> Result<SocketAddr, RpcError> {
        self.lnet
            .listen(addr)
            .await
            .map_err(|error| RpcError::Listen { addr, reason: error.to_string() })
    }

    /// Interfaces at which connections to this network begin, in place of those named before.
    pub fn set_rails(&self, net: Net, rails: Vec<Rail>) {
        self.lnet.set_rails(net, rails);
    }

    /// Interfaces that were named for this network.
    pub fn rails(&self, net: Net) -> Vec<Rail> {
        self.lnet.rails(net)
    }

    /// Connects to processes of this host over sockets in this folder, and takes connections of
    /// theirs there, from now on; `None`: over networks only.
    pub fn set_local(&self, folder: Option<PathBuf>) {
        self.lnet.set_local(folder);
    }

    /// Connections to processes of this host, through the kernel only.
    pub fn local(&self) -> LocalState {
        self.lnet.local()
    }

    /// One more route to another network. `false`: there are ROUTES_MAX.
    pub fn add_route(&self, route: Route) -> bool {
        self.lnet.add_route(route)
    }

    /// One route less. `false`: there is none.
    pub fn remove_route(&self, net: Net, gateway: Nid) -> bool {
        self.lnet.remove_route(net, gateway)
    }

    /// Routes, each with whether its gateway did what it was last asked.
    pub fn routes(&self) -> Vec<(Route, bool)> {
        self.lnet.routes()
    }

    /// From now on this process forwards for others, or does not.
    pub fn forward(&self, on: bool) {
        self.lnet.forward(on);
    }

    /// True if it forwards for others.
    pub fn forwards(&self) -> bool {
        self.lnet.forwards()
    }

    /// NIDs to which it may forward, in place of those that were named under the same word.
    pub fn allow_forwarding(&self, word: &str, nids: Vec<Nid>) {
        self.lnet.allow_forwarding(word, nids);
    }

    /// What it forwarded, and forwards.
    pub fn relay_counts(&self) -> RelayCounts {
        self.lnet.relay_counts()
    }

    /// As [`Rpc::listen`], on this network.
    ///
    /// # Errors
    /// [`RpcError::Listen`].
    pub async fn listen_on(&self, net: Net, addr: SocketAddr) -> Result<SocketAddr, RpcError> {
        let listened = self.lnet.listen_on(net, addr).await;
        listened.map_err(|error| RpcError::Listen { addr, reason: error.to_string() })
    }

    /// Networks of this process.
    pub fn nets(&self) -> Vec<Net> {
        self.lnet.nets()
    }

    /// This process is on these networks, and on no others; at first it is on `tcp`.
    pub fn set_nets(&self, nets: &[Net]) {
        self.lnet.set_nets(nets);
    }

    /// This process is on a further network.
    pub fn join(&self, net: Net) {
        self.lnet.join(net);
    }

    /// This process leaves a network. `false`: it is not on it.
    pub fn leave(&self, net: Net) -> bool {
        self.lnet.leave(net)
    }

    /// Seals all connections that are made or accepted from now on; to be called before the first,
    /// and once. `false`: it was called before.
    pub fn set_seal(&self, seal: Arc<dyn Seal>) -> bool {
        self.lnet.set_seal(seal)
    }

    /// Keys were revoked: the connections that show them are closed, and their sessions end.
    pub fn end_revoked(&self, seal: &dyn Seal) {
        if is_mutant(Mutant::RevokedStays) {
            return;
        }
        self.lnet.close_revoked();
        for served in self.served.all() {
            for export in served.exports() {
                if export.principal().is_some_and(|principal| seal.is_revoked(&principal)) {
                    served.end(&export, Gone::Evicted);
                }
            }
        }
    }

    /// Closes the connections of peers whose authority is trusted no more; returns their number. As
    /// after any lost connection, sessions go on if the peers come back.
    pub fn close_withdrawn(&self) -> usize {
        self.lnet.close_withdrawn()
    }

    /// A connection to a node on its own, for something else than messages.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub async fn stream(&self, nid: Nid) -> Result<(Read, Write), LinkError> {
        self.lnet.stream(nid).await
    }

    /// Bounds the connections that are accepted.
    pub fn accept_at_most(&self, links: usize) {
        self.lnet.accept_at_most(links);
    }

    /// NIDs this process is reached at; `0@lo` first.
    pub fn nids(&self) -> Vec<Nid> {
        std::iter::once(Nid::Loopback).chain(self.lnet.listening()).collect()
    }

    /// Accepts no connections at this NID any more; those that stand go on. `false`: none were.
    pub fn stop_listening(&self, nid: Nid) -> bool {
        self.lnet.stop_listening(nid)
    }

    /// Nodes that this process connected to, by NID.
    pub fn peers(&self) -> Vec<PeerState> {
        self.lnet.peers()
    }

    /// Connections that others made, by their address.
    pub fn accepted(&self) -> BTreeMap<Nid, AcceptedState> {
        self.lnet.accepted()
    }

    /// What went over connections since the start, by the address of this process.
    pub fn traffic(&self) -> BTreeMap<Nid, Traffic> {
        self.lnet.traffic()
    }

    /// Closes the connections to the node at this NID; new ones are made when they are needed.
    /// `false`: there are none.
    pub fn hang_up(&self, nid: Nid) -> bool {
        self.lnet.hang_up(nid)
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        *self.cluster.lock()
    }

    /// The cluster became known.
    pub fn set_cluster(&self, cluster: ClusterId) {
        *self.cluster.lock() = cluster;
        self.lnet.set_cluster(cluster);
    }

    /// Key of the servers of the cluster; known to a process that serves a target.
    pub fn server_key(&self) -> ServerKey {
        *self.server_key.lock()
    }

    /// The key of the servers became known. Sessions that are opened from now on show it, and the
    /// targets of this process ask for it.
    pub fn set_server_key(&self, key: ServerKey) {
        *self.server_key.lock() = key;
    }

    /// True if sent messages carry checksums of their data.
    pub fn checksums(&self) -> bool {
        self.lnet.checksums()
    }

    /// As [`Rpc::checksums`], for all sessions, from the next message on.
    pub fn set_checksums(&self, on: bool) {
        self.lnet.set_checksums(on);
    }

    /// Rules that lose or delay frames on purpose.
    pub fn faults(&self) -> &Faults {
        self.lnet.faults()
    }

    /// Asks for a node at this NID. Connects, or uses the connection that stands.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub async fn reach(&self, nid: Nid) -> Result<(), lnet::error::LinkError> {
        self.lnet.peer(nid).await.map(drop)
    }

    /// Everything that this process counts.
    pub fn metrics(&self) -> &Arc<Registry> {
        &self.metrics
    }

    /// Requests of this process that are not answered yet, and those that it works on; the oldest
    /// first.
    pub fn under_way(&self) -> Vec<under_way::UnderWay> {
        self.under_way.list()
    }

    /// State of the session of a client of this process with a target; `None`: there is none.
    pub fn state_of(&self, target: TargetName, client: ClientUuid) -> Option<import::ImportState> {
        self.find_import(target, client).map(|import| import.state())
    }

    /// Requests to a target of this process that are being worked on.
    pub fn serving(&self, target: TargetName) -> usize {
        self.served.get(target).map_or(0, |served| served.stats.in_flight()[0])
    }

    /// Counts of a target of this process by job; `None`: it is not served here.
    pub fn jobs(&self, target: TargetName) -> Option<Arc<observe::jobs::Jobs>> {
        self.served.get(target).map(|served| served.stats.jobs().clone())
    }

    /// Sessions of a target that this process serves.
    pub fn exports(&self, target: TargetName) -> Vec<Arc<service::Export>> {
        self.served.get(target).map(|served| served.exports()).unwrap_or_default()
    }

    /// Tasks of the network that live now: links, listeners.
    pub fn tasks(&self) -> usize {
        self.lnet.tasks()
    }

    /// Requests to this target are handled by `service` from now on. A service that had the name
    /// before is stopped.
    pub fn add_service(&self, service: Arc<dyn Service>) {
        self.served.add((service, None), &self.metrics, &self.under_way);
    }

    /// As [`Rpc::add_service`], of a target that another process can take over: nothing is answered
    /// while `ownership` does not hold, and clients of this process use it over the network.
    pub fn add_owned_service(
        &self,
        service: Arc<dyn Service>,
        ownership: Arc<dyn service::Ownership>,
    ) {
        self.served.add((service, Some(ownership)), &self.metrics, &self.under_way);
    }

    /// The target is served no longer; its exports are told `Gone::Stopped`.
    pub fn remove_service(&self, target: TargetName) {
        self.served.remove(target);
    }

    /// Drops all services without a word, as a kill does. A service may hold sessions of this very
    /// process, so that neither would ever be freed; a real process needs no such care, a simulated
    /// one does.
    pub fn abandon(&self) {
        self.served.abandon();
    }

    /// Ends a client's session (`lctl ... evict_client`); its export is told `Gone::Evicted`.
    /// `false`: it has none.
    pub fn evict(&self, target: TargetName, client: ClientUuid) -> bool {
        let found = self
            .served
            .get(target)
            .and_then(|served| served.export(client).map(|export| (served, export)));
        found.map(|(served, export)| served.end(&export, Gone::Evicted)).is_some()
    }

    /// A client's side of a session with `target`. Connects at the first call, reconnects after
    /// failures. The client's UUID is its own: one import per target and client at a time.
    pub fn import(
        self: &Arc<Self>,
        target: TargetName,
        nids: Vec<Nid>,
        client: ClientUuid,
        description: String,
        callbacks: Option<Arc<dyn callbacks::Callbacks>>,
    ) -> Arc<Import> {
        self.make_import(target, nids, Owner::Process(client), description, callbacks)
    }

    /// The side of a target in a session with another target. Unlike that of other clients the
    /// session is not the process': in its next life the target gets it back, under the same
    /// `client`. `life` grows with each life, from 1 to 2^20. That takes the key of the servers: it
    /// is to be known before the first request.
    pub fn peer_import(
        self: &Arc<Self>,
        target: TargetName,
        nids: Vec<Nid>,
        (client, life): (ClientUuid, u64),
        description: String,
    ) -> Arc<Import> {
        self.make_import(target, nids, Owner::Peer { client, life }, description, None)
    }

    fn make_import(
        self: &Arc<Self>,
        target: TargetName,
        nids: Vec<Nid>,
        owner: Owner,
        description: String,
        callbacks: Option<Arc<dyn callbacks::Callbacks>>,
    ) -> Arc<Import> {
        let import = Import::new(self.clone(), target, nids, owner, description, callbacks);
        let client = import.client();
        let mut imports = self.imports.lock();
        imports.retain(|_, known| known.strong_count() > 0);
        imports.insert((target, client), Arc::downgrade(&import));
        import
    }

    /// Ends all sessions in order, stops the services, closes connections, ends all tasks.
    pub async fn shutdown(&self) {
        let imports = self.imports();
        join_all(imports.iter().map(|import| import.disconnect())).await;
        self.stopping.send_replace(true);
        self.served.remove_all();
        self.lnet.shutdown().await;
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn timings(&self) -> &Timings {
        &self.timings
    }

    pub(crate) fn lnet(&self) -> &Lnet {
        &self.lnet
    }

    /// Callers that wait for requests.
    pub(crate) fn callers(&self) -> &awaited::Callers {
        &self.callers
    }

    pub(crate) async fn note<F: Future>(&self, about: under_way::UnderWay, work: F) -> F::Output {
        self.under_way.note(about, work).await
    }

    pub(crate) fn served(&self) -> &ServedTargets {
        &self.served
    }

    pub(crate) fn imports(&self) -> Vec<Arc<Import>> {
        self.imports.lock().values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn find_import(
        &self,
        target: TargetName,
        client: ClientUuid,
    ) -> Option<Arc<Import>> {
        self.imports.lock().get(&(target, client)).and_then(Weak::upgrade)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Ready once this process' messaging stops.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        async move {
            // An error means that it is gone: stopped as well.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }
}
