//! What is known of the OSTs' space: asked every few seconds, read at every create.

use crate::mds::Mds;
use crate::tasks::Stop;
use futures_util::future::join_all;
use layout::placement::OstSpace;
use parking_lot::RwLock;
use std::sync::Arc;
use types::target::TargetIndex;

/// Space of all OSTs, ordered by index.
#[derive(Default)]
pub struct Spaces(RwLock<Arc<Vec<OstSpace>>>);

impl Spaces {
    /// As last heard.
    pub fn get(&self) -> Arc<Vec<OstSpace>> {
        self.0.read().clone()
    }

    fn known(&self, index: TargetIndex) -> Option<OstSpace> {
        self.0.read().iter().find(|o| o.index == index).copied()
    }
}

impl Mds {
    /// Asks all OSTs for their space. One that does not answer gets no new objects until it does.
    pub async fn refresh_spaces(&self) {
        let asked = self.targets.list().into_iter().map(|index| async move {
            match self.targets.statfs(index).await {
                Ok(s) => Some(OstSpace { index, free: s.bytes_available, total: s.bytes_total, active: true }),
                Err(error) => {
                    let before = self.spaces.known(index);
                    if before.is_none_or(|b| b.active) {
                        tracing::warn!(ost = ?index, %error, "OST does not tell its space; it gets no new files");
                    }
                    Some(OstSpace {
                        active: false,
                        ..before.unwrap_or(OstSpace { index, free: 0, total: 0, active: false })
                    })
                }
            }
        });
        let spaces = join_all(asked).await.into_iter().flatten().collect();
        *self.spaces.0.write() = Arc::new(spaces);
    }

    pub(crate) async fn watch_spaces(self: Arc<Mds>, mut stop: Stop) {
        loop {
            tokio::select! {
                // An OST that is away is waited for, a hundred seconds and more: the end must not wait with it.
                biased;
                () = stop.stopped() => return,
                () = self.refresh_spaces() => {}
            }
            if !self.look.wait(&self.env, Some(self.settings.space_interval), &mut stop).await {
                return;
            }
        }
    }

    /// The set of OSTs changed: look at it now.
    pub fn osts_changed(&self) {
        self.look.wake();
        self.destroy.wake();
        self.settle.wake();
    }
}
