//! Unlink and Rmdir.

use crate::mds::{Mds, RequestContext};
use namespace::{rmdir, unlink};
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{MdsReply, Removed};

impl Mds {
    pub(super) fn unlink(&self, request: &mut RequestContext<'_>, parent: Fid, name: &Name) -> Result<MdsReply, Errno> {
        self.ours(parent)?;
        self.change(request, |records, ctx| {
            let inode = unlink::unlink(records, ctx, parent, name)?;
            Ok(MdsReply::Removed(Removed { fid: inode.fid(), nlink: inode.attr.nlink }))
        })
    }

    pub(super) fn rmdir(&self, request: &mut RequestContext<'_>, parent: Fid, name: &Name) -> Result<MdsReply, Errno> {
        self.ours(parent)?;
        self.change(request, |records, ctx| {
            let inode = rmdir::rmdir(records, ctx, parent, name)?;
            Ok(MdsReply::Removed(Removed { fid: inode.fid(), nlink: inode.attr.nlink }))
        })
    }
}
