//! Inode-bit locks of several inodes.

use super::cursor::{Reader, Writer, count, len32};
use super::error::DecodeError;
use super::raw::RawLock;
use types::fid::Fid;
use types::limits::REVOKES_PER_CALLBACK_MAX;
use types::lock::InodeBits;

pub(crate) fn put_locks(locks: &[(Fid, InodeBits)], w: &mut Writer) {
    w.put(&len32(locks.len()));
    locks.iter().for_each(|lock| w.put(&RawLock::from(*lock)));
}

pub(crate) fn locks(r: &mut Reader<'_>) -> Result<Vec<(Fid, InodeBits)>, DecodeError> {
    let n = count(*r.get()?, "locks", REVOKES_PER_CALLBACK_MAX)?;
    Ok(r.slice_of::<RawLock>(n)?.iter().map(Into::into).collect())
}
