//! Rename.

use crate::mds::{Mds, RequestContext};
use namespace::rename::{Flags, Place, rename};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::mds::{MdsReply, Removed, Rename};

impl Mds {
    pub(in crate::ops) fn rename(
        &self,
        request: &mut RequestContext<'_>,
        op: &Rename,
    ) -> Result<MdsReply, Errno> {
        let &Rename { parent, ref name, new_parent, ref new_name, flags } = op;
        self.ours(new_parent)?;
        // EREMOTE: another MDT takes part.
        self.ours(parent)?;
        let from = Place { parent, name };
        let to = Place { parent: new_parent, name: new_name };
        let flags = Flags { no_replace: flags.no_replace, exchange: flags.exchange };
        let expected = request.expected.clone();
        self.change(request, |records, ctx| {
            records.settled_name(parent, name)?;
            records.settled_name(new_parent, new_name)?;
            expected.taken(records, parent, name)?;
            expected.replaced(records, new_parent, new_name)?;
            let renamed = rename(records, ctx, from, to, flags)?;
            // In a busy directory this alone covers the new name.
            records.grant(renamed.moved.fid(), InodeBits::LOOKUP);
            let removed = match renamed.replaced {
                Some(inode) if !flags.exchange => {
                    Removed { fid: inode.fid(), nlink: inode.attr.nlink }
                }
                _ => Removed { fid: Fid::NONE, nlink: 0 },
            };
            Ok(MdsReply::Removed(removed))
        })
    }
}
