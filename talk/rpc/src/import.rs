//! A client's side of a session with one target.
//!
//! The state (`Disconn -> Connecting -> Full -> ...`, decided by `replay::import`) is behind one
//! small lock that is never held across a wait. A target of this process is called in the caller's
//! own poll, any other one over the network. There a lost connection is made again, and unanswered
//! requests are sent again until REQUEST_TIMEOUT, or as long as a program waits
//! ([`Import::wait_for_ever`]).

use crate::Rpc;
use crate::awaited::{Asked, Requests};
use crate::error::RpcError;
use crate::kept::{Kept, synced_by};
use crate::patience;
use crate::pinger::Pinging;
use crate::remote::{Outcome, RemoteSession, ask_of};
use crate::served::Served;
use crate::service::{Export, Gone};
use crate::stats::{CallStats, source_of_import};
use crate::under_way::{self, Side};
use crate::weight;
use crate::xids::{Ticket, Xids};
use env::BoxFuture;
use env::clock::{Clock, Monotonic};
use env::watch;
use lnet::peer::Ask;
use observe::mutant::{Mutant, is_mutant};
use parking_lot::Mutex;
use replay::import::{Event, Import as Machine, KEPT_BYTES_MAX, KEPT_DATA_BYTES_MAX};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use types::credentials::Credentials;
use types::errno::Errno;
use types::job::JobId;
use types::limits::CONNECT_TIMEOUT;
use types::lock::InodeBits;
use types::nid::Nid;
use types::session::{ClientUuid, Transno};
use types::target::{TargetKind, TargetName};
use wire::class::Changes;
use wire::client::{ClientOp, ClientReply};
use wire::message::{Op, OpReply, Reply, Request};

/// Pause before a request that came too late is sent again.
const LATE_PAUSE: Duration = Duration::from_millis(100);

/// Answers callbacks of the target.
pub trait Callbacks: Send + Sync {
    /// One callback. It must not wait for requests of this client, and must accept a repetition.
    fn callback(self: Arc<Self>, op: ClientOp) -> BoxFuture<'static, Result<ClientReply, Errno>>;
}

/// Called when the target lost this client's session. Either it restarted and brings nothing back
/// (the argument is its boot number), or it evicted this client and accepted it again; then
/// [`Import::evictions`] grew. Open handles and locks of the old session are gone. Runs where the
/// reconnection was noticed, before waiting requests go on; must not wait.
pub type OnRestart = Arc<dyn Fn(u64) + Send + Sync>;

/// Called with changes that the target had answered and that are lost: it restarted, and this
/// client could not bring them back in time. Runs before [`OnRestart`]; must not wait.
pub type OnLost = Arc<dyn Fn(&[Op]) + Send + Sync>;

/// State of a session (the words are Lustre's).
pub type ImportState = replay::import::State;

/// State of a session that is no change of the target's records: opens, locks. It is brought back
/// to a restarted target after the target has redone this client's changes and before it is in
/// service.
pub trait Restore: Send + Sync {
    /// The requests to send, in any order; each is told its answer. Must not wait.
    fn restore(&self) -> Vec<Restoring>;
}

/// One request that brings something back.
pub struct Restoring {
    /// Caller of the request.
    pub credentials: Credentials,
    /// The operation.
    pub op: Op,
    /// Locks that its reply may grant.
    pub locks: InodeBits,
    /// Called with the answer. It is not called if the connection is lost: then everything begins
    /// again.
    pub answered: Box<dyn FnOnce(Reply) + Send>,
}

/// State of a session at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportReport {
    /// State of the session.
    pub state: ImportState,
    /// NIDs at which the target may be found.
    pub nids: Vec<Nid>,
    /// NID at which it was found; `None`: there is no session.
    pub current: Option<Nid>,
    /// Requests that may be in flight to that peer now; `None`: there is no network between.
    pub window: Option<usize>,
    /// Attempts to connect over the network so far.
    pub attempts: u64,
    /// Boot number of the target at the newest session; 0 = never connected.
    pub boot: u64,
    /// How often the target forgot this client without a restart.
    pub evictions: u64,
    /// Requests without an answer.
    pub in_flight: usize,
    /// Those of them that read data.
    pub reads_in_flight: usize,
    /// Those of them that write data.
    pub writes_in_flight: usize,
    /// Those of them that change something else.
    pub changes_in_flight: usize,
    /// Requests that were not answered in time.
    pub timeouts: u64,
}

