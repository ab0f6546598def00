//! Operations: one file per kind, and the one place that sends each to its file.

mod attr;
mod check;
mod files;
mod flock;
mod layouts;
mod lock;
mod names;
mod totals;
mod xattr;

use crate::bundles::change::DirChange;
use crate::bundles::operation::NameOperation;
use crate::held_names::Attempt;
use crate::mds::{Mds, RequestContext};
use layout::dir_stripes::RECORD_XATTR;
use types::errno::Errno;
use wire::class::Room;
use wire::mds::{CreateKind, FlockCancel, FlockTest, MdsOp, MdsReply, Open};

impl Mds {
    /// Runs one operation. What is rare is in boxes, so that the future of the fast path stays
    /// small: it is moved several times.
    pub(crate) async fn run(
        &self,
        request: &mut RequestContext<'_>,
        op: &MdsOp,
    ) -> Result<MdsReply, Errno> {
        self.admit(op).await?;
        match op {
            MdsOp::AskTickets(op) => self.tickets(request, op),
            MdsOp::Lookup(op) => self.in_turn(request, |request| self.lookup(request, op)).await,
            MdsOp::GetParent(op) => {
                self.in_turn(request, |request| self.get_parent(request, op)).await
            }
            MdsOp::Getattr(op) => self.in_turn(request, |request| self.getattr(request, op)).await,
            MdsOp::GetattrMany(op) => Box::pin(self.getattr_many(request, op)).await,
            MdsOp::Setattr(op) => {
                match self.in_turn(request, |request| self.setattr(request, op)).await {
                    // It is striped.
                    Err(Errno::EREMOTE) => {
                        let change = DirChange::Attributes(&op.set);
                        Box::pin(self.change_stripes(request, op.fid, change)).await
                    }
                    result => result,
                }
            }
            MdsOp::Create(op) => match op.kind {
                CreateKind::Directory { mdt: Some(mdt) } if mdt != self.name.index => {
                    Box::pin(self.remote_mkdir(request, op, mdt)).await
                }
                CreateKind::Placed(ref spec) => {
                    Box::pin(self.placed_mkdir(request, op, spec)).await
                }
                _ => match self.in_turn(request, |request| self.create(request, op)).await {
                    // The directory above says where directories go.
                    Err(Errno::EREMOTE) if op.kind == (CreateKind::Directory { mdt: None }) => {
                        Box::pin(self.mkdir_by_default(request, op)).await
                    }
                    result => result,
                },
            },
            MdsOp::Tmpfile(op) => self.in_turn(request, |request| self.tmpfile(request, op)).await,
            &MdsOp::Open(Open { fid, flags }) => {
                self.may_open(request, fid, flags)?;
                self.in_turn(request, |request| self.open(request, fid, flags)).await
            }
            MdsOp::Accessed(op) => {
                self.in_turn(request, |request| self.accessed(request, op)).await
            }
            MdsOp::Close(op) => self.close(request, op),
            MdsOp::Expect(op) => {
                request.expected.push(op.clone());
                Ok(MdsReply::Done)
            }
            MdsOp::Unlink(op) => {
                let result = self.in_turn(request, |request| self.unlink(request, op)).await;
                let result = self.or_over_mdts(request, NameOperation::Unlink(op), result).await;
                self.attempted(request, Attempt::Unlink(op), &result).await;
                result
            }
            MdsOp::Rmdir(op) => {
                let result = self.in_turn(request, |request| self.rmdir(request, op)).await;
                let result = self.or_over_mdts(request, NameOperation::Rmdir(op), result).await;
                self.attempted(request, Attempt::Rmdir(op), &result).await;
                result
            }
            MdsOp::Rename(op) => {
                let result = self.in_turn(request, |request| self.rename(request, op)).await;
                let result = self.or_over_mdts(request, NameOperation::Rename(op), result).await;
                self.attempted(request, Attempt::Rename(op), &result).await;
                result
            }
            MdsOp::Link(op) => {
                let result = self.in_turn(request, |request| self.link(request, op)).await;
                self.or_over_mdts(request, NameOperation::Link(op), result).await
            }
            MdsOp::Root(op) => self.in_turn(request, |request| self.root(request, op)).await,
            MdsOp::Readdir(op) => Box::pin(self.readdir(request, op)).await,
            MdsOp::Readlink(op) => self.readlink(request, op),
            MdsOp::Getxattr(op) if op.name == RECORD_XATTR => {
                Box::pin(self.get_stripes(request, op.fid)).await
            }
            MdsOp::Getxattr(op) => self.getxattr(request, op),
            MdsOp::Listxattr(op) => self.listxattr(request, op),
            MdsOp::Setxattr(op) => Box::pin(self.setxattr(request, op)).await,
            MdsOp::Removexattr(op) => Box::pin(self.removexattr(request, op)).await,
            MdsOp::GetLayout(op) => self.get_layout(request, op).await,
            MdsOp::SwapLayouts(op) => {
                Box::pin(self.swap_layouts(request.client(), request.credentials.uid, op)).await
            }
            MdsOp::Wrote(op) => self.in_turn(request, |request| self.wrote(request, op)).await,
            MdsOp::Read(op) => self.read_data(request, op),
            MdsOp::Write(op) => self.in_turn(request, |request| self.write_data(request, op)).await,
            MdsOp::Punch(op) => self.in_turn(request, |request| self.punch_data(request, op)).await,
            MdsOp::Grant(op) => self.grant_space(request, op),
            MdsOp::Store(op) => self.store_data(request, op).await,
            MdsOp::Seek(op) => self.seek_data(request, op),
            MdsOp::Statfs => self.statfs(),
            MdsOp::Sync => self.sync().await,
            MdsOp::FlockTest(FlockTest { fid, lock }) => {
                self.flock_test(request.client(), *fid, lock)
            }
            MdsOp::FlockSet(op) => self.flock_set(request.export, op).await,
            MdsOp::FlockCancel(FlockCancel { fid, lock }) => {
                self.flock_cancel(request.client(), *fid, lock)
            }
            MdsOp::Lock(op) => self.lock(request, op).await,
            MdsOp::Unlock(op) => self.unlock(request, op),
            MdsOp::Lease(op) => self.lease(request, op).await,
            MdsOp::Scan(op) => self.scan(op),
            MdsOp::PeerFids => self.peer_fids().await,
            MdsOp::PeerPrepare(op) => Box::pin(self.peer_prepare(op)).await,
            MdsOp::PeerApply(op) => Box::pin(self.peer_apply(op)).await,
            MdsOp::PeerCancel(op) => Ok(self.peer_cancel(op)),
            MdsOp::PeerForget(op) => self.peer_forget(op),
            MdsOp::PeerExchange(op) => Box::pin(self.peer_exchange(op)).await,
            MdsOp::PeerAsk(op) => self.peer_ask(op).await,
            MdsOp::PeerMark(op) => Box::pin(self.peer_mark(op)).await,
            MdsOp::Mend(op) => self.in_turn(request, |request| self.mend(request, op)).await,
        }
    }

    /// An operation that another MDT takes part in, which is said by EREMOTE.
    async fn or_over_mdts(
        &self,
        request: &mut RequestContext<'_>,
        op: NameOperation<'_>,
        result: Result<MdsReply, Errno>,
    ) -> Result<MdsReply, Errno> {
        match result {
            // Apart, so that the future of the fast path stays small.
            Err(Errno::EREMOTE) => Box::pin(self.over_mdts(request, op)).await,
            result => result,
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
