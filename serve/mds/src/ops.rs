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

use self::readdir::Details;
use crate::mds::{Mds, RequestContext};
use types::errno::Errno;
use wire::class::Room;
use wire::mds::{MdsOp, MdsReply};

impl Mds {
    pub(crate) async fn run(&self, request: &mut RequestContext<'_>, op: MdsOp) -> Result<MdsReply, Errno> {
        self.admit(&op).await?;
        match op {
            MdsOp::Lookup { parent, name } => self.lookup(request, parent, &name),
            MdsOp::GetParent { fid } => self.get_parent(request, fid),
            MdsOp::Getattr { fid } => self.getattr(request, fid),
            MdsOp::GetattrMany { fids } => self.getattr_many(request, &fids),
            MdsOp::Setattr { fid, set } => self.in_turn(request, |request| self.setattr(request, fid, &set)).await,
            MdsOp::Create { parent, name, kind, mode, umask, exclusive } => {
                let create = |request: &mut RequestContext<'_>| {
                    self.create(request, parent, &name, &kind, mode, umask, exclusive)
                };
                self.in_turn(request, create).await
            }
            MdsOp::Tmpfile { parent, mode, umask, flags, linkable } => {
                self.in_turn(request, |request| self.tmpfile(request, parent, (mode, umask), flags, linkable)).await
            }
            MdsOp::Open { fid, flags } => self.in_turn(request, |request| self.open(request, fid, flags)).await,
            MdsOp::Accessed { fid, at, strict } => {
                self.in_turn(request, |request| self.accessed(request, fid, at, strict)).await
            }
            MdsOp::Close { fid, handle } => self.close(request, fid, handle),
            MdsOp::Unlink { parent, name } => {
                self.in_turn(request, |request| self.unlink(request, parent, &name)).await
            }
            MdsOp::Rmdir { parent, name } => self.in_turn(request, |request| self.rmdir(request, parent, &name)).await,
            MdsOp::Rename { parent, name, new_parent, new_name, flags } => {
                let rename = |request: &mut RequestContext<'_>| {
                    self.rename(request, parent, &name, new_parent, &new_name, flags)
                };
                self.in_turn(request, rename).await
            }
            MdsOp::Link { fid, new_parent, new_name } => {
                self.in_turn(request, |request| self.link(request, fid, new_parent, &new_name)).await
            }
            MdsOp::Readdir { fid, after, limit, bytes_max, with_attr, with_layout } => {
                self.readdir(request, fid, after.as_ref(), (limit, bytes_max), Details { with_attr, with_layout })
            }
            MdsOp::Readlink { fid } => self.readlink(request, fid),
            MdsOp::Getxattr { fid, name } => self.getxattr(request, fid, &name),
            MdsOp::Listxattr { fid } => self.listxattr(request, fid),
            MdsOp::Setxattr { fid, name, value, flags } => self.setxattr(request, fid, &name, &value, flags).await,
            MdsOp::Removexattr { fid, name } => self.removexattr(request, fid, &name).await,
            MdsOp::GetLayout { fid, write, start, end } => self.get_layout(request, fid, write, start, end).await,
            MdsOp::SwapLayouts { fid, other, versions, same } => {
                self.swap_layouts(request.client(), request.credentials.uid, fid, other, versions, same).await
            }
            MdsOp::Wrote { fid, end, blocks_delta, at, kill_suidgid } => {
                self.in_turn(request, |request| self.wrote(request, fid, end, blocks_delta, at, kill_suidgid)).await
            }
            MdsOp::Append { fid, len, kill_suidgid } => {
                self.in_turn(request, |request| self.append(request, fid, len, kill_suidgid)).await
            }
            MdsOp::Read { fid, offset, len } => self.read_data(request, fid, offset, len),
            MdsOp::Write { fid, offset, data, at, kill_suidgid } => {
                self.in_turn(request, |request| self.write_data(request, fid, offset, &data, at, kill_suidgid)).await
            }
            MdsOp::Punch { fid, start, end, kind, grows, kill_suidgid } => {
                self.in_turn(request, |request| self.punch_data(request, fid, start, end, kind, grows, kill_suidgid))
                    .await
            }
            MdsOp::Seek { fid, offset, hole } => self.seek_data(request, fid, offset, hole),
            MdsOp::Statfs => self.statfs(),
            MdsOp::Sync => self.sync().await,
            MdsOp::FlockTest { fid, lock } => self.flock_test(request.client(), fid, &lock),
            MdsOp::FlockSet { fid, lock, wait } => self.flock_set(request.export, fid, lock, wait).await,
            MdsOp::FlockCancel { fid, lock } => self.flock_cancel(request.client(), fid, &lock),
            MdsOp::Lock { fid, bits, needs } => self.lock(request, fid, bits, needs).await,
            MdsOp::Unlock { locks } => self.unlock(request, &locks),
            MdsOp::Lease { fid, owner, act } => self.lease(request, fid, owner, act).await,
            MdsOp::Scan { start, end, bytes_max } => self.scan(request, &start, &end, bytes_max),
            MdsOp::Mend { expect, put } => self.in_turn(request, |request| self.mend(request, &expect, &put)).await,
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
