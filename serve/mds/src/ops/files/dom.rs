//! Read, Write, Punch, Seek: bytes of files that live on the MDT, together with the inode's
//! attributes.

use crate::mds::{Mds, RequestContext};
use crate::ops::names::lookup::{SHOWN, entry};
use crate::records::entry_of;
use crate::records::part::{ELSEWHERE, Part};
use namespace::dom;
use namespace::inode::Inode;
use namespace::written::{self, Written};
use types::attr::{FileType, WrittenAt};
use types::errno::Errno;
use types::limits::DOM_BYTES_MAX;
use wire::mds::{MdsReply, Punch, Read, Seek, Write};
use wire::ost::PunchKind;

/// End of a range, if the MDT can have bytes that far.
///
/// # Errors
/// [`ELSEWHERE`]: it reaches further than any file has bytes here.
pub(super) fn end_of(start: u64, len: u64) -> Result<u64, Errno> {
    start.checked_add(len).filter(|end| *end <= DOM_BYTES_MAX).ok_or(ELSEWHERE)
}

/// The part of a file that lives here; EINVAL: no file.
pub(super) fn file(inode: &Inode) -> Result<Part, Errno> {
    if inode.file_type() == FileType::Regular { Part::of_inode(inode) } else { Err(Errno::EINVAL) }
}

impl Mds {
    pub(in crate::ops) fn read_data(
        &self,
        request: &mut RequestContext<'_>,
        op: &Read,
    ) -> Result<MdsReply, Errno> {
        let &Read { fid, offset, len } = op;
        self.ours(fid)?;
        let end = end_of(offset, len.into())?;
        self.show(request, |records| {
            let inode = records.there(fid)?;
            let part = file(&inode)?;
            part.has(end)?;
            let data = dom::read(&part.chunks(&records.tx), offset, end.min(inode.attr.size))?;
            records.shown(fid, SHOWN);
            Ok(MdsReply::Data { entry: Box::new(entry_of(&inode)), data: data.into() })
        })
    }

    pub(in crate::ops) fn write_data(
        &self,
        request: &mut RequestContext<'_>,
        op: &Write,
    ) -> Result<MdsReply, Errno> {
        let &Write { fid, offset, ref data, at, kill_suidgid, keeps } = op;
        self.ours(fid)?;
        let end = end_of(offset, data.len() as u64)?;
        let brought = request.brought(std::iter::once(data));
        self.change(request, |records, ctx| {
            let part = file(&records.there(fid)?)?;
            part.has(end)?;
            records.lock_context.durability.data = Some(brought).filter(|_| keeps);
            let pieces = [(offset, &data[..])];
            let plan = dom::write_all(&part.chunks(&records.tx), &pieces)?;
            let end = if data.is_empty() { 0 } else { end };
            let written = Written { end, blocks_delta: plan.blocks_delta, at, kill_suidgid };
            records.storing(fid, |records| {
                let mut inode = written::stored(records, ctx, fid, written)?;
                match keeps {
                    true => records.put_written(part, &plan, &pieces),
                    false => records.put_chunks(part, &plan),
                }
                records.note_data(&mut inode);
                Ok(MdsReply::Entry(entry(&inode)))
            })
        })
    }

    pub(in crate::ops) fn punch_data(
        &self,
        request: &mut RequestContext<'_>,
        op: &Punch,
    ) -> Result<MdsReply, Errno> {
        let &Punch { fid, start, end, kind, grows, kill_suidgid } = op;
        self.ours(fid)?;
        let kind = match kind {
            PunchKind::Truncate => return Err(Errno::EINVAL),
            PunchKind::Hole => dom::Punch::Hole,
            PunchKind::Zero => dom::Punch::Zero,
            PunchKind::Allocate => dom::Punch::Allocate,
        };
        if start >= end {
            return Err(Errno::EINVAL);
        }
        self.change(request, |records, ctx| {
            records.may_write(fid)?;
            let part = file(&records.there(fid)?)?;
            part.has(end)?;
            let plan = dom::punch(&part.chunks(&records.tx), start, end, kind)?;
            let (end, at) = (if grows { end } else { 0 }, WrittenAt::Now);
            let written = Written { end, blocks_delta: plan.blocks_delta, at, kill_suidgid };
            let mut inode = written::stored(records, ctx, fid, written)?;
            records.put_chunks(part, &plan);
            records.note_data(&mut inode);
            Ok(MdsReply::Entry(entry(&inode)))
        })
    }

    pub(in crate::ops) fn seek_data(
        &self,
        request: &mut RequestContext<'_>,
        op: &Seek,
    ) -> Result<MdsReply, Errno> {
        let &Seek { fid, offset, hole } = op;
        self.ours(fid)?;
        self.show(request, |records| {
            let part = file(&records.there(fid)?)?;
            Ok(MdsReply::Offset(dom::seek(&part.chunks(&records.tx), offset, hole)?))
        })
    }
}
