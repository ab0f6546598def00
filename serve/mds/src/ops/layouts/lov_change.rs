//! The common part of `lustre.lov.add` and `lustre.lov.del`: an existing file gets another layout,
//! and all its bytes stay where they are.

use crate::mds::{Mds, RequestContext};
use crate::records::tail;
use disk::inode::ItemTag;
use layout::layout::Layout;
use namespace::inode::InodeFlags;
use namespace::view::{Change, View};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::mds::MdsReply;

impl Mds {
    /// Gives a file the layout that `changed` makes of its own.
    ///
    /// # Errors
    /// EPERM: not the owner's; EOPNOTSUPP: not of a file; those of `changed`.
    pub(in crate::ops) fn change_layout(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        changed: impl FnOnce(&Layout) -> Result<Layout, Errno>,
    ) -> Result<MdsReply, Errno> {
        self.change(request, |records, ctx| {
            let mut inode = records.there(fid)?;
            if inode.file_type() != FileType::Regular {
                return Err(Errno::EOPNOTSUPP);
            }
            if !ctx.owns(inode.attr.uid) {
                return Err(Errno::EPERM);
            }
            let old = tail::layout(fid, &inode.tail, ItemTag::Layout)?.ok_or(Errno::EIO)?;
            let layout = changed(&old)?;
            let bits = InodeBits::LAYOUT.union(InodeBits::UPDATE).union(InodeBits::XATTR);
            records.before(&[Change::of(fid, bits)])?;
            let mut bytes = Vec::new();
            layout::codec::encode(&layout, &mut bytes);
            inode.tail = tail::replace(fid, &inode.tail, ItemTag::Layout, Some(&bytes))?;
            inode.flags.insert(InodeFlags::OWN_LAYOUT);
            inode.attr.ctime = ctx.now;
            inode.attr.version = ctx.version;
            records.put_inode(&inode);
            Ok(MdsReply::Done)
        })
    }
}
