//! Whether the local transport ([`local`](crate::local)) is on, and what went over it.

use crate::traffic::Totals;
use env::ration::Ration;
use env::watch;
use std::path::{Path, PathBuf};

/// See the module. It is off at first.
pub(crate) struct LocalTransport {
    /// Where the sockets are; `None`: it is off.
    folder: watch::Sender<Option<PathBuf>>,
    /// What went over links that ended.
    pub(crate) totals: Totals,
    /// For log lines about sockets that are not believed.
    pub(crate) complaints: Ration,
}

impl Default for LocalTransport {
    fn default() -> LocalTransport {
        let (folder, totals) = (watch::Sender::new(None), Totals::default());
        LocalTransport { folder, totals, complaints: Ration::default() }
    }
}

impl LocalTransport {
    /// Uses sockets in this folder from now on, or none. Connections that stand go on.
    pub(crate) fn set(&self, folder: Option<PathBuf>) {
        self.folder.send_replace(folder);
    }

    /// Where the sockets are; `None`: it is off.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.folder.borrow().clone()
    }

    /// Ready once it is on.
    pub(crate) async fn on(&self) -> PathBuf {
        let mut folder = self.folder.subscribe();
        loop {
            if let Some(folder) = self.folder() {
                return folder;
            }
            // No error: the sender is here.
            let _ = folder.wait_for(Option::is_some).await;
        }
    }

    /// Ready once it is off, or in another folder.
    pub(crate) async fn changed(&self, folder: &Path) {
        let mut now = self.folder.subscribe();
        // As above.
        let _ = now.wait_for(|now| now.as_deref() != Some(folder)).await;
    }
}
