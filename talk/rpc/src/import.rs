//! A client's side of a session with one target.
//!
//! The state (`Disconn -> Connecting -> Full -> ...`, decided by `replay::import`) is behind one
//! small lock that is never held across a wait. A target of this process is called in the caller's
//! own poll, any other one over the network. There a lost connection is made again, and unanswered
//! requests are sent again until REQUEST_TIMEOUT, or as long as a program waits
//! ([`Import::wait_for_ever`]).

mod absence;
mod connect;
mod durable;
mod elsewhere;
mod ending;
mod greeting;
pub mod hooks;
mod kept;
mod pinger;
mod proved;
mod recover;
mod remote;
pub mod report;
mod requests;
mod single_flight;
mod squash;
mod xids;

use crate::Rpc;
use crate::awaited::{Asked, Requests};
use crate::callbacks::Callbacks;
use crate::error::RpcError;
use crate::line::Estimate;
use crate::service::served::Served;
use crate::service::{Export, Gone};
use crate::stats::{CallStats, source_of_import};
use env::clock::{Clock, Monotonic};
use env::watch;
use hooks::{OnLost, OnRestart, OnSquash, Restore};
use kept::Kept;
use parking_lot::Mutex;
use proved::Proved;
use remote::RemoteSession;
use replay::import::{Event, Import as Machine, KEPT_BYTES_MAX, KEPT_DATA_BYTES_MAX};
use single_flight::SingleFlight;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use types::credentials::SquashNews;
use types::nid::Nid;
use types::session::{ClientUuid, Xid};
use types::target::{TargetKind, TargetName};
use wire::message::{Reply, Request};
use xids::Xids;

/// State of a session (the words are Lustre's).
pub type ImportState = replay::import::State;

/// Session with one target.
pub struct Import {
    pub(crate) me: Weak<Import>,
    pub(crate) rpc: Arc<Rpc>,
    pub(crate) target: TargetName,
    pub(crate) client: ClientUuid,
    /// The session outlives this process: see [`Rpc::peer_import`].
    pub(crate) is_peer: bool,
    pub(crate) description: String,
    pub(crate) callbacks: Option<Arc<dyn Callbacks>>,
    pub(crate) xids: Xids,
    last_committed: AtomicU64,
    /// Newest transno that any answer of this session named.
    newest: AtomicU64,
    /// Sessions that were entered.
    pub(crate) connections: AtomicU64,
    /// Requests of the owner so far.
    asked: Asked,
    proved: Arc<Proved>,
    line: Arc<Mutex<Estimate>>,
    /// How often the target forgot this client without a restart. Changed under `link`.
    pub(crate) evictions: AtomicU64,
    /// Of how many of these the owner knows.
    pub(crate) evictions_told: AtomicU64,
    pub(crate) link: Mutex<LinkState>,
    /// Counts attempts to connect that ended, so that callers can wait for the next one.
    pub(crate) attempts: watch::Sender<u64>,
    /// See [`Import::wait_for_ever`].
    for_ever: AtomicBool,
    hooks: Mutex<Vec<OnRestart>>,
    lost: OnceLock<OnLost>,
    squash: Mutex<SquashNews>,
    on_squash: OnceLock<OnSquash>,
    pub(crate) restore: OnceLock<Arc<dyn Restore>>,
    stats: CallStats,
    /// True while a ping is on its way.
    pub(crate) pinging: AtomicBool,
    /// What is durable there: see [`Import::ask_durable`].
    pub(crate) what_is_durable: SingleFlight<Result<(), RpcError>>,
    /// Whether room for kept changes was made there: see [`Import::room_to_keep`].
    pub(crate) room: SingleFlight<Result<ControlFlow<()>, RpcError>>,
    /// True while the target is looked for at other hosts.
    pub(crate) doubting: AtomicBool,
}

/// Whose session it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// A client that ends with this process.
    Process(ClientUuid),
    /// A target, in the life of this number.
    Peer { client: ClientUuid, life: u64 },
}

