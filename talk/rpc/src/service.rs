//! A target's side of its sessions.

pub(crate) mod admission;
mod callback;
mod faults;
pub(crate) mod inbound;
mod lease;
pub mod questions;
pub(crate) mod reply_cache;
pub(crate) mod served;

use crate::callbacks::{CallbackRoute, Callbacks};
use env::BoxFuture;
use env::clock::Monotonic;
use env::watch;
use parking_lot::Mutex;
use questions::{Question, Questions};
use reply_cache::ReplyCache;
use served::Served;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::errno::Errno;
use types::limits::LEASE;
use types::nid::Nid;
use types::principal::{Claim, Owner, Principal, Role};
use types::proof::Proof;
use types::session::{ClientUuid, ClusterId, Pairing, Transno, Xid};
use types::target::TargetName;
use wire::message::{ConnectReply, ConnectRequest, Reply, Request};

/// Why a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// The client said so.
    Disconnected,
    /// Its lease ended.
    Evicted,
    /// The service stopped.
    Stopped,
}

/// Whether this process owns a target that other processes can take over.
pub trait Ownership: Send + Sync + 'static {
    /// True if no other process can have begun to serve it, at this moment of the own clock.
    fn holds(&self, now: Monotonic) -> bool;
}

/// The service of a target.
pub trait Service: Send + Sync + 'static {
    /// Name requests are addressed to.
    fn target(&self) -> TargetName;

    /// Cluster it belongs to.
    fn cluster(&self) -> ClusterId;

    /// What this client showed when it was recorded: only a process that shows it again is that
    /// client, also after a restart of the target. `None`: it is not recorded.
    fn claim_of(&self, client: ClientUuid) -> Option<Claim> {
        let _ = client;
        None
    }

    /// A client wants a session (or renews it after a lost connection). `Err` refuses. Version,
    /// cluster and proof were checked.
    fn connect(&self, export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno>;

    /// A session may be used when this is over: then the target knows the client also after a
    /// crash. `None`: at once.
    fn connected(&self, export: &Arc<Export>) -> Option<BoxFuture<'static, ()>> {
        let _ = export;
        None
    }

    /// Newest transno that is durable; 0 where changes are not numbered.
    fn last_committed(&self) -> Transno {
        Transno(0)
    }

    /// One request. Runs as far as it can when first polled; only a part that must wait is pending.
    /// Connect, Disconnect and Ping are answered before they come here, and what the session may
    /// not send is refused.
    fn handle(self: Arc<Self>, export: Arc<Export>, request: Request) -> BoxFuture<'static, Reply>;

    /// True if nothing may be begun for this client now, because it has lost the locks under which
    /// it works. It is answered as if the request had come after its limit ([`crate::deadline`]).
    fn is_fenced(&self, export: &Export, request: &Request) -> bool {
        let _ = (export, request);
        false
    }

    /// The client of an idle session says that it has the answers to all requests below `known`.
    fn pinged(&self, export: &Arc<Export>, known: Xid) {
        let _ = (export, known);
    }

    /// A session ended: drop what belongs to it, and let its waiting requests answer.
    fn gone(&self, export: &Arc<Export>, why: Gone);
}

/// A target's record of one client's session. It outlives connections; it ends with a Disconnect,
/// with the client's lease, or with the service.
pub struct Export {
    /// The target that lists it.
    served: Weak<Served>,
    target: TargetName,
    client: ClientUuid,
    number: u32,
    /// What the client showed when it opened the session.
    proof: Proof,
    /// Number of its [`Role`].
    role: AtomicU8,
    origin: Mutex<Origin>,
    gone: AtomicBool,
    /// Changes when the client comes back over another connection, and when the session ends.
    renewed: watch::Sender<u64>,
    /// Time of the last request, nanoseconds of the monotonic clock.
    heard: AtomicU64,
    last_committed: AtomicU64,
    replies: ReplyCache,
    questions: Questions,
}

/// Where the client of a session is.
pub(crate) struct Origin {
    pub(crate) nid: Nid,
    pub(crate) description: String,
    pub(crate) route: CallbackRoute,
    /// What the connections show that may carry its requests; `None`: it is in this process, and no
    /// connection may.
    pub(crate) pairing: Option<Pairing>,
    /// Whose key these connections show; `None`: no key is asked for.
    pub(crate) principal: Option<Arc<Principal>>,
}

/// The client of a session that is made.
pub(crate) struct Identity {
    pub(crate) client: ClientUuid,
    pub(crate) proof: Proof,
    pub(crate) role: Role,
}

