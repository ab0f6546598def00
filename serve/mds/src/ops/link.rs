//! Link.

use super::lookup::entry;
use crate::mds::{Mds, RequestContext};
use namespace::link::link;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use wire::mds::MdsReply;

impl Mds {
    pub(super) fn link(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        new_parent: Fid,
        new_name: &Name,
    ) -> Result<MdsReply, Errno> {
        if fid.mdt() != new_parent.mdt() {
            // Across MDTs: not yet. Programs know what to do with EXDEV.
            return Err(Errno::EXDEV);
        }
        self.ours(fid)?;
        self.change(request, |records, ctx| {
            records.there(fid)?;
            let inode = link(records, ctx, fid, new_parent, new_name)?;
            records.grant(fid, InodeBits::LOOKUP);
            Ok(MdsReply::Entry(entry(&inode)))
        })
    }
}
