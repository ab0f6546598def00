//! This process on the network: accepts connections, makes peers, ends both.
//!
//! Tasks: one per listener, one per link, and one that looks for overdue requests each second
//! (started with the first link). All end with [`Lnet::shutdown`], which waits for them. Bound:
//! [`Lnet::accept_at_most`] accepted connections.

use crate::accepted::{Accepted, address_of};
use crate::budget::Budget;
use crate::driver::Driver;
use crate::error::LinkError;
use crate::fault::Faults;
use crate::greet;
use crate::link::{Handler, Link};
use crate::peer::Peer;
use env::Env;
use env::net::{Listener, Stream};
use env::ration::Ration;
use env::watch;
use futures_util::future::{Either, select};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use types::limits::{LINKS_ACCEPTED_MAX, RECEIVE_BYTES_MAX, RECEIVE_BYTES_PER_ADDRESS_MAX};
use types::nid::Nid;
use types::proof::Secret;
use types::session::{ClientUuid, ClusterId};
use wire::hello::Purpose;

/// Overdue requests are looked for this often.
const SWEEP: Duration = Duration::from_secs(1);
/// Goodbyes and tasks have this long at the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// After a failed accept (no descriptors left), the next one waits.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What links share with their node.
pub(crate) struct Shared {
    pub(crate) env: Env,
    /// True if sent frames carry checksums of their content.
    pub(crate) checksums: AtomicBool,
    pub(crate) process: ClientUuid,
    /// From it comes what is shown to the servers that this process connects to.
    pub(crate) secret: Secret,
    pub(crate) faults: Faults,
    /// For log lines about connections that any peer can cause.
    pub(crate) refusals: Ration,
    pub(crate) accepted: Arc<Accepted>,
    pub(crate) budget: Arc<Budget>,
    cluster: Mutex<ClusterId>,
    stopping: watch::Sender<bool>,
    /// Tasks that live.
    tasks: watch::Sender<usize>,
    links: Mutex<Vec<Weak<Link>>>,
    sweeping: AtomicBool,
    /// Connections that are accepted at once.
    accepted_max: AtomicUsize,
}

