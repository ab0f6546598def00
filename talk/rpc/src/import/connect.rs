//! How an import gets its session.
//!
//! A target of this process is connected in place, unless another process can take it over: its
//! clients must bring back what it loses. For any other one a task of its own tries the NIDs side
//! by side, so that a caller that gives up harms no other; callers wait for the end of the attempt.
//! An import that never had a session reports the failure of its first attempt at once. One that
//! lost its session, or was told to be patient, goes on trying, with growing pauses, as long as a
//! caller has time left.

use crate::callbacks::CallbackRoute;
use crate::error::RpcError;
use crate::import::elsewhere::Looked;
use crate::import::{Import, LocalSession, Session};
use crate::service::Origin;
use crate::service::served::{ConnectError, Served};
use env::clock::Monotonic;
use futures_util::StreamExt;
use futures_util::future::{Either, pending, select};
use futures_util::stream::FuturesUnordered;
use lnet::peer::Peer;
use replay::import::{Event, ImportAction};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::errno::Errno;
use types::nid::Nid;
use types::principal::Role;
use types::proof::Proof;
use types::session::Pairing;
use wire::message::{ConnectReply, ConnectRequest, VERSION_MAX, VERSION_MIN};

/// Pause after the first failed attempt; doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// Longest pause: a restarted server is found within this time.
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// The same for a target that another host may take over at any moment.
pub(crate) const PAUSE_OF_HOSTS_MAX: Duration = Duration::from_millis(100);
/// A NID that has not answered for so long no longer holds up the next one.
const NEXT_NID_AFTER: Duration = Duration::from_millis(100);

impl Import {
    /// Waits for a session; makes one if no task does.
    pub(crate) async fn connect(&self) -> Result<(), RpcError> {
        self.connect_until(self.rpc.env().clock.now() + self.rpc.timings().request_timeout).await
    }

    /// As [`Import::connect`], until a point in time.
    pub(crate) async fn connect_until(&self, deadline: Monotonic) -> Result<(), RpcError> {
        loop {
            if self.rpc.is_stopping() {
                return Err(RpcError::Shutdown);
            }
            if let Some(served) = self.rpc.served().get_local(self.target) {
                return self.connect_local(&served);
            }
            let mut attempts = self.attempts.subscribe();
            let patient = {
                let mut link = self.link.lock();
                if link.session.is_some() {
                    return Ok(());
                }
                if link.removed {
                    return Err(RpcError::Removed { target: self.target });
                }
                if !std::mem::replace(&mut link.attempting, true) {
                    link.machine.event(Event::Connect);
                    self.start_attempt();
                }
                link.machine.boot() != 0 || link.patient
            };
            let left = deadline.saturating_sub(self.rpc.env().clock.now());
            let timeout = self.rpc.env().clock.sleep(left);
            if let Either::Right(_) = select(pin!(attempts.changed()), timeout).await {
                let seconds = self.rpc.timings().request_timeout.as_secs();
                return Err(RpcError::Timeout { target: self.target, seconds });
            }
            let link = self.link.lock();
            match &link.error {
                Some(error)
                    if link.session.is_none()
                        && (is_final(error) || !(patient || is_recovering(error))) =>
                {
                    return Err(error.clone());
                }
                _ => {}
            }
        }
    }

    /// The greeting to a target. `pairing`: what the connections to it show; `None`: it is in this
    /// process.
    pub(crate) fn hello(&self, boot: u64, pairing: Option<Pairing>) -> ConnectRequest {
        let key = self.rpc.server_key();
        let server = match pairing {
            Some(pairing) if key.is_known() => key.proof(pairing, self.client, self.target),
            _ => Proof(0),
        };
        let proof = match self.is_peer && key.is_known() {
            true => key.peer_proof(self.client, self.target),
            false => self.rpc.lnet().secret().proof(self.client, self.target),
        };
        ConnectRequest {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            cluster: self.rpc.cluster(),
            client: self.client,
            description: self.description.clone(),
            boot,
            proof,
            server,
        }
    }

