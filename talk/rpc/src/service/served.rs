//! The targets that this process serves, and their sessions.
//!
//! Owner: `Rpc`. Bounds: TARGETS_MAX targets, CLIENTS_MAX sessions each, of them
//! SESSIONS_PER_ADDRESS_MAX of clients at one address, and SESSIONS_PER_KEY_MAX of clients with one
//! key, which is no server's. A session is found by the client's UUID, and belongs to the process
//! that shows the proof it was opened with.

use crate::service::admission::{Refusal, admit};
use crate::service::{Export, Gone, Identity, Origin, Ownership, Service, is_same_owner};
use crate::stats::CallStats;
use crate::under_way::{self, Side};
use env::clock::{Clock, Monotonic};
use env::ration::Ration;
use observe::mutant::{Mutant, is_mutant};
use observe::registry::Registry;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use types::errno::Errno;
use types::limits::{CLIENTS_MAX, SESSIONS_PER_ADDRESS_MAX, SESSIONS_PER_KEY_MAX};
use types::principal::{KeyHash, Role};
use types::session::{ClientUuid, Transno};
use types::target::TargetName;
use wire::message::{ConnectReply, ConnectRequest, Reply, Request};

/// One target of this process.
pub(crate) struct Served {
    me: Weak<Served>,
    pub(crate) service: Arc<dyn Service>,
    /// `None`: no other process can take the target over.
    pub(crate) ownership: Option<Arc<dyn Ownership>>,
    pub(crate) stats: CallStats,
    pub(crate) under_way: Arc<under_way::Table>,
    exports: Mutex<Sessions>,
    /// Number of the next session.
    sessions: AtomicU32,
    /// For log lines about requests that any client can cause.
    refusals: Ration,
}

/// The answer to an operation that a session of this role may not send.
const NOT_FOR_THIS_ROLE: Errno = Errno::EACCES;

/// The sessions of one target, and their numbers per address and per key.
#[derive(Default)]
struct Sessions {
    all: HashMap<ClientUuid, Listed, foldhash::fast::RandomState>,
    by_address: BTreeMap<IpAddr, usize>,
    by_key: BTreeMap<KeyHash, usize>,
}

struct Listed {
    export: Arc<Export>,
    place: Place,
}

/// By what the sessions of one client are bounded.
#[derive(Clone, Copy)]
struct Place {
    /// Address that the session was made from; `None`: this process.
    address: Option<IpAddr>,
    /// Key that it was made with; `None`: that of a server, or no key is asked for.
    key: Option<KeyHash>,
}

impl Place {
    fn of(origin: &Origin) -> Place {
        let address = origin.nid.address().map(|address| address.ip().to_canonical());
        let of_client =
            origin.principal.as_ref().filter(|principal| principal.role != Role::Server);
        Place { address, key: of_client.map(|principal| principal.key) }
    }
}

