//! This process on the network: accepts connections, makes peers, ends both.
//!
//! Tasks: one per listener, and those of the links. All end with [`Lnet::shutdown`], which waits
//! for them. Bound: [`Lnet::accept_at_most`] accepted connections.

use crate::accepted::Accepted;
use crate::arrivals::{Door, accept, accept_local};
use crate::error::LinkError;
use crate::fault::Faults;
use crate::greet;
use crate::link::{Handler, Link};
use crate::links::Links;
use crate::local;
use crate::nets::{Route, Way};
use crate::peer::{Peer, PeerNid};
use crate::rails::{Path, Rail};
use crate::relay::RelayCounts;
use crate::road;
use crate::seal::{self, Seal};
use crate::shared::Shared;
use crate::traffic::{self, Traffic};
use env::Env;
use env::watch;
use futures_util::future::{Either, join, select};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use types::limits::HOPS_MAX;
use types::net::Net;
use types::nid::Nid;
use types::proof::Secret;
use types::session::{ClientUuid, ClusterId};

/// Goodbyes and tasks have this long at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What is known of a node that this process connected to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerState {
    /// NID that it was connected at.
    pub nid: Nid,
    /// It can take requests.
    pub up: bool,
    /// Connections to it.
    pub links: usize,
    /// Requests that may be on their way at once.
    pub window: usize,
    /// Round trip of the line when it was connected; `None`: unknown.
    pub round_trip: Option<Duration>,
    /// The process there; `None`: it is not connected.
    pub process: Option<ClientUuid>,
    /// NIDs at which it is reached.
    pub nids: Vec<PeerNid>,
}

/// What is known of a node that connected to this process.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AcceptedState {
    /// Connections that it made.
    pub links: usize,
    /// Of them, those that lead through the kernel of this host only.
    pub local: usize,
    /// What went over them.
    pub traffic: Traffic,
}

/// What is known of connections to processes of this host, through the kernel only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalState {
    /// Where the sockets are; `None`: none are made any more.
    pub folder: Option<PathBuf>,
    /// What went over them since the start.
    pub traffic: Traffic,
}

/// An address where connections are accepted, until it is told to stop.
struct Listening {
    nid: Nid,
    stop: watch::Sender<bool>,
}

/// The peer at one NID; locked while it is being connected.
type PeerSlot = Arc<tokio::sync::Mutex<Option<Arc<Peer>>>>;

/// This process' network.
pub struct Lnet {
    shared: Arc<Shared>,
    links: Arc<Links>,
    accepted: Arc<Accepted>,
    listening: Mutex<Vec<Listening>>,
    peers: Mutex<BTreeMap<Nid, PeerSlot>>,
}

impl Lnet {
    /// A node without connections. `handler` gets the requests of all links.
    pub fn new(env: Env, cluster: ClusterId, checksums: bool, handler: Arc<dyn Handler>) -> Lnet {
        let shared = Arc::new(Shared::new(env, cluster, checksums));
        let links = Links::new(shared.clone(), handler);
        Lnet {
            shared,
            links,
            accepted: Arc::default(),
            listening: Mutex::default(),
            peers: Mutex::default(),
        }
    }

    /// The secret of this process.
    pub fn secret(&self) -> Secret {
        self.shared.secret
    }

    /// Bounds the connections that are accepted, below LINKS_ACCEPTED_MAX.
    pub fn accept_at_most(&self, links: usize) {
        self.accepted.allow(links);
    }

    /// Seals all connections that are made or accepted from now on; to be called before the first,
    /// and once. `false`: it was called before.
    pub fn set_seal(&self, seal: Arc<dyn Seal>) -> bool {
        self.shared.set_seal(seal)
    }

    /// Closes the links of peers whose keys were revoked.
    pub fn close_revoked(&self) {
        let Some(seal) = self.shared.seal() else { return };
        for link in self.links.live() {
            if let Some(principal) = link.principal().filter(|principal| seal.is_revoked(principal))
            {
                let reason = format!("the key of {principal} was revoked");
                link.close(LinkError::Key { nid: link.nid(), reason });
            }
        }
    }