impl Shared {
    pub(crate) fn cluster(&self) -> ClusterId {
        *self.cluster.lock()
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

    /// True if one more connection may be accepted. Two tasks do not count: those that accept and
    /// sweep.
    fn has_room(&self) -> bool {
        self.tasks.borrow().saturating_sub(2) < self.accepted_max.load(Ordering::Relaxed)
    }

    /// Counts a task until dropped.
    fn task(self: &Arc<Self>) -> Task {
        self.tasks.send_modify(|count| *count += 1);
        Task { shared: self.clone() }
    }

    fn enrol(self: &Arc<Self>, link: &Arc<Link>) {
        let mut links = self.links.lock();
        if links.len() == links.capacity() {
            links.retain(|link| link.strong_count() > 0);
        }
        links.push(Arc::downgrade(link));
        drop(links);
        if !self.sweeping.swap(true, Ordering::AcqRel) {
            let (shared, task) = (self.clone(), self.task());
            self.env.tasks.spawn("sweep links", Box::pin(async move { shared.sweep(task).await }));
        }
    }

    async fn sweep(self: Arc<Self>, _task: Task) {
        let mut stopped = pin!(self.stopped());
        let mut before = self.env.clock.now();
        while let Either::Left(_) = select(self.env.clock.sleep(SWEEP), &mut stopped).await {
            let now = self.env.clock.now();
            // If this process itself stood still, first read what the peers sent meanwhile.
            let stood_still = now.saturating_sub(before) > 3 * SWEEP;
            before = now;
            for link in self.live_links() {
                link.expire(now);
                if !stood_still {
                    link.close_if_idle(now);
                }
            }
        }
    }

    /// Logs a connection that was refused, or closed for what the peer did: one in a second.
    pub(crate) fn refused(&self, nid: Nid, error: &LinkError) {
        if let Some(others) = self.refusals.pass(self.env.clock.now()) {
            tracing::info!(%nid, %error, others, "connection refused");
        }
    }

    fn live_links(&self) -> Vec<Arc<Link>> {
        self.links.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

struct Task {
    shared: Arc<Shared>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.shared.tasks.send_modify(|count| *count -= 1);
    }
}

/// The peer at one NID; locked while it is being connected.
type PeerSlot = Arc<tokio::sync::Mutex<Option<Arc<Peer>>>>;

/// This process' network.
pub struct Lnet {
    shared: Arc<Shared>,
    handler: Arc<dyn Handler>,
    listening: Mutex<Vec<Nid>>,
    peers: Mutex<BTreeMap<Nid, PeerSlot>>,
}

impl Lnet {
    /// A node without connections. `handler` gets the requests of all links.
    pub fn new(env: Env, cluster: ClusterId, checksums: bool, handler: Arc<dyn Handler>) -> Lnet {
        let process = ClientUuid(env.random.next_u128());
        let secret = Secret::new(env.random.next_u128());
        let shared = Shared {
            env,
            checksums: AtomicBool::new(checksums),
            process,
            secret,
            faults: Faults::default(),
            refusals: Ration::default(),
            accepted: Arc::default(),
            budget: Budget::new(RECEIVE_BYTES_MAX, RECEIVE_BYTES_PER_ADDRESS_MAX),
            cluster: Mutex::new(cluster),
            stopping: watch::Sender::new(false),
            tasks: watch::Sender::new(0),
            links: Mutex::default(),
            sweeping: AtomicBool::new(false),
            accepted_max: AtomicUsize::new(LINKS_ACCEPTED_MAX),
        };
        Lnet { shared: Arc::new(shared), handler, listening: Mutex::default(), peers: Mutex::default() }
    }

    /// The secret of this process.
    pub fn secret(&self) -> Secret {
        self.shared.secret
    }

    /// Bounds the connections that are accepted, below LINKS_ACCEPTED_MAX.
    pub fn accept_at_most(&self, links: usize) {
        self.shared.accepted_max.store(links.min(LINKS_ACCEPTED_MAX), Ordering::Relaxed);
    }

    /// The cluster became known.
    pub fn set_cluster(&self, cluster: ClusterId) {
        *self.shared.cluster.lock() = cluster;
    }

    /// True if sent frames carry checksums of their content.
    pub fn checksums(&self) -> bool {
        self.shared.checksums.load(Ordering::Relaxed)
    }

    /// As [`Lnet::checksums`], from the next frame on. A received checksum is verified in any case.
    pub fn set_checksums(&self, on: bool) {
        self.shared.checksums.store(on, Ordering::Relaxed);
    }

    /// Rules that lose or delay frames.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// NIDs that connections are accepted at.
    pub fn listening(&self) -> Vec<Nid> {
        self.listening.lock().clone()
    }

    /// Tasks that live now.
    pub fn tasks(&self) -> usize {
        *self.shared.tasks.borrow()
    }

    /// Accepts connections at an address; port 0 takes any free one.
    ///
    /// # Errors
    /// The system's reason.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<SocketAddr> {
        let listener = self.shared.env.net.listen(addr).await?;
        let addr = listener.local_addr()?;
        self.listening.lock().push(Nid::Tcp(addr));
        let (shared, handler, task) = (self.shared.clone(), self.handler.clone(), self.shared.task());
        let accept = async move {
            let stopped = shared.stopped();
            select(pin!(accept(&shared, &handler, &*listener, Nid::Tcp(addr))), pin!(stopped)).await;
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
        let peer = Peer::connect(self.shared.clone(), self.handler.clone(), nid).await?;
        *slot = Some(peer.clone());
        Ok(peer)
    }

    /// Stops accepting, says goodbye on all links, closes them and waits for all tasks to end.
    pub async fn shutdown(&self) {
        let links = self.shared.live_links();
        links.iter().for_each(Link::say_goodbye);
        let flushed = async {
            for link in &links {
                std::future::poll_fn(|cx| link.poll_flush(cx)).await.unwrap_or_else(|error| {
                    tracing::debug!(nid = %link.nid(), %error, "goodbye not sent");
                });
            }
        };
        select(pin!(flushed), self.shared.env.clock.sleep(FAREWELL)).await;
        self.shared.stopping.send_replace(true);
        self.peers.lock().clear();
        self.shared.live_links().iter().for_each(|link| link.close(LinkError::Shutdown));
        let mut tasks = self.shared.tasks.subscribe();
        let ended = tasks.wait_for(|count| *count == 0);
        if let Either::Right(_) = select(pin!(ended), self.shared.env.clock.sleep(FAREWELL)).await {
            tracing::error!(tasks = self.tasks(), "tasks of the network did not end");
        }
    }
}

async fn accept(shared: &Arc<Shared>, handler: &Arc<dyn Handler>, listener: &dyn Listener, source: Nid) {
    loop {
        match listener.accept().await {
            Ok((stream, addr)) if shared.has_room() => {
                let (shared, handler, task) = (shared.clone(), handler.clone(), shared.task());
                let tasks = shared.env.tasks.clone();
                let serve = async move {
                    serve(&shared, handler, stream, source, Nid::Tcp(addr)).await;
                    drop(task);
                };
                tasks.spawn_apart("link", Box::pin(serve));
            }
            Ok((_, addr)) => {
                let max = shared.accepted_max.load(Ordering::Relaxed);
                let reason = format!("more than {max} connections; a higher limit of descriptors allows more");
                shared.refused(Nid::Tcp(addr), &LinkError::Protocol { nid: Nid::Tcp(addr), reason });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                shared.env.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// An accepted connection, from its greeting to its end.
async fn serve(shared: &Arc<Shared>, handler: Arc<dyn Handler>, stream: Box<dyn Stream>, source: Nid, nid: Nid) {
    let (place, ended) = shared.accepted.arrive(address_of(nid));
    let (mut read, mut write) = stream.split();
    let greeted = {
        let greeting = greet::in_time(shared, nid, greet::answer(shared, source, nid, &mut read, &mut write));
        match select(pin!(greeting), ended).await {
            Either::Left((greeted, _)) => greeted,
            Either::Right(_) => {
                let reason = "too many connections have no session".to_owned();
                Err(LinkError::Protocol { nid, reason })
            }
        }
    };
    match greeted {
        Ok(ends) => {
            let link = Link::new(shared.clone(), ends, write, Some(place));
            run(shared, handler, link, read).await;
        }
        Err(error) => shared.refused(nid, &error),
    }
}

/// Drives a link to its end; why it ended.
async fn run(
    shared: &Arc<Shared>,
    handler: Arc<dyn Handler>,
    link: Arc<Link>,
    read: Box<dyn tokio::io::AsyncRead + Send + Unpin>,
) {
    shared.enrol(&link);
    let driver = Driver::new(link.clone(), handler, read);
    if shared.is_stopping() {
        link.close(LinkError::Shutdown);
    }
    driver.await;
}

/// Makes a connection; a task on a reactor of its choice drives it, and calls `on_end` at its end.
pub(crate) async fn open_link(
    shared: &Arc<Shared>,
    handler: &Arc<dyn Handler>,
    nid: Nid,
    purpose: Purpose,
    on_end: Box<dyn FnOnce(LinkError) + Send>,
) -> Result<Arc<Link>, LinkError> {
    let (made, outcome) = oneshot::channel();
    let (shared, handler, task) = (shared.clone(), handler.clone(), shared.task());
    let tasks = shared.env.tasks.clone();
    let drive = async move {
        let _task = task;
        match greet::in_time(&shared, nid, connect(&shared, nid, purpose)).await {
            Err(error) => {
                // The receiver is gone: the caller was dropped.
                let _ = made.send(Err(error));
            }
            Ok((link, read)) => {
                if made.send(Ok(link.clone())).is_ok() {
                    run(&shared, handler, link.clone(), read).await;
                }
                let gone = || LinkError::Lost { nid, reason: "closed".to_owned() };
                on_end(link.closed().unwrap_or_else(gone));
            }
        }
    };
    tasks.spawn_apart("link", Box::pin(drive));
    outcome.await.unwrap_or(Err(LinkError::Shutdown))
}

async fn connect(
    shared: &Arc<Shared>,
    nid: Nid,
    purpose: Purpose,
) -> Result<(Arc<Link>, Box<dyn tokio::io::AsyncRead + Send + Unpin>), LinkError> {
    let cannot = |error: std::io::Error| LinkError::Connect { nid, reason: error.to_string() };
    let Nid::Tcp(addr) = nid else {
        return Err(LinkError::Connect { nid, reason: "there is no route from here into another process".to_owned() });
    };
    let stream = shared.env.net.connect(addr).await.map_err(cannot)?;
    let source = Nid::Tcp(stream.local_addr().map_err(cannot)?);
    let (mut read, mut write) = stream.split();
    let ends = greet::call(shared, source, nid, purpose, &mut read, &mut write).await?;
    Ok((Link::new(shared.clone(), ends, write, None), read))
}