/// Session with one target.
pub struct Import {
    pub(crate) me: Weak<Import>,
    pub(crate) rpc: Arc<Rpc>,
    pub(crate) target: TargetName,
    pub(crate) client: ClientUuid,
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
    /// Time at which the newest answered request was sent, nanoseconds of the monotonic clock; 0 =
    /// none was.
    proved: AtomicU64,
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
    pub(crate) restore: OnceLock<Arc<dyn Restore>>,
    stats: CallStats,
    pub(crate) pinging: Pinging,
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
        client: ClientUuid,
        description: String,
        callbacks: Option<Arc<dyn Callbacks>>,
    ) -> Arc<Import> {
        let xids = Xids::new(rpc.env().clock.wall());
        let source = source_of_import(target, client, callbacks.is_some());
        let stats = CallStats::of_import(rpc.metrics().clone(), source);
        let kept_max = if target.kind == TargetKind::Ost { KEPT_DATA_BYTES_MAX } else { KEPT_BYTES_MAX };
        Arc::new_cyclic(|me| Import {
            me: me.clone(),
            rpc,
            target,
            client,
            description,
            callbacks,
            xids,
            last_committed: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            asked: Asked::default(),
            proved: AtomicU64::new(0),
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
            }),
            attempts: watch::Sender::new(0),
            for_ever: AtomicBool::new(false),
            hooks: Mutex::default(),
            lost: OnceLock::new(),
            restore: OnceLock::new(),
            stats,
            pinging: Pinging::default(),
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

    /// State of the session, for people.
    pub fn report(&self) -> ImportReport {
        let link = self.link.lock();
        let (current, window) = match &link.session {
            Some(Session::Local(_)) => (Some(Nid::Loopback), None),
            Some(Session::Remote(remote)) => (Some(remote.peer.nid()), Some(remote.peer.window())),
            None => (None, None),
        };
        let [in_flight, reads_in_flight, writes_in_flight, changes_in_flight] = self.stats.in_flight();
        ImportReport {
            state: link.machine.state(),
            nids: link.nids.clone(),
            current,
            window,
            attempts: *self.attempts.borrow(),
            boot: link.machine.boot(),
            evictions: self.evictions(),
            in_flight,
            reads_in_flight,
            writes_in_flight,
            changes_in_flight,
            timeouts: self.stats.timeouts(),
        }
    }

    /// Newest transno known to be durable there.
    pub fn last_committed(&self) -> Transno {
        Transno(self.last_committed.load(Ordering::Acquire))
    }

    /// Newest transno that any answer of this session named. Of an MDT: once it is durable, all
    /// that was answered so far is.
    pub fn newest(&self) -> Transno {
        Transno(self.newest.load(Ordering::Acquire))
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

    /// How often the target forgot this client without a restart.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Acquire)
    }

    /// True if the owner has heard of all evictions. In between, another client may have what it
    /// believes to hold.
    pub fn evictions_are_told(&self) -> bool {
        self.evictions_told.load(Ordering::Acquire) == self.evictions()
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
        let nanos = self.proved.load(Ordering::Acquire);
        (nanos != 0).then(|| Monotonic::from_nanos(nanos))
    }

    /// A request that was sent then has been answered, and a callback of the target has been open
    /// for this long. The target's patience counts from that callback on.
    pub(crate) fn prove(&self, sent: Monotonic, open_ms: u32) {
        let sent = sent.saturating_sub(Duration::from_millis(open_ms.into()));
        self.proved.fetch_max(u64::try_from(sent.as_nanos()).unwrap_or(u64::MAX).max(1), Ordering::AcqRel);
    }

    /// True if there is no session and the last attempt to make one failed. Then a request may wait
    /// for long.
    pub fn is_away(&self) -> bool {
        let link = self.link.lock();
        link.session.is_none() && link.error.is_some()
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

    /// From now on a target that does not answer is waited for even if it never did: it is known to
    /// exist, and is being started. Calls then fail only when their time is up.
    pub fn be_patient(&self) {
        self.link.lock().patient = true;
    }

    /// From now on a request for which a program waits has no time-out: it is sent again until it
    /// is answered, or the program gives up ([`patience`]). All others keep theirs.
    pub fn wait_for_ever(&self) {
        self.for_ever.store(true, Ordering::Relaxed);
    }

    /// Registers a hook; see [`OnRestart`]. Hooks stay as long as the import.
    pub fn on_restart(&self, hook: OnRestart) {
        self.hooks.lock().push(hook);
    }

    /// Registers a hook; see [`OnLost`]. The first one counts, and stays as long as the import.
    pub fn on_lost(&self, hook: OnLost) {
        if self.lost.set(hook).is_err() {
            tracing::error!(target = %self.target, "somebody is told of what is lost already");
        }
    }

    /// Bytes of changes that are kept because they may not be durable.
    pub fn kept_bytes(&self) -> usize {
        self.link.lock().machine.bytes()
    }

    /// Registers what is brought back to a restarted target; the first registration counts.
    pub fn on_recovery(&self, restore: Arc<dyn Restore>) {
        if self.restore.set(restore).is_err() {
            tracing::error!(target = %self.target, "somebody restores this session already");
        }
    }

    /// Sends operations as one request and waits for the results, one per operation, in order.
    /// Takes no locks.
    ///
    /// # Errors
    /// Only if the request as a whole got no answer; results of single operations are inside.
    pub async fn call(&self, credentials: &Credentials, ops: Vec<Op>) -> Result<Vec<Result<OpReply, Errno>>, RpcError> {
        Ok(self.ask(credentials, ops, InodeBits::NONE).await?.results)
    }

    /// As [`Import::call`], with everything that comes with the results. `locks`: the bits that the
    /// caller keeps if they are granted; its callbacks answer for them.
    ///
    /// # Errors
    /// As [`Import::call`].
    pub async fn ask(&self, credentials: &Credentials, ops: Vec<Op>, locks: InodeBits) -> Result<Reply, RpcError> {
        let clock = &self.rpc.env().clock;
        let _waiting = self.asked.begin(self.rpc.callers());
        let started = self.stats.begin(&ops, JobId::NONE, clock.now());
        let answer = match self.live_session() {
            Some(Session::Local(local)) => {
                let count = ops.len();
                let ticket = self.xids.begin(false);
                let request = self.request(credentials, ops, locks, &ticket);
                self.learn(local.handle(request, clock).await, count)
            }
            session => self.ask_anywhere(session, credentials, ops, locks).await,
        };
        match &answer {
            Ok(reply) => started.answered(clock.now(), reply),
            Err(RpcError::Timeout { .. }) => self.stats.timed_out(),
            Err(_) => {}
        }
        answer
    }

    /// The slow path: over the network, or to a session that must be made first. Goes on until the
    /// request is answered, the time is up, or it is pointless.
    ///
    /// Boxed here: the future of the fast path stays small, and the machine code of this one is
    /// made once, in this crate, and not again in each crate that sends a request.
    fn ask_anywhere<'a>(
        &'a self,
        session: Option<Session>,
        credentials: &'a Credentials,
        ops: Vec<Op>,
        locks: InodeBits,
    ) -> BoxFuture<'a, Result<Reply, RpcError>> {
        Box::pin(async move {
            let waits = weight::waits(&ops);
            let has_slot = !waits && weight::changes(&ops) == Changes::Store;
            let ticket = if has_slot { self.xids.begin_change() } else { self.xids.begin(waits) };
            let request = self.request(credentials, ops, locks, &ticket);
            let now = self.rpc.env().clock.now();
            let about = under_way::of(Side::Asked, self.client, &request, now);
            patience::of_caller(self.rpc.note(about, self.until_answered(session, request, waits))).await
        })
    }

    async fn until_answered(
        &self,
        mut session: Option<Session>,
        mut request: Request,
        waits: bool,
    ) -> Result<Reply, RpcError> {
        let clock = &self.rpc.env().clock;
        let count = request.ops.len();
        let timeout = self.rpc.timings().request_timeout;
        let ask = ask_of(&request.ops, timeout);
        let mut deadline = clock.now() + timeout;
        // Evictions when it was sent first.
        let mut sent_at: Option<u64> = None;
        let replayed = weight::is_replayed(&request.ops);
        let relies = weight::changes(&request.ops) != Changes::Nothing || waits || request.locks != InodeBits::NONE;
        loop {
            match session {
                None => {
                    if let Err(error) = self.connect_until(deadline).await {
                        self.or_go_on(error, &mut deadline)?;
                    }
                }
                Some(Session::Local(local)) => return self.learn(local.handle(request, clock).await, count),
                Some(Session::Remote(remote)) => {
                    let evictions = self.evictions();
                    let before = sent_at.replace(evictions).unwrap_or(evictions);
                    if before != evictions && !weight::survives_eviction(&request.ops) {
                        return Err(RpcError::Evicted { target: self.target });
                    }
                    if replayed && let Err(error) = self.room_to_keep(&remote, deadline).await {
                        self.or_go_on(error, &mut deadline)?;
                        session = self.live_session();
                        continue;
                    }
                    let newest = self.newest_kept(&request.ops);
                    let outcome = remote.exchange(self, &request, ask, waits).await;
                    if relies && matches!(outcome, Outcome::Reply(_)) {
                        self.link.lock().machine.rely();
                    }
                    match outcome {
                        Outcome::Reply(reply) if newest != Transno(0) => {
                            self.drop_synced(&request.ops, &reply, newest);
                            return self.learn(reply, count);
                        }
                        Outcome::Reply(reply) => match self.keep_sent(&remote, &reply, &mut request.ops) {
                            true => return self.learn(reply, count),
                            false => request.resent = true,
                        },
                        // Nothing was done. Its next limit is that of the moment in which it is
                        // sent again.
                        Outcome::Failed(RpcError::Late { .. }) if self.is_awaited() => clock.sleep(LATE_PAUSE).await,
                        Outcome::Failed(error) => {
                            self.or_go_on(error, &mut deadline)?;
                            request.resent = true;
                        }
                        Outcome::Lost => {
                            self.lost_remote(&remote);
                            request.resent = true;
                            if waits {
                                // It may have waited for hours: the time to reconnect counts from
                                // now.
                                deadline = clock.now() + timeout;
                            } else if clock.now() >= deadline {
                                let seconds = timeout.as_secs();
                                self.or_go_on(RpcError::Timeout { target: self.target, seconds }, &mut deadline)?;
                            }
                        }
                    }
                }
            }
            session = self.live_session();
        }
    }

    fn is_awaited(&self) -> bool {
        self.for_ever.load(Ordering::Relaxed) && patience::is_awaited()
    }

    /// A request failed. If its time is up and a program waits for it, it goes on, with as much
    /// time again.
    fn or_go_on(&self, error: RpcError, deadline: &mut Monotonic) -> Result<(), RpcError> {
        match error {
            RpcError::Timeout { .. } if self.is_awaited() => {
                tracing::warn!(target = %self.target, %error, "a program goes on waiting");
                *deadline = self.rpc.env().clock.now() + self.rpc.timings().request_timeout;
                Ok(())
            }
            error => Err(error),
        }
    }

    fn request(&self, credentials: &Credentials, ops: Vec<Op>, locks: InodeBits, ticket: &Ticket<'_>) -> Request {
        Request {
            target: self.target,
            xid: ticket.xid,
            xid_known: ticket.known,
            resent: false,
            replay: Transno(0),
            slot: ticket.slot,
            locks,
            credentials: credentials.clone(),
            job: observe::cause::job(),
            ops,
        }
    }

    /// The session, unless its end is known already.
    fn live_session(&self) -> Option<Session> {
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

    /// One operation, one result.
    ///
    /// # Errors
    /// As [`Import::call`]; the operation's own failure is [`RpcError::Errno`].
    pub async fn one(&self, credentials: &Credentials, op: Op) -> Result<OpReply, RpcError> {
        let mut results = self.call(credentials, vec![op]).await?;
        match results.pop() {
            Some(result) => Ok(result?),
            None => Err(self.misfit(0, 1)),
        }
    }

    /// True if the target is at this NID, as far as this client knows: it has a session there, or
    /// tries to get one. Callbacks may come from there.
    pub(crate) fn is_at(&self, nid: Nid) -> bool {
        let link = self.link.lock();
        let of_session = matches!(&link.session, Some(Session::Remote(remote)) if remote.peer.nid() == nid);
        of_session || link.tried == Some(nid)
    }

    /// Ends the session in order.
    pub fn disconnect(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.end_session())
    }

    async fn end_session(&self) {
        let session = {
            let mut link = self.link.lock();
            link.machine.forget();
            link.session.take()
        };
        match session {
            Some(Session::Local(local)) => local.served.end(&local.export, Gone::Disconnected),
            Some(Session::Remote(remote)) => {
                let request = self.request_of(self.xids.begin(true).xid, vec![Op::Disconnect]);
                let ask = Ask { reply_bulk: 0, limit: Some(CONNECT_TIMEOUT), outside_window: true };
                if let Outcome::Failed(error) = remote.exchange(self, &request, ask, false).await {
                    // Its lease will end the session.
                    tracing::info!(target = %self.target, %error, "disconnect was not answered");
                }
            }
            None => {}
        }
    }

    /// Takes from a reply what concerns the session.
    pub(crate) fn learn(&self, reply: Reply, count: usize) -> Result<Reply, RpcError> {
        self.keep(&reply);
        if reply.results.len() != count {
            return Err(self.misfit(reply.results.len(), count));
        }
        Ok(reply)
    }

    /// Notes what a reply reports as durable, and keeps the changes that it brings.
    pub(crate) fn keep(&self, reply: &Reply) {
        self.newest.fetch_max(reply.transno.0, Ordering::AcqRel);
        self.learn_committed(reply.last_committed);
        if !reply.redo.is_empty() && self.target.kind != TargetKind::Ost {
            let mut link = self.link.lock();
            for redo in &reply.redo {
                let kept = Kept::Redo(redo.bytes.clone());
                let bytes = kept.bytes();
                link.machine.keep(redo.transno, kept, bytes);
            }
        }
    }

    /// An OST sends no redo: the changes are the operations that it was sent, one transno for each.
    /// `false`: the connection was lost since the reply came, so kept changes may have been brought
    /// back without these, and they must be sent again.
    fn keep_sent(&self, remote: &Arc<RemoteSession>, reply: &Reply, ops: &mut Vec<Op>) -> bool {
        let misses = reply.redo.len() != ops.len() || is_mutant(Mutant::KeptDroppedEarly);
        if self.target.kind != TargetKind::Ost || misses {
            return true;
        }
        let mut link = self.link.lock();
        if !matches!(&link.session, Some(Session::Remote(current)) if Arc::ptr_eq(current, remote)) {
            // Ended in order: nothing will be brought back.
            return link.machine.boot() == 0;
        }
        for (op, redo) in ops.drain(..).zip(&reply.redo).filter(|(_, redo)| redo.transno != Transno(0)) {
            let kept = Kept::Op(op);
            match kept.is_synced() {
                true => link.machine.durable(redo.transno, |older| older.object() == kept.object()),
                false => {
                    let bytes = kept.bytes();
                    link.machine.keep(redo.transno, kept, bytes);
                }
            }
        }
        true
    }

    /// Newest kept change before a sync of single objects is sent; 0 = nothing is kept, or the
    /// request is something else.
    fn newest_kept(&self, ops: &[Op]) -> Transno {
        if synced_by(ops).is_empty() { Transno(0) } else { self.link.lock().machine.newest() }
    }

    /// Changes of synced objects up to `newest` are not brought back: they are on the disk, and if
    /// the client died half-way through, an older state would remain there.
    fn drop_synced(&self, ops: &[Op], reply: &Reply, newest: Transno) {
        if reply.results.iter().all(Result::is_ok) {
            let objects = synced_by(ops);
            let is_synced = |kept: &Kept| kept.object().is_some_and(|object| objects.contains(&object));
            self.link.lock().machine.durable(newest, is_synced);
        }
    }

    pub(crate) fn set_committed(&self, last_committed: Transno) {
        self.last_committed.store(last_committed.0, Ordering::Release);
        self.newest.store(last_committed.0, Ordering::Release);
    }

    pub(crate) fn learn_committed(&self, last_committed: Transno) {
        if self.last_committed.fetch_max(last_committed.0, Ordering::AcqRel) < last_committed.0 {
            self.link.lock().machine.committed(last_committed);
        }
    }

    fn misfit(&self, found: usize, wanted: usize) -> RpcError {
        let nid = self.link.lock().nids.first().copied().unwrap_or(Nid::Loopback);
        RpcError::BadMessage { nid, reason: format!("{found} results for {wanted} operations") }
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

    /// Tells the owner what is lost.
    pub(crate) fn tell_lost(&self, lost: Vec<Kept>) {
        let ops: Vec<Op> = lost.into_iter().filter_map(Kept::into_op).collect();
        if ops.is_empty() {
            return;
        }
        tracing::error!(target = %self.target, changes = ops.len(), "the target restarted without what was answered, and is in service");
        if let Some(hook) = self.lost.get() {
            hook(&ops);
        }
    }

    /// Tells the owner that the target lost this client's session.
    pub(crate) fn tell_restart(&self, boot: u64) {
        let hooks = self.hooks.lock().clone();
        hooks.iter().for_each(|hook| hook(boot));
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // A client of this process has no lease that would end.
        if let Some(Session::Local(local)) = self.link.get_mut().session.take() {
            local.served.end(&local.export, Gone::Disconnected);
        }
    }
}
