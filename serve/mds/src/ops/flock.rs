//! FlockTest, FlockSet, FlockCancel.

use crate::locks::flocks::Set;
use crate::mds::{Mds, alive};
use rpc::service::Export;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, FlockKind};
use types::session::ClientUuid;
use wire::mds::{FlockSet, MdsReply};

impl Mds {
    /// ESTALE without such an inode: locks are bounded by inode, so there must be one.
    fn can_be_locked(&self, fid: Fid) -> Result<(), Errno> {
        self.ours(fid)?;
        self.read(|records| records.entry(fid)?.ok_or(Errno::ESTALE))?;
        Ok(())
    }

    pub(super) fn flock_test(
        &self,
        client: ClientUuid,
        fid: Fid,
        lock: &Flock,
    ) -> Result<MdsReply, Errno> {
        self.can_be_locked(fid)?;
        Ok(MdsReply::Flock(self.flocks.lock().test(fid, client, lock)))
    }

    pub(super) async fn flock_set(
        &self,
        export: &Export,
        op: &FlockSet,
    ) -> Result<MdsReply, Errno> {
        let &FlockSet { fid, lock, wait } = op;
        if lock.kind == FlockKind::Unlock {
            self.ours(fid)?;
        } else {
            self.can_be_locked(fid)?;
        }
        let client = export.client();
        let set = {
            let mut flocks = self.flocks.lock();
            alive(export)?;
            flocks.set(fid, client, &lock, wait, self.env.clock.now())
        };
        match set {
            Set::Now(answer) => answer?,
            Set::Later(receiver) => {
                let mut giving_up = GiveUp { mds: self, client, fid, lock, armed: true };
                // The sender is dropped only with the table itself.
                let answer = receiver.await.unwrap_or(Err(Errno::ESHUTDOWN));
                giving_up.armed = false;
                answer?;
            }
        }
        Ok(MdsReply::Done)
    }

    pub(super) fn flock_cancel(
        &self,
        client: ClientUuid,
        fid: Fid,
        lock: &Flock,
    ) -> Result<MdsReply, Errno> {
        self.flocks.lock().cancel(fid, client, lock);
        Ok(MdsReply::Done)
    }
}

/// A waiting request that is dropped (its connection went) waits no longer.
struct GiveUp<'a> {
    mds: &'a Mds,
    client: ClientUuid,
    fid: Fid,
    lock: Flock,
    armed: bool,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.mds.flocks.lock().cancel(self.fid, self.client, &self.lock);
        }
    }
}
