//! Lookup and GetParent.

use crate::mds::{Mds, RequestContext};
use crate::records::entry_of;
use namespace::access::EXECUTE;
use namespace::inode::{Dirent, Inode};
use namespace::lookup::{self, Parent};
use namespace::view::{directory_of, is_elsewhere};
use types::attr::FileType;
use types::errno::Errno;
use types::lock::InodeBits;
use wire::mds::{Entry, GetParent, Lookup, MdsReply};

/// Bits that a client may be granted for an inode whose attributes it is shown.
pub(in crate::ops) const SHOWN: InodeBits = InodeBits::LOOKUP.union(InodeBits::UPDATE);

/// Attributes of an inode as a client sees them.
pub(crate) fn entry(inode: &Inode) -> Box<Entry> {
    Box::new(entry_of(inode))
}

impl Mds {
    pub(in crate::ops) fn lookup(
        &self,
        request: &mut RequestContext<'_>,
        op: &Lookup,
    ) -> Result<MdsReply, Errno> {
        let &Lookup { parent, ref name } = op;
        self.ours(parent)?;
        self.permit(request, parent, EXECUTE)?;
        self.show(request, |records| match records.settled_dirent(parent, name)? {
            Some(Dirent { fid, file_type }) if is_elsewhere(parent, fid) => {
                records.grant(parent, InodeBits::UPDATE);
                Ok(MdsReply::Remote { fid, file_type })
            }
            // The common case needs only the attributes.
            Some(dirent) => {
                let entry = records.show(dirent.fid, SHOWN)?.ok_or(Errno::EIO)?;
                records.grant(parent, InodeBits::UPDATE);
                Ok(MdsReply::Entry(Box::new(entry)))
            }
            None => {
                let dir = directory_of(records, parent, name)?;
                records.touch_stripe(entry_of(&dir));
                // Its absence is worth caching, too.
                records.grant(parent, InodeBits::UPDATE);
                records.grant_gap(parent, name)?;
                Err(Errno::ENOENT)
            }
        })
    }

    pub(in crate::ops) fn get_parent(
        &self,
        request: &mut RequestContext<'_>,
        op: &GetParent,
    ) -> Result<MdsReply, Errno> {
        let &GetParent { fid } = op;
        self.ours(fid)?;
        self.show(request, |records| {
            records.settled(fid)?;
            let parent = lookup::parent(records, fid)?;
            Ok(match parent {
                Parent::Here(inode) => {
                    records.settled(inode.fid())?;
                    records.grant(fid, InodeBits::LOOKUP);
                    records.shown(inode.fid(), SHOWN);
                    MdsReply::Entry(entry(&inode))
                }
                Parent::Elsewhere(parent) => {
                    records.grant(fid, InodeBits::LOOKUP);
                    MdsReply::Remote { fid: parent, file_type: FileType::Directory }
                }
            })
        })
    }
}
