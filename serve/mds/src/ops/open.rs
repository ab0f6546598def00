//! Open, Close, and the end of all handles of a client.

use crate::mds::{Call, Mds, alive};
use crate::opens::Closed;
use crate::records::Records;
use disk::key;
use namespace::view::View;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::session::{ClientUuid, OpenHandle};
use wire::mds::{MdsReply, OpenFlags};

impl Mds {
    pub(super) fn open(&self, call: &mut Call<'_>, fid: Fid, flags: OpenFlags) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        let export = call.export;
        self.change(call, |records, _| {
            alive(export)?;
            let client = export.client();
            records.state.opens.admit(client)?;
            let inode = records.existing(fid)?;
            self.opened(records, client, inode, Some(flags), false)
        })
    }

    pub(super) fn close(&self, call: &mut Call<'_>, fid: Fid, handle: OpenHandle) -> Result<MdsReply, Errno> {
        let client = call.client();
        let closed = self.change(call, |records, _| {
            let closed = records.state.opens.close(client, fid, handle)?;
            self.finish(records, closed);
            Ok(closed)
        })?;
        self.after_close(closed);
        Ok(MdsReply::Done)
    }

    /// Closes everything that a client who is gone had open.
    pub(crate) fn close_all(&self, client: ClientUuid) {
        let credentials = Credentials::root();
        loop {
            let (closed, _) = self.transact(&credentials, |records, _| {
                let closed = records.state.opens.forget_one(client);
                closed.into_iter().for_each(|closed| self.finish(records, closed));
                Ok(closed)
            });
            match closed {
                Ok(Some(closed)) => self.after_close(closed),
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn after_close(&self, closed: Closed) {
        if closed.settle && !closed.destroy {
            self.unsettle(closed.fid);
        }
    }

    /// What a close means for the records.
    fn finish(&self, records: &mut Records<'_>, closed: Closed) {
        if closed.destroy {
            match records.inode(closed.fid) {
                Ok(Some(inode)) => records.destroy(&inode),
                Ok(None) => tracing::error!(fid = %closed.fid, "orphan has no inode"),
                Err(errno) => tracing::error!(fid = %closed.fid, %errno, "orphan stays behind"),
            }
            records.tx.delete(&key::orphan(closed.fid));
        } else if closed.unmark && !self.unsettled.lock().contains_key(&closed.fid) {
            records.unmark_writer(closed.fid);
        }
    }
}