/// State under the small lock.
pub(crate) struct LinkState {
    pub(crate) nids: Vec<Nid>,
    /// State of the session, and what is kept for a replay.
    pub(crate) machine: Machine<Kept>,
    /// An attempt to connect is under way.
    pub(crate) attempting: bool,
    pub(crate) session: Option<Session>,
    /// The newest session that the target reported: its boot number, and that of the session.
    pub(crate) known: (u64, u32),
    /// NID at which the last attempt to connect looked for the target.
    pub(crate) tried: Option<Nid>,
    /// Why the last attempt to connect failed.
    pub(crate) error: Option<RpcError>,
    /// Pause before the next attempt, and when it may start.
    pub(crate) pause: Duration,
    pub(crate) not_before: Monotonic,
    /// Waits for a target that it never reached, too; see [`Import::be_patient`].
    pub(crate) patient: bool,
    /// The target left the configuration; see [`Import::remove`].
    pub(crate) removed: bool,
    /// The least boot number that a session is entered with; see [`Import::heard_of`].
    pub(crate) boot_min: u64,
}

/// A session in service.
#[derive(Clone)]
pub(crate) enum Session {
    /// The target lives in this process.
    Local(Arc<LocalSession>),
    /// The target is at a peer.
    Remote(Arc<RemoteSession>),
}

/// The target and its record of this client.
pub(crate) struct LocalSession {
    pub(crate) served: Arc<Served>,
    pub(crate) export: Arc<Export>,
}

impl LocalSession {
    async fn handle(&self, request: Request, clock: &Arc<dyn Clock>) -> Reply {
        self.served.handle(&self.export, request, clock).await
    }
}

impl Import {
    pub(crate) fn new(
        rpc: Arc<Rpc>,
        target: TargetName,
        nids: Vec<Nid>,
        owner: Owner,
        description: String,
        callbacks: Option<Arc<dyn Callbacks>>,
    ) -> Arc<Import> {
        let (client, is_peer, xids) = match owner {
            Owner::Process(client) => {
                let above = Xid(rpc.xids_taken.load(Ordering::Acquire));
                (client, false, Xids::new(rpc.env().clock.wall(), above))
            }
            Owner::Peer { client, life } => (client, true, Xids::of_life(life)),
        };
        let source = source_of_import(target, client, callbacks.is_some());
        let stats = CallStats::of_import(rpc.metrics().clone(), source);
        let kept_max =
            if target.kind == TargetKind::Ost { KEPT_DATA_BYTES_MAX } else { KEPT_BYTES_MAX };
        Arc::new_cyclic(|me| Import {
            me: me.clone(),
            rpc,
            target,
            client,
            is_peer,
            description,
            callbacks,
            xids,
            last_committed: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            asked: Asked::default(),
            proved: Arc::default(),
            line: Arc::default(),
            evictions: AtomicU64::new(0),
            evictions_told: AtomicU64::new(0),
            link: Mutex::new(LinkState {
                nids,
                machine: Machine::new(kept_max),
                attempting: false,
                session: None,
                known: (0, 0),
                tried: None,
                error: None,
                pause: Duration::ZERO,
                not_before: Monotonic::ZERO,
                patient: false,
                removed: false,
                boot_min: 0,
            }),
            attempts: watch::Sender::new(0),
            for_ever: AtomicBool::new(false),
            hooks: Mutex::default(),
            lost: OnceLock::new(),
            squash: Mutex::default(),
            on_squash: OnceLock::new(),
            restore: OnceLock::new(),
            stats,
            pinging: AtomicBool::new(false),
            what_is_durable: SingleFlight::default(),
            room: SingleFlight::default(),
            doubting: AtomicBool::new(false),
        })
    }

    /// The target.
    pub fn target(&self) -> TargetName {
        self.target
    }

    /// State of the session.
    pub fn state(&self) -> ImportState {
        self.link.lock().machine.state()
    }

    /// The client that it belongs to.
    pub fn client(&self) -> ClientUuid {
        self.client
    }

    /// Its name in the parameter tree, `osc.sheen-OST0000-osc-<id>`, and the source of its counts.
    pub fn source(&self) -> &str {
        self.stats.source()
    }

