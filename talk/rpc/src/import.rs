//! A client's side of a session with one target.
//!
//! The state (`Disconn -> Connecting -> Full -> ...`) is behind one small lock that is never held across a wait. A
//! target of this process is called in the caller's own poll; any other one over the network, where a lost connection
//! is made anew and unanswered requests are sent again until REQUEST_TIMEOUT.

use crate::Rpc;
use crate::error::RpcError;
use crate::served::Served;
use crate::service::{Export, Gone};
use crate::xids::Xids;
use env::BoxFuture;
use env::clock::Monotonic;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::watch;
use types::credentials::Credentials;
use types::errno::Errno;
use types::nid::Nid;
use types::session::{ClientUuid, Transno};
use types::target::TargetName;
use wire::client::{ClientOp, ClientReply};
use wire::message::{Op, OpReply, Reply, Request};

/// Answers callbacks of the target.
pub trait Callbacks: Send + Sync {
    /// One callback. Must not wait for requests of this client, and must take a repetition.
    fn callback(self: Arc<Self>, op: ClientOp) -> BoxFuture<'static, Result<ClientReply, Errno>>;
}

/// Told that the target lost this client's session: it restarted (its boot number is the argument), or evicted us and
/// took us anew (the same boot number as before). Open handles and locks of the old session are gone. Runs where the
/// reconnection was noticed, before waiting requests go on; must not wait.
pub type OnRestart = Arc<dyn Fn(u64) + Send + Sync>;

/// Where a session stands (the words are Lustre's).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportState {
    /// Not connected; the next call connects.
    Disconn,
    /// Connecting.
    Connecting,
    /// In service.
    Full,
    /// The target forgot us.
    Evicted,
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
    pub(crate) link: Mutex<LinkState>,
    /// Counts attempts to connect that ended, so that callers can wait for the next one.
    pub(crate) attempts: watch::Sender<u64>,
    hooks: Mutex<Vec<OnRestart>>,
}

/// What the small lock holds.
pub(crate) struct LinkState {
    pub(crate) nids: Vec<Nid>,
    pub(crate) state: ImportState,
    pub(crate) session: Option<Session>,
    /// Boot number of the target at the last session; 0 = there was none.
    pub(crate) boot: u64,
    /// Why the last attempt to connect failed.
    pub(crate) error: Option<RpcError>,
    /// Pause before the next attempt, and when it may start.
    pub(crate) pause: std::time::Duration,
    pub(crate) not_before: Monotonic,
}

/// A session in service.
#[derive(Clone)]
pub(crate) enum Session {
    /// The target lives in this process.
    Local(Arc<LocalSession>),
}

/// The target and its record of us.
pub(crate) struct LocalSession {
    pub(crate) served: Arc<Served>,
    pub(crate) export: Arc<Export>,
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
        Arc::new_cyclic(|me| Import {
            me: me.clone(),
            rpc,
            target,
            client,
            description,
            callbacks,
            xids,
            last_committed: AtomicU64::new(0),
            link: Mutex::new(LinkState {
                nids,
                state: ImportState::Disconn,
                session: None,
                boot: 0,
                error: None,
                pause: std::time::Duration::ZERO,
                not_before: Monotonic::ZERO,
            }),
            attempts: watch::Sender::new(0),
            hooks: Mutex::default(),
        })
    }

    /// The target.
    pub fn target(&self) -> TargetName {
        self.target
    }

    /// Where it stands.
    pub fn state(&self) -> ImportState {
        self.link.lock().state
    }

    /// Newest transno known to be durable there.
    pub fn last_committed(&self) -> Transno {
        Transno(self.last_committed.load(Ordering::Acquire))
    }

    /// Boot number of the target at the newest session; 0 = never connected.
    pub fn boot(&self) -> u64 {
        self.link.lock().boot
    }

    /// The target moved.
    pub fn set_nids(&self, nids: Vec<Nid>) {
        self.link.lock().nids = nids;
    }

    /// Registers a hook; see [`OnRestart`]. Hooks stay as long as the import.
    pub fn on_restart(&self, hook: OnRestart) {
        self.hooks.lock().push(hook);
    }

    /// Sends operations as one request and waits for the results, one per operation, in order.
    ///
    /// # Errors
    /// Only if the request as a whole got no answer; results of single operations are inside.
    pub async fn call(&self, credentials: &Credentials, ops: Vec<Op>) -> Result<Vec<Result<OpReply, Errno>>, RpcError> {
        loop {
            let session = self.link.lock().session.clone();
            match session {
                Some(Session::Local(local)) => {
                    if !local.export.is_gone() {
                        return self.call_local(&local, credentials, ops).await;
                    }
                    self.lost_local(&local);
                }
                None => self.connect().await?,
            }
        }
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

    /// Ends the session in order.
    pub async fn disconnect(&self) {
        let session = {
            let mut link = self.link.lock();
            link.state = ImportState::Disconn;
            link.boot = 0;
            link.session.take()
        };
        match session {
            Some(Session::Local(local)) => local.served.end(&local.export, Gone::Disconnected),
            None => {}
        }
    }

    async fn call_local(
        &self,
        local: &LocalSession,
        credentials: &Credentials,
        ops: Vec<Op>,
    ) -> Result<Vec<Result<OpReply, Errno>>, RpcError> {
        let count = ops.len();
        let ticket = self.xids.begin(false);
        let request = Request {
            target: self.target,
            xid: ticket.xid,
            xid_known: ticket.known,
            resent: false,
            replay: Transno(0),
            credentials: credentials.clone(),
            ops,
        };
        let reply = local.served.service.clone().handle(local.export.clone(), request).await;
        self.learn(reply, count)
    }

    /// Takes from a reply what concerns the session.
    pub(crate) fn learn(&self, reply: Reply, count: usize) -> Result<Vec<Result<OpReply, Errno>>, RpcError> {
        self.learn_committed(reply.last_committed);
        if reply.results.len() != count {
            return Err(self.misfit(reply.results.len(), count));
        }
        Ok(reply.results)
    }

    pub(crate) fn learn_committed(&self, last_committed: Transno) {
        self.last_committed.fetch_max(last_committed.0, Ordering::AcqRel);
    }

    fn misfit(&self, found: usize, wanted: usize) -> RpcError {
        let nid = self.link.lock().nids.first().copied().unwrap_or(Nid::Loopback);
        RpcError::BadMessage { nid, reason: format!("{found} results for {wanted} operations") }
    }

    fn lost_local(&self, local: &Arc<LocalSession>) {
        let mut link = self.link.lock();
        if matches!(&link.session, Some(Session::Local(current)) if Arc::ptr_eq(current, local)) {
            link.session = None;
            link.state = ImportState::Disconn;
        }
    }

    /// Tells the owner that the target lost our session, if it did.
    pub(crate) fn tell_restart(&self, boot_before: u64, boot: u64, new: bool) {
        if boot_before != 0 && (boot_before != boot || new) {
            let hooks = self.hooks.lock().clone();
            hooks.iter().for_each(|hook| hook(boot));
        }
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
