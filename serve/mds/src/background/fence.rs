//! Tells OSTs which clients this MDT has evicted; [`fencing`](crate::fencing) decides what.
//!
//! Tasks: `evict a client` and recovery wait until OSTs are told, for a bounded time; `tell OSTs of
//! evicted clients` tells them later, and so does the task that asks OSTs for their space.

use crate::mds::Mds;
use env::clock::Monotonic;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rpc::error::RpcError;
use rpc::service::Export;
use std::collections::BTreeSet;
use types::errno::Errno;
use types::session::ClientUuid;
use types::target::TargetIndex;
use wire::ost::FenceClients;

/// Messages to an OST before another pause: a question, a list, and some more if it changes.
const ROUNDS_MAX: usize = 8;

impl Mds {
    /// Evicted clients are refused by all OSTs when this is over, as far as the OSTs answer until
    /// then.
    pub(crate) async fn until_fenced(&self, until: Monotonic) {
        let left = until.saturating_sub(self.env.clock.now());
        tokio::select! {
            biased;
            () = self.tell_all_fences() => {}
            () = self.env.clock.sleep(left) => {
                // Requests have limits of their own.
                tracing::warn!(target = %self.name, "an OST does not hear that a client is evicted; it refuses requests by their limits only");
            }
        }
    }

    /// Tells all OSTs, each as often as it takes.
    async fn tell_all_fences(&self) {
        let tell = |ost: TargetIndex| async move {
            while self.targets.is_known(ost) && self.tell_fences(ost).await.is_err() {
                self.env.clock.sleep(self.settings.retry_min).await;
            }
        };
        let mut told: FuturesUnordered<_> = self.targets.list().into_iter().map(tell).collect();
        while told.next().await.is_some() {}
    }

    /// Tells an OST which clients are evicted, if it does not know.
    ///
    /// # Errors
    /// It does not answer. EAGAIN: the list, or the OST, becomes another one all the time.
    pub(crate) async fn tell_fences(&self, ost: TargetIndex) -> Result<(), RpcError> {
        for _ in 0..ROUNDS_MAX {
            let boot = self.targets.boot(ost);
            let Some((number, clients)) = self.fencing.with(|evicted| evicted.next(ost, boot))
            else {
                return Ok(());
            };
            let fence = FenceClients { mdt: self.name.index, boot: self.boot, number, clients };
            let (boot, refused) = self.targets.fence(ost, fence).await?;
            let answered = (ost, boot, number);
            if number != 0 {
                self.fencing.with(|evicted| evicted.answered(answered, &refused, |_| false));
                continue;
            }
            let there = || refused.iter().copied().filter(|client| self.has_session(*client));
            let before: BTreeSet<ClientUuid> = there().collect();
            self.fencing.with(|evicted| {
                evicted.answered(answered, &refused, |client| before.contains(&client));
            });
            // A session that began meanwhile did not find its client on the list.
            there().for_each(|client| self.fencing.session(client, true));
        }
        Err(RpcError::Errno(Errno::EAGAIN))
    }

    fn has_session(&self, client: ClientUuid) -> bool {
        self.state.lock().locks.export(client).is_some_and(|export| !export.is_gone())
    }

    /// A client is heard of in a session that stands.
    pub(crate) fn heard_again(&self, export: &Export) {
        if !self.fencing.any_connected() || export.is_gone() {
            return;
        }
        let client = export.client();
        if self.fencing.with(|evicted| evicted.returned(client)) {
            tracing::info!(target = %self.name, client = %client.brief(), "an evicted client is back");
            self.tell_fences_soon();
        }
    }

    /// Tells all OSTs, in a task of its own.
    pub(crate) fn tell_fences_soon(&self) {
        let Some(me) = self.me.upgrade() else { return };
        let until = self.env.clock.now() + self.settings.answer_max;
        let tell = async move { me.until_fenced(until).await };
        self.env.tasks.spawn("tell OSTs of evicted clients", Box::pin(tell));
    }

    /// Until when OSTs are waited for before others get what this client had: beside a moment for
    /// their answer, as long as the client may rely on its locks by its own clock.
    pub(crate) fn fence_until(&self, export: &Export) -> Monotonic {
        let now = self.env.clock.now();
        (now + self.settings.fence_wait).max(export.trusted_until(now))
    }

    /// As [`Mds::until_fenced`], for clients that do not come back to a restarted MDT.
    pub(crate) async fn fence_late(&self) {
        if self.fencing.any() {
            self.until_fenced(self.env.clock.now() + self.settings.fence_wait).await;
        }
    }
}