    fn connect_local(&self, served: &Arc<Served>) -> Result<(), RpcError> {
        let boot_before = self.link.lock().machine.boot();
        let hello = self.hello(boot_before, None);
        let route = CallbackRoute::Local(self.callbacks.clone());
        let origin = Origin {
            nid: Nid::Loopback,
            description: hello.description.clone(),
            route,
            pairing: None,
            principal: None,
        };
        let connected =
            served.connect(&hello, origin, Role::Server).map_err(|error| match error {
                ConnectError::Refusal(refusal) => {
                    refusal.error((Nid::Loopback, self.target), &hello)
                }
                ConnectError::Errno(errno) => RpcError::Refused { target: self.target, errno },
            })?;
        let session = Session::Local(Arc::new(LocalSession {
            served: served.clone(),
            export: connected.export,
        }));
        let action = self.connected(&connected.reply);
        self.enter_session(session, action, connected.reply.boot);
        Ok(())
    }

    fn start_attempt(&self) {
        let Some(import) = self.me.upgrade() else { return };
        self.rpc.env().tasks.spawn("connect", Box::pin(async move { import.attempt().await }));
    }

    /// One attempt. At its end it wakes all waiting callers.
    async fn attempt(self: Arc<Self>) {
        let (nids, boot, not_before) = {
            let link = self.link.lock();
            (link.nids.clone(), link.machine.boot(), link.not_before)
        };
        let wait = not_before.saturating_sub(self.rpc.env().clock.now());
        if !wait.is_zero() {
            self.rpc.env().clock.sleep(wait).await;
        }
        let nids = self.rpc.lnet().sorted(nids);
        if let Err(error) = self.first_session(nids, boot).await {
            let mut link = self.link.lock();
            let most = if link.nids.len() > 1 { PAUSE_OF_HOSTS_MAX } else { PAUSE_MAX };
            link.pause = (link.pause * 2).clamp(PAUSE_MIN, most);
            link.not_before = self.rpc.env().clock.now() + link.pause;
            link.error = Some(error);
            link.attempting = false;
            link.machine.event(Event::Lost);
        }
        self.attempts.send_modify(|count| *count += 1);
    }

    /// Every NID once: hosts are reached side by side, and asked whether they serve the target, if
    /// there are several. Those that do are asked for a session one after another; the first wins.
    /// A host that vanished says nothing for long. Meanwhile those that refused are asked again:
    /// one of them may take the target over.
    async fn first_session(&self, nids: Vec<Nid>, boot: u64) -> Result<(), RpcError> {
        if let Some(served) = self.rpc.served().get_local(self.target) {
            return self.connect_local(&served);
        }
        let reason = "no NID is known".to_owned();
        let mut error = RpcError::Unreachable { target: self.target, nids: nids.clone(), reason };
        let several = nids.len() > 1;
        // Hosts that have not said anything.
        let mut silent = nids.len();
        let mut rest = nids.into_iter();
        let mut reached = FuturesUnordered::new();
        loop {
            match rest.next() {
                Some(nid) => reached.push(self.look_at(nid, several, Duration::ZERO)),
                None if reached.is_empty() => return Err(error),
                None => {}
            }
            let next = match rest.len() {
                0 => Either::Left(pending()),
                _ => Either::Right(self.rpc.env().clock.sleep(NEXT_NID_AFTER)),
            };
            let Either::Left((Some(Looked { nid, first, peer }), _)) =
                select(reached.next(), next).await
            else {
                continue;
            };
            silent -= usize::from(first);
            let connected = match peer {
                Ok(peer) => self.connect_remote(nid, peer, boot).await,
                Err(error) => Err(error),
            };
            let Err(this) = connected else { return Ok(()) };
            tracing::debug!(target = %self.target, %nid, error = %this, "cannot connect");
            if silent > 0 && !is_final(&this) {
                reached.push(self.look_at(nid, several, PAUSE_OF_HOSTS_MAX));
            }
            // That the target is there and recovers says more than that it is not elsewhere.
            if !is_recovering(&error) {
                error = this;
            }
        }
    }

