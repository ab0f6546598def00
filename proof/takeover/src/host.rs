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
use store::checkpoint;
use store::error::StoreError;
use store::kv::{Kv, LeaseId};
use store::lease::Lease;
use store::log::{Log, Position};
use store::memory::Memory;
use store::memory_blobs::{BlobConnection, MemoryBlobs};
use store::memory_kv::{Connection, Delivery, MemoryKv};
use store::replica::Replica;
use store::shared_log::{BlobStore, Claim, SharedLog};
use store::store::{Committer, Store, StoreOptions};
use store::sweep::sweep;

/// Time of a lease.
pub const LEASE: Duration = Duration::from_secs(2);

/// Name of the target.
pub const TARGET: &str = "sheen-MDT0000";

/// Uuid of the store.
const STORE: u128 = 7;

/// Changes beyond which an entry goes into a blob, bytes: two records.
const ENTRY_BYTES: usize = 30;

/// Faults of the line between a host and the keys, and the blobs.
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
    blobs: Arc<BlobConnection>,
    log: Arc<SharedLog>,
    tree: Arc<Replica>,
    /// It lost its folder: it is made anew before it does anything else.
    unmade: bool,
    lease: Option<(LeaseId, Duration)>,
    pub owner: Option<Owner>,
    pub answers: Vec<Answer>,
}

impl Host {
    pub fn new(
        number: u64,
        seed: u64,
        (kv, blobs): (&Arc<MemoryKv>, &Arc<MemoryBlobs>),
        lossy: bool,
    ) -> Host {
        let name = format!("host{number}");
        let mut rng = Rng::new(seed, &name);
        let rate = rng.between(950, 1050);
        let line = Arc::new(Line { cut: AtomicBool::new(false), rng: Mutex::new(rng), lossy });
        let theirs = line.clone();
        let keys = kv.connect(move || theirs.deliver());
        let theirs = line.clone();
        let blobs = blobs.connect(move || theirs.deliver());
        let store = BlobStore {
            entry_bytes: ENTRY_BYTES,
            checkpoint_bytes: 1,
            ..BlobStore::new(blobs.clone(), "blobs".into())
        };
        let log = SharedLog::new(keys.clone(), TARGET, STORE, &name, &name);
        let log = Arc::new(log.with_blobs(Some(store)));
        let tree = empty_tree(&log);
        let (lease, owner, answers) = (None, None, Vec::new());
        Host { name, rate, line, keys, blobs, log, tree, unmade: true, lease, owner, answers }
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
            (self.tree, self.unmade) = (empty_tree(&self.log), true);
        }
    }

    /// Makes its folder and joins, and gets its tree from the checkpoint if it must. `false`: it
    /// tries again later.
    fn join(&mut self, judge: &mut Judge) -> bool {
        if self.unmade {
            self.unmade = self.log.create("").is_err();
        }
        let failed = match self.tree.follow() {
            _ if self.unmade => return false,
            Ok(()) | Err(StoreError::NoAnswer { .. }) => return true,
            Err(StoreError::Behind { .. }) => {
                let memory = Memory::new(u64::MAX / 4);
                match Replica::from_checkpoint(&self.log, &*self.blobs, memory) {
                    Ok(Some(tree)) => {
                        self.tree = tree;
                        return true;
                    }
                    // The log went on meanwhile.
                    Ok(None) | Err(StoreError::Behind { .. } | StoreError::NoAnswer { .. }) => {
                        return false;
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        judge.wrong.push(format!("{}: follow: {failed}", self.name));
        false
    }

    /// What it has in its tree need not be kept for it.
    fn trim(&self) {
        // It may fail, and is done again.
        let _ = self.log.trim(self.tree.position());
    }

    /// As a standby: follows the log, and takes the target over if it has no owner.
    pub fn stand_by(&mut self, env: &Env, now: Duration, judge: &mut Judge) {
        if !self.join(judge) {
            return;
        }
        if now.as_millis().is_multiple_of(5) {
            self.trim();
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
            Err(
                StoreError::NoAnswer { .. } | StoreError::Owned { .. } | StoreError::Behind { .. },
            ) => {}
            Err(error) => judge.wrong.push(format!("{}: claim: {error}", self.name)),
        }
    }

    /// As the owner: does one thing.
    pub fn work(&mut self, rng: &mut Rng, now: Duration, value: u64, judge: &mut Judge) {
        let own_now = self.clock(now);
        let Some(owner) = &mut self.owner else { return };
        let told = Told { fence: owner.store.fence(), evaluated: now };
        match rng.below(12) {
            10 => {
                self.trim();
                let (now, id) = (self.log.checkpoint(), rng.below(u64::MAX));
                if now.is_ok_and(|now| self.log.wants_checkpoint(now.as_ref(), 0)) {
                    let made =
                        checkpoint::write(&*self.tree, &self.log, &*self.blobs, id, &|| false);
                    judge.failed(&self.name, made.err());
                }
            }
            11 => judge.failed(&self.name, sweep(&self.log, &*self.blobs, &|| false).err()),
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
            _ => {
                let claim = Claim { fence: owner.store.fence(), lease: owner.lease_id };
                judge.failed(&self.name, self.log.renew(claim, &owner.lease, own_now).err());
            }
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
