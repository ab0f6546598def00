//! What must hold, seen from outside: the keys of the log, and what owners told.

use crate::host::LEASE;
use disk::entry::EntryHead;
use std::collections::BTreeMap;
use std::time::Duration;
use store::checkpoint::Checkpoint;
use store::engine::Fence;
use store::error::StoreError;

/// Something that an owner told a client.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Epoch of the owner.
    pub fence: Fence,
    /// When it worked the answer out.
    pub evaluated: Duration,
}

/// What is known from outside.
#[derive(Default)]
pub struct Judge {
    /// When each epoch began, and whether by hand.
    epochs: BTreeMap<u64, (Duration, bool)>,
    /// Keys were changed by hand since the newest epoch began.
    by_hand: bool,
    /// For each key, the newest value that an fsync answered for.
    synced: BTreeMap<Vec<u8>, u64>,
    pub wrong: Vec<String>,
}

impl Judge {
    fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// What a host did about blobs failed: only an answer may be missing.
    pub fn failed(&mut self, host: &str, error: Option<StoreError>) {
        if let Some(error) = error.filter(|error| !matches!(error, StoreError::NoAnswer { .. })) {
            self.wrong(format!("{host}: blobs: {error}"));
        }
    }

    /// An owner answered. No owner may know of an epoch that began by hand before it looks again,
    /// at the latest when it renews its lease.
    pub fn told(&mut self, told: Told) {
        let is_late = |began: Duration, by_hand: bool| match by_hand {
            false => began < told.evaluated,
            true => began + LEASE < told.evaluated,
        };
        let mut newer = self.epochs.range(told.fence.0 + 1..);
        if let Some((epoch, (began, _))) = newer.find(|(_, (began, hand))| is_late(*began, *hand)) {
            let (fence, evaluated) = (told.fence.0, told.evaluated);
            self.wrong(format!(
                "an owner of epoch {fence} answered what it worked out at {evaluated:?}, though epoch {epoch} \
                 began at {began:?}"
            ));
        }
    }

    /// An owner answered an fsync: these values are durable.
    pub fn synced(&mut self, values: &BTreeMap<Vec<u8>, u64>) {
        for (key, value) in values {
            let newest = self.synced.entry(key.clone()).or_default();
            *newest = (*newest).max(*value);
        }
    }

    /// A new owner has these values.
    pub fn owner_has(&mut self, fence: Fence, value_of: impl Fn(&[u8]) -> u64) {
        for (key, synced) in self.synced.clone() {
            let has = value_of(&key);
            if has < synced {
                let key = String::from_utf8_lossy(&key).into_owned();
                self.wrong(format!(
                    "the owner of epoch {} has {key} = {has}, though an fsync answered for {synced}",
                    fence.0
                ));
            }
        }
    }

    /// An administrator changes keys: the next epoch begins, or may begin, while an owner has its
    /// lease.
    pub fn by_hand(&mut self) {
        self.by_hand = true;
    }

    /// Looks at all keys of the log, and at the names of all blobs, after a step.
    pub fn look(&mut self, keys: &[(String, Vec<u8>)], blobs: &[String], now: Duration) {
        let text = |name: &str| {
            let found = keys.iter().find(|(key, _)| key.ends_with(name));
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
        };
        if let Ok(epoch) = u64::from_str_radix(&text("/epoch"), 16) {
            let by_hand = &mut self.by_hand;
            self.epochs.entry(epoch).or_insert_with(|| (now, std::mem::take(by_hand)));
        }
        let has = |end: &str| blobs.iter().any(|name| name.ends_with(end));
        let checkpoint = keys.iter().find(|(key, _)| key.ends_with("/checkpoint"));
        let checkpoint = checkpoint.and_then(|(_, value)| Checkpoint::decode(value));
        if let Some(Checkpoint { number, id, pages, .. }) = checkpoint {
            for page in 0..pages {
                if !has(&format!("/{number:016x}-{id:016x}/{page:08x}")) {
                    self.wrong(format!("page {page} of the checkpoint of entry {number} is gone"));
                }
            }
        }
        let entries = || keys.iter().filter(|(key, _)| key.contains("/log/"));
        let number = |key: &str| u64::from_str_radix(key.rsplit('/').next()?, 16).ok();
        let covered = checkpoint.map_or(0, |checkpoint| checkpoint.number);
        let first = entries().next().and_then(|(key, _)| number(key)).unwrap_or(covered + 1);
        if first > covered + 1 {
            self.wrong(format!("the log begins with entry {first}, the checkpoint has {covered}"));
        }
        let (mut next, mut fence) = (first, 0);
        for (key, value) in entries() {
            let Some((head, _)) = EntryHead::decode(value) else {
                self.wrong(format!("{key} is no entry"));
                return;
            };
            if head.number != next {
                self.wrong(format!("entry {} follows entry {}", head.number, next - 1));
            }
            if head.fence < fence {
                self.wrong(format!("entry {next} of epoch {} follows epoch {fence}", head.fence));
            }
            let EntryHead { number, fence: of, payload_crc, .. } = head;
            if head.blob_bytes > 0 && !has(&format!("/{number:016x}-{of:016x}-{payload_crc:08x}")) {
                self.wrong(format!("the blob of entry {number} is not there"));
            }
            (next, fence) = (head.number + 1, head.fence);
        }
        if let Some((head, _)) = text("/head").split_once(' ')
            && u64::from_str_radix(head, 16) != Ok(next - 1)
        {
            self.wrong(format!("the head is {head}, the last entry {}", next - 1));
        }
    }
}
