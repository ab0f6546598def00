//! The store of blobs beside a log: large entries, and checkpoints of the tree.

use super::blob_store::BlobStore;
use super::keys::{Written, number, parse, put};
use super::shown::Checkpoint;
use super::{SharedLog, trim};
use crate::blobs::BlobError;
use crate::error::StoreError;
use crate::kv::{Compare, Outcome, Txn};
use crate::log::Position;
use disk::entry::EntryHead;
use observe::mutant::{Mutant, is_mutant};
use std::sync::atomic::Ordering;
use types::session::Transno;

/// Part of the tree that these bytes must be: a checkpoint is all of it.
const CHECKPOINT_SHARE: u64 = 4;
/// Large entries that go under keys before the store of blobs is asked again, which refused one.
const WITHOUT_BLOBS: u32 = 16;
/// More than a probe has, bytes.
const PROBE_BYTES_MAX: usize = 64;

/// What decides which blobs are needed.
pub(crate) struct Needed {
    /// This process owns the target.
    pub owns: bool,
    /// The newest epoch.
    pub epoch: u64,
    /// Number of the newest entry.
    pub head: u64,
    /// Number of the oldest entry that is kept.
    pub first: u64,
    /// The checkpoint.
    pub checkpoint: Option<Checkpoint>,
}

impl SharedLog {
    /// With a store of blobs beside the keys.
    pub fn with_blobs(self, blobs: Option<BlobStore>) -> SharedLog {
        SharedLog { blobs, ..self }
    }

    /// True if it has a store of blobs.
    pub fn has_blobs(&self) -> bool {
        self.blobs.is_some()
    }

    pub(super) fn blobs_place(&self) -> &str {
        self.blobs.as_ref().map_or("", |blobs| &blobs.place)
    }

    /// Its blobs must be where this host looks for them.
    pub(super) fn check_blobs(&self, value: Option<&[u8]>) -> Result<(), StoreError> {
        let theirs = String::from_utf8_lossy(value.unwrap_or_default());
        let ours = self.blobs_place();
        match (theirs == ours, &theirs[..], ours) {
            (true, ..) => Ok(()),
            (false, "", ours) => Err(self.damaged(format!(
                "it was made without a store of blobs, and --log of this host names {ours}"
            ))),
            (false, theirs, "") => Err(self.damaged(format!(
                "its blobs are in {theirs}, and --log of this host names no store of blobs"
            ))),
            (false, theirs, ours) => Err(self.damaged(format!(
                "its blobs are in {theirs}, and --log of this host names {ours}"
            ))),
        }
    }

    /// Keeps a blob, reads it and removes it again: what is wrong with the store of blobs shows
    /// before anything rests on it. Blocks.
    ///
    /// # Errors
    /// It does not do that.
    pub fn probe_blobs(&self) -> Result<(), StoreError> {
        let Some(store) = &self.blobs else { return Ok(()) };
        let failed = |reason: String| StoreError::NoAnswer {
            log: store.place.as_str().into(),
            reason: reason.into(),
        };
        let (blobs, name) = (&store.blobs, format!("{}-probe", self.blob_folder("")));
        let probe = || {
            blobs.put(&name, b"probe".to_vec())?;
            let found = blobs.get(&name, PROBE_BYTES_MAX)?;
            blobs.remove(&name)?;
            Ok(found)
        };
        match probe().map_err(|error: BlobError| failed(error.to_string()))? {
            Some(found) if found == b"probe" => Ok(()),
            _ => Err(failed("it does not have what it was given".to_owned())),
        }
    }

