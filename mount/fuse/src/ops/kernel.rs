//! The kernel's caches of a mount, as the client's locks see them.

use crate::mount::{read_ahead, set_read_ahead};
use crate::notification::Notification;
use crate::notify::{NotTaken, Notifier};
use crate::notify_apart::Apart;
use bytes::Bytes;
use client::kernel::KernelCache;
use client::node::NodeId;
use env::BoxFuture;
use types::errno::Errno;
use types::name::Name;

/// Minor version from which on a kernel can forget all names without waiting. An older one may not
/// be told to trust any.
pub const MINOR_WITH_EPOCH: u32 = 44;

/// Tells the kernel what to forget.
pub struct Kernel {
    notifier: Notifier,
    apart: Apart,
    /// Writes do not hold pages while they wait: the kernel was told to bypass them.
    opens: bool,
    /// Device number of the mount.
    device: (u32, u32),
}

impl Kernel {
    /// Over the notifications of one mount; `opens`: its kernel opens files with requests;
    /// `device`: its device number.
    pub fn new(notifier: Notifier, apart: Apart, opens: bool, device: (u32, u32)) -> Kernel {
        Kernel { notifier, apart, opens, device }
    }

    /// For notifications about pages, where writes hold some.
    fn apart(&self) -> Option<Apart> {
        (!self.opens).then(|| self.apart.clone())
    }

    fn tell(&self, notification: Notification) -> BoxFuture<'static, bool> {
        let notifier = self.notifier.clone();
        Box::pin(async move { is_found(notifier.tell(notification).await) })
    }

    fn done(&self, notification: Notification) -> BoxFuture<'static, ()> {
        let told = self.tell(notification);
        Box::pin(async move {
            told.await;
        })
    }
}

/// Usually names are not dropped, only revalidated: working directories and programs' files keep
/// their paths. But the kernel revalidates a name without its directory's lock, and stores the
/// answer some time after it was written.
fn of_name(NodeId(parent): NodeId, name: Name, drop: bool) -> Notification {
    match drop {
        true => Notification::InvalEntry { parent, name },
        false => Notification::ExpireEntry { parent, name },
    }
}

fn is_found(told: Result<bool, Errno>) -> bool {
    match told {
        Ok(found) => found,
        // The mount is gone, and its caches with it.
        Err(Errno::ENODEV) => true,
        Err(errno) => {
            tracing::error!(%errno, "the kernel does not forget");
            true
        }
    }
}

fn note_stored(stored: Result<bool, Errno>) {
    if let Err(errno) = stored {
        // The mount is gone, or the kernel is short of memory: then it has no such page, and asks.
        tracing::debug!(%errno, "the kernel did not take a page");
    }
}

fn inval_data(node: NodeId, offset: u64, len: u64) -> Notification {
    Notification::InvalInode { node: node.0, offset: offset as i64, len: len as i64 }
}

impl KernelCache for Kernel {
    fn inval_entry(&self, parent: NodeId, name: Name, drop: bool) -> BoxFuture<'static, ()> {
        self.done(of_name(parent, name, drop))
    }

    fn inval_attr(&self, node: NodeId, listing: bool) -> BoxFuture<'static, bool> {
        let _ = listing;
        self.tell(Notification::InvalInode { node: node.0, offset: -1, len: 0 })
    }

    fn inval_data(&self, node: NodeId, offset: u64, len: u64) -> BoxFuture<'static, ()> {
        match self.opens {
            true => self.done(inval_data(node, offset, len)),
            false => self.inval_apart(node, offset, len),
        }
    }

    fn inval_apart(&self, node: NodeId, offset: u64, len: u64) -> BoxFuture<'static, ()> {
        let apart = self.apart.clone();
        Box::pin(async move {
            is_found(apart.begin(inval_data(node, offset, len)).await.answer().await);
        })
    }

    fn inval_held(
        &self,
        node: NodeId,
        offset: u64,
        len: u64,
    ) -> BoxFuture<'static, Option<BoxFuture<'static, ()>>> {
        let notification = inval_data(node, offset, len);
        let Some(apart) = self.apart() else {
            let done = self.done(notification);
            return Box::pin(async move {
                done.await;
                None
            });
        };
        Box::pin(async move {
            let waits = apart.begin(notification).await.answer_or_wait().await?;
            let rest = async move {
                is_found(waits.answer().await);
            };
            Some(Box::pin(rest) as BoxFuture<'static, ()>)
        })
    }

    fn store(&self, node: NodeId, offset: u64, data: Bytes) -> Option<BoxFuture<'static, ()>> {
        match self.notifier.begin(Notification::Store { node: node.0, offset, data }) {
            Ok(queued) => Some(Box::pin(async move { note_stored(queued.answer().await) })),
            Err(NotTaken::Full | NotTaken::Ended) => None,
        }
    }

    fn inc_epoch(&self) -> BoxFuture<'static, ()> {
        self.done(Notification::IncEpoch)
    }

    fn read_ahead_kb(&self) -> Result<u64, Errno> {
        read_ahead(self.device).map_err(|error| Errno::from(&error))
    }

    fn set_read_ahead_kb(&self, kb: u64) -> Result<(), Errno> {
        set_read_ahead(self.device, kb).map_err(|error| Errno::from(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dropped_only_where_the_client_says_so() {
        let name = Name::new(b"a").unwrap();
        let told = [true, false].map(|drop| of_name(NodeId(7), name.clone(), drop));
        let drops = Notification::InvalEntry { parent: 7, name: name.clone() };
        assert_eq!(told, [drops, Notification::ExpireEntry { parent: 7, name }]);
    }
}
