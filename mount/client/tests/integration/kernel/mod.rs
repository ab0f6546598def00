//! The kernel's caches of a mount as a list of what they are told. Any of it can be made to wait,
//! as the kernel makes it wait for its own locks and pages.

use bytes::Bytes;
use client::kernel::KernelCache;
use client::node::NodeId;
use env::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use types::name::Name;

const PAGE_BYTES: u64 = 4096;
/// Word of the first page of each file, which a write may hold.
pub const FIRST_PAGE: &str = "first page";

/// See the module. Each line begins with its word: `expire` and `drop` (a name), `attr`, `data`,
/// `apart` (data, from a thread apart), `store`, `epoch`.
#[derive(Default)]
pub struct RecordedKernel {
    lines: Mutex<Vec<String>>,
    /// Words of what waits.
    held: watch::Sender<BTreeSet<&'static str>>,
    /// Inodes of answers that the kernel has not come to yet.
    unmade: Arc<Mutex<BTreeSet<NodeId>>>,
}

impl RecordedKernel {
    /// What it was told since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock())
    }

    /// How often it was told this since the last [`RecordedKernel::take`].
    pub fn count(&self, line: &str) -> usize {
        self.lines.lock().iter().filter(|told| *told == line).count()
    }

    /// From now on, what begins with this word is not done.
    pub fn hold(&self, word: &'static str) {
        self.held.send_modify(|held| {
            held.insert(word);
        });
    }

    /// It is done.
    pub fn release(&self, word: &'static str) {
        self.held.send_modify(|held| {
            held.remove(word);
        });
    }

    /// Whether it has the inode of an answer that it got.
    pub fn set_made(&self, node: NodeId, made: bool) {
        let mut unmade = self.unmade.lock();
        _ = if made { unmade.remove(&node) } else { unmade.insert(node) };
    }

    fn told(&self, word: &'static str, about: &str) -> BoxFuture<'static, ()> {
        self.lines.lock().push(format!("{word}{about}"));
        let mut held = self.held.subscribe();
        Box::pin(async move {
            held.wait_for(|held| !held.contains(word))
                .await
                .expect("the kernel outlives its mount");
        })
    }
}

impl KernelCache for RecordedKernel {
    fn inval_entry(&self, parent: NodeId, name: Name, drop: bool) -> BoxFuture<'static, ()> {
        self.told(if drop { "drop" } else { "expire" }, &format!(" {} {name}", parent.0))
    }

    fn inval_attr(&self, node: NodeId, _: bool) -> BoxFuture<'static, bool> {
        let (told, unmade) = (self.told("attr", &format!(" {}", node.0)), self.unmade.clone());
        Box::pin(async move {
            told.await;
            !unmade.lock().contains(&node)
        })
    }

    fn inval_data(&self, node: NodeId, offset: u64, _: u64) -> BoxFuture<'static, ()> {
        let told = self.told("data", &format!(" {}", node.0));
        let mut held = self.held.subscribe();
        Box::pin(async move {
            told.await;
            if offset < PAGE_BYTES {
                held.wait_for(|held| !held.contains(FIRST_PAGE))
                    .await
                    .expect("the kernel outlives its mount");
            }
        })
    }

    fn inval_apart(&self, node: NodeId, _: u64, _: u64) -> BoxFuture<'static, ()> {
        self.told("apart", &format!(" {}", node.0))
    }

    fn inval_held(
        &self,
        node: NodeId,
        offset: u64,
        len: u64,
    ) -> BoxFuture<'static, Option<BoxFuture<'static, ()>>> {
        let held = self.held.borrow().contains(FIRST_PAGE);
        let done = self.inval_data(node, offset, len);
        Box::pin(async move {
            if held {
                return Some(done);
            }
            done.await;
            None
        })
    }

    fn store(&self, node: NodeId, offset: u64, data: Bytes) -> Option<BoxFuture<'static, ()>> {
        Some(self.told("store", &format!(" {} at {offset} of {}", data.len(), node.0)))
    }

    fn inc_epoch(&self) -> BoxFuture<'static, ()> {
        self.told("epoch", "")
    }
}
