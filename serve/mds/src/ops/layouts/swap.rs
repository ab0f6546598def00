//! SwapLayouts: two files exchange their data, by exchanging layouts. `lfs swap_layouts` and
//! `lfs migrate`.
//!
//! The objects (and the bytes on the MDT) keep their names. Each layout says after which file its
//! objects are named (`Layout::owner`), and a record of that file says so too (`disk::objects_at`),
//! for checkers. Size and space go along, because the MDT keeps them.
//!
//! No client may have one of the files open for writing. All locks on data and layout are called
//! back, also those of the asking client. So dirty data is stored then and shows as a new version,
//! and no cache, the kernel's included, holds anything old. A restarted MDT is not told of a swap
//! again, so it is durable when it is answered.

use crate::locks::context::LockContext;
use crate::mds::Mds;
use crate::records::Records;
use crate::records::tail;
use disk::inode::ItemTag;
use disk::{key, objects_at};
use layout::layout::Layout;
use namespace::context::Context;
use namespace::inode::{Inode, InodeFlags};
use namespace::view::{Change, View};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::{ClientUuid, Transno};
use wire::mds::{MdsReply, SwapLayouts};

/// Bits that other clients may not keep of a file whose data is exchanged.
const SWAPPED: InodeBits =
    InodeBits::LAYOUT.union(InodeBits::UPDATE).union(InodeBits::DATA).union(InodeBits::WRITE);

impl Mds {
    pub(in crate::ops) async fn swap_layouts(
        &self,
        client: ClientUuid,
        uid: u32,
        op: &SwapLayouts,
    ) -> Result<MdsReply, Errno> {
        let &SwapLayouts { fid, other, versions, same } = op;
        self.ours(fid)?;
        self.ours(other)?;
        if fid == other {
            return Err(Errno::EINVAL);
        }
        let swap = |lock_context: &mut LockContext| {
            self.transact(lock_context, |records, ctx| {
                let mut pair = [records.there(fid)?, records.there(other)?];
                for (inode, version) in pair.iter().zip([versions.0, versions.1]) {
                    self.may_swap(records, inode, uid, version)?;
                }
                if same && pair[0].attr.size != pair[1].attr.size {
                    return Err(Errno::EAGAIN);
                }
                let layouts = [layout_of(&pair[0])?, layout_of(&pair[1])?];
                records.before(&[Change::of(fid, SWAPPED), Change::of(other, SWAPPED)])?;
                [fid, other].into_iter().for_each(|fid| records.used(client, fid, true));
                exchange(records, ctx, &mut pair, layouts, same)?;
                Ok(ctx.version)
            })
        };
        let version = self.in_turn(&mut LockContext::own(), swap).await?;
        self.store.committed(Transno(version)).await?;
        Ok(MdsReply::Done)
    }

    /// Succeeds if the data of a file may go to another inode.
    ///
    /// # Errors
    /// EINVAL, EPERM, EBUSY; EAGAIN: it has changed since that version, if one is named.
    pub(crate) fn may_swap(
        &self,
        records: &mut Records<'_>,
        inode: &Inode,
        uid: u32,
        version: u64,
    ) -> Result<(), Errno> {
        let fid = inode.fid();
        if inode.file_type() != FileType::Regular {
            return Err(Errno::EINVAL);
        }
        if uid != 0 && uid != inode.attr.uid {
            return Err(Errno::EPERM);
        }
        // The copy is out of date already, whatever its writers do: waiting for them would not
        // help.
        if version != 0 && version != inode.attr.version {
            return Err(Errno::EAGAIN);
        }
        records.may_write(fid)?;
        // Its objects may be ahead of its record, or behind: that is settled first.
        if records.state.opens.is_written(fid) {
            return Err(Errno::EBUSY);
        }
        if self.unsettled.lock().has(fid) {
            self.settle_soon(fid);
            return Err(Errno::EBUSY);
        }
        Ok(())
    }
}

fn layout_of(inode: &Inode) -> Result<Layout, Errno> {
    tail::layout(inode.fid(), &inode.tail, ItemTag::Layout)?.ok_or(Errno::EIO)
}

/// Everything is checked; an exchange of records remains.
fn exchange(
    records: &mut Records<'_>,
    ctx: &Context<'_>,
    pair: &mut [Inode; 2],
    layouts: [Layout; 2],
    same: bool,
) -> Result<(), Errno> {
    let [a, b] = pair;
    let (fid, other) = (a.fid(), b.fid());
    // Newer than any that a client may have seen of either.
    let generation = layouts[0].generation.max(layouts[1].generation) + 1;
    let [from_a, from_b] = layouts;
    let moves = [(from_b.names(other), from_b, fid), (from_a.names(fid), from_a, other)];
    let mut tails = Vec::with_capacity(moves.len());
    for ((named, mut layout, to), inode) in moves.into_iter().zip([&*a, &*b]) {
        layout.generation = generation;
        layout.owner = if named == to { Fid::NONE } else { named };
        let mut bytes = Vec::new();
        layout::codec::encode(&layout, &mut bytes);
        tails.push((tail::replace(to, &inode.tail, ItemTag::Layout, Some(&bytes))?, named, to));
    }
    std::mem::swap(&mut a.attr.size, &mut b.attr.size);
    std::mem::swap(&mut a.attr.blocks, &mut b.attr.blocks);
    let flags = [b, a].map(|inode| inode.flags);
    for ((inode, (tail, named, to)), theirs) in pair.iter_mut().zip(tails).zip(flags) {
        match named == to {
            true => records.tx.delete(&key::objects_at(named)),
            false => records.tx.put(&key::objects_at(named), &objects_at::encode(to)),
        }
        inode.tail = tail;
        for bit in [InodeFlags::HAS_RESERVE, InodeFlags::OWN_LAYOUT] {
            inode.flags.set(bit, theirs.contains(bit));
        }
        inode.flags.insert(InodeFlags::HAS_DATA);
        if !same {
            (inode.attr.mtime, inode.attr.ctime) = (ctx.now, ctx.now);
        }
        inode.attr.version = ctx.version;
        records.put_inode(inode);
    }
    Ok(())
}
