//! Unlink and Rmdir.

use crate::mds::{Mds, RequestContext};
use namespace::{rmdir, unlink};
use types::errno::Errno;
use wire::mds::{MdsReply, Removed, Rmdir, Unlink};

impl Mds {
    pub(in crate::ops) fn unlink(
        &self,
        request: &mut RequestContext<'_>,
        op: &Unlink,
    ) -> Result<MdsReply, Errno> {
        let &Unlink { parent, ref name } = op;
        self.ours(parent)?;
        let expected = request.expected.clone();
        self.change(request, |records, ctx| {
            records.settled_name(parent, name)?;
            expected.taken(records, parent, name)?;
            let inode = unlink::unlink(records, ctx, parent, name)?;
            Ok(MdsReply::Removed(Removed { fid: inode.fid(), nlink: inode.attr.nlink }))
        })
    }

    pub(in crate::ops) fn rmdir(
        &self,
        request: &mut RequestContext<'_>,
        op: &Rmdir,
    ) -> Result<MdsReply, Errno> {
        let &Rmdir { parent, ref name } = op;
        self.ours(parent)?;
        let expected = request.expected.clone();
        self.change(request, |records, ctx| {
            records.settled_name(parent, name)?;
            expected.taken(records, parent, name)?;
            let inode = rmdir::rmdir(records, ctx, parent, name)?;
            Ok(MdsReply::Removed(Removed { fid: inode.fid(), nlink: inode.attr.nlink }))
        })
    }
}
