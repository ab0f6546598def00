//! Wrote and Append: the size follows the data.

use super::lookup::entry;
use crate::mds::{Call, Mds};
use namespace::written;
use types::attr::WrittenAt;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::mds::MdsReply;

impl Mds {
    pub(super) fn wrote(
        &self,
        call: &mut Call<'_>,
        fid: Fid,
        end: u64,
        blocks_delta: i64,
        at: WrittenAt,
        kill_suidgid: bool,
    ) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        self.change(call, |records, ctx| {
            // It stores what others ask for: mapped pages become known only then. Whoever is asked for other bits only
            // answers without storing anything, and waits as everybody does.
            let of_data = InodeBits::DATA.union(InodeBits::WRITE);
            records.deal.urgent = records.state.locks.table.is_asked(fid, records.deal.client, of_data);
            let mut inode = written::wrote(records, ctx, fid, end, blocks_delta, at, kill_suidgid)?;
            records.note_data(&mut inode);
            records.deal.urgent = false;
            Ok(MdsReply::Entry(entry(&inode)))
        })
    }

    pub(super) fn append(
        &self,
        call: &mut Call<'_>,
        fid: Fid,
        len: u64,
        kill_suidgid: bool,
    ) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        self.change(call, |records, ctx| {
            let (offset, mut inode) = written::append(records, ctx, fid, len, kill_suidgid)?;
            records.note_data(&mut inode);
            Ok(MdsReply::Appended { offset })
        })
    }
}
