//! One host: its clock, its line to the keys, its copy of the tree, and its process.

use crate::judge::{Judge, Told};
use env::Env;
use futures_util::FutureExt;
use observe::mutant::{Mutant, is_mutant};
use parking_lot::Mutex;
use simenv::rng::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::error::StoreError;
use store::kv::{Kv, LeaseId};
use store::lease::Lease;
use store::log::Position;
use store::memory::Memory;
use store::memory_kv::{Connection, Delivery, MemoryKv};
use store::replica::Replica;
use store::shared_log::SharedLog;
use store::store::{Committer, Store, StoreOptions};
/// Time of a lease.
pub const LEASE: Duration = Duration::from_secs(2);

/// Uuid of the store.
const STORE: u128 = 7;

/// Faults of the line between a host and the keys.
pub struct Line {
    pub cut: AtomicBool,
    rng: Mutex<Rng>,
    lossy: bool,
}

/// The process while it owns the target.
pub struct Owner {
    store: Arc<Store>,
    lease: Arc<Lease>,
    lease_id: LeaseId,
    /// Newest value that it wrote under each key, and not told durable.
    written: BTreeMap<Vec<u8>, u64>,
}

/// An answer that was worked out and is not sent: the process may be stopped in between.
pub struct Answer {
    told: Told,
    /// Values that it says are durable.
    synced: BTreeMap<Vec<u8>, u64>,
}

pub struct Host {
    name: String,
    /// Rate of its clock, per mille.
    rate: u64,
    pub line: Arc<Line>,
    keys: Arc<Connection>,
    log: Arc<SharedLog>,
    tree: Arc<Replica>,
    lease: Option<(LeaseId, Duration)>,
    pub owner: Option<Owner>,
    pub answers: Vec<Answer>,
}

impl Host {
    pub fn new(number: u64, seed: u64, kv: &Arc<MemoryKv>, lossy: bool) -> Host {
        let name = format!("host{number}");
        let mut rng = Rng::new(seed, &name);
        let rate = rng.between(950, 1050);
        let line = Arc::new(Line { cut: AtomicBool::new(false), rng: Mutex::new(rng), lossy });
        let theirs = line.clone();
        let keys = kv.connect(move || theirs.deliver());
        let log = Arc::new(SharedLog::new(keys.clone(), "sheen-MDT0000", STORE, &name, &name));
        let tree = empty_tree(&log);
        Host { name, rate, line, keys, log, tree, lease: None, owner: None, answers: Vec::new() }
    }

    /// Its own clock.
    fn clock(&self, now: Duration) -> Duration {
        now * self.rate as u32 / 1000
    }

    pub fn log(&self) -> &SharedLog {
        &self.log
    }

    /// The process is killed; `folder`: and its copy of the tree is lost.
    pub fn kill(&mut self, folder: bool) {
        (self.owner, self.lease) = (None, None);
        self.answers.clear();
        if folder {
            self.tree = empty_tree(&self.log);
        }
    }

    /// As a standby: follows the log, and takes the target over if it has no owner.
    pub fn stand_by(&mut self, env: &Env, now: Duration, judge: &mut Judge) {
        match self.tree.follow() {
            Ok(()) | Err(StoreError::NoAnswer { .. }) => {}
            Err(error) => judge.wrong.push(format!("{}: follow: {error}", self.name)),
        }
        let over = |(_, asked): &(LeaseId, Duration)| self.clock(now) > *asked + LEASE / 2;
        if self.lease.as_ref().is_none_or(over) {
            let asked = self.clock(now);
            let Ok(lease) = self.keys.grant(LEASE) else { return };
            self.lease = Some((lease, asked));
        }
        let Some((lease_id, asked)) = self.lease else { return };
        self.log.claim_under(lease_id);
        let options = StoreOptions { committer: Committer::Caller, ..StoreOptions::default() };
        match Store::open(self.tree.clone(), env.clone(), options) {
            Ok(store) => {
                judge.owner_has(store.fence(), |key| value(&store, key));
                let lease = Arc::new(Lease::new(LEASE, asked));
                self.lease = None;
                self.owner = Some(Owner { store, lease, lease_id, written: BTreeMap::new() });
            }
            Err(StoreError::NoAnswer { .. } | StoreError::Owned { .. }) => {}
            Err(error) => judge.wrong.push(format!("{}: claim: {error}", self.name)),
        }
    }

    /// As the owner: does one thing.
    pub fn work(&mut self, rng: &mut Rng, now: Duration, value: u64, judge: &mut Judge) {
        let own_now = self.clock(now);
        let Some(owner) = &mut self.owner else { return };
        let told = Told { fence: owner.store.fence(), evaluated: now };
        match rng.below(10) {
            0..3 => {
                let key = format!("k{}", rng.below(4)).into_bytes();
                let mut tx = owner.store.begin();
                tx.put(&key, &value.to_le_bytes());
                tx.finish();
                owner.written.insert(key, value);
                self.answers.push(Answer { told, synced: BTreeMap::new() });
            }
            3..5 => self.answers.push(Answer { told, synced: BTreeMap::new() }),
            5..8 => {
                if let Some(Ok(_)) = owner.store.commit().now_or_never() {
                    let synced = std::mem::take(&mut owner.written);
                    self.answers.push(Answer { told, synced });
                }
            }
            _ => match self.keys.keep_alive(owner.lease_id) {
                Ok(true) => owner.lease.renewed(own_now),
                Ok(false) => owner.lease.end(),
                Err(_) => {}
            },
        }
        let Some(owner) = &self.owner else { return };
        match owner.store.failure() {
            None if owner.lease.is_ended() => self.owner = None,
            None => {}
            Some(StoreError::Fenced { .. }) => self.owner = None,
            Some(error) => {
                judge.wrong.push(format!("{}: commit: {error}", self.name));
                self.owner = None;
            }
        }
    }

    /// Sends the oldest answer, if the lease still holds.
    pub fn answer(&mut self, now: Duration, judge: &mut Judge) {
        if self.answers.is_empty() {
            return;
        }
        let answer = self.answers.remove(0);
        let own_now = self.clock(now);
        let holds = self.owner.as_ref().is_some_and(|owner| {
            owner.store.fence() == answer.told.fence && owner.lease.holds(own_now)
        });
        if holds || is_mutant(Mutant::AnswersWithoutLease) {
            judge.told(answer.told);
            judge.synced(&answer.synced);
        }
    }
}

impl Line {
    fn deliver(&self) -> Delivery {
        let mut rng = self.rng.lock();
        match self.cut.load(Ordering::Relaxed) {
            true => Delivery::RequestLost,
            false if self.lossy && rng.chance(40) => Delivery::RequestLost,
            false if self.lossy && rng.chance(40) => Delivery::AnswerLost,
            false => Delivery::Whole,
        }
    }
}

fn empty_tree(log: &Arc<SharedLog>) -> Arc<Replica> {
    Replica::new(log.clone(), Memory::new(u64::MAX / 4), Position::default())
}

fn value(store: &Store, key: &[u8]) -> u64 {
    let bytes = store.begin().get(key, |bytes| bytes.try_into().map(u64::from_le_bytes));
    bytes.ok().flatten().and_then(Result::ok).unwrap_or_default()
}
