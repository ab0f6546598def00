//! Link.

use crate::mds::{Mds, RequestContext};
use crate::ops::names::lookup::entry;
use namespace::link::link;
use types::errno::Errno;
use types::lock::InodeBits;
use wire::mds::{Link, MdsReply};

impl Mds {
    pub(in crate::ops) fn link(
        &self,
        request: &mut RequestContext<'_>,
        op: &Link,
    ) -> Result<MdsReply, Errno> {
        let &Link { fid, new_parent, ref new_name } = op;
        self.ours(new_parent)?;
        // EREMOTE: another MDT takes part.
        self.ours(fid)?;
        // The kernel sees to it for other callers.
        let protected = request.is_squashed;
        self.change(request, |records, ctx| {
            records.settled(fid)?;
            records.settled_name(new_parent, new_name)?;
            records.there(fid)?;
            let inode = link(records, ctx, fid, new_parent, new_name, protected)?;
            records.grant(fid, InodeBits::LOOKUP);
            Ok(MdsReply::Entry(entry(&inode)))
        })
    }
}
