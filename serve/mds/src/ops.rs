//! Operations: one file per kind, and the one place that sends each to its file.

mod accessed;
mod attr;
mod check;
mod create;
mod data;
mod dom;
mod flock;
mod glimpse;
mod layout;
mod lease;
mod link;
mod links;
mod lock;
mod lookup;
mod lov;
mod lov_add;
mod lov_change;
mod lov_del;
mod open;
mod readdir;
mod remove;
mod rename;
mod swap;
mod totals;
mod xattr;

use crate::held_names::Attempt;
use crate::mds::{Mds, RequestContext};
use types::errno::Errno;
use wire::class::Room;
use wire::mds::{CreateKind, FlockCancel, FlockTest, MdsOp, MdsReply, Open};

impl Mds {
    pub(crate) async fn run(
        &self,
        request: &mut RequestContext<'_>,
        op: MdsOp,
    ) -> Result<MdsReply, Errno> {
        self.admit(&op).await?;
        match op {
            MdsOp::Lookup(op) => {
                if self.is_pinned() {
                    Box::pin(self.settled(op.parent, Some(&op.name))).await;
                }
                self.lookup(request, &op)
            }
            MdsOp::GetParent(op) => self.get_parent(request, &op),
            MdsOp::Getattr(op) => {
                if self.is_pinned() {
                    Box::pin(self.settled(op.fid, None)).await;
                }
                self.getattr(request, &op)
            }
            MdsOp::GetattrMany(op) => self.getattr_many(request, &op),
            MdsOp::Setattr(op) => self.in_turn(request, |request| self.setattr(request, &op)).await,
            MdsOp::Create(op) => match op.kind {
                // Apart, so that the future of the fast path stays small.
                CreateKind::Directory { mdt: Some(mdt) } if mdt != self.name.index => {
                    Box::pin(self.remote_mkdir(request, &op, mdt)).await
                }
                _ => self.in_turn(request, |request| self.create(request, &op)).await,
            },
            MdsOp::Tmpfile(op) => self.in_turn(request, |request| self.tmpfile(request, &op)).await,
            MdsOp::Open(Open { fid, flags }) => {
                self.may_open(request, fid, flags)?;
                self.in_turn(request, |request| self.open(request, fid, flags)).await
            }
            MdsOp::Accessed(op) => {
                self.in_turn(request, |request| self.accessed(request, &op)).await
            }
            MdsOp::Close(op) => self.close(request, &op),
            MdsOp::Expect(op) => {
                request.expected.push(op);
                Ok(MdsReply::Done)
            }
            MdsOp::Unlink(op) => {
                let result = self.in_turn(request, |request| self.unlink(request, &op)).await;
                self.attempted(request.expects(), Attempt::Unlink(&op), &result).await;
                result
            }
            MdsOp::Rmdir(op) => {
                let result = match self.in_turn(request, |request| self.rmdir(request, &op)).await {
                    // Another MDT has the inode.
                    Err(Errno::EREMOTE) => Box::pin(self.remote_rmdir(request, &op)).await,
                    result => result,
                };
                self.attempted(request.expects(), Attempt::Rmdir(&op), &result).await;
                result
            }
            MdsOp::Rename(op) => {
                let result = self.in_turn(request, |request| self.rename(request, &op)).await;
                self.attempted(request.expects(), Attempt::Rename(&op), &result).await;
                result
            }
            MdsOp::Link(op) => self.in_turn(request, |request| self.link(request, &op)).await,
            MdsOp::Readdir(op) => {
                if self.is_pinned() {
                    Box::pin(self.settled(op.fid, None)).await;
                }
                self.readdir(request, &op)
            }
            MdsOp::Readlink(op) => self.readlink(request, &op),
            MdsOp::Getxattr(op) => self.getxattr(request, &op),
            MdsOp::Listxattr(op) => self.listxattr(request, &op),
            MdsOp::Setxattr(op) => self.setxattr(request, &op).await,
            MdsOp::Removexattr(op) => self.removexattr(request, &op).await,
            MdsOp::GetLayout(op) => self.get_layout(request, &op).await,
            MdsOp::SwapLayouts(op) => {
                self.swap_layouts(request.client(), request.credentials.uid, &op).await
            }
            MdsOp::Wrote(op) => self.in_turn(request, |request| self.wrote(request, &op)).await,
            MdsOp::Read(op) => self.read_data(request, &op),
            MdsOp::Write(op) => {
                self.in_turn(request, |request| self.write_data(request, &op)).await
            }
            MdsOp::Punch(op) => {
                self.in_turn(request, |request| self.punch_data(request, &op)).await
            }
            MdsOp::Seek(op) => self.seek_data(request, &op),
            MdsOp::Statfs => self.statfs(),
            MdsOp::Sync => self.sync().await,
            MdsOp::FlockTest(FlockTest { fid, lock }) => {
                self.flock_test(request.client(), fid, &lock)
            }
            MdsOp::FlockSet(op) => self.flock_set(request.export, &op).await,
            MdsOp::FlockCancel(FlockCancel { fid, lock }) => {
                self.flock_cancel(request.client(), fid, &lock)
            }
            MdsOp::Lock(op) => self.lock(request, &op).await,
            MdsOp::Unlock(op) => self.unlock(request, &op),
            MdsOp::Lease(op) => self.lease(request, &op).await,
            MdsOp::Scan(op) => self.scan(&op),
            MdsOp::PeerFids => self.peer_fids().await,
            MdsOp::PeerPrepare(op) => Box::pin(self.peer_prepare(&op)).await,
            MdsOp::PeerApply(op) => Box::pin(self.peer_apply(&op)).await,
            MdsOp::PeerCancel(op) => Ok(self.peer_cancel(&op)),
            MdsOp::PeerForget(op) => self.peer_forget(&op),
            MdsOp::PeerExchange(op) => Ok(self.peer_exchange(&op)),
            MdsOp::Mend(op) => self.in_turn(request, |request| self.mend(request, &op)).await,
        }
    }

    /// Waits for room in the store before a change. An operation that releases space, or takes next
    /// to none, is let in when the store is nearly full.
    async fn admit(&self, op: &MdsOp) -> Result<(), Errno> {
        match op.class().room {
            Room::Space => self.store.admit().await?,
            Room::Release => self.store.admit_release().await?,
            Room::None => {}
        }
        Ok(())
    }
}
