//! The log of a target that other hosts can take over: entries under keys of a linearizable store
//! (docs/ownership.md).
//!
//! One transaction appends an entry: it needs the owner's epoch and the entry before. So entries
//! have no gaps, epochs never fall, and behind a new epoch no older one can append.
//!
//! Every call is one attempt. [`StoreError::NoAnswer`] says that it is not known whether it was
//! done; the same call again finds out, and does no harm.

mod beside;
mod blob_store;
mod claimed;
mod entries;
mod identity;
mod kept;
mod keys;
mod shown;
mod trim;

use crate::batch::Batch;
use crate::engine::Fence;
use crate::error::StoreError;
use crate::kv::{Change, Compare, Kv, KvError, LeaseId, Outcome, Txn};
use crate::log::{Entry, Log, Position, Room};
pub(crate) use beside::Needed;
pub use blob_store::BlobStore;
pub use claimed::Claim;
use disk::entry::EntryHead;
use kept::AllKept;
use keys::{PARTS_MAX, Written, head_of, number, one, parse, put};
use observe::mutant::{Mutant, is_mutant};
use parking_lot::Mutex;
pub(crate) use shown::PAGES_MAX;
pub use shown::{Checkpoint, Founded, HostTree, Owner, Shown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use types::session::Transno;

/// Keys that are read at once.
const RANGE_KEYS: u32 = 16;
/// Bytes of entries that are kept; beyond it commits wait for a trim.
const BYTES_MAX: u64 = 256 << 20;
/// How often a claim looks again because something changed meanwhile.
const CLAIM_ROUNDS_MAX: u32 = 8;

/// A log in a store of keys, with its large entries in a store of blobs, if it has one.
pub struct SharedLog {
    kv: Arc<dyn Kv>,
    blobs: Option<BlobStore>,
    /// Large entries that are still to go under keys, because a blob was refused.
    without_blobs: AtomicU32,
    /// The newest blob was refused, and the log says so.
    blobs_refused: AtomicBool,
    /// Name of the target, or what else the keys begin with.
    target: String,
    store: u128,
    /// This host: it owns the target under this name, and has a copy of the tree.
    host: String,
    /// Host and NIDs, for people.
    place: String,
    /// NIDs of the MGS of this host's cluster; empty: not known.
    mgs: String,
    /// The lease of the next claim.
    lease: AtomicU64,
    /// Entries that are kept.
    kept: Mutex<AllKept>,
    /// Number of the newest entry that was trimmed, as far as this host knows.
    trimmed: AtomicU64,
    /// The epoch in which this process owns the target; 0: it does not, as far as it knows.
    owned: AtomicU64,
}

impl SharedLog {
    /// The log of this target, of the store of this uuid. `host` names a copy of the tree, `place`
    /// an owner.
    pub fn new(kv: Arc<dyn Kv>, target: &str, store: u128, host: &str, place: &str) -> SharedLog {
        let (target, host, place) = (target.to_owned(), host.to_owned(), place.to_owned());
        let (lease, kept, trimmed) = (AtomicU64::new(0), Mutex::default(), AtomicU64::new(0));
        let (owned, blobs, without_blobs) = (AtomicU64::new(0), None, AtomicU32::new(0));
        SharedLog {
            kv,
            blobs,
            without_blobs,
            blobs_refused: AtomicBool::new(false),
            target,
            store,
            host,
            place,
            mgs: String::new(),
            lease,
            kept,
            trimmed,
            owned,
        }
    }

    /// Makes an empty log of this store, unless the target has one: then that of its store.
    /// `identity` is kept beside a new log for the hosts that come later, and so are the NIDs of
    /// [`SharedLog::for_mgs`]. Returns what the log was made with.
    ///
    /// This host has a copy of the tree from now on, an empty one; if the log no longer has its
    /// first entry, it gets one from the owner later ([`crate::tree_copy`]). But a host that has no
    /// identity is not entered into a log that has one: its cluster must be compared first
    /// ([`SharedLog::join`]).
    ///
    /// # Errors
    /// The keys cannot be written, or are none of a log; or the log is that of another cluster.
    pub fn create(&self, identity: &str) -> Result<Founded, StoreError> {
        let mine = format!("{:032x}", self.store).into_bytes();
        let kept = ["store", "identity", "blobs", "mgs"].map(|name| self.key(name));
        let txn = Txn {
            compare: vec![Compare::Absent(self.key("store"))],
            then: vec![
                put(self.key("store"), mine),
                put(self.key("epoch"), number(0)),
                put(self.key("head"), head_of(Position::default())),
                put(self.replica_key(), number(0)),
                put(self.key("identity"), identity.as_bytes().to_vec()),
                put(self.key("mgs"), self.mgs.as_bytes().to_vec()),
                put(self.key("blobs"), self.blobs_place().as_bytes().to_vec()),
            ],
            otherwise: kept.to_vec(),
        };
        let found = match self.kv.txn(&txn).map_err(|e| self.error(e))? {
            Outcome::Done => {
                return Ok(Founded { store: self.store, identity: identity.to_owned() });
            }
            Outcome::Refused(found) => found,
        };
        let mut found = found.into_iter();
        let mut next = || found.next().flatten();
        let (store, theirs, blobs, mgs) = (next(), next(), next(), next());
        let store = self.store_of(store.as_deref())?;
        let theirs = self.text_of(theirs, "identity")?;
        self.check_mgs(mgs, !identity.is_empty())?;
        self.check_blobs(blobs.as_deref())?;
        if identity.is_empty() && !theirs.is_empty() {
            return Ok(Founded { store, identity: theirs });
        }
        // From here on nothing is trimmed that this host lacks.
        let joined = Txn { then: vec![put(self.replica_key(), number(0))], ..Txn::default() };
        self.kv.txn(&joined).map_err(|e| self.error(e))?;
        let first = [self.key("head"), self.entry_key(1)];
        let mut found = self.kv.get(&first).map_err(|e| self.error(e))?.into_iter();
        let (head, first) = (found.next().flatten(), found.next().flatten());
        if self.head_of(head.as_deref())?.number > 0 && first.is_none() {
            self.remove_replica(&self.host)?;
        }
        Ok(Founded { store, identity: theirs })
    }

    /// Succeeds if the log is that of this store, and its blobs are where this host looks for them.
    ///
    /// # Errors
    /// There is none, or it is that of another store, or has another store of blobs; or the keys
    /// cannot be read.
    pub fn check(&self) -> Result<(), StoreError> {
        let keys = ["store", "blobs"].map(|name| self.key(name));
        let mut found = self.kv.get(&keys).map_err(|e| self.error(e))?.into_iter();
        let theirs = self.store_of(found.next().flatten().as_deref())?;
        if theirs != self.store {
            let ours = self.store;
            let reason =
                format!("it is the log of store {theirs:032x}, this target is {ours:032x}");
            return Err(self.damaged(reason));
        }
        self.check_blobs(found.next().flatten().as_deref())
    }

    fn store_of(&self, value: Option<&[u8]>) -> Result<u128, StoreError> {
        let text = value.and_then(|value| std::str::from_utf8(value).ok());
        let text = text.ok_or_else(|| self.damaged("there is no log of this target".into()))?;
        u128::from_str_radix(text, 16).map_err(|_| self.damaged("its store is no number".into()))
    }

    fn replica_key(&self) -> String {
        self.replica_key_of(&self.host)
    }

    fn replica_key_of(&self, host: &str) -> String {
        self.key(&format!("replica/{host}"))
    }

    /// The log need not keep anything for this host any more. `false`: it did not.
    ///
    /// # Errors
    /// The keys cannot be written.
    pub fn remove_replica(&self, host: &str) -> Result<bool, StoreError> {
        let key = self.replica_key_of(host);
        let gone = Txn {
            compare: vec![Compare::Absent(key.clone())],
            then: Vec::new(),
            otherwise: vec![key.clone()],
        };
        let was_there = self.kv.txn(&gone).map_err(|e| self.error(e))? != Outcome::Done;
        let gone = Txn { then: vec![one(key)], ..Txn::default() };
        self.kv.txn(&gone).map_err(|e| self.error(e))?;
        Ok(was_there)
    }

    /// From now on the log keeps what is behind `after` for this host (`None`: behind what is in
    /// the owner's tree, which is not before its head: an owner may not know yet that an entry of
    /// its is there). Returns that place; `None`: the log does not have all of it any more. Whether
    /// it keeps it long enough shows when it is read.
    ///
    /// # Errors
    /// The keys cannot be read or written; or there is no owner, or it has not said how far it is.
    pub fn hold(&self, after: Option<Position>) -> Result<Option<Position>, StoreError> {
        let found = self.kv.get(&[self.key("head")]).map_err(|e| self.error(e))?;
        let head = self.head_of(found.into_iter().next().flatten().as_deref())?;
        let after = match after {
            Some(after) => after,
            None => self.place_of_owner(head)?,
        };
        let hold = put(self.replica_key(), number(after.number));
        let hold = Txn { then: vec![hold], ..Txn::default() };
        self.kv.txn(&hold).map_err(|e| self.error(e))?;
        if after.number >= head.number {
            return Ok(Some(after));
        }
        let next = self.kv.get(&[self.entry_key(after.number + 1)]).map_err(|e| self.error(e))?;
        Ok(next.into_iter().next().flatten().map(|_| after))
    }

    /// How far the owner's tree surely is.
    fn place_of_owner(&self, head: Position) -> Result<Position, StoreError> {
        let unknown =
            |reason: &str| StoreError::NoAnswer { log: self.name().into(), reason: reason.into() };
        let owner = self.owner()?.ok_or_else(|| unknown("the target has no owner"))?;
        let is_owner = |host: &str| {
            let rest = owner.place.strip_prefix(host);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" at "))
        };
        let tree = self.replicas()?.into_iter().find(|tree| is_owner(&tree.host));
        let applied =
            tree.ok_or_else(|| unknown("the owner has not said how far its tree is"))?.applied;
        // Of a place before the head the entries behind it tell the transno.
        let transno = if applied == head.number { head.transno } else { Transno(0) };
        Ok(Position { number: applied, transno, at: 0 })
    }

    /// Claims are made under this lease from now on.
    pub fn claim_under(&self, lease: LeaseId) {
        self.lease.store(lease, Ordering::Release);
    }

    /// The owner now; `None`: there is none.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn owner(&self) -> Result<Option<Owner>, StoreError> {
        let found = self.kv.get(&[self.key("owner")]).map_err(|e| self.error(e))?;
        match found.into_iter().next().flatten() {
            None => Ok(None),
            Some(bytes) => self.owner_of(&bytes).map(Some),
        }
    }

    /// State of the log, for people.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn show(&self) -> Result<Shown, StoreError> {
        let keys = ["epoch", "head", "owner"].map(|name| self.key(name));
        let mut found = self.kv.get(&keys).map_err(|e| self.error(e))?.into_iter();
        let mut next = || found.next().flatten();
        let (epoch, head, owner) = (next(), next(), next());
        let owner = owner.map(|bytes| self.owner_of(&bytes)).transpose()?;
        let (fence, head) = (self.epoch_of(epoch.as_deref())?, self.head_of(head.as_deref())?);
        let (start, end) = (self.entry_key(0), self.key("log0"));
        let oldest = self.kv.range(&start, &end, 1).map_err(|e| self.error(e))?.pop();
        let first = oldest.and_then(|(key, _)| parse(key.rsplit('/').next()?.as_bytes()));
        let first = first.unwrap_or(head.number + 1);
        let (replicas, checkpoint) = (self.replicas()?, self.checkpoint_now()?.1);
        Ok(Shown { fence, first, head: head.number, owner, replicas, checkpoint })
    }

    fn replicas(&self) -> Result<Vec<HostTree>, StoreError> {
        let (start, end) = (self.key("replica/"), self.key("replica0"));
        let found = self.kv.range(&start, &end, PARTS_MAX).map_err(|e| self.error(e))?;
        let replica = |(key, value): (String, Vec<u8>)| {
            let host = key[start.len()..].to_owned();
            let applied =
                parse(&value).ok_or_else(|| self.damaged(format!("{key} is no number")))?;
            Ok(HostTree { host, applied })
        };
        found.into_iter().map(replica).collect()
    }

    fn key(&self, name: &str) -> String {
        format!("/sheen/{}/{name}", self.target)
    }

    fn entry_key(&self, entry: u64) -> String {
        self.key(&format!("log/{entry:016x}"))
    }

    fn epoch_of(&self, value: Option<&[u8]>) -> Result<Fence, StoreError> {
        let value = value.ok_or_else(|| self.damaged("there is no log of this target".into()))?;
        parse(value).map(Fence).ok_or_else(|| self.damaged("its epoch is no number".into()))
    }

    fn head_of(&self, value: Option<&[u8]>) -> Result<Position, StoreError> {
        let text = value.and_then(|value| std::str::from_utf8(value).ok());
        let words = text.and_then(|text| text.split_once(' '));
        let place = words.and_then(|(entry, transno)| {
            let (number, transno) = (parse(entry.as_bytes())?, parse(transno.as_bytes())?);
            Some(Position { number, transno: Transno(transno), at: 0 })
        });
        place.ok_or_else(|| self.damaged("its head is none".into()))
    }

    fn owner_of(&self, value: &[u8]) -> Result<Owner, StoreError> {
        Owner::decode(value).ok_or_else(|| self.damaged("its owner is none".into()))
    }

    fn error(&self, error: KvError) -> StoreError {
        match error {
            // What is refused now (no space left in etcd) may be taken later.
            KvError::NoAnswer(reason) | KvError::Refused(reason) | KvError::Full(reason) => {
                StoreError::NoAnswer { log: self.name().into(), reason: reason.into() }
            }
            KvError::Answer(reason) => self.damaged(reason),
        }
    }

    /// Name of the log.
    pub fn name(&self) -> String {
        self.key("log")
    }

    /// The error of a log that is not what the caller needs.
    pub fn foreign(&self, reason: &str) -> StoreError {
        self.damaged(reason.to_owned())
    }

    fn damaged(&self, reason: String) -> StoreError {
        StoreError::Damaged { file: self.name().into(), offset: 0, reason }
    }
}

