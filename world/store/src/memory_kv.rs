//! The twin of etcd in memory: for tests and simulation.
//!
//! Time passes when it is told so. Each host has a connection of its own, on which requests and
//! answers can be lost.

use crate::kv::{Change, Compare, Kv, KvError, LeaseId, Outcome, Txn};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
struct State {
    keys: BTreeMap<String, (Vec<u8>, LeaseId)>,
    /// When each lease ends, and its time.
    leases: BTreeMap<LeaseId, (Duration, Duration)>,
    newest_lease: LeaseId,
    now: Duration,
    full: bool,
}

/// Keys in memory.
#[derive(Default)]
pub struct MemoryKv {
    state: Mutex<State>,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// It is done and answered.
    Whole,
    /// It never arrives.
    RequestLost,
    /// It is done, and its answer is lost.
    AnswerLost,
}

/// A connection of one host.
pub struct Connection {
    kv: Arc<MemoryKv>,
    deliver: Box<dyn Fn() -> Delivery + Send + Sync>,
}

impl MemoryKv {
    /// Without keys.
    pub fn new() -> Arc<MemoryKv> {
        Arc::default()
    }

    /// A connection; `deliver` says what becomes of each request.
    pub fn connect(
        self: &Arc<Self>,
        deliver: impl Fn() -> Delivery + Send + Sync + 'static,
    ) -> Arc<Connection> {
        Arc::new(Connection { kv: self.clone(), deliver: Box::new(deliver) })
    }

    /// It is this time on its clock: leases that are over end.
    pub fn set_time(&self, now: Duration) {
        let mut state = self.state.lock();
        state.now = state.now.max(now);
        let now = state.now;
        let over: Vec<LeaseId> =
            state.leases.iter().filter(|(_, (end, _))| *end <= now).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|lease| state.end(lease));
    }

    /// Nothing can be written from now on, or it can again; removing goes on.
    pub fn set_full(&self, full: bool) {
        self.state.lock().full = full;
    }

    /// All keys with their values.
    pub fn all(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.state.lock();
        state.keys.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }
}

impl State {
    fn end(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        self.keys.retain(|_, (_, of)| *of != lease);
    }

    fn holds(&self, compare: &Compare) -> bool {
        match compare {
            Compare::Absent(key) => !self.keys.contains_key(key),
            Compare::Is(key, value) => self.keys.get(key).is_some_and(|(has, _)| has == value),
        }
    }

    fn value(&self, key: &String) -> Option<Vec<u8>> {
        self.keys.get(key).map(|(value, _)| value.clone())
    }

    fn txn(&mut self, txn: &Txn) -> Result<Outcome, KvError> {
        if !txn.compare.iter().all(|compare| self.holds(compare)) {
            return Ok(Outcome::Refused(txn.otherwise.iter().map(|key| self.value(key)).collect()));
        }
        if self.full && txn.then.iter().any(|change| matches!(change, Change::Put { .. })) {
            return Err(KvError::Full("the database space is exceeded".into()));
        }
        let of_no_lease = |change: &Change| matches!(change, Change::Put { lease, .. } if *lease != 0 && !self.leases.contains_key(lease));
        if txn.then.iter().any(of_no_lease) {
            return Err(KvError::Refused("there is no such lease".into()));
        }
        for change in &txn.then {
            match change {
                Change::Put { key, value, lease } => {
                    self.keys.insert(key.clone(), (value.clone(), *lease));
                }
                Change::DeleteRange(start, end) => {
                    self.keys.retain(|key, _| key < start || key >= end);
                }
            }
        }
        Ok(Outcome::Done)
    }
}

impl Connection {
    fn call<T>(&self, work: impl FnOnce(&mut State) -> Result<T, KvError>) -> Result<T, KvError> {
        let lost = |what: &str| Err(KvError::NoAnswer(format!("the {what} was lost")));
        match (self.deliver)() {
            Delivery::RequestLost => lost("request"),
            Delivery::Whole => work(&mut self.kv.state.lock()),
            Delivery::AnswerLost => {
                // What it would have said is not known to the caller.
                let _ = work(&mut self.kv.state.lock());
                lost("answer")
            }
        }
    }
}

impl Kv for Connection {
    fn txn(&self, txn: &Txn) -> Result<Outcome, KvError> {
        self.call(|state| state.txn(txn))
    }

    fn get(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        self.call(|state| Ok(keys.iter().map(|key| state.value(key)).collect()))
    }

    fn range(&self, start: &str, end: &str, limit: u32) -> Result<Vec<(String, Vec<u8>)>, KvError> {
        self.call(|state| {
            let found = state.keys.range(start.to_owned()..end.to_owned());
            let each = found.map(|(key, (value, _))| (key.clone(), value.clone()));
            Ok(each.take(limit as usize).collect())
        })
    }

    fn grant(&self, time: Duration) -> Result<LeaseId, KvError> {
        self.call(|state| {
            if state.full {
                return Err(KvError::Full("the database space is exceeded".into()));
            }
            state.newest_lease += 1;
            let (lease, end) = (state.newest_lease, state.now + time);
            state.leases.insert(lease, (end, time));
            Ok(lease)
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<bool, KvError> {
        self.call(|state| {
            let now = state.now;
            let known = state.leases.get_mut(&lease);
            Ok(known.map(|(end, time)| *end = now + *time).is_some())
        })
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), KvError> {
        self.call(|state| {
            state.end(lease);
            Ok(())
        })
    }
}
