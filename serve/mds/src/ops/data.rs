//! Wrote and Append: the size follows the data.

use super::layout::layout_of;
use super::lookup::entry;
use crate::mds::{Mds, RequestContext};
use namespace::written::{self, Written};
use types::errno::Errno;
use wire::mds::{Append, MdsReply, Wrote};

impl Mds {
    pub(super) fn wrote(&self, request: &mut RequestContext<'_>, op: &Wrote) -> Result<MdsReply, Errno> {
        let &Wrote { fid, end, blocks_delta, at, kill_suidgid } = op;
        let written = Written { end, blocks_delta, at, kill_suidgid };
        self.ours(fid)?;
        self.change(request, |records, ctx| {
            records.storing(fid, |records| {
                let mut inode = written::wrote(records, ctx, fid, written)?;
                records.note_data(&mut inode);
                Ok(MdsReply::Entry(entry(&inode)))
            })
        })
    }

    pub(super) fn append(&self, request: &mut RequestContext<'_>, op: &Append) -> Result<MdsReply, Errno> {
        let &Append { fid, len, kill_suidgid } = op;
        self.ours(fid)?;
        self.change(request, |records, ctx| {
            let inode = records.existing(fid)?;
            // Bytes that no component covers cannot be written: the client writes as much as there
            // is room for.
            let room = layout_of(&inode)?.size_max().saturating_sub(inode.attr.size);
            if room == 0 {
                return Err(Errno::EFBIG);
            }
            let (offset, mut inode) = written::append(records, ctx, fid, len.min(room), kill_suidgid)?;
            records.note_data(&mut inode);
            Ok(MdsReply::Appended { offset })
        })
    }
}