/// True if both are keys of one owner, which may have got a new key meanwhile, or both are none.
pub(crate) fn is_same_owner(one: Option<&Arc<Principal>>, other: Option<&Arc<Principal>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.is_same_owner(other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

impl Export {
    /// A session of a client in this process. `Rpc` makes them; public so that a service can be
    /// tested without it.
    pub fn local(
        target: TargetName,
        client: ClientUuid,
        description: String,
        callbacks: Option<Arc<dyn Callbacks>>,
    ) -> Arc<Export> {
        let route = CallbackRoute::Local(callbacks);
        let identity = Identity { client, proof: Proof(0), role: Role::Server };
        let origin =
            Origin { nid: Nid::Loopback, description, route, pairing: None, principal: None };
        Export::new(Weak::new(), target, identity, 1, origin)
    }

    /// As [`Export::local`], of a client on the network without a key, whose connection is not
    /// there: so that a service can be tested with one.
    pub fn elsewhere(target: TargetName, client: ClientUuid, nid: Nid, role: Role) -> Arc<Export> {
        let identity = Identity { client, proof: Proof(0), role };
        let (description, route) = ("test".to_owned(), CallbackRoute::Local(None));
        let origin = Origin { nid, description, route, pairing: None, principal: None };
        Export::new(Weak::new(), target, identity, 1, origin)
    }

    pub(crate) fn new(
        served: Weak<Served>,
        target: TargetName,
        Identity { client, proof, role }: Identity,
        number: u32,
        origin: Origin,
    ) -> Arc<Export> {
        Arc::new(Export {
            served,
            target,
            client,
            number,
            proof,
            role: AtomicU8::new(role as u8),
            origin: Mutex::new(origin),
            gone: AtomicBool::new(false),
            renewed: watch::Sender::new(0),
            heard: AtomicU64::new(0),
            last_committed: AtomicU64::new(0),
            replies: ReplyCache::default(),
            questions: Questions::default(),
        })
    }

    /// The target.
    pub fn target(&self) -> TargetName {
        self.target
    }

    /// Number of the session among this client's at this start of the target.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The client.
    pub fn client(&self) -> ClientUuid {
        self.client
    }

    /// What the client shows to get the session back.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// As [`Export::proof`], and whose key: what a target records.
    pub fn claim(&self) -> Claim {
        Claim { proof: self.proof, owner: Owner::of(self.origin.lock().principal.as_deref()) }
    }

    /// What it is believed to be.
    pub fn role(&self) -> Role {
        Role::of_number(self.role.load(Ordering::Acquire))
    }

    /// It proved to be a server of the cluster.
    pub fn proved_server(&self) {
        self.role.store(Role::Server as u8, Ordering::Release);
    }

    /// True if requests of the session may come over connections that show this.
    pub(crate) fn is_paired(&self, pairing: Pairing, principal: Option<&Arc<Principal>>) -> bool {
        let origin = self.origin.lock();
        origin.pairing == Some(pairing) && is_same_owner(origin.principal.as_ref(), principal)
    }

    /// Whose key the client showed when it last connected; `None`: none was asked for.
    pub fn principal(&self) -> Option<Arc<Principal>> {
        self.origin.lock().principal.clone()
    }

    /// NID that it last connected from.
    pub fn nid(&self) -> Nid {
        self.origin.lock().nid
    }

    /// Its description of itself.
    pub fn description(&self) -> String {
        self.origin.lock().description.clone()
    }

    /// True if the session has ended. Nothing may be granted to it any more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// A callback for which the client will be evicted without an answer, `LEASE` from `now` on at
    /// the earliest. Until the result is dropped, replies tell the client that it owes an answer.
    /// Hold it until the client has answered or its session has ended.
    pub fn question(&self, now: Monotonic) -> Question<'_> {
        self.questions.ask(now)
    }

    /// A moment on the own clock, up to which the client may take its session for alive, if it is
    /// told nothing: one lease after the newest proof that it can have. That of a client in this
    /// process is over: it needs none.
    pub fn trusted_until(&self, now: Monotonic) -> Monotonic {
        if !self.is_remote() {
            return now;
        }
        let open = Duration::from_millis(self.questions.open_ms(now).into());
        (self.heard_at() + LEASE).saturating_sub(open)
    }

    /// How long the client has left a callback open, milliseconds; 0: none is open. Once its
    /// session has ended: for ever, because no reply proves anything then.
    pub(crate) fn open_ms(&self, now: Monotonic) -> u32 {
        let open = self.questions.open_ms(now);
        if self.is_gone() { u32::MAX } else { open }
    }

    /// Ends the session of a client that does not answer callbacks for its grants; the service is
    /// told [`Gone::Evicted`]. `false`: this session is not listed, and the service is not told.
    pub fn evict(self: &Arc<Self>) -> bool {
        match self.served.upgrade() {
            Some(served) => {
                served.end(self, Gone::Evicted);
                true
            }
            None => {
                self.end();
                false
            }
        }
    }

    /// The client came (back) over this route.
    pub(crate) fn renew(&self, origin: Origin, role: Role) {
        *self.origin.lock() = origin;
        self.role.store(role as u8, Ordering::Release);
        self.renewed.send_modify(|count| *count += 1);
    }

    /// Marks the end; `false` if it was marked before.
    pub(crate) fn end(&self) -> bool {
        let first = !self.gone.swap(true, Ordering::AcqRel);
        self.renewed.send_modify(|count| *count += 1);
        first
    }

    /// True if the client is there, as far as its connection tells. A killed one is not, long
    /// before its lease ends.
    pub fn is_connected(&self) -> bool {
        match &self.origin.lock().route {
            CallbackRoute::Local(_) => !self.is_gone(),
            CallbackRoute::Link(link) => {
                !self.is_gone() && link.upgrade().is_some_and(|link| link.is_open())
            }
        }
    }

    /// True if it comes over the network. Only then it has a lease.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.origin.lock().route, CallbackRoute::Link(_))
    }

    /// A request came.
    pub(crate) fn heard(&self, now: Monotonic) {
        self.heard.fetch_max(now.as_nanos() as u64, Ordering::AcqRel);
    }

    pub(crate) fn heard_at(&self) -> Monotonic {
        Duration::from_nanos(self.heard.load(Ordering::Acquire))
    }

    pub(crate) fn learn_committed(&self, last_committed: Transno) {
        self.last_committed.fetch_max(last_committed.0, Ordering::AcqRel);
    }

    /// Newest transno that a reply to this client called durable.
    pub(crate) fn last_committed(&self) -> Transno {
        Transno(self.last_committed.load(Ordering::Acquire))
    }

    pub(crate) fn replies(&self) -> &ReplyCache {
        &self.replies
    }

    pub(crate) fn route(&self) -> CallbackRoute {
        self.origin.lock().route.clone()
    }

    pub(crate) fn renewals(&self) -> watch::Receiver<u64> {
        self.renewed.subscribe()
    }
}
