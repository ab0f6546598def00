//! Records of a store, as checkers read and mend them.

use super::cursor::{Reader, Writer, count, len32};
use super::error::DecodeError;
use crate::mds::shared::Record;
use types::limits::{RECORD_KEY_BYTES_MAX, RECORD_VALUE_BYTES_MAX};
use zerocopy::little_endian::U32;

pub(crate) const KEY_BYTES: &str = "bytes of key";
/// Fewest bytes of a record: length of the key, presence of a value.
const RECORD_BYTES_MIN: usize = 8;

/// Count, then each: key, 0 or 1 in 4 bytes, value.
pub(crate) fn put_records(records: &[Record], w: &mut Writer) {
    w.put(&len32(records.len()));
    for Record { key, value } in records {
        w.bytes(key);
        w.put(&U32::new(value.is_some().into()));
        value.iter().for_each(|value| w.bytes(value));
    }
}

pub(crate) fn records(r: &mut Reader<'_>, max: usize) -> Result<Vec<Record>, DecodeError> {
    let n = count(*r.get()?, "records", max)?;
    r.expect(n, RECORD_BYTES_MIN)?;
    let mut records = Vec::with_capacity(n);
    for _ in 0..n {
        let key = r.copied(KEY_BYTES, RECORD_KEY_BYTES_MAX)?;
        let value = match r.get::<U32>()?.get() {
            0 => None,
            1 => Some(r.copied("bytes of record", RECORD_VALUE_BYTES_MAX)?),
            other => {
                return Err(DecodeError::Field {
                    field: "presence of a record",
                    value: other.into(),
                });
            }
        };
        records.push(Record { key, value });
    }
    Ok(records)
}