    /// Closes the links of peers whose authority is trusted no more; returns their number. Peers
    /// that have newer keys connect again.
    pub fn close_withdrawn(&self) -> usize {
        let Some(seal) = self.shared.seal() else { return 0 };
        let is_withdrawn = |link: &Arc<Link>| {
            link.protection().is_some_and(|protection| seal.is_withdrawn(&protection))
        };
        let mut closed = 0;
        for link in self.links.live().into_iter().filter(is_withdrawn) {
            let reason = "the authority of its key was withdrawn".to_owned();
            link.close(LinkError::Lost { nid: link.nid(), reason });
            closed += 1;
        }
        closed
    }

    /// The cluster became known.
    pub fn set_cluster(&self, cluster: ClusterId) {
        self.shared.set_cluster(cluster);
    }

    /// True if sent frames carry checksums of their content.
    pub fn checksums(&self) -> bool {
        self.shared.sends_checksums()
    }

    /// As [`Lnet::checksums`], from the next frame on. A received checksum is verified in any case.
    pub fn set_checksums(&self, on: bool) {
        self.shared.send_checksums(on);
    }

    /// Rules that lose or delay frames.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// NIDs that connections are accepted at.
    pub fn listening(&self) -> Vec<Nid> {
        self.listening.lock().iter().map(|listening| listening.nid).collect()
    }

    /// Tasks that live now.
    pub fn tasks(&self) -> usize {
        self.links.tasks()
    }

