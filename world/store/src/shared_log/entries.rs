//! Entries as values of keys: small ones whole, large ones in parts or in a blob. Changes are
//! compressed where that saves something: etcd sends and writes each byte three times.

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

/// Changes of fewer bytes are kept as they are.
const PACKED_BYTES_MIN: usize = 4096;
/// Part of the changes that compressing must save.
const SAVED_SHARE: usize = 8;
/// LZ4 makes at most so many bytes of one.
const EXPANSION_MAX: usize = 255;

/// Compressed changes; `None`: that saves too little.
fn packed(payload: &[u8]) -> Option<Vec<u8>> {
    if payload.len() < PACKED_BYTES_MIN {
        return None;
    }
    let packed = lz4_flex::block::compress_prepend_size(payload);
    (packed.len() < payload.len() - payload.len() / SAVED_SHARE).then_some(packed)
}

/// What [`packed`] compressed; `None`: it is not that.
fn expanded_of(packed: &[u8]) -> Option<Vec<u8>> {
    let (bytes, block) = packed.split_first_chunk::<4>()?;
    let bytes = u32::from_le_bytes(*bytes) as usize;
    // Before memory is taken for it.
    if bytes > block.len().saturating_mul(EXPANSION_MAX) {
        return None;
    }
    let whole = lz4_flex::block::decompress(block, bytes).ok()?;
    (whole.len() == bytes).then_some(whole)
}

impl SharedLog {
    /// An entry whose changes are in a blob, if they shall be, or else beside its head; and those
    /// changes, as they are kept.
    pub(super) fn head(&self, entry: u64, batch: &Batch, fence: Fence) -> (EntryHead, Vec<u8>) {
        let mut payload = Vec::new();
        batch.iter().for_each(|(key, value)| encode_change(key, value, &mut payload));
        let packed = packed(&payload);
        let (packed, payload) = (packed.is_some(), packed.unwrap_or(payload));
        let head = EntryHead {
            store: self.store,
            number: entry,
            transno: batch.transno().0,
            fence: fence.0,
            parts: 0,
            changes: batch.len() as u32,
            payload_crc: crc32c(&payload),
            blob_bytes: 0,
            packed,
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
        let expanded;
        let changes = match head.packed {
            false => payload,
            true => {
                let whole = expanded_of(payload);
                expanded = whole.ok_or_else(|| bad("its changes cannot be expanded"))?;
                &expanded[..]
            }
        };
        let batch = batch_of(changes, head.changes);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_compressed_where_that_saves_something() {
        let alike: Vec<u8> = (0..50_000_u32).flat_map(|n| (n % 500).to_le_bytes()).collect();
        let kept = packed(&alike).expect("it saves");
        assert!(kept.len() < alike.len() / 4, "{}", kept.len());
        assert_eq!(expanded_of(&kept), Some(alike));
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let noise: Vec<u8> = (0..50_000).map(|_| noise()).collect();
        assert_eq!(packed(&noise), None);
        assert_eq!(packed(&[7; PACKED_BYTES_MIN - 1]), None);
        assert!(packed(&[7; PACKED_BYTES_MIN]).is_some());
    }

    #[test]
    fn what_is_none_is_refused_without_memory_for_it() {
        let kept = packed(&[7; 10_000]).expect("it saves");
        for cut in 0..kept.len() {
            assert_eq!(expanded_of(&kept[..cut]), None, "{cut} bytes");
        }
        let mut huge = kept.clone();
        huge[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(expanded_of(&huge), None);
        let mut short = kept.clone();
        short[..4].copy_from_slice(&9_999_u32.to_le_bytes());
        assert_eq!(expanded_of(&short), None);
        let mut long = kept;
        long[..4].copy_from_slice(&10_001_u32.to_le_bytes());
        assert_eq!(expanded_of(&long), None);
    }
}
