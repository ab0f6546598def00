//! What the previous life of an OST left, and the window in which its clients may bring back what
//! is lost.

use crate::error::StartError;
use disk::key;
use disk::object::{
    OstState, SETTLED_END, SETTLED_PREFIX, STATE_KEY, decode_settled, settled_object,
};
use disk::session::decode_client;
use env::clock::Monotonic;
use env::watch;
use parking_lot::Mutex;
use replay::merge::Merge;
use rpc::service::Export;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::store::Store;
use tokio::sync::Notify;
use types::errno::Errno;
use types::object::ObjectId;
use types::principal::Claim;
use types::session::{ClientUuid, Transno};
use wire::ost::OstOp;

/// What the previous life left.
pub(crate) struct Found {
    pub(crate) state: OstState,
    /// Clients that may have changed something. The boot number is that of the start of the target
    /// at which all their changes were last here.
    pub(crate) clients: BTreeMap<ClientUuid, (u64, Claim)>,
    pub(crate) settled: HashMap<ObjectId, Transno, foldhash::fast::RandomState>,
    /// True if something may be lost.
    pub(crate) lossy: bool,
}

/// A client that may keep changes that a power cut would lose.
pub(crate) struct Known {
    /// The start at which all its changes were last here.
    pub(crate) boot: u64,
    /// What it shows when it comes back.
    pub(crate) claim: Claim,
    /// Of the store: when this is committed, so is its record.
    pub(crate) transno: Transno,
}

/// Closed while the OST waits for the clients of its previous life.
pub(crate) struct Window {
    pub(crate) merge: Mutex<Merge<OstOp>>,
    pub(crate) open: AtomicBool,
    /// Changes with every step, and when it opens.
    progress: watch::Sender<()>,
    pub(crate) changed: Notify,
    /// Sessions of those that came.
    pub(crate) exports: Mutex<BTreeMap<ClientUuid, Arc<Export>>>,
    pub(crate) settled: HashMap<ObjectId, Transno, foldhash::fast::RandomState>,
}

impl Found {
    /// Reads what the life before left.
    ///
    /// # Errors
    /// The store cannot be read, or the state is damaged. A damaged record of a client or an object
    /// is logged and left out.
    pub(crate) fn read(store: &Store, kernel_run: u128) -> Result<Found, StartError> {
        let tx = store.begin();
        let state = tx.get(STATE_KEY, OstState::decode)?.transpose()?.unwrap_or_default();
        let lossy = !state.clean && (state.kernel_run == 0 || state.kernel_run != kernel_run);
        let (mut clients, mut settled) = (BTreeMap::new(), HashMap::default());
        let (start, end) = key::all(key::Tag::Client);
        tx.scan(&start, &end, |key, value| {
            match (key::client_of(key), decode_client(value)) {
                (Some(client), Ok(record)) => {
                    _ = clients.insert(client, (record.boot, record.claim))
                }
                (_, damaged) => {
                    tracing::error!(?key, ?damaged, "the record of a client is damaged")
                }
            }
            ControlFlow::Continue(())
        })?;
        tx.scan(SETTLED_PREFIX, SETTLED_END, |key, value| {
            match (settled_object(key), decode_settled(value)) {
                (Some(object), Ok(transno)) => drop(settled.insert(object, transno)),
                (_, damaged) => {
                    tracing::error!(?key, ?damaged, "the record of what is settled is damaged")
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(Found { state, clients, settled, lossy })
    }

    /// Clients of the previous life, as they are known in this one.
    pub(crate) fn known(&self) -> BTreeMap<ClientUuid, Known> {
        let known = |(boot, claim)| Known { boot, claim, transno: Transno(0) };
        self.clients.iter().map(|(client, record)| (*client, known(record.clone()))).collect()
    }
}

impl Window {
    /// Waits for these clients, if there are any.
    pub(crate) fn new(found: &Found, now: Monotonic, length: Duration) -> Window {
        let expected: Vec<ClientUuid> =
            if found.lossy { found.clients.keys().copied().collect() } else { Vec::new() };
        Window {
            open: AtomicBool::new(expected.is_empty()),
            merge: Mutex::new(Merge::new(expected, found.state.last_committed, now, length)),
            progress: watch::Sender::new(()),
            changed: Notify::new(),
            exports: Mutex::default(),
            settled: found.settled.clone(),
        }
    }

    /// True if the OST is in service.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Something happened: waiting tasks look again.
    pub(crate) fn nudge(&self) {
        self.progress.send_modify(|()| {});
        self.changed.notify_one();
    }

    /// Waits until something is so.
    pub(crate) async fn until(
        &self,
        export: &Export,
        mut so: impl FnMut() -> bool,
    ) -> Result<(), Errno> {
        let mut progress = self.progress.subscribe();
        // An error: the OST itself is gone.
        progress.wait_for(|()| so() || export.is_gone()).await.map_err(|_| Errno::ESHUTDOWN)?;
        if export.is_gone() { Err(Errno::ENOTCONN) } else { Ok(()) }
    }
}
