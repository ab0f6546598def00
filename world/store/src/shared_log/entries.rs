//! Entries as values of keys: small ones whole, large ones in parts or in a blob.

use super::SharedLog;
use super::keys::{PARTS_MAX, VALUE_BYTES_MAX, Written};
use crate::batch::Batch;
use crate::blobs::BlobError;
use crate::engine::Fence;
use crate::error::StoreError;
use crate::journal::batch_of;
use crate::kv::Change;
use crate::log::{Entry, Position};
use disk::checksum::crc32c;
use disk::entry::EntryHead;
use disk::journal::encode_change;
use std::ops::Range;
use std::sync::Arc;
use types::session::Transno;

impl SharedLog {
    /// An entry whose changes are in a blob, if they shall be, or else beside its head; and those
    /// changes.
    pub(super) fn head(&self, entry: u64, batch: &Batch, fence: Fence) -> (EntryHead, Vec<u8>) {
        let mut payload = Vec::new();
        batch.iter().for_each(|(key, value)| encode_change(key, value, &mut payload));
        let head = EntryHead {
            store: self.store,
            number: entry,
            transno: batch.transno().0,
            fence: fence.0,
            parts: 0,
            changes: batch.len() as u32,
            payload_crc: crc32c(&payload),
            blob_bytes: 0,
        };
        (head, payload)
    }

    /// An entry with its changes under keys.
    pub(super) fn under_keys(&self, head: EntryHead, payload: &[u8]) -> Written {
        let mut parts: Vec<Vec<u8>> = payload.chunks(VALUE_BYTES_MAX).map(<[u8]>::to_vec).collect();
        let rest = parts.pop().unwrap_or_default();
        let head = EntryHead { parts: parts.len() as u32, ..head };
        let mut last = head.encode().to_vec();
        last.extend_from_slice(&rest);
        Written { head, parts, last }
    }

    /// Name of the blob of an entry: of one number, epoch and content, so that it is never written
    /// with other bytes.
    pub(super) fn blob_of(&self, head: &EntryHead) -> String {
        let EntryHead { number, fence, payload_crc, .. } = head;
        format!("{}/{number:016x}-{fence:016x}-{payload_crc:08x}", self.blob_folder("entry"))
    }

    /// An entry from its head and its changes.
    fn decode(&self, head: &EntryHead, payload: &[u8]) -> Result<Entry, StoreError> {
        let entry = head.number;
        let bad = |reason: &str| self.damaged(format!("entry {entry}: {reason}"));
        if head.payload_crc != crc32c(payload) {
            return Err(bad("its checksum is wrong"));
        }
        let batch = batch_of(payload, head.changes);
        let mut batch = batch.ok_or_else(|| bad("a change cannot be read"))?;
        batch.set_transno(Transno(head.transno));
        batch.freeze();
        let end = Position { number: entry, transno: batch.transno(), at: 0 };
        Ok(Entry { batch: Arc::new(batch), fence: Fence(head.fence), end })
    }

    /// An entry of this number, from its value and what that names.
    pub(super) fn entry(&self, entry: u64, last: &[u8]) -> Result<Entry, StoreError> {
        let bad = |reason: &str| self.damaged(format!("entry {entry}: {reason}"));
        let (head, rest) = EntryHead::decode(last).ok_or_else(|| bad("its head is damaged"))?;
        if head.store != self.store || head.number != entry {
            return Err(bad("it is that of another place"));
        }
        if head.blob_bytes > 0 {
            return self.decode(&head, &self.blob(&head)?);
        }
        if head.parts > PARTS_MAX {
            return Err(self.damaged(format!("entry {entry}: it has {} parts", head.parts)));
        }
        let keys: Vec<String> = (0..head.parts).map(|part| self.part_key(entry, part)).collect();
        let mut payload = Vec::new();
        for key in keys {
            // One by one: together they may be more than one answer takes.
            let part = self.kv.get(std::slice::from_ref(&key)).map_err(|e| self.error(e))?;
            let missing = || self.damaged(format!("{key} is missing"));
            payload.append(&mut part.into_iter().next().flatten().ok_or_else(missing)?);
        }
        payload.extend_from_slice(rest);
        self.decode(&head, &payload)
    }

    /// The blob of an entry.
    fn blob(&self, head: &EntryHead) -> Result<Vec<u8>, StoreError> {
        let (entry, name, bytes) = (head.number, self.blob_of(head), head.blob_bytes as usize);
        let Some(store) = &self.blobs else {
            let reason = format!("entry {entry} is in the blob {name}, and --log names no s3://");
            return Err(self.damaged(reason));
        };
        let bad = |reason: String| {
            let file = name.clone().into();
            StoreError::Damaged { file, offset: 0, reason }
        };
        match store.blobs.get(&name, bytes).map_err(|error| self.blob_error(error))? {
            Some(found) if found.len() == bytes && crc32c(&found) == head.payload_crc => Ok(found),
            Some(found) if found.len() == bytes => {
                Err(bad(format!("the checksum of this blob of entry {entry} is wrong")))
            }
            Some(found) => {
                let has = found.len();
                Err(bad(format!("this blob of entry {entry} has {has} bytes, not {bytes}")))
            }
            None => {
                // Blobs go after the entries that name them.
                let still = self.kv.get(&[self.entry_key(entry)]).map_err(|e| self.error(e))?;
                match still.into_iter().next().flatten() {
                    None => Err(StoreError::Behind { log: self.name().into(), missing: entry }),
                    Some(_) => Err(bad(format!("this blob of entry {entry} is missing"))),
                }
            }
        }
    }

    /// The error of a store of blobs: what it does not do now, it may do later.
    pub(crate) fn blob_error(&self, error: BlobError) -> StoreError {
        let folder = self.blob_folder("");
        StoreError::NoAnswer { log: folder.into(), reason: error.to_string().into() }
    }

    /// A folder of the blobs of this store; empty: the one above.
    pub(crate) fn blob_folder(&self, kind: &str) -> String {
        let above = format!("sheen/{}/{:032x}", self.target, self.store);
        if kind.is_empty() { above } else { format!("{above}/{kind}") }
    }

    fn part_key(&self, entry: u64, part: u32) -> String {
        self.key(&format!("part/{entry:016x}.{part:04x}"))
    }

    /// Its parts, with the keys that they are put under.
    pub(super) fn part_keys(&self, entry: u64, parts: Vec<Vec<u8>>) -> Vec<(String, Vec<u8>)> {
        let key = |(part, value)| (self.part_key(entry, part as u32), value);
        parts.into_iter().enumerate().map(key).collect()
    }

    /// Keys of entries, and of their parts, with these numbers.
    pub(super) fn ranges(&self, entries: Range<u64>) -> [Change; 2] {
        let part = |entry: u64| self.key(&format!("part/{entry:016x}"));
        [
            Change::DeleteRange(self.entry_key(entries.start), self.entry_key(entries.end)),
            Change::DeleteRange(part(entries.start), part(entries.end)),
        ]
    }
}
