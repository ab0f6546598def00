//! The known space of the OSTs: asked every few seconds, read at every create. An OST that does not
//! answer is asked more often, so that one that has just been started gets files at once.

use crate::mds::Mds;
use crate::tasks::{Backoff, Stop};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use layout::placement::{NoSpace, OstSpace};
use parking_lot::{Mutex, RwLock};
use rpc::error::RpcError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use types::target::{TargetIndex, TargetName};

/// Pause before an OST that did not answer is asked again; doubles up to `space_interval`.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Space of all OSTs, ordered by index.
#[derive(Default)]
pub struct Spaces {
    known: RwLock<Arc<Vec<OstSpace>>>,
    /// Numbers of the requests that were answered last: several may be under way, and an older
    /// answer may come later.
    heard: Mutex<BTreeMap<TargetIndex, u64>>,
    asked: AtomicU64,
}

impl Spaces {
    /// The space that was last reported.
    pub fn get(&self) -> Arc<Vec<OstSpace>> {
        self.known.read().clone()
    }

    /// The number of a request; the next one has a higher number.
    fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes the answer to request `asked`, unless a later one was answered already.
    fn set(&self, asked: u64, space: OstSpace) {
        let mut heard = self.heard.lock();
        let last = heard.entry(space.index).or_default();
        if asked < *last {
            return;
        }
        *last = asked;
        let mut spaces = self.known.write();
        let spaces = Arc::make_mut(&mut spaces);
        match spaces.binary_search_by_key(&space.index, |s| s.index) {
            Ok(at) => spaces[at] = space,
            Err(at) => spaces.insert(at, space),
        }
    }

    /// OSTs that were removed from the file system get no objects any more.
    fn retain(&self, osts: &[TargetIndex]) {
        Arc::make_mut(&mut *self.known.write()).retain(|ost| osts.contains(&ost.index));
        self.heard.lock().retain(|ost, _| osts.contains(ost));
    }

    fn all_answer(&self) -> bool {
        self.known.read().iter().all(|ost| ost.active)
    }

    fn known(&self, index: TargetIndex) -> Option<OstSpace> {
        self.known.read().iter().find(|o| o.index == index).copied()
    }
}

impl Mds {
    /// Asks all OSTs for their space. One that does not answer gets no new objects until it does.
    /// Each answer counts as soon as it is there.
    pub async fn refresh_spaces(&self) {
        self.ask_spaces(self.targets.list()).await;
    }

    /// As [`Mds::refresh_spaces`], but does not wait for an OST that did not answer last time.
    pub(crate) async fn refresh_spaces_of_active(&self) {
        let mut osts = self.targets.list();
        osts.retain(|ost| self.spaces.known(*ost).is_some_and(|known| known.active));
        self.ask_spaces(osts).await;
    }

    async fn ask_spaces(&self, osts: Vec<TargetIndex>) {
        let asked = self.spaces.ask();
        let ask = |index: TargetIndex| async move { (index, self.within(index, self.targets.statfs(index)).await) };
        let mut answers: FuturesUnordered<_> = osts.into_iter().map(ask).collect();
        while let Some((index, answer)) = answers.next().await {
            let before = self.spaces.known(index);
            let space = match answer {
                Ok(s) => OstSpace { index, free: s.bytes_available, total: s.bytes_total, active: true },
                Err(error) => {
                    if before.is_none_or(|b| b.active) {
                        tracing::warn!(ost = ?index, %error, "OST does not tell its space; it gets no new files");
                    }
                    let unknown = OstSpace { index, free: 0, total: 0, active: false };
                    OstSpace { active: false, ..before.unwrap_or(unknown) }
                }
            };
            if self.targets.is_known(index) {
                self.spaces.set(asked, space);
            }
        }
    }

    /// An answer of an OST, or [`RpcError::Timeout`] after `answer_max`.
    pub(crate) async fn within<T>(
        &self,
        ost: TargetIndex,
        answer: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<T, RpcError> {
        let time = self.settings.answer_max;
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.env.clock.sleep(time) => {
                Err(RpcError::Timeout { target: TargetName::ost(self.name.fsname, ost.0), seconds: time.as_secs() })
            }
        }
    }

    /// True if an OST that is in use and does not answer could take objects. It may be back soon,
    /// so ENOSPC would be premature.
    pub(crate) fn may_yet_place(&self, reason: &NoSpace) -> bool {
        let in_use = |ost: &OstSpace| !ost.active && self.targets.is_in_use(ost.index) && !self.is_aside(ost.index);
        matches!(reason, NoSpace::Nowhere { inactive: 1.., .. }) && self.spaces.get().iter().any(in_use)
    }

    /// True if there is an OST that has never reported its space. It may have been started a moment
    /// ago.
    pub(crate) fn has_unheard_osts(&self) -> bool {
        let heard = |index| self.spaces.known(index).is_some_and(|ost| ost.total > 0);
        !self.targets.list().into_iter().all(heard)
    }

    pub(crate) async fn watch_spaces(self: Arc<Mds>, mut stop: Stop) {
        let interval = self.settings.space_interval;
        let mut backoff = Backoff::new(ASK_AGAIN.min(interval), interval);
        loop {
            self.look_at_own_space();
            tokio::select! {
                // A request to an absent OST may wait a hundred seconds and more: the end of the
                // MDT must not wait with it.
                biased;
                () = stop.stopped() => return,
                () = self.refresh_spaces() => {}
            }
            let pause = if self.spaces.all_answer() {
                backoff.succeeded();
                interval
            } else {
                backoff.failed()
            };
            if !self.look.wait(&self.env, Some(pause), &mut stop).await {
                return;
            }
        }
    }

    /// The set of OSTs changed: wakes the task.
    pub fn osts_changed(&self) {
        self.spaces.retain(&self.targets.list());
        self.look.wake();
        self.destroy.wake();
        self.settle.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_answer_that_comes_later_does_not_count() {
        let spaces = Spaces::default();
        let ost = |n, free| OstSpace { index: TargetIndex(n), free, total: 100, active: true };
        let (older, newer) = (spaces.ask(), spaces.ask());
        spaces.set(newer, ost(0, 10));
        spaces.set(older, ost(0, 50));
        spaces.set(older, ost(1, 50));
        assert_eq!(*spaces.get(), [ost(0, 10), ost(1, 50)]);
        spaces.set(spaces.ask(), ost(0, 60));
        assert_eq!(spaces.known(TargetIndex(0)), Some(ost(0, 60)));
    }
}