    pub(crate) async fn reach(&self, nid: Nid) -> Result<Arc<Peer>, RpcError> {
        match nid {
            Nid::Loopback => Err(RpcError::NoTarget { nid, target: self.target }),
            Nid::Tcp(_) | Nid::On(..) => {
                self.rpc.lnet().peer(nid).await.map_err(|error| self.link_error(error))
            }
        }
    }

    /// The configuration names this boot number of the target. A session with an earlier life is
    /// over, however alive its connection looks, and none is entered again.
    pub fn heard_of(&self, boot: u64) {
        let ended = {
            let mut link = self.link.lock();
            link.boot_min = boot;
            match link.session.is_some() && link.machine.boot() < boot {
                true => {
                    link.pause = Duration::ZERO;
                    link.not_before = Monotonic::ZERO;
                    link.machine.event(Event::Lost);
                    link.session.take()
                }
                false => None,
            }
        };
        let Some(session) = ended else { return };
        tracing::info!(target = %self.target, boot, "it is served in a newer life: this session is over");
        if let Session::Remote(remote) = &session {
            remote.end();
        }
        let Some(import) = self.me.upgrade() else { return };
        let connect = async move {
            if let Err(error) = import.connect().await {
                tracing::debug!(target = %import.target, %error, "no session");
            }
        };
        self.rpc.env().tasks.spawn("connect to a newer life", Box::pin(connect));
    }

    /// Handles an answer to a connect.
    pub(crate) fn connected(&self, connected: &ConnectReply) -> ImportAction {
        self.learn_squash(connected.squash.clone());
        let mut link = self.link.lock();
        // By this client's own knowledge: the answer that announced a new session may have been
        // lost.
        let now = (connected.boot, connected.session);
        let new = std::mem::replace(&mut link.known, now) != now;
        let action = link.machine.event(Event::Connected {
            standing: connected.standing,
            new,
            boot: connected.boot,
            last_committed: connected.last_committed,
        });
        // Another life of the target may count from the start again.
        self.set_committed(link.machine.last_committed());
        action
    }

    /// The session is in service. Tells the owner if it is another one, or lost something.
    pub(crate) fn enter_session(&self, session: Session, action: ImportAction, boot: u64) {
        let lost = {
            let mut link = self.link.lock();
            link.session = Some(session);
            self.connections.fetch_add(1, Ordering::AcqRel);
            link.attempting = false;
            link.error = None;
            link.pause = Duration::ZERO;
            link.not_before = Monotonic::ZERO;
            if action == ImportAction::Lost {
                self.evictions.fetch_add(1, Ordering::AcqRel);
            }
            link.machine.take_lost()
        };
        self.tell_lost(lost);
        if matches!(action, ImportAction::Lost | ImportAction::Renewed) {
            self.tell_restart(boot);
            self.evictions_told.store(self.evictions(), Ordering::Release);
            // The target waits for a word of the new session, before it lets OSTs work for this
            // client again.
            self.ping_soon();
        }
    }
}

/// The target is there and waits for its earlier clients; it takes new ones after that.
fn is_recovering(error: &RpcError) -> bool {
    matches!(error, RpcError::Refused { errno: Errno::EAGAIN, .. })
}

/// Errors that trying again does not cure.
fn is_final(error: &RpcError) -> bool {
    match error {
        RpcError::Version { .. }
        | RpcError::Cluster { .. }
        | RpcError::OtherUser { .. }
        | RpcError::Key { .. }
        | RpcError::OtherProcess { .. }
        | RpcError::Shutdown
        | RpcError::Removed { .. } => true,
        RpcError::Refused { errno, .. } => *errno != Errno::EAGAIN && *errno != Errno::EBUSY,
        RpcError::Unreachable { .. }
        | RpcError::NoTarget { .. }
        | RpcError::BadMessage { .. }
        | RpcError::Evicted { .. }
        | RpcError::Timeout { .. }
        | RpcError::Late { .. }
        | RpcError::Listen { .. }
        | RpcError::Errno(_) => false,
    }
}