    /// As [`Lnet::listen_on`], on `tcp`.
    ///
    /// # Errors
    /// The system's reason.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<SocketAddr> {
        self.listen_on(Net::TCP, addr).await
    }

    /// Accepts connections at an address of a network; port 0 takes any free one.
    ///
    /// # Errors
    /// The system's reason.
    pub async fn listen_on(&self, net: Net, addr: SocketAddr) -> std::io::Result<SocketAddr> {
        let listener = self.shared.env.net.listen(addr).await?;
        let addr = listener.local_addr()?;
        let (stop, mut told) = watch::channel(false);
        let nid = Nid::new(net, addr);
        self.listening.lock().push(Listening { nid, stop });
        self.tell_nids();
        let (links, accepted, task) =
            (self.links.clone(), self.accepted.clone(), self.links.task());
        // Before anybody is told the NID.
        let folder = self.shared.local.folder();
        let local = folder.map(|folder| (local::listen(&self.shared, &folder, nid), folder));
        let accept = async move {
            let stopped = links.shared.stopped();
            // No error: while it listens, the sender is in the list.
            let told = async { told.wait_for(|told| *told).await.map_or((), drop) };
            let network = accept(&links, &accepted, Door::Network(&*listener), nid);
            let both = join(network, accept_local(&links, &accepted, local, nid));
            select(pin!(both), select(pin!(stopped), pin!(told))).await;
            // The local socket went before: the address is free for another process now.
            drop(listener);
            drop(task);
        };
        self.shared.env.tasks.spawn("accept", Box::pin(accept));
        Ok(addr)
    }

    /// The peer at `nid`, connected. Callers at the same time share one attempt.
    ///
    /// # Errors
    /// Why it cannot be.
    pub async fn peer(&self, nid: Nid) -> Result<Arc<Peer>, LinkError> {
        let slot = self.peers.lock().entry(nid).or_default().clone();
        let mut slot = slot.lock().await;
        if let Some(peer) = slot.as_ref().filter(|peer| peer.is_open()) {
            return Ok(peer.clone());
        }
        *slot = None;
        if self.shared.is_stopping() {
            return Err(LinkError::Shutdown);
        }
        let peer = Peer::connect(self.links.clone(), nid).await?;
        *slot = Some(peer.clone());
        Ok(peer)
    }

    /// A connection to a node, directly or through routers, on which nothing was said yet. It is
    /// for other protocols than that of messages.
    ///
    /// # Errors
    /// There is no answer, or no way.
    pub async fn stream(&self, nid: Nid) -> Result<(seal::Read, seal::Write), LinkError> {
        let shared = &self.shared;
        let road = road::open(shared, Path::any(nid), HOPS_MAX, false);
        greet::in_time(shared, nid, road).await.map(|road| (road.read, road.write))
    }

    /// Networks of this process.
    pub fn nets(&self) -> Vec<Net> {
        self.shared.nets.local()
    }

    /// This process is on these networks, and on no others: it connects to NIDs of these only. At
    /// first it is on `tcp`.
    pub fn set_nets(&self, nets: &[Net]) {
        self.shared.nets.set(nets.iter().copied());
    }

    /// This process is on a further network.
    pub fn join(&self, net: Net) {
        self.shared.nets.join(net);
    }

    /// This process leaves a network: connections that stand go on. `false`: it is not on it.
    pub fn leave(&self, net: Net) -> bool {
        self.shared.nets.leave(net)
    }

    /// Connections to NIDs of this network begin at these interfaces, in place of those named
    /// before. With one or none the host's own routes choose.
    pub fn set_rails(&self, net: Net, rails: Vec<Rail>) {
        self.shared.nets.set_rails(net, rails);
    }

    /// Peers that are connected from now on are reached over one path only, or over all of them.
    pub fn set_single_path(&self, single: bool) {
        self.shared.nets.set_single(single);
    }

    /// True if a node at this NID is reached without a router.
    pub fn is_direct(&self, nid: Nid) -> bool {
        self.shared.nets.way(nid, self.shared.env.clock.now()) == Way::Direct
    }

    /// Interfaces that were named for this network.
    pub fn rails(&self, net: Net) -> Vec<Rail> {
        self.shared.nets.rails(net)
    }

    /// Connects to processes of this host over sockets in this folder, and takes connections of
    /// theirs there, from now on; `None`: over the network only.
    pub fn set_local(&self, folder: Option<PathBuf>) {
        self.shared.local.set(folder);
    }

    /// Connections to processes of this host, through the kernel only.
    pub fn local(&self) -> LocalState {
        let live = self.links.live();
        let local = live.iter().filter(|link| link.is_local());
        let all = self.shared.local.totals.with(local.map(|link| (link.source(), &link.meter)));
        let mut traffic = Traffic::default();
        all.into_values().for_each(|one| traffic += one);
        LocalState { folder: self.shared.local.folder(), traffic }
    }

    /// One more route; it replaces one to the same network by the same gateway. `false`: there are
    /// ROUTES_MAX.
    pub fn add_route(&self, route: Route) -> bool {
        self.shared.nets.add_route(route)
    }

    /// One route less. `false`: there is none.
    pub fn remove_route(&self, net: Net, gateway: Nid) -> bool {
        self.shared.nets.remove_route(net, gateway)
    }

    /// Routes, each with whether its gateway did what it was last asked.
    pub fn routes(&self) -> Vec<(Route, bool)> {
        self.shared.nets.routes(self.shared.env.clock.now())
    }

    /// From now on it forwards for others, or does not. Circuits that stand go on.
    pub fn forward(&self, on: bool) {
        self.shared.relay.forward(on);
    }

    /// True if it forwards for others.
    pub fn forwards(&self) -> bool {
        self.shared.relay.forwards()
    }

    /// NIDs to which it may forward, in place of those that were named under the same word.
    pub fn allow_forwarding(&self, word: &str, nids: Vec<Nid>) {
        self.shared.relay.allow(word, nids);
    }

    /// What it forwarded, and forwards.
    pub fn relay_counts(&self) -> RelayCounts {
        self.shared.relay.counts()
    }

    /// NIDs in the order in which they are to be tried, without those that this process cannot
    /// reach, unless that is true of all.
    pub fn sorted(&self, nids: Vec<Nid>) -> Vec<Nid> {
        self.shared.nets.sorted(nids)
    }

    /// Accepts no connections at this NID any more; those that stand go on. `false`: none were.
    pub fn stop_listening(&self, nid: Nid) -> bool {
        let mut listening = self.listening.lock();
        let Some(at) = listening.iter().position(|listening| listening.nid == nid) else {
            return false;
        };
        listening.remove(at).stop.send_replace(true);
        drop(listening);
        self.tell_nids();
        true
    }

    /// Those that connect from now on are told at which NIDs this process is.
    fn tell_nids(&self) {
        let nids = self.listening();
        *self.shared.nids.lock() = nids;
    }

    /// Nodes that this process connected to, by NID.
    pub fn peers(&self) -> Vec<PeerState> {
        let slots: Vec<(Nid, PeerSlot)> =
            self.peers.lock().iter().map(|(nid, slot)| (*nid, slot.clone())).collect();
        let state = |(nid, slot): (Nid, PeerSlot)| {
            // Locked: it is being connected.
            let slot = slot.try_lock();
            let peer = slot.as_ref().ok().and_then(|slot| slot.as_ref());
            match peer.filter(|peer| peer.is_open()) {
                None => PeerState {
                    nid,
                    up: false,
                    links: 0,
                    window: 0,
                    round_trip: None,
                    process: None,
                    nids: Vec::new(),
                },
                Some(peer) => PeerState {
                    nid,
                    up: true,
                    links: 1 + peer.bulk_links(),
                    window: peer.window(),
                    round_trip: peer.round_trip(),
                    process: Some(peer.process()),
                    nids: peer.nids(),
                },
            }
        };
        slots.into_iter().map(state).collect()
    }

    /// Connections that others made, by the NID that they are known under; ports of nodes that
    /// connect mean nothing.
    pub fn accepted(&self) -> BTreeMap<Nid, AcceptedState> {
        let mut by_address: BTreeMap<Nid, AcceptedState> = BTreeMap::new();
        for link in self.links.live() {
            if !link.is_dialled() && link.is_open() {
                let state = by_address.entry(traffic::address(link.origin())).or_default();
                state.links += 1;
                state.local += usize::from(link.is_local());
                state.traffic += link.meter.traffic();
            }
        }
        by_address
    }

    /// What went over networks since the start, by the address of this process.
    pub fn traffic(&self) -> BTreeMap<Nid, Traffic> {
        let live = self.links.live();
        let network = live.iter().filter(|link| !link.is_local());
        self.shared.totals.with(network.map(|link| (link.source(), &link.meter)))
    }

    /// Closes the connections to the node at this NID. `false`: there are none.
    pub fn hang_up(&self, nid: Nid) -> bool {
        let slot = self.peers.lock().get(&nid).cloned();
        let peer = slot.and_then(|slot| slot.try_lock().ok()?.take());
        let Some(peer) = peer.filter(|peer| peer.is_open()) else { return false };
        peer.close(&LinkError::Lost { nid, reason: "an administrator closed it".to_owned() });
        true
    }

    /// Stops accepting, says goodbye on all links, closes them and waits for all tasks to end.
    pub async fn shutdown(&self) {
        let links = self.links.live();
        links.iter().for_each(Link::say_goodbye);
        let flushed = async {
            for link in &links {
                std::future::poll_fn(|cx| link.poll_flush(cx)).await.unwrap_or_else(|error| {
                    tracing::debug!(nid = %link.nid(), %error, "goodbye not sent");
                });
            }
        };
        select(pin!(flushed), self.shared.env.clock.sleep(FAREWELL)).await;
        self.shared.stop();
        self.peers.lock().clear();
        self.links.live().iter().for_each(|link| link.close(LinkError::Shutdown));
        if let Either::Right(_) =
            select(pin!(self.links.ended()), self.shared.env.clock.sleep(FAREWELL)).await
        {
            tracing::error!(tasks = self.tasks(), "tasks of the network did not end");
        }
    }
}
