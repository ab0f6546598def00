//! Wrote: the size follows the data.

use crate::mds::{Mds, RequestContext};
use crate::ops::names::lookup::entry;
use namespace::written::{self, Written};
use types::errno::Errno;
use wire::mds::{MdsReply, Wrote};

impl Mds {
    pub(in crate::ops) fn wrote(
        &self,
        request: &mut RequestContext<'_>,
        op: &Wrote,
    ) -> Result<MdsReply, Errno> {
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
}
