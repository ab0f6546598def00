//! Files whose data belongs to a group: clients outside of it wait.
//!
//! Group locks themselves are in the table of file locks ([`flocks`](crate::locks::flocks)), which
//! keeps this one in step. This one says only which clients hold a group lock of a file, for the
//! code that grants data locks. A client that takes a group lock asks for WRITE afterwards. So
//! earlier grants of other clients are called back, and their later requests wait here.

use foldhash::HashMap;
use parking_lot::RwLock;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use types::fid::Fid;
use types::session::ClientUuid;

/// See the module.
#[derive(Default)]
pub struct Groups {
    files: RwLock<HashMap<Fid, Vec<ClientUuid>>>,
    /// True if there is one. Usually there is none, and then only this is looked at.
    any: AtomicBool,
    changed: Notify,
}

impl Groups {
    /// True if the data of this file belongs to a group without this client.
    pub(crate) fn shut_out(&self, fid: Fid, client: ClientUuid) -> bool {
        self.any.load(Ordering::Acquire)
            && self.files.read().get(&fid).is_some_and(|members| !members.contains(&client))
    }

    /// Ready when it does not, or no longer does, or when `gone` says that the client no longer
    /// waits.
    pub(crate) async fn admitted(&self, fid: Fid, client: ClientUuid, gone: impl Fn() -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.shut_out(fid, client) || gone() {
                return;
            }
            changed.await;
        }
    }

    /// Files of groups.
    pub(crate) fn files(&self) -> Vec<Fid> {
        self.files.read().keys().copied().collect()
    }

    /// These clients have members of this file's group now; none: it has no group.
    pub(crate) fn set(&self, fid: Fid, members: Vec<ClientUuid>) {
        let mut files = self.files.write();
        match members.is_empty() {
            true => drop(files.remove(&fid)),
            false => drop(files.insert(fid, members)),
        }
        self.any.store(!files.is_empty(), Ordering::Release);
        drop(files);
        self.changed.notify_waiters();
    }

    /// A session ended: its waits are given up.
    pub(crate) fn look_again(&self) {
        self.changed.notify_waiters();
    }
}
