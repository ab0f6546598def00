//! GetLayout: where the bytes are, and for writers where they will go.

use crate::background::spaces::ASK_AGAIN;
use crate::mds::{Mds, RequestContext};
use crate::records::tail;
use disk::inode::ItemTag;
use layout::extend::is_needed;
use layout::layout::Layout;
use layout::placement::NoSpace;
use namespace::inode::Inode;
use namespace::view::{Change, View};
use std::sync::Arc;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::mds::{GetLayout, MdsReply};

impl Mds {
    pub(in crate::ops) async fn get_layout(
        &self,
        request: &mut RequestContext<'_>,
        op: &GetLayout,
    ) -> Result<MdsReply, Errno> {
        let &GetLayout { fid, write, start, end } = op;
        self.ours(fid)?;
        if !write {
            let layout = self.show(request, |records| {
                let layout = layout_of(&records.there(fid)?)?;
                records.grant(fid, InodeBits::LAYOUT);
                Ok(layout)
            })?;
            return Ok(MdsReply::Layout(Arc::new(layout)));
        }
        let extends = self.read(|records| {
            layout_of(&records.there(fid)?).map(|layout| is_needed(&layout, start, end))
        })?;
        if extends {
            // The choice rests on free space, and what is known of it may be seconds old.
            self.refresh_spaces_of_active().await;
        }
        if let Ok(reply) =
            self.in_turn(request, |request| self.layout_to_write(request, fid, start, end)).await?
        {
            return Ok(reply);
        }
        // OSTs may have come, or got room, since the last look.
        self.refresh_spaces().await;
        let clock = &self.env.clock;
        let until = clock.now() + self.settings.osts_return;
        loop {
            match self
                .in_turn(request, |request| self.layout_to_write(request, fid, start, end))
                .await?
            {
                Ok(reply) => return Ok(reply),
                Err(reason) if self.may_yet_place(&reason) => {
                    if clock.now() >= until {
                        tracing::warn!(%fid, %reason, "no OST came back to take objects of a file");
                        return Err(Errno::EIO);
                    }
                    clock.sleep(ASK_AGAIN).await;
                }
                Err(reason) => {
                    tracing::warn!(%fid, %reason, "file cannot be given objects");
                    return Err(Errno::ENOSPC);
                }
            }
        }
    }

    fn layout_to_write(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        start: u64,
        end: u64,
    ) -> Result<Result<MdsReply, NoSpace>, Errno> {
        let mut no_space = None;
        let reply = self.change(request, |records, ctx| {
            let mut inode = records.there(fid)?;
            let mut layout = layout_of(&inode)?;
            if start >= layout.size_max() {
                // No component will ever cover it.
                return Err(Errno::EFBIG);
            }
            match self.instantiate(&mut layout, start, end) {
                Ok(true) => {
                    records.before(&[Change::of(fid, InodeBits::LAYOUT)])?;
                    let mut bytes = Vec::new();
                    layout::codec::encode(&layout, &mut bytes);
                    inode.tail = tail::replace(fid, &inode.tail, ItemTag::Layout, Some(&bytes))?;
                    inode.attr.version = ctx.version;
                    records.put_inode(&inode);
                }
                Ok(false) => {}
                Err(reason) => {
                    no_space = Some(reason);
                    return Err(Errno::ENOSPC);
                }
            }
            records.note_data(&mut inode);
            records.grant(fid, InodeBits::LAYOUT);
            Ok(MdsReply::Layout(Arc::new(layout)))
        });
        match (reply, no_space) {
            (Err(_), Some(reason)) => Ok(Err(reason)),
            (reply, _) => reply.map(Ok),
        }
    }
}

pub(in crate::ops) fn layout_of(inode: &Inode) -> Result<Layout, Errno> {
    if inode.file_type() != FileType::Regular {
        return Err(Errno::EINVAL);
    }
    tail::layout(inode.fid(), &inode.tail, ItemTag::Layout)?.ok_or(Errno::EIO)
}