    /// True if the line to the target is a long one ([`env::net::LONG_LINE`]), as far as it is
    /// known.
    pub fn is_far(&self) -> bool {
        self.line.lock().is_far()
    }

    /// The least time in which a request was ever answered: the distance, whatever the target has
    /// to do now. Zero: nothing is known, or it is in this process.
    pub fn least_delay(&self) -> Duration {
        self.line.lock().least().unwrap_or_default()
    }

    /// Estimate of the delay of the line to the target, there and back; zero: nothing is known, or
    /// it is in this process.
    pub fn delay(&self) -> Duration {
        self.line.lock().delay().unwrap_or_default()
    }

    /// Estimate of the bytes that the line to the target carries at once; 0: nothing is known, or
    /// it is in this process.
    pub fn in_flight(&self) -> u64 {
        self.line.lock().in_flight()
    }

    /// Number of connections that were made with the target. If it is another number after a
    /// request, that request may have been sent more than once.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// Requests that its owner made so far; a repetition after a lost connection is none.
    pub fn requests(&self) -> Requests {
        self.asked.requests()
    }

    /// True if the target is in this process.
    pub fn is_local(&self) -> bool {
        matches!(self.link.lock().session, Some(Session::Local(_)))
    }

    /// The earliest time from which the target can have missed this client: the time at which the
    /// newest request was sent that it answered. `None`: it lives in this process (such a client
    /// has no lease), or was never reached.
    pub fn proved_at(&self) -> Option<Monotonic> {
        if self.is_local() {
            return None;
        }
        self.proved.at()
    }

    /// The target left the configuration for good: requests that wait for a session fail, and no
    /// new session is made.
    pub fn remove(&self) {
        self.link.lock().removed = true;
        self.attempts.send_modify(|count| *count += 1);
    }

    /// Boot number of the target at the newest session; 0 = never connected.
    pub fn boot(&self) -> u64 {
        self.link.lock().machine.boot()
    }

    /// The target moved.
    pub fn set_nids(&self, nids: Vec<Nid>) {
        let mut link = self.link.lock();
        link.nids = nids;
        // It has been heard of: the next attempt need not wait.
        link.pause = Duration::ZERO;
        link.not_before = Monotonic::ZERO;
    }

    /// True if the target is at this NID, as far as this client knows: it has a session there, or
    /// tries to get one. Callbacks may come from there.
    pub(crate) fn is_at(&self, nid: Nid) -> bool {
        let link = self.link.lock();
        let of_session =
            matches!(&link.session, Some(Session::Remote(remote)) if remote.peer.nid() == nid);
        of_session || link.tried == Some(nid)
    }

    /// The session, unless its end is known already.
    pub(crate) fn live_session(&self) -> Option<Session> {
        let mut link = self.link.lock();
        let live = match &link.session {
            Some(Session::Local(local)) => !local.export.is_gone(),
            Some(Session::Remote(remote)) => remote.peer.is_open(),
            None => false,
        };
        if live {
            return link.session.clone();
        }
        if link.session.take().is_some() {
            link.machine.event(Event::Lost);
        }
        None
    }

    /// This session is over, if it is still the current one.
    pub(crate) fn lost_remote(&self, lost: &Arc<RemoteSession>) {
        let mut link = self.link.lock();
        if matches!(&link.session, Some(Session::Remote(current)) if Arc::ptr_eq(current, lost)) {
            link.session = None;
            link.machine.event(Event::Lost);
        }
    }

    /// The session, and whether there ever was one.
    pub(crate) fn session_and_history(&self) -> (Option<Session>, bool) {
        let link = self.link.lock();
        (link.session.clone(), link.machine.boot() != 0)
    }

    pub(crate) fn is_connecting(&self) -> bool {
        self.link.lock().attempting
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        if !self.is_peer {
            self.rpc.xids_taken.fetch_max(self.xids.next().0, Ordering::AcqRel);
        }
        // A client of this process has no lease that would end.
        if let Some(Session::Local(local)) = self.link.get_mut().session.take() {
            local.served.end(&local.export, Gone::Disconnected);
        }
    }
}
