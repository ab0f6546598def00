//! Scan and Mend: a checker reads all records, and repairs those that do not fit. Only sessions of
//! servers may send them (`wire::opcode`).
//!
//! A scan is no snapshot: each answer is one look, and work goes on between two. A repair says what
//! it saw. It is done only if that is still so, in one change, after all holders of locks on the
//! inodes have given them up.

use crate::mds::{Mds, RequestContext};
use disk::inode;
use disk::key::{self, MDT_STATE, REDO_KEYS, Tag};
use namespace::view::{Change, View};
use std::ops::ControlFlow;
use types::errno::Errno;
use types::limits::{RECORD_VALUE_BYTES_MAX, RECORDS_PER_MEND_MAX, RECORDS_PER_SCAN_MAX};
use types::lock::InodeBits;
use wire::mds::{MdsReply, Mend, Record, Scan};

/// Bytes of one answer, at most.
const BYTES_MAX: usize = 4 << 20;

impl Mds {
    pub(super) fn scan(&self, op: &Scan) -> Result<MdsReply, Errno> {
        let &Scan { ref start, ref end, bytes_max } = op;
        let (mut records, mut bytes, mut more, mut long) = (Vec::new(), 0, false, false);
        let bytes_max = (bytes_max as usize).min(BYTES_MAX);
        self.read(|seen| {
            seen.tx.scan(start, end, |key, value| {
                // A secret, which says nothing of the name space.
                if key == REDO_KEYS {
                    return ControlFlow::Continue(());
                }
                bytes += key.len() + value.len();
                // One record always fits, so that a reader makes progress.
                if !records.is_empty()
                    && (bytes > bytes_max || records.len() == RECORDS_PER_SCAN_MAX)
                {
                    more = true;
                    return ControlFlow::Break(());
                }
                long |= value.len() > RECORD_VALUE_BYTES_MAX;
                records
                    .push(Record { key: key.to_vec().into(), value: Some(value.to_vec().into()) });
                ControlFlow::Continue(())
            })?;
            Ok(())
        })?;
        if long { Err(Errno::E2BIG) } else { Ok(MdsReply::Records { records, more }) }
    }

    pub(super) fn mend(
        &self,
        request: &mut RequestContext<'_>,
        op: &Mend,
    ) -> Result<MdsReply, Errno> {
        let Mend { expect, put } = op;
        if expect.len() > RECORDS_PER_MEND_MAX || put.len() > RECORDS_PER_MEND_MAX {
            return Err(Errno::E2BIG);
        }
        let changes =
            put.iter().map(|record| concerned(&record.key)).collect::<Result<Vec<_>, _>>()?;
        let changes: Vec<Change<'_>> = changes.into_iter().flatten().collect();
        self.change(request, |records, ctx| {
            for Record { key, value } in expect {
                let same = records.tx.get(key, |found| value.as_deref() == Some(found))?;
                if !same.unwrap_or(value.is_none()) {
                    return Err(Errno::ESTALE);
                }
            }
            let stamp = |record: &Record| match (&record.value, key::inode_of(&record.key)) {
                (Some(value), Some(fid)) => inode::with_version(fid, value, ctx.version).map(Some),
                (value, _) => Ok(value.as_ref().map(|value| value.to_vec())),
            };
            let values =
                put.iter().map(stamp).collect::<Result<Vec<_>, _>>().map_err(|_| Errno::EINVAL)?;
            records.before(&changes)?;
            for (record, value) in put.iter().zip(values) {
                records.mend(&record.key, value.as_deref());
            }
            Ok(MdsReply::Done)
        })
    }
}

/// The change of an inode that a changed record means; `None` if no client caches it.
fn concerned(key: &[u8]) -> Result<Option<Change<'_>>, Errno> {
    let fid = || key::owner_of(key).ok_or(Errno::EINVAL);
    let tag = key.first().copied().unwrap_or(0);
    Ok(match tag {
        _ if tag == Tag::Inode as u8 => Some(Change::of(fid()?, InodeBits::ALL)),
        _ if tag == Tag::Chunk as u8 => Some(Change::of(fid()?, InodeBits::ALL)),
        _ if tag == Tag::Xattr as u8 => Some(Change::of(fid()?, InodeBits::ALL)),
        _ if tag == Tag::Entry as u8 => {
            Some(Change::name(fid()?, key::name_of(key).ok_or(Errno::EINVAL)?))
        }
        _ if key == MDT_STATE => None,
        _ if [Tag::Orphan, Tag::Writer, Tag::Moving, Tag::Destroy]
            .iter()
            .any(|known| tag == *known as u8) =>
        {
            None
        }
        _ => return Err(Errno::EINVAL),
    })
}
