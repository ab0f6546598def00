//! Getattr, GetattrMany, Setattr, Readlink.

use crate::locks::context::LockContext;
use crate::mds::{Mds, RequestContext};
use crate::ops::names::lookup::{SHOWN, entry};
use crate::ops::names::readdir::INODES_PER_TURN;
use crate::records::part::Part;
use crate::records::tail;
use bytes::Bytes;
use disk::inode::ItemTag;
use namespace::dom;
use namespace::inode::InodeFlags;
use namespace::setattr;
use namespace::view::View;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::INODES_PER_REPLY_MAX;
use types::lock::InodeBits;
use wire::mds::{Getattr, GetattrMany, MdsReply, Readlink, Setattr};

impl Mds {
    pub(super) fn getattr(
        &self,
        request: &mut RequestContext<'_>,
        op: &Getattr,
    ) -> Result<MdsReply, Errno> {
        let &Getattr { fid, stored } = op;
        request.lock_context.asked.stored = stored;
        request.lock_context.outcome.urgent |= stored;
        self.ours(fid)?;
        // As `Records::there`.
        self.show(request, |records| {
            Ok(MdsReply::Entry(Box::new(records.show(fid, SHOWN)?.ok_or(Errno::ESTALE)?)))
        })
    }

    pub(super) async fn getattr_many(
        &self,
        request: &mut RequestContext<'_>,
        op: &GetattrMany,
    ) -> Result<MdsReply, Errno> {
        let GetattrMany { fids, pause } = op;
        if fids.len() > INODES_PER_REPLY_MAX {
            return Err(Errno::E2BIG);
        }
        let mut attrs = Vec::with_capacity(fids.len());
        for turn in fids.chunks(INODES_PER_TURN) {
            let first = attrs.len();
            if first > 0 {
                tokio::task::yield_now().await;
            }
            self.in_turn(request, |request| {
                // It may be the second attempt.
                attrs.truncate(first);
                self.show(request, |records| {
                    // One damaged inode must not hide the others.
                    let mut show = |fid: &Fid| {
                        self.ours(*fid).and_then(|()| records.show(*fid, SHOWN)).ok().flatten()
                    };
                    attrs.extend(turn.iter().map(&mut show));
                    Ok(())
                })
            })
            .await?;
        }
        let LockContext { asked, outcome, .. } = &mut request.lock_context;
        asked.pause = *pause && !outcome.written_elsewhere.is_empty();
        Ok(MdsReply::Attrs(attrs))
    }

    pub(super) fn setattr(
        &self,
        request: &mut RequestContext<'_>,
        op: &Setattr,
    ) -> Result<MdsReply, Errno> {
        let &Setattr { fid, ref set } = op;
        self.ours(fid)?;
        let client = request.client();
        self.change(request, |records, ctx| {
            let inode = records.there(fid)?;
            let inode = match set.size {
                Some(_) if records.state.opens.is_executed_elsewhere(client, fid) => {
                    return Err(Errno::ETXTBSY);
                }
                None if inode.flags.contains(InodeFlags::STRIPED) => return Err(Errno::EREMOTE),
                None => setattr::setattr(records, ctx, fid, set)?,
                Some(size) => {
                    records.may_write(fid)?;
                    let before = records.there(fid)?;
                    let (grows, has_data) =
                        (size > before.attr.size, before.flags.contains(InodeFlags::HAS_DATA));
                    let layout = match has_data || grows {
                        true => tail::layout(fid, &before.tail, ItemTag::Layout)?,
                        false => None,
                    };
                    if grows && layout.as_ref().is_some_and(|layout| size > layout.size_max()) {
                        // No component covers the bytes up to that size, so they could never be
                        // written.
                        return Err(Errno::EFBIG);
                    }
                    let layout = layout.filter(|_| has_data);
                    let cut = match layout.as_ref().map(|layout| Part::of(layout, fid)) {
                        Some(part) if part.end > 0 => {
                            Some((part, dom::cut(&part.chunks(&records.tx), size)?))
                        }
                        _ => None,
                    };
                    let mut inode = setattr::setattr(records, ctx, fid, set)?;
                    if let Some((part, plan)) = cut.filter(|(_, plan)| !plan.chunks.is_empty()) {
                        records.put_chunks(part, &plan);
                        inode.attr.blocks =
                            inode.attr.blocks.saturating_add_signed(plan.blocks_delta);
                        records.put_inode(&inode);
                    }
                    if size < before.attr.size
                        && layout.is_some_and(|layout| layout.objects(fid).next().is_some())
                    {
                        // The client cuts the objects now; whether it can do that is not certain.
                        self.doubt_tail(records, fid);
                    }
                    inode
                }
            };
            Ok(MdsReply::Entry(entry(&inode)))
        })
    }

    pub(super) fn readlink(
        &self,
        request: &mut RequestContext<'_>,
        op: &Readlink,
    ) -> Result<MdsReply, Errno> {
        let &Readlink { fid } = op;
        self.ours(fid)?;
        self.show(request, |records| {
            let inode = records.there(fid)?;
            if inode.file_type() != FileType::Symlink {
                return Err(Errno::EINVAL);
            }
            let target = tail::find(fid, &inode.tail, ItemTag::LinkTarget)?.ok_or(Errno::EIO)?;
            records.grant(fid, InodeBits::LOOKUP);
            Ok(MdsReply::Bytes(Bytes::copy_from_slice(target)))
        })
    }
}
