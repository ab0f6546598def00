//! Accessed: programs of a client read an inode.

use crate::mds::{Mds, RequestContext};
use namespace::accessed::accessed;
use types::attr::AccessTimes;
use types::errno::Errno;
use wire::mds::{Accessed, MdsReply};

impl Mds {
    /// Records an access. Many of these come in one request, and none may stop the others: an inode
    /// that is gone is no error.
    pub(in crate::ops) fn accessed(
        &self,
        request: &mut RequestContext<'_>,
        op: &Accessed,
    ) -> Result<MdsReply, Errno> {
        let &Accessed { fid, at, strict } = op;
        self.ours(fid)?;
        let times = if strict { AccessTimes::Strict } else { AccessTimes::Relative };
        self.change(request, |records, _| {
            // Clients that write a file together keep it: they ask for its attributes whenever a
            // program wants them.
            let shared = records.state.locks.shared_writers.table.writers(fid).next().is_some();
            accessed(records, fid, at, times, !shared)?;
            Ok(MdsReply::Done)
        })
    }
}