    /// The newest checkpoint.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.checkpoint_now()?.1)
    }

    /// The checkpoint's key: its value, and what that says.
    pub(crate) fn checkpoint_now(
        &self,
    ) -> Result<(Option<Vec<u8>>, Option<Checkpoint>), StoreError> {
        let found = self.kv.get(&[self.key("checkpoint")]).map_err(|e| self.error(e))?;
        let value = found.into_iter().next().flatten();
        let bad = || self.damaged("its checkpoint is none".into());
        let checkpoint =
            value.as_deref().map(|value| Checkpoint::decode(value).ok_or_else(bad)).transpose()?;
        Ok((value, checkpoint))
    }

    /// The checkpoint is this one from now on, in place of that of the value `before`. `false`:
    /// this process is not the owner any more, or the checkpoint is another one by now.
    pub(crate) fn publish(
        &self,
        checkpoint: &Checkpoint,
        before: Option<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let (owned, key) = (self.owned.load(Ordering::Acquire), self.key("checkpoint"));
        let was = match before {
            None => Compare::Absent(key.clone()),
            Some(value) => Compare::Is(key.clone(), value),
        };
        let txn = Txn {
            compare: vec![Compare::Is(self.key("epoch"), number(owned)), was],
            then: vec![put(key, checkpoint.encode())],
            otherwise: Vec::new(),
        };
        Ok(owned != 0 && self.kv.txn(&txn).map_err(|e| self.error(e))? == Outcome::Done)
    }

    /// How far the tree of this host durably is, as it said last.
    pub(crate) fn own_place(&self) -> Result<Option<Position>, StoreError> {
        let keys = [self.replica_key(), self.key("head")];
        let mut found = self.kv.get(&keys).map_err(|e| self.error(e))?.into_iter();
        let (own, head) = (found.next().flatten(), found.next().flatten());
        let Some(own) = own else { return Ok(None) };
        let number = parse(&own).ok_or_else(|| self.damaged("a replica is no number".into()))?;
        let head = self.head_of(head.as_deref())?;
        // Of a place before the head the entries behind it tell the transno.
        let transno = if number == head.number { head.transno } else { Transno(0) };
        Ok(Some(Position { number, transno, at: 0 }))
    }

    /// What decides which blobs are needed, as it is now.
    pub(crate) fn needed(&self) -> Result<Needed, StoreError> {
        let keys = ["epoch", "head"].map(|name| self.key(name));
        let mut found = self.kv.get(&keys).map_err(|e| self.error(e))?.into_iter();
        let (epoch, head) = (found.next().flatten(), found.next().flatten());
        let epoch = self.epoch_of(epoch.as_deref())?.0;
        let owns = epoch == self.owned.load(Ordering::Acquire);
        let head = self.head_of(head.as_deref())?.number;
        let (start, end) = (self.entry_key(0), self.key("log0"));
        let oldest = self.kv.range(&start, &end, 1).map_err(|e| self.error(e))?.pop();
        let first = oldest.and_then(|(key, _)| parse(key.rsplit('/').next()?.as_bytes()));
        let (first, checkpoint) = (first.unwrap_or(head + 1), self.checkpoint_now()?.1);
        Ok(Needed { owns, epoch, head, first, checkpoint })
    }

    /// Uuid of the store.
    pub(crate) fn store(&self) -> u128 {
        self.store
    }

    /// True if the owner is to make a checkpoint, while its tree has this many bytes.
    pub fn wants_checkpoint(&self, now: Option<&Checkpoint>, tree_bytes: u64) -> bool {
        let Some(blobs) = &self.blobs else { return false };
        let Some(now) = now else { return true };
        let kept = self.kept.lock();
        let behind = kept.bytes(now.number);
        let enough = blobs.checkpoint_bytes.max(tree_bytes / CHECKPOINT_SHARE);
        // Of entries that another owner wrote, this one need not know how large they are.
        !kept.knows_all(now.number)
            || behind.keys + behind.blobs >= enough
            || behind.keys >= trim::BYTES_FOR_OTHERS_MAX / 2
    }

    /// The values of an entry. If its changes are in a blob, that is there.
    pub(super) fn write(&self, head: EntryHead, payload: &[u8]) -> Written {
        let Some(store) = &self.blobs else { return self.under_keys(head, payload) };
        let passed_over = || {
            let left = |left: u32| left.checked_sub(1);
            self.without_blobs.fetch_update(Ordering::AcqRel, Ordering::Acquire, left).is_ok()
        };
        if payload.len() <= store.entry_bytes || passed_over() {
            return self.under_keys(head, payload);
        }
        let head_of_blob = EntryHead { blob_bytes: payload.len() as u32, ..head };
        let of_blob =
            Written { head: head_of_blob, parts: Vec::new(), last: head_of_blob.encode().to_vec() };
        if is_mutant(Mutant::PointerBeforeBlob) {
            return of_blob;
        }
        match store.blobs.put(&self.blob_of(&head_of_blob), payload.to_vec()) {
            Ok(()) => {
                if self.blobs_refused.swap(false, Ordering::AcqRel) {
                    tracing::info!(log = self.name(), place = store.place, "blobs are taken again");
                }
                of_blob
            }
            Err(error) => {
                // `sheen status` tells the newest error (`trouble`).
                if self.blobs_refused.swap(true, Ordering::AcqRel) {
                    tracing::debug!(log = self.name(), place = store.place, %error, "still no blob");
                } else {
                    tracing::warn!(
                        log = self.name(),
                        place = store.place,
                        %error,
                        "no blob: large entries go into etcd until it takes some again"
                    );
                }
                self.without_blobs.store(WITHOUT_BLOBS, Ordering::Release);
                self.under_keys(head, payload)
            }
        }
    }
}
