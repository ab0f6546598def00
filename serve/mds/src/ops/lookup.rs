//! Lookup and GetParent.

use crate::mds::Mds;
use namespace::inode::Inode;
use namespace::{lookup, view::View};
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{Entry, MdsReply};

use namespace::inode::InodeFlags;

/// What a client sees of an inode.
pub(crate) fn entry(inode: &Inode) -> Box<Entry> {
    Box::new(Entry { attr: inode.attr, has_xattr: inode.flags.has(InodeFlags::HAS_XATTR) })
}

impl Mds {
    pub(super) fn lookup(&self, parent: Fid, name: &Name) -> Result<MdsReply, Errno> {
        self.ours(parent)?;
        self.read(|records| match records.dirent(parent, name)? {
            // The common case needs only the attributes.
            Some(dirent) => Ok(MdsReply::Entry(Box::new(records.entry(dirent.fid)?.ok_or(Errno::EIO)?))),
            None => lookup::lookup(records, parent, name).map(|inode| MdsReply::Entry(entry(&inode))),
        })
    }

    pub(super) fn get_parent(&self, fid: Fid) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        self.read(|records| lookup::parent(records, fid).map(|inode| MdsReply::Entry(entry(&inode))))
    }
}
