//! The open files whose pages the kernel may keep.
//!
//! A file that is open for writing bypasses the page cache: then the kernel holds no page that a
//! callback would wait for while the write waits for its lock. A file that is open only for reading
//! has it, unless another client has the file open for writing (then the MDT does not grant OPEN),
//! or its data was called back a moment ago: pages that go again and again are of no use
//! (docs/locks/kernel.md, R16).

use crate::client::Client;
use crate::open::FileHandle;
use data::locks::held_pages::HoldsPage;
use data::node::NodeId;
use types::lock::InodeBits;

/// How the kernel is to treat a file that was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageCache {
    /// Each read and write comes here.
    Bypassed,
    /// Pages are kept from now on; earlier ones go.
    Fresh,
    /// Earlier pages are good: the lock on the data was held all the time.
    Kept,
}

impl Client {
    /// For a handle that was just opened.
    pub fn page_cache(&self, handle: FileHandle) -> PageCache {
        let Ok(open) = self.files_open.get(handle) else { return PageCache::Bypassed };
        let fid = open.file.fid;
        if self.locks.kernel.get().is_none() {
            // It trusts nothing for longer than an answer, and compares times.
            return PageCache::Fresh;
        }
        let held = self.session.has_lease(fid)
            && self.locks.bits(fid).contains(InodeBits::DATA.union(InodeBits::OPEN));
        if open.mode.flags.write
            || !held
            || self.data.writeback.is_contended(fid, self.session.env.clock.now())
        {
            return PageCache::Bypassed;
        }
        open.eof
            .get_or_init(|| self.data.writeback.kernel_eof.watch(fid, self.locks.told_size(fid)));
        if self.data.writeback.has_pages(fid) { PageCache::Kept } else { PageCache::Fresh }
    }

    /// The kernel drops its pages of a file. Waits for pages that are being read; never call it for
    /// a request that holds some other than by [`Client::holds_page`].
    pub async fn drop_pages(&self, node: NodeId) {
        if let (Some(kernel), Some(fid)) = (self.locks.kernel.get(), self.nodes.fid(node)) {
            self.data.drop_pages(kernel, node, fid).await;
        }
    }

    /// A write past the page cache is done: what the kernel has read meanwhile of these bytes goes
    /// (docs/locks/kernel.md, R44).
    pub async fn drop_written(&self, node: NodeId, offset: u64, len: u64) {
        if let (Some(kernel), Some(fid)) = (self.locks.kernel.get(), self.nodes.fid(node)) {
            self.data.drop_written(kernel, node, fid, (offset, len)).await;
        }
    }

    /// A write that the kernel made in its pages is done, and reads filled pages of the file beside
    /// it: those of these bytes go (docs/locks/kernel.md, R46). The page that the write itself
    /// holds goes with its answer.
    pub async fn drop_read_beside(&self, node: NodeId, offset: u64, len: u64) {
        let Some(kernel) = self.locks.kernel.get() else { return };
        if let Some(rest) = kernel.inval_held(node, offset, len).await {
            self.session.env.tasks.spawn("wait for a page to go", rest);
        }
    }

    /// Hold it while a write of `len` bytes at `offset` is under way, from its beginning: on a
    /// mount whose kernel opens files without requests, the write may hold a page of the kernel.
    pub fn holds_page(&self, node: NodeId, offset: u64, len: u64) -> Option<HoldsPage> {
        if !self.locks.no_open() || len == 0 {
            return None;
        }
        Some(self.locks.held_pages.hold(self.nodes.fid(node)?, offset, len))
    }
}
