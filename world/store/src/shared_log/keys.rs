//! The keys of a log: what their values say, and how they are changed.

use crate::kv::Change;
use crate::log::Position;
use disk::entry::EntryHead;

/// Bytes of one value: etcd takes 1.5 MiB in one request.
pub(super) const VALUE_BYTES_MAX: usize = 512 << 10;
/// Parts of one entry: more than the largest group has.
pub(super) const PARTS_MAX: u32 = 1024;
/// An entry, as it is written.
pub(super) struct Written {
    pub head: EntryHead,
    /// Values of its parts, each under a key of its own.
    pub parts: Vec<Vec<u8>>,
    /// The value that makes it an entry.
    pub last: Vec<u8>,
}

pub(super) fn number(value: u64) -> Vec<u8> {
    format!("{value:016x}").into_bytes()
}

pub(super) fn parse(value: &[u8]) -> Option<u64> {
    (value.len() == 16).then(|| u64::from_str_radix(std::str::from_utf8(value).ok()?, 16).ok())?
}

pub(super) fn head_of(place: Position) -> Vec<u8> {
    format!("{:016x} {:016x}", place.number, place.transno.0).into_bytes()
}

pub(super) fn put(key: String, value: Vec<u8>) -> Change {
    Change::Put { key, value, lease: 0 }
}

/// Removes one key.
pub(super) fn one(key: String) -> Change {
    let end = format!("{key}\0");
    Change::DeleteRange(key, end)
}