/// One less of this.
fn less<K: Ord>(counts: &mut BTreeMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

impl Sessions {
    fn get(&self, client: ClientUuid) -> Option<&Arc<Export>> {
        self.all.get(&client).map(|listed| &listed.export)
    }

    /// True if there is a place for one more session.
    fn has_place(&self, Place { address, key }: Place) -> bool {
        let of_address =
            address.and_then(|address| self.by_address.get(&address)).copied().unwrap_or_default();
        let of_key = key.and_then(|key| self.by_key.get(&key)).copied().unwrap_or_default();
        self.all.len() < CLIENTS_MAX
            && of_address < SESSIONS_PER_ADDRESS_MAX
            && of_key < SESSIONS_PER_KEY_MAX
    }

    fn insert(&mut self, export: Arc<Export>, place: Place) {
        if let Some(address) = place.address {
            *self.by_address.entry(address).or_default() += 1;
        }
        if let Some(key) = place.key {
            *self.by_key.entry(key).or_default() += 1;
        }
        self.all.insert(export.client(), Listed { export, place });
    }

    fn remove(&mut self, export: &Arc<Export>) {
        if !self.get(export.client()).is_some_and(|known| Arc::ptr_eq(known, export)) {
            return;
        }
        let Some(Listed { place, .. }) = self.all.remove(&export.client()) else { return };
        if let Some(address) = &place.address {
            less(&mut self.by_address, address);
        }
        if let Some(key) = &place.key {
            less(&mut self.by_key, key);
        }
    }
}

/// Result of a greeting.
pub(crate) struct Connected {
    pub(crate) export: Arc<Export>,
    pub(crate) reply: ConnectReply,
}

/// Why there is no session.
pub(crate) enum ConnectError {
    Refusal(Refusal),
    Errno(Errno),
}

impl Served {
    fn new(
        (service, ownership): (Arc<dyn Service>, Option<Arc<dyn Ownership>>),
        metrics: &Arc<Registry>,
        under_way: &Arc<under_way::Table>,
    ) -> Arc<Served> {
        let stats = CallStats::of_target(metrics.clone(), service.target());
        let under_way = under_way.clone();
        let (exports, sessions) = (Mutex::default(), AtomicU32::new(1));
        let refusals = Ration::default();
        Arc::new_cyclic(|me| Served {
            me: me.clone(),
            service,
            ownership,
            stats,
            under_way,
            exports,
            sessions,
            refusals,
        })
    }

    /// Works on one request. What a session of this role may not send is refused here, for all
    /// targets.
    pub(crate) async fn handle(
        &self,
        export: &Arc<Export>,
        request: Request,
        clock: &Arc<dyn Clock>,
    ) -> Reply {
        let now = clock.now();
        let role = export.role();
        if let Some(op) = request.ops.iter().find(|op| !op.row().sender.admits(role))
            && !is_mutant(Mutant::RoleIgnored)
        {
            return self.refuse((export, role), &request, op.row().name, now);
        }
        let started = self.stats.begin(&request.ops, request.job, now);
        let about = under_way::of(Side::Served, export.client(), &request, now);
        let work = self.service.clone().handle(export.clone(), request);
        let reply = self.under_way.note(about, work).await;
        started.answered(clock.now(), &reply);
        reply
    }

    fn refuse(
        &self,
        (export, role): (&Export, Role),
        request: &Request,
        operation: &str,
        now: Monotonic,
    ) -> Reply {
        if let Some(others) = self.refusals.pass(now) {
            tracing::warn!(
                target = %request.target,
                client = %export.client().brief(),
                nid = %export.nid(),
                description = export.description(),
                %role,
                operation,
                others,
                "refused: this role may not send this"
            );
        }
        let results = request.ops.iter().map(|_| Err(NOT_FOR_THIS_ROLE)).collect();
        Reply::new(request.xid, Transno(0), self.service.last_committed(), results)
    }

    pub(crate) fn export(&self, client: ClientUuid) -> Option<Arc<Export>> {
        self.exports.lock().get(client).cloned()
    }

    /// Opens or renews a session.
    pub(crate) fn connect(
        &self,
        hello: &ConnectRequest,
        origin: Origin,
        role: Role,
    ) -> Result<Connected, ConnectError> {
        let recorded = self.service.claim_of(hello.client);
        let (export, renewed) = {
            let mut exports = self.exports.lock();
            let known = exports.get(hello.client);
            let shown = origin.principal.as_ref();
            let is_owner = match (known, &recorded) {
                (Some(export), _) => is_same_owner(export.principal().as_ref(), shown),
                (None, Some(claim)) => claim.owner.is(shown.map(|principal| &**principal)),
                (None, None) => true,
            };
            if !is_owner && !is_mutant(Mutant::AnySession) {
                return Err(ConnectError::Refusal(Refusal::OtherProcess));
            }
            let proof =
                known.map(|export| export.proof()).or(recorded.map(|recorded| recorded.proof));
            admit((self.service.target(), self.service.cluster()), hello, proof)
                .map_err(ConnectError::Refusal)?;
            match known {
                // Its end is under way: the next session begins when nothing is left of this one.
                Some(export) if export.is_gone() => return Err(ConnectError::Errno(Errno::EBUSY)),
                Some(export) => (export.clone(), Some(origin)),
                None if !exports.has_place(Place::of(&origin)) => {
                    return Err(ConnectError::Errno(Errno::EBUSY));
                }
                None => {
                    let target = self.service.target();
                    let place = Place::of(&origin);
                    let identity = Identity { client: hello.client, proof: hello.proof, role };
                    let number = self.sessions.fetch_add(1, Ordering::Relaxed);
                    let me = self.me.clone();
                    let export = Export::new(me, target, identity, number, origin);
                    exports.insert(export.clone(), place);
                    (export, None)
                }
            }
        };
        let new = renewed.is_none();
        if let Some(origin) = renewed {
            export.renew(origin, role);
        }
        match self.service.connect(&export, hello) {
            Ok(reply) => {
                let reply = ConnectReply { session: export.number(), ..reply };
                Ok(Connected { export, reply })
            }
            Err(errno) => {
                if new {
                    export.end();
                    self.forget(&export);
                }
                Err(ConnectError::Errno(errno))
            }
        }
    }

    /// Ends one session. It is listed until the service has dropped everything of it: so grants to
    /// the client's next session cannot be taken for those of this one.
    pub(crate) fn end(&self, export: &Arc<Export>, why: Gone) {
        if export.end() {
            self.service.gone(export, why);
            self.forget(export);
        }
    }

    fn forget(&self, export: &Arc<Export>) {
        self.exports.lock().remove(export);
    }

    /// All sessions, ordered by client: a simulated run can be repeated.
    pub(crate) fn exports(&self) -> Vec<Arc<Export>> {
        let mut all: Vec<Arc<Export>> =
            self.exports.lock().all.values().map(|listed| listed.export.clone()).collect();
        all.sort_unstable_by_key(|export| export.client());
        all
    }

    fn end_all(&self, why: Gone) {
        for export in self.exports() {
            self.end(&export, why);
        }
    }
}

/// All targets of this process.
#[derive(Default)]
pub(crate) struct ServedTargets {
    targets: RwLock<BTreeMap<TargetName, Arc<Served>>>,
}

impl ServedTargets {
    /// Adds a service; an earlier one of this name is stopped.
    pub(crate) fn add(
        &self,
        owned: (Arc<dyn Service>, Option<Arc<dyn Ownership>>),
        metrics: &Arc<Registry>,
        under_way: &Arc<under_way::Table>,
    ) {
        let target = owned.0.target();
        let before = self.targets.write().insert(target, Served::new(owned, metrics, under_way));
        if let Some(before) = before {
            before.end_all(Gone::Stopped);
        }
    }

    pub(crate) fn remove(&self, target: TargetName) {
        let removed = self.targets.write().remove(&target);
        if let Some(served) = removed {
            served.end_all(Gone::Stopped);
        }
    }

    pub(crate) fn remove_all(&self) {
        let removed = std::mem::take(&mut *self.targets.write());
        removed.into_values().for_each(|served| served.end_all(Gone::Stopped));
    }

    pub(crate) fn abandon(&self) {
        let all = std::mem::take(&mut *self.targets.write());
        drop(all);
    }

    pub(crate) fn get(&self, target: TargetName) -> Option<Arc<Served>> {
        self.targets.read().get(&target).cloned()
    }

    /// The target, if clients of this process are to use it in place: no other process can take it
    /// over.
    pub(crate) fn get_local(&self, target: TargetName) -> Option<Arc<Served>> {
        self.get(target).filter(|served| served.ownership.is_none())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Served>> {
        self.targets.read().values().cloned().collect()
    }
}
