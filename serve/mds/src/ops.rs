//! Operations: one file per kind, and the one place that sends each to its file.

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
use crate::mds::{Call, Mds};
use types::errno::Errno;
use wire::mds::{MdsOp, MdsReply};
use wire::ost::PunchKind;

impl Mds {
    pub(crate) async fn run(&self, call: &mut Call<'_>, op: MdsOp) -> Result<MdsReply, Errno> {
        self.admit(&op).await?;
        match op {
            MdsOp::Lookup { parent, name } => self.lookup(call, parent, &name),
            MdsOp::GetParent { fid } => self.get_parent(call, fid),
            MdsOp::Getattr { fid } => self.getattr(call, fid),
            MdsOp::GetattrMany { fids } => self.getattr_many(call, &fids),
            MdsOp::Setattr { fid, set } => self.in_turn(call, |call| self.setattr(call, fid, &set)).await,
            MdsOp::Create { parent, name, kind, mode, umask, exclusive } => {
                let create = |call: &mut Call<'_>| self.create(call, parent, &name, &kind, mode, umask, exclusive);
                self.in_turn(call, create).await
            }
            MdsOp::Tmpfile { parent, mode, umask, flags, linkable } => {
                self.in_turn(call, |call| self.tmpfile(call, parent, (mode, umask), flags, linkable)).await
            }
            MdsOp::Open { fid, flags } => self.in_turn(call, |call| self.open(call, fid, flags)).await,
            MdsOp::Close { fid, handle } => self.close(call, fid, handle),
            MdsOp::Unlink { parent, name } => self.in_turn(call, |call| self.unlink(call, parent, &name)).await,
            MdsOp::Rmdir { parent, name } => self.in_turn(call, |call| self.rmdir(call, parent, &name)).await,
            MdsOp::Rename { parent, name, new_parent, new_name, flags } => {
                let rename = |call: &mut Call<'_>| self.rename(call, parent, &name, new_parent, &new_name, flags);
                self.in_turn(call, rename).await
            }
            MdsOp::Link { fid, new_parent, new_name } => {
                self.in_turn(call, |call| self.link(call, fid, new_parent, &new_name)).await
            }
            MdsOp::Readdir { fid, after, limit, bytes_max, with_attr, with_layout } => {
                self.readdir(call, fid, after.as_ref(), (limit, bytes_max), Details { with_attr, with_layout })
            }
            MdsOp::Readlink { fid } => self.readlink(call, fid),
            MdsOp::Getxattr { fid, name } => self.getxattr(call, fid, &name),
            MdsOp::Listxattr { fid } => self.listxattr(call, fid),
            MdsOp::Setxattr { fid, name, value, flags } => self.setxattr(call, fid, &name, &value, flags).await,
            MdsOp::Removexattr { fid, name } => self.removexattr(call, fid, &name).await,
            MdsOp::GetLayout { fid, write, start, end } => self.get_layout(call, fid, write, start, end).await,
            MdsOp::SwapLayouts { fid, other, versions, same } => {
                self.swap_layouts(call.client(), call.credentials.uid, fid, other, versions, same).await
            }
            MdsOp::Wrote { fid, end, blocks_delta, at, kill_suidgid } => {
                self.in_turn(call, |call| self.wrote(call, fid, end, blocks_delta, at, kill_suidgid)).await
            }
            MdsOp::Append { fid, len, kill_suidgid } => {
                self.in_turn(call, |call| self.append(call, fid, len, kill_suidgid)).await
            }
            MdsOp::Read { fid, offset, len } => self.read_data(call, fid, offset, len),
            MdsOp::Write { fid, offset, data, at, kill_suidgid } => {
                self.in_turn(call, |call| self.write_data(call, fid, offset, &data, at, kill_suidgid)).await
            }
            MdsOp::Punch { fid, start, end, kind, grows, kill_suidgid } => {
                self.in_turn(call, |call| self.punch_data(call, fid, start, end, kind, grows, kill_suidgid)).await
            }
            MdsOp::Seek { fid, offset, hole } => self.seek_data(call, fid, offset, hole),
            MdsOp::Statfs => self.statfs(),
            MdsOp::Sync => self.sync().await,
            MdsOp::FlockTest { fid, lock } => self.flock_test(call.client(), fid, &lock),
            MdsOp::FlockSet { fid, lock, wait } => self.flock_set(call.export, fid, lock, wait).await,
            MdsOp::FlockCancel { fid, lock } => self.flock_cancel(call.client(), fid, &lock),
            MdsOp::Lock { fid, bits, needs } => self.lock(call, fid, bits, needs).await,
            MdsOp::Unlock { locks } => self.unlock(call, &locks),
            MdsOp::Lease { fid, owner, act } => self.lease(call, fid, owner, act).await,
            MdsOp::Scan { start, end, bytes_max } => self.scan(call, &start, &end, bytes_max),
            MdsOp::Mend { expect, put } => self.in_turn(call, |call| self.mend(call, &expect, &put)).await,
        }
    }

    /// Waits for room in the store before a change. What releases space, or takes next to none, is let in when the
    /// store is nearly full.
    async fn admit(&self, op: &MdsOp) -> Result<(), Errno> {
        match op {
            MdsOp::Create { .. }
            | MdsOp::Tmpfile { .. }
            | MdsOp::Rename { .. }
            | MdsOp::Link { .. }
            | MdsOp::Setxattr { .. }
            | MdsOp::Write { .. }
            | MdsOp::Punch { kind: PunchKind::Zero | PunchKind::Allocate, .. } => self.store.admit().await?,
            MdsOp::Setattr { .. }
            | MdsOp::Open { .. }
            | MdsOp::Close { .. }
            | MdsOp::Unlink { .. }
            | MdsOp::Rmdir { .. }
            | MdsOp::Removexattr { .. }
            | MdsOp::GetLayout { .. }
            | MdsOp::SwapLayouts { .. }
            | MdsOp::Wrote { .. }
            | MdsOp::Append { .. }
            | MdsOp::Punch { kind: PunchKind::Hole | PunchKind::Truncate, .. }
            | MdsOp::Mend { .. } => self.store.admit_release().await?,
            MdsOp::Lookup { .. }
            | MdsOp::GetParent { .. }
            | MdsOp::Getattr { .. }
            | MdsOp::GetattrMany { .. }
            | MdsOp::Readdir { .. }
            | MdsOp::Readlink { .. }
            | MdsOp::Getxattr { .. }
            | MdsOp::Listxattr { .. }
            | MdsOp::Read { .. }
            | MdsOp::Seek { .. }
            | MdsOp::Statfs
            | MdsOp::Sync
            | MdsOp::FlockTest { .. }
            | MdsOp::FlockSet { .. }
            | MdsOp::FlockCancel { .. }
            | MdsOp::Lock { .. }
            | MdsOp::Unlock { .. }
            | MdsOp::Lease { .. }
            | MdsOp::Scan { .. } => {}
        }
        Ok(())
    }
}