impl Log for SharedLog {
    fn claim(&self, _: Position, at_least: Fence) -> Result<Fence, StoreError> {
        let lease = self.lease.load(Ordering::Acquire);
        let keys = ["epoch", "owner"].map(|name| self.key(name));
        for _ in 0..CLAIM_ROUNDS_MAX {
            let mut found = self.kv.get(&keys).map_err(|e| self.error(e))?.into_iter();
            let (epoch, owner) = (found.next().flatten(), found.next().flatten());
            let now = self.epoch_of(epoch.as_deref())?;
            match owner.map(|bytes| self.owner_of(&bytes)).transpose()? {
                // Only the answer to an earlier claim under this lease was lost.
                Some(owner) if owner.lease == lease && owner.fence == now => {
                    self.owned.store(now.0, Ordering::Release);
                    return Ok(now);
                }
                Some(owner) => return Err(StoreError::Owned { owner: owner.place.into() }),
                None => {}
            }
            let fence = Fence(now.0 + 1).max(at_least);
            let owner = Owner { lease, fence, place: self.place.clone() };
            let txn = Txn {
                compare: vec![
                    Compare::Absent(self.key("owner")),
                    Compare::Is(self.key("epoch"), number(now.0)),
                ],
                then: vec![
                    put(self.key("epoch"), number(fence.0)),
                    Change::Put { key: self.key("owner"), value: owner.encode(), lease },
                ],
                otherwise: Vec::new(),
            };
            if self.kv.txn(&txn).map_err(|e| self.error(e))? == Outcome::Done {
                self.owned.store(fence.0, Ordering::Release);
                return Ok(fence);
            }
        }
        Err(StoreError::Owned { owner: "several hosts that claim it".into() })
    }

