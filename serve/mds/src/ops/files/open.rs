//! Open, Close, and the end of all handles of a client.

use crate::locks::context::LockContext;
use crate::mds::{Mds, RequestContext};
use crate::opens::Closed;
use crate::records::Records;
use namespace::access::{EXECUTE, READ, WRITE};
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::session::ClientUuid;
use wire::mds::{Close, MdsReply, OpenFlags};

/// What a caller must be permitted to open a file in this way, in the numbers of mode bits.
pub(in crate::ops) fn wanted(flags: OpenFlags) -> u32 {
    [(flags.read, READ), (flags.write, WRITE), (flags.exec, EXECUTE)]
        .into_iter()
        .fold(0, |all, (wanted, bit)| if wanted { all | bit } else { all })
}

impl Mds {
    /// Succeeds unless the caller is squashed and must not open the file. Files that were open
    /// before a restart stay open, and what a daemon opens for all its users is checked by its
    /// kernel.
    ///
    /// # Errors
    /// EACCES, EPERM.
    pub(in crate::ops) fn may_open(
        &self,
        request: &RequestContext<'_>,
        fid: Fid,
        flags: OpenFlags,
    ) -> Result<(), Errno> {
        if request.restores || flags.lasting {
            return Ok(());
        }
        self.ours(fid)?;
        self.permit(request, fid, wanted(flags))
    }

    pub(crate) fn open(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        flags: OpenFlags,
    ) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        let export = request.export;
        let checked = request.is_squashed || !request.is_restricted;
        let vouched = checked && !request.restores && !flags.lasting;
        self.change(request, |records, _| {
            let client = export.client();
            records.state.opens.admit(client)?;
            let inode = records.there(fid)?;
            let reply = self.opened(records, client, inode, Some(flags), false)?;
            if let MdsReply::Opened { handle, .. } = &reply
                && vouched
            {
                records.state.opens.vouch(*handle);
            }
            Ok(reply)
        })
    }

    pub(in crate::ops) fn close(
        &self,
        request: &mut RequestContext<'_>,
        op: &Close,
    ) -> Result<MdsReply, Errno> {
        let &Close { fid, handle } = op;
        let client = request.client();
        self.change(request, |records, _| {
            let closed = records.state.opens.close(client, fid, handle)?;
            self.finish(records, closed);
            Ok(MdsReply::Done)
        })
    }

    /// Closes all open files of a client that is gone.
    pub(crate) fn close_all(&self, client: ClientUuid) {
        loop {
            let closed = self.transact(&mut LockContext::own(), |records, _| {
                let closed = records.state.opens.forget_one(client);
                closed.into_iter().for_each(|closed| self.finish(records, closed));
                Ok(closed.is_some())
            });
            if !matches!(closed, Ok(true)) {
                return;
            }
        }
    }

    /// OPEN of these was given back.
    pub(crate) fn end_orphans(&self, let_go: &[Fid]) {
        // A removed inode in use is rare: usually there is nothing to do.
        for fid in let_go {
            let ended =
                self.transact(&mut LockContext::own(), |records, _| Ok(records.end_orphan(*fid)));
            if let Err(errno) = ended {
                tracing::error!(%fid, %errno, "orphan stays behind until the next start");
            }
        }
    }

    /// Applies the consequences of a close to the records.
    fn finish(&self, records: &mut Records<'_>, closed: Closed) {
        if closed.last && records.end_orphan(closed.fid) {
            return;
        }
        if closed.settle {
            self.unsettle(closed.fid, Duration::ZERO);
        } else if closed.unmark && !self.unsettled.lock().has(closed.fid) {
            match records.marked_cut(closed.fid) {
                true => self.unsettle(closed.fid, self.settings.cut_after),
                false => records.unmark_writer(closed.fid),
            }
        }
    }
}
