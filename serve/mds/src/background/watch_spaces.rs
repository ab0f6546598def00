//! The known space of the OSTs: asked every few seconds, read at every create. An OST that does not
//! answer is asked more often, so that one that has just been started gets files at once.

use crate::background::spaces::ASK_AGAIN;
use crate::background::tasks::{Backoff, Stop};
use crate::mds::Mds;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use layout::placement::{NoSpace, OstSpace};
use rpc::error::RpcError;
use std::sync::Arc;
use types::attr::Statfs;
use types::target::{TargetIndex, TargetName};

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
        let ask = |index: TargetIndex| async move {
            let answer = self.within(index, self.targets.statfs(index)).await;
            let is_there = answer.is_ok();
            self.learn_space(asked, index, answer);
            if is_there && let Err(error) = self.within(index, self.tell_fences(index)).await {
                tracing::debug!(ost = ?index, %error, "OST does not hear which clients are evicted");
            }
        };
        let mut asks: FuturesUnordered<_> = osts.into_iter().map(ask).collect();
        while asks.next().await.is_some() {}
    }

    /// `asked`: the number of the question.
    fn learn_space(&self, asked: u64, index: TargetIndex, answer: Result<Statfs, RpcError>) {
        let before = self.spaces.known(index);
        let space = match answer {
            Ok(s) => {
                OstSpace { index, free: s.bytes_available, total: s.bytes_total, active: true }
            }
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
        let in_use = |ost: &OstSpace| {
            !ost.active && self.targets.is_in_use(ost.index) && !self.is_aside(ost.index)
        };
        matches!(reason, NoSpace::Nowhere { inactive: 1.., .. })
            && self.spaces.get().iter().any(in_use)
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
        if self.fencing.any() {
            self.tell_fences_soon();
        }
        self.look.wake();
        self.destroy.wake();
        self.settle.wake();
    }
}