    fn append(
        &self,
        after: Position,
        batch: &Arc<Batch>,
        fence: Fence,
    ) -> Result<Position, StoreError> {
        let entry = after.number + 1;
        let (head, payload) = self.head(entry, batch, fence);
        let Written { head, parts, last } = self.write(head, &payload);
        let end = Position { number: entry, transno: batch.transno(), at: 0 };
        let bytes = parts.iter().map(Vec::len).sum::<usize>() + last.len();
        let of_epoch = Compare::Is(self.key("epoch"), number(fence.0));
        let names = || ["epoch", "head"].map(|name| self.key(name)).to_vec();
        let steps = self.part_keys(entry, parts).into_iter().map(|(key, value)| Txn {
            compare: vec![of_epoch.clone()],
            then: vec![put(key, value)],
            otherwise: names(),
        });
        let mut whole = Txn {
            compare: vec![of_epoch.clone(), Compare::Is(self.key("head"), head_of(after))],
            then: vec![
                put(self.entry_key(entry), last.clone()),
                put(self.key("head"), head_of(end)),
            ],
            otherwise: names(),
        };
        whole.otherwise.push(self.entry_key(entry));
        if is_mutant(Mutant::AppendWithoutEpoch) {
            whole.compare.remove(0);
        }
        for txn in steps.chain([whole]) {
            let found = match self.kv.txn(&txn) {
                Ok(Outcome::Done) => continue,
                Ok(Outcome::Refused(found)) => found,
                Err(_) if is_mutant(Mutant::UnansweredIsDurable) => continue,
                Err(error) => return Err(self.error(error)),
            };
            let mut found = found.into_iter();
            let (epoch, its_head) = (found.next().flatten(), found.next().flatten());
            let now = self.epoch_of(epoch.as_deref())?;
            if now != fence {
                self.owned.store(0, Ordering::Release);
                return Err(StoreError::Fenced { ours: fence.0, current: now.0 });
            }
            // An earlier attempt may have put its changes elsewhere.
            let theirs = found.next().flatten();
            let theirs = theirs.as_deref().and_then(EntryHead::decode).map(|(theirs, _)| theirs);
            let ours = theirs.is_some_and(|theirs| {
                (theirs.store, theirs.number, theirs.fence, theirs.payload_crc)
                    == (head.store, head.number, head.fence, head.payload_crc)
            });
            if !ours || is_mutant(Mutant::LostAnswerIsRefusal) {
                let head = self.head_of(its_head.as_deref())?.number;
                let reason =
                    format!("its head is entry {head}, though this owner wrote {}", after.number);
                return Err(self.damaged(reason));
            }
        }
        if is_mutant(Mutant::PointerBeforeBlob)
            && let (Some(store), true) = (&self.blobs, head.blob_bytes > 0)
        {
            // Too late: it may fail, or the process may end before.
            let _ = store.blobs.put(&self.blob_of(&head), payload);
        }
        self.kept.lock().note(entry, bytes, head.blob_bytes);
        Ok(end)
    }

