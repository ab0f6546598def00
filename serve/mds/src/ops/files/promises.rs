//! Grant: space that a client is promised for bytes of files on this MDT. Store: such bytes come.
//!
//! A client answers a write before it sends it, if its blocks are promised. Promises live as long
//! as the session ([`target::room`]). Operations that take space leave what is promised
//! ([`store::store::Store::leave_room`]), so a promise is kept however full the MDT is. One look at
//! the store comes before each promise, since names and inodes take from it, too.

use crate::mds::{BYTES_PER_BLOCK, Mds, RequestContext, alive};
use crate::ops::files::dom::{end_of, file};
use crate::ops::names::lookup::entry;
use namespace::dom;
use namespace::written::{self, Written};
use store::error::StoreError;
use target::room::{Seen, Taken};
use types::errno::Errno;
use types::limits::GRANT_UNIT;
use wire::mds::{GrantSpace, MdsReply, Store};

/// End of the last range, and the blocks that they touch.
///
/// # Errors
/// EINVAL: they overlap, or are not in order. EREMCHG: they reach further than any file has bytes
/// here.
fn extent(op: &Store) -> Result<(u64, u64), Errno> {
    let (mut end, mut blocks, mut next) = (0, 0, 0);
    for (offset, data) in op.pieces.iter().filter(|(_, data)| !data.is_empty()) {
        if *offset < end {
            return Err(Errno::EINVAL);
        }
        end = end_of(*offset, data.len() as u64)?;
        let last = (end - 1) / GRANT_UNIT + 1;
        blocks += last - (offset / GRANT_UNIT).max(next);
        next = last;
    }
    Ok((end, blocks))
}

impl Mds {
    fn look_at_store(&self) -> Result<Seen, StoreError> {
        let (space, free) = self.store.space_left()?;
        Ok(Seen { free, total: space.capacity, reserved: space.reserved })
    }

    /// Bytes that clients were promised for bytes of files.
    pub fn promised(&self) -> u64 {
        self.room.granted()
    }

    pub(in crate::ops) fn grant_space(
        &self,
        request: &mut RequestContext<'_>,
        op: &GrantSpace,
    ) -> Result<MdsReply, Errno> {
        alive(request.export)?;
        let (holder, asked) = ((self.name, request.client()), (op.spend, op.back, op.want));
        if op.want > 0 {
            self.room.may_have_shrunk();
        }
        let payment = request.payment.get_or_insert_with(|| self.room.payment());
        let look = || self.look_at_store();
        let (more, paid) = self.room.grant(payment, self.env.clock.now(), &look, holder, asked)?;
        if request.export.is_gone() {
            self.room.gone(holder);
        }
        if more > 0 {
            self.store.room_changed()?;
        }
        Ok(MdsReply::Granted { more, paid })
    }

    /// Room for what comes, paid for or not.
    fn take_room(
        &self,
        request: &mut RequestContext<'_>,
        blocks: u64,
    ) -> Result<Taken<'_>, StoreError> {
        // What is not paid for takes what is free now.
        self.room.may_have_shrunk();
        let payment = request.payment.get_or_insert_with(|| self.room.payment());
        let sizes = (blocks * GRANT_UNIT, blocks * BYTES_PER_BLOCK);
        self.room.take(payment, self.env.clock.now(), &|| self.look_at_store(), sizes)
    }

    pub(in crate::ops) async fn store_data(
        &self,
        request: &mut RequestContext<'_>,
        op: &Store,
    ) -> Result<MdsReply, Errno> {
        self.ours(op.fid)?;
        let (end, blocks) = extent(op)?;
        let _taken = self.take_room(request, blocks)?;
        self.in_turn(request, |request| self.store_pieces(request, op, end)).await
    }

    fn store_pieces(
        &self,
        request: &mut RequestContext<'_>,
        &Store { fid, ref pieces, at }: &Store,
        end: u64,
    ) -> Result<MdsReply, Errno> {
        let brought = request.brought(pieces.iter().map(|(_, data)| data));
        self.change(request, |records, ctx| {
            let part = file(&records.there(fid)?)?;
            part.has(end)?;
            records.lock_context.durability.data = Some(brought);
            let pieces: Vec<(u64, &[u8])> =
                pieces.iter().map(|(at, data)| (*at, &data[..])).collect();
            let plan = dom::write_all(&part.chunks(&records.tx), &pieces)?;
            let blocks_delta = plan.blocks_delta;
            let written = Written { end, blocks_delta, at, kill_suidgid: false };
            records.storing(fid, |records| {
                let mut inode = written::stored(records, ctx, fid, written)?;
                records.put_written(part, &plan, &pieces);
                records.note_data(&mut inode);
                Ok(MdsReply::Entry(entry(&inode)))
            })
        })
    }
}
