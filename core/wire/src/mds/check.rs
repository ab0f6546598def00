//! Operations of checkers.

use super::shared::Record;
use crate::codec::cursor::{Bulk, Reader, Writer};
use crate::codec::error::DecodeError;
use crate::codec::operation::{Operation, plain};
use crate::codec::records::{KEY_BYTES, put_records, records};
#[cfg(test)]
use crate::codec::testing::*;
use bytes::Bytes;
use types::limits::{RECORD_KEY_BYTES_MAX, RECORDS_PER_MEND_MAX};
use zerocopy::little_endian::U32;

/// Records with keys in `[start, end)`, in order, up to about `bytes_max` bytes; for checkers.
/// Answers `Records`.
#[derive(Clone, PartialEq, Debug)]
pub struct Scan {
    /// First key.
    pub start: Bytes,
    /// Key behind the last.
    pub end: Bytes,
    /// Bytes of the answer, about.
    pub bytes_max: u32,
}

impl Operation for Scan {
    fn put(&self, w: &mut Writer) {
        w.put(&U32::new(self.bytes_max));
        w.bytes(&self.start);
        w.bytes(&self.end);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Scan, DecodeError> {
        plain(flags)?;
        let bytes_max = r.get::<U32>()?.get();
        let start = r.copied(KEY_BYTES, RECORD_KEY_BYTES_MAX)?;
        Ok(Scan { start, end: r.copied(KEY_BYTES, RECORD_KEY_BYTES_MAX)?, bytes_max })
    }

    #[cfg(test)]
    fn sample() -> Scan {
        Scan { start: Bytes::from_static(b"I"), end: Bytes::from_static(b"J"), bytes_max: 1 << 20 }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Scan> {
        (any_bytes(20), any_bytes(20), any::<u32>())
            .prop_map(|(start, end, bytes_max)| Scan { start, end, bytes_max })
            .boxed()
    }
}

/// If the records are as in `expect`, makes them as in `put`, in one change; else ESTALE. For
/// checkers.
#[derive(Clone, PartialEq, Debug)]
pub struct Mend {
    /// Records as they must be.
    pub expect: Vec<Record>,
    /// Records as they shall be.
    pub put: Vec<Record>,
}

impl Operation for Mend {
    fn put(&self, w: &mut Writer) {
        put_records(&self.expect, w);
        put_records(&self.put, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Mend, DecodeError> {
        plain(flags)?;
        let expect = records(r, RECORDS_PER_MEND_MAX)?;
        Ok(Mend { expect, put: records(r, RECORDS_PER_MEND_MAX)? })
    }

    #[cfg(test)]
    fn sample() -> Mend {
        Mend { expect: vec![record(b"Ia", Some(b"old"))], put: vec![record(b"Ia", None)] }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Mend> {
        (any_records(), any_records()).prop_map(|(expect, put)| Mend { expect, put }).boxed()
    }
}

#[cfg(test)]
pub(crate) fn record(key: &'static [u8], value: Option<&'static [u8]>) -> Record {
    Record { key: Bytes::from_static(key), value: value.map(Bytes::from_static) }
}

#[cfg(test)]
pub(crate) fn any_records() -> impl Strategy<Value = Vec<Record>> {
    vec((any_bytes(30), of(any_bytes(200))).prop_map(|(key, value)| Record { key, value }), 0..5)
}
