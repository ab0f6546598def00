//! Data of open files.

use super::{ClientFs, answer, done, is_access, node};
use crate::decode::{CopyEnd, Request};
use crate::filesystem::Answer;
use crate::notification::Notification;
use crate::reply::Reply;
use client::WriteFlags;
use client::kernel::HoldsPage;
use client::node::NodeId;
use types::errno::Errno;

/// The kind of a WRITE.
pub(super) struct How {
    pub(super) flags: u32,
    pub(super) from_page_cache: bool,
    pub(super) kill_suidgid: bool,
}

impl ClientFs {
    pub(super) fn read(
        &self,
        request: &Request<'_>,
        handle: u64,
        (offset, size): (u64, u32),
        flags: u32,
        from_page_cache: bool,
    ) -> Answer {
        let (client, caller, file) =
            (self.client(), self.holder(request), self.file(request, handle, false));
        let node = node(request);
        let call = async move {
            let data =
                client.clone().read(caller, file.await?, offset, size, from_page_cache).await?;
            if is_access(flags) {
                client.read_node(node);
            }
            Ok(data)
        };
        answer(call, Reply::Pieces)
    }

    pub(super) fn write(
        &self,
        request: &Request<'_>,
        handle: u64,
        offset: u64,
        data: &[u8],
        how: How,
    ) -> Answer {
        let flags = WriteFlags {
            // Pages that mmap made dirty stand where they stand.
            append: how.flags & libc::O_APPEND as u32 != 0 && !how.from_page_cache,
            // The kernel does not ask for it where root writes.
            kill_suidgid: how.kill_suidgid || !how.from_page_cache && self.is_squashed(request),
            // O_SYNC has this bit, too. The kernel (6.18) sends no FSYNC after such a write.
            sync: how.flags & libc::O_DSYNC as u32 != 0 && !how.from_page_cache,
            from_page_cache: how.from_page_cache,
        };
        let (node, data, from_page_cache) =
            (node(request), request.to_bytes(data), how.from_page_cache);
        let (client, caller, file) =
            (self.client(), self.holder(request), self.file(request, handle, true));
        let len = data.len() as u64;
        let call = async move {
            // Pages that mmap made dirty are not held by a program's write.
            let held = if from_page_cache { None } else { client.holds_page(node, offset, len) };
            let written = client.clone().write(caller, file.await?, offset, data, flags).await?;
            if written.offset != offset {
                // The kernel put an append where it believed the end to be: it must not keep that.
                // If it were told after the answer, it would take the size that it asks for next
                // for an old one.
                client.drop_pages(node).await;
            } else if held.as_ref().is_some_and(HoldsPage::is_beside_a_read) {
                client.drop_read_beside(node, offset, u64::from(written.bytes)).await;
            } else if !from_page_cache {
                client.drop_written(node, offset, u64::from(written.bytes)).await;
            }
            Ok(written)
        };
        answer(call, move |written| {
            // The kernel leaves clearing set-id bits to the daemon, and must not go on with the
            // mode it knows.
            let then = flags.kill_suidgid.then_some(-1);
            let then = then.map(|offset| Notification::InvalInode { node: node.0, offset, len: 0 });
            Reply::Written { bytes: written.bytes, then }
        })
    }

    pub(super) fn fallocate(
        &self,
        request: &Request<'_>,
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    ) -> Answer {
        let (client, caller, file) =
            (self.client(), self.holder(request), self.file(request, handle, true));
        done(async move { client.fallocate(caller, file.await?, offset, length, mode).await })
    }

    pub(super) fn lseek(
        &self,
        request: &Request<'_>,
        handle: u64,
        offset: u64,
        whence: u32,
    ) -> Answer {
        let hole = match whence as i32 {
            libc::SEEK_DATA => false,
            libc::SEEK_HOLE => true,
            _ => return Err(Errno::EINVAL).into(),
        };
        let (client, caller, file) =
            (self.client(), self.holder(request), self.file(request, handle, false));
        answer(async move { client.seek(caller, file.await?, offset, hole).await }, Reply::Offset)
    }

    pub(super) fn copy_file_range(
        &self,
        request: &Request<'_>,
        (from, to): (CopyEnd, CopyEnd),
        length: u64,
        flags: u64,
        wide: bool,
    ) -> Answer {
        if flags != 0 {
            return Err(Errno::EINVAL).into();
        }
        // The older form answers with 32 bits; the caller goes on from there.
        let length = if wide { length } else { length.min(1 << 30) };
        let (client, caller) = (self.client(), self.holder(request));
        let source = self.file(request, from.handle, false);
        let target = self.file_at(to.node, to.handle, true);
        let call = async move {
            let (source, target) = ((source.await?, from.offset), (target.await?, to.offset));
            let copied = client.clone().copy_file_range(caller, source, target, length).await?;
            client.read_node(NodeId(from.node));
            Ok(copied)
        };
        answer(call, move |copied| match wide {
            true => Reply::Copied64(copied),
            false => Reply::Written { bytes: copied as u32, then: None },
        })
    }
}
