//! The kernel's caches: what they must be told, and how to do it without waiting for this mount
//! itself.
//!
//! Dropping a name waits for the kernel's lock of its directory. A request of this very mount may
//! hold that lock, and may itself wait, at another client, for this mount's answer. So dropping is
//! tried for a while only, and not at all while a request of this mount is under way in that
//! directory. Otherwise `inc_epoch` does it, which never waits: every name is asked for again at
//! its next use. That costs more than time. The kernel then takes mounts off that lie on
//! directories of this mount, and a program has no path of its working directory until it is looked
//! up again. Dropping attributes never waits.
//!
//! An answer that was written a moment ago may not have become an inode in the kernel yet, so that
//! there is nothing to invalidate. Then the notification is repeated until the inode is there or
//! the kernel gave its reference back.

use crate::kernel_view::invalidations::{Invalidations, Pending, StaleName};
use crate::kernel_view::timers::{ATTEMPTS, NAMES_LOOK, NAMES_WAIT};
use crate::locks::Locks;
use crate::node::NodeId;
use bytes::Bytes;
use env::BoxFuture;
use futures_util::future::join_all;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;

/// The kernel's caches of this mount. Each future is ready when the kernel has done it.
pub trait KernelCache: Send + Sync + 'static {
    /// A name is to be asked for again. May wait for requests that are under way in `parent`.
    /// `drop`: it goes altogether, so that an answer which the kernel is just reading cannot make
    /// it valid again. A program that works in such a directory has no path until the name is
    /// looked up again.
    fn inval_entry(&self, parent: NodeId, name: Name, drop: bool) -> BoxFuture<'static, ()>;
    /// Attributes are to be asked for again. `listing`: of a directory, its cached listing goes
    /// too. Never waits for requests. `false`: the kernel has no such inode (yet, or any more).
    fn inval_attr(&self, node: NodeId, listing: bool) -> BoxFuture<'static, bool>;
    /// Cached data of `[offset, offset + len)` (`len` 0: to the end) goes, and attributes. Waits
    /// for pages that are being read and for dirty mapped pages that must be written.
    fn inval_data(&self, node: NodeId, offset: u64, len: u64) -> BoxFuture<'static, ()>;
    /// As [`KernelCache::inval_data`], of a page that a write of this mount may hold while it waits
    /// for its lock. `None`: done. Otherwise the kernel waits for a page that is in use; what is
    /// returned is ready when it has dropped that.
    fn inval_held(
        &self,
        node: NodeId,
        offset: u64,
        len: u64,
    ) -> BoxFuture<'static, Option<BoxFuture<'static, ()>>> {
        let done = self.inval_data(node, offset, len);
        Box::pin(async move {
            done.await;
            None
        })
    }
    /// As [`KernelCache::inval_data`], but no other notification waits behind it.
    fn inval_apart(&self, node: NodeId, offset: u64, len: u64) -> BoxFuture<'static, ()> {
        self.inval_data(node, offset, len)
    }
    /// Bytes of a file for the page cache; the file ends after them or goes on. The notification is
    /// on its way when this returns, ahead of every [`KernelCache::inval_data`] that follows. Waits
    /// for pages that are being read. `None`: too much is on its way already. Never call it where
    /// the kernel keeps pages of what it writes: the bytes may take the place of newer ones.
    fn store(&self, node: NodeId, offset: u64, data: Bytes) -> Option<BoxFuture<'static, ()>>;
    /// All names are to be asked for again at their next use. Never waits.
    fn inc_epoch(&self) -> BoxFuture<'static, ()>;
    /// Most that the kernel reads ahead of one open file, KiB.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    fn read_ahead_kb(&self) -> Result<u64, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Sets it, for files that are opened from then on.
    ///
    /// # Errors
    /// The kernel refuses.
    fn set_read_ahead_kb(&self, kb: u64) -> Result<(), Errno> {
        let _ = kb;
        Err(Errno::EOPNOTSUPP)
    }
}

impl Locks {
    /// Lets the kernel forget. Everything that was answered before is with the kernel already
    /// ([`crate::kernel_view::reply_barrier`]).
    pub async fn send(&self, Pending { invalidations, _sending }: Pending) {
        let Some(kernel) = self.kernel.get() else { return };
        if invalidations.is_empty() {
            return;
        }
        let Invalidations { names, all_names, attrs } = invalidations;
        let mut dirs: Vec<Fid> = names.iter().map(|name| name.dir).collect();
        dirs.sort_unstable();
        dirs.dedup();
        let told = names.into_iter().filter_map(|StaleName { dir, name, settling }| {
            let parent = self.nodes.node(dir)?;
            Some(kernel.inval_entry(parent, name, settling))
        });
        if all_names || self.is_busy_in(&dirs) {
            kernel.inc_epoch().await;
        } else {
            tokio::select! {
                biased;
                _ = join_all(told) => {}
                () = self.names_are_stuck(&dirs) => kernel.inc_epoch().await,
            }
        }
        join_all(attrs.into_iter().map(|fid| self.forget_attr(fid))).await;
    }

    fn is_busy_in(&self, dirs: &[Fid]) -> bool {
        dirs.iter().any(|dir| self.is_busy(*dir))
    }

    /// Ready when dropping names in these directories may wait for a request that waits for this
    /// mount.
    async fn names_are_stuck(&self, dirs: &[Fid]) {
        let since = self.env.clock.now();
        while self.env.clock.now().saturating_sub(since) < NAMES_WAIT && !self.is_busy_in(dirs) {
            self.env.clock.sleep(NAMES_LOOK).await;
        }
    }

    /// The kernel asks for attributes at their next use.
    pub async fn hide_attr(&self, fid: Fid) {
        if let (Some(kernel), Some(node)) = (self.kernel.get(), self.nodes.node(fid)) {
            self.reply_barrier.quiesce().await;
            kernel.inval_attr(node, false).await;
        }
    }

    async fn forget_attr(&self, fid: Fid) {
        let Some(kernel) = self.kernel.get() else { return };
        for pause in ATTEMPTS {
            let Some(node) = self.nodes.node(fid) else { return };
            // A listing is cached for directories only, and to the kernel it is data.
            if kernel.inval_attr(node, true).await || node == NodeId::ROOT {
                return;
            }
            self.env.clock.sleep(pause).await;
        }
        tracing::debug!(%fid, "the kernel has no such inode, but keeps its reference");
    }
}
