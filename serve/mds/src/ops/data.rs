//! Wrote and Append: the size follows the data.

use super::layout::layout_of;
use super::lookup::entry;
use crate::mds::{Mds, RequestContext};
use namespace::written;
use types::attr::WrittenAt;
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::MdsReply;

impl Mds {
    pub(super) fn wrote(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        end: u64,
        blocks_delta: i64,
        at: WrittenAt,
        kill_suidgid: bool,
    ) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        self.change(request, |records, ctx| {
            records.stores(fid);
            let mut inode = written::wrote(records, ctx, fid, end, blocks_delta, at, kill_suidgid)?;
            records.note_data(&mut inode);
            records.stored();
            Ok(MdsReply::Entry(entry(&inode)))
        })
    }

    pub(super) fn append(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        len: u64,
        kill_suidgid: bool,
    ) -> Result<MdsReply, Errno> {
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