    fn read(&self, after: Position, each: &mut dyn FnMut(Entry)) -> Result<(), StoreError> {
        let head = self.kv.get(&[self.key("head")]).map_err(|e| self.error(e))?;
        let head = self.head_of(head.into_iter().next().flatten().as_deref())?;
        if head.number < after.number {
            let (has, ours) = (head.number, after.number);
            return Err(
                self.damaged(format!("it ends with entry {has}, the tree has entry {ours}"))
            );
        }
        let (mut next, mut fence) = (after.number + 1, Fence(0));
        while next <= head.number {
            let (start, end) = (self.entry_key(next), self.key("log0"));
            let found = self.kv.range(&start, &end, RANGE_KEYS).map_err(|e| self.error(e))?;
            let before = next;
            for (key, value) in found {
                if next > head.number {
                    break;
                }
                if key != self.entry_key(next) {
                    break;
                }
                let entry = self.entry(next, &value)?;
                if entry.fence < fence {
                    let reason = format!(
                        "entry {next} of epoch {} follows epoch {}",
                        entry.fence.0, fence.0
                    );
                    return Err(self.damaged(reason));
                }
                fence = entry.fence;
                let head = EntryHead::decode(&value).map(|(head, _)| head).unwrap_or_default();
                let (blob, parts) = (head.blob_bytes, head.parts as usize);
                let keys = value.len() + parts * keys::VALUE_BYTES_MAX;
                self.kept.lock().note(next, keys, blob);
                each(entry);
                next += 1;
            }
            if next == before {
                return Err(StoreError::Behind { log: self.name().into(), missing: next });
            }
        }
        Ok(())
    }

    fn room(&self, _: &Batch) -> Room {
        let kept = self.kept.lock().bytes(0).keys;
        if kept < BYTES_MAX { Room::Now } else { Room::AfterTrim }
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.trim_to(through.number)
    }
}
