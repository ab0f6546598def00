//! A restarted MDT asks the others which operations over several MDTs it may have lost
//! (docs/dne.md, section 5).

use super::coordinate::AGAIN;
use super::steps::bundle_in;
use super::{Bundle, Steps, bundle_of};
use crate::background::tasks::Stop;
use crate::mds::Mds;
use bytes::Bytes;
use disk::bundle;
use futures_util::future::join_all;
use replay::bundle::exchange::{Answer, Exchange, Offered};
use replay::recovery::{Gathered, Phase};
use rpc::error::RpcError;
use types::bundle::BundleId;
use types::limits::BUNDLES_OPEN_MAX;
use types::target::TargetIndex;
use wire::mds::PeerExchange;

impl Mds {
    /// This MDT's clients have come. Shows itself to the others with which something may be under
    /// way, answers those that ask, and asks them, in rounds, until all answer what they answered
    /// before. From then on it brings to others what it takes. `None`: the MDT stops.
    pub(crate) async fn exchange(
        &self,
        changes: &[Gathered<Bytes>],
        stop: &mut Stop,
    ) -> Option<Exchange<Steps>> {
        let gathered: Vec<Bundle> =
            changes.iter().filter_map(|gathered| bundle_in(&gathered.change)).collect();
        let peers = {
            let bundles = &mut self.state.lock().bundles;
            bundles.to_restore.clone_from(&gathered);
            bundles.under_way_with()
        };
        let peers: Vec<TargetIndex> = match self.peers.client() {
            Some(_) => peers.into_iter().filter(|mdt| *mdt != self.name.index).collect(),
            None => Vec::new(),
        };
        if !peers.is_empty() {
            tracing::info!(target = %self.name, ?peers, "asking the MDTs with which something was under way");
        }
        self.window.mdts.lock().extend(&peers);
        let announce = async {
            let announce = |mdt: &TargetIndex| self.unless_given_up(*mdt, self.announce_to(*mdt));
            join_all(peers.iter().map(announce)).await;
        };
        tokio::select! {
            biased;
            () = stop.stopped() => return None,
            () = announce => self.window.enter(Phase::Applying),
        }
        let mut exchange = Exchange::new(self.name.index, peers, gathered);
        loop {
            self.window.mdts.lock().extend(exchange.waiting());
            let ask = |mdt: &TargetIndex| {
                let mdt = *mdt;
                async move {
                    let answer = self.unless_given_up(mdt, self.ask_for_lost(mdt)).await;
                    self.window.mdts.lock().remove(&mdt);
                    (mdt, answer)
                }
            };
            let all = join_all(exchange.waiting().iter().map(ask));
            let answers = tokio::select! {
                biased;
                () = stop.stopped() => return None,
                answers = all => answers,
            };
            for (mdt, answer) in answers {
                match answer {
                    Some(answer) => exchange.answered(mdt, answer),
                    None => {
                        self.given_up(mdt);
                        exchange.given_up(mdt);
                    }
                }
            }
            let bundles = &mut self.state.lock().bundles;
            if exchange.ends(&bundles.participant) {
                let (taken, _) = exchange.to_do(&bundles.participant);
                bundles.to_restore.extend(taken);
                return Some(exchange);
            }
        }
    }

    /// `None`: an administrator says that other MDTs are not waited for any longer, or has removed
    /// this one from the configuration.
    async fn unless_given_up<R>(
        &self,
        mdt: TargetIndex,
        answer: impl Future<Output = R>,
    ) -> Option<R> {
        let mut given_up = self.window.mdts_given_up.subscribe();
        let removed = async {
            while !self.peers.is_removed(mdt) {
                self.env.clock.sleep(AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            // An error: the MDT itself is gone.
            _ = given_up.wait_for(|given_up| *given_up) => None,
            () = removed => None,
        }
    }

    /// An MDT is not waited for any longer: as if nothing was lost with it.
    fn given_up(&self, mdt: TargetIndex) {
        let bundles: Vec<BundleId> = {
            let bundles = &self.state.lock().bundles;
            bundles.participant.brings(mdt).map(|bundle| bundle.id).collect()
        };
        tracing::error!(target = %self.name, ?mdt, ?bundles, "an MDT is not waited for: operations with it may be half done; sheen fsck finds them");
    }

    fn question(&self, announce: bool, after: Option<BundleId>) -> PeerExchange {
        let stopped = match announce || after.is_some() {
            true => Vec::new(),
            false => {
                self.state.lock().bundles.participant.stopped().take(BUNDLES_OPEN_MAX).collect()
            }
        };
        PeerExchange { from: self.name.index, boot: self.boot, announce, after, stopped }
    }

    /// Shows itself in its new life, until that is answered.
    async fn announce_to(&self, mdt: TargetIndex) {
        loop {
            if let Some(peer) = self.peers.get(mdt) {
                match peer.peer_exchange(self.question(true, None)).await {
                    Ok(_) => return,
                    Err(error) => {
                        tracing::debug!(?mdt, %error, "another MDT does not hear of this life")
                    }
                }
            }
            self.env.clock.sleep(AGAIN).await;
        }
    }

    /// Asks until it is answered.
    async fn ask_for_lost(&self, mdt: TargetIndex) -> Answer<Steps> {
        loop {
            match self.ask_once(mdt).await {
                Ok(Some(answer)) => return answer,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(?mdt, %error, "another MDT does not say what was lost");
                }
            }
            self.env.clock.sleep(AGAIN).await;
        }
    }

    /// Asks for one page after the other. `None`: the configuration does not name the MDT yet, or
    /// it has restarted meanwhile.
    async fn ask_once(&self, mdt: TargetIndex) -> Result<Option<Answer<Steps>>, RpcError> {
        let Some(peer) = self.peers.get(mdt) else { return Ok(None) };
        let mut page = peer.peer_exchange(self.question(false, None)).await?;
        let boot = page.boot;
        let mut brought = Vec::new();
        loop {
            let after = page.bundles.last().map(|last| last.id);
            for told in page.bundles {
                match bundle::decode(&told.bundle) {
                    Ok(kept) => brought.extend(
                        bundle_of(told.id, kept)
                            .map(|bundle| Offered { bundle, applied: told.applied }),
                    ),
                    Err(error) => {
                        tracing::error!(?mdt, bundle = %told.id, %error, "another MDT brings a damaged bundle");
                    }
                }
            }
            if !page.more {
                let stopped = page.stopped.into_iter().collect();
                return Ok(Some(Answer { boot, brought, stopped }));
            }
            page = peer.peer_exchange(self.question(false, after)).await?;
            if page.boot != boot {
                return Ok(None);
            }
        }
    }
}
