//! `lustre.links`: the names that lead to an inode, for root. They turn a FID into a path.
//!
//! The value is text, each name as `[FID of its directory]/NAME` with a NUL after it. At most about
//! 100 names of an inode are remembered (`disk::links`).

use crate::mds::{Mds, RequestContext};
use crate::records::tail::{self, damaged};
use disk::inode::ItemTag;
use disk::links;
use namespace::inode::InodeFlags;
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::MdsReply;

impl Mds {
    pub(in crate::ops) fn links(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
    ) -> Result<MdsReply, Errno> {
        if request.credentials.uid != 0 {
            // A name may be in a directory that its reader may not search.
            return Err(Errno::EPERM);
        }
        let inode = self.show(request, |records| records.there(fid))?;
        if inode.attr.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        if inode.flags.contains(InodeFlags::STRIPED) && tail::stripes(&inode)?.master() != fid {
            // The directory itself has the name.
            return Err(Errno::EREMCHG);
        }
        let list = tail::find(fid, &inode.tail, ItemTag::Links)?.unwrap_or_default();
        let mut text = Vec::new();
        for link in links::each(list) {
            let (parent, name) = link.map_err(|e| damaged(fid, &e))?;
            text.extend_from_slice(format!("{parent}/").as_bytes());
            text.extend_from_slice(name);
            text.push(0);
        }
        Ok(MdsReply::Bytes(text.into()))
    }
}
