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
use replay::bundle::exchange::{Exchange, Offered};
use replay::recovery::{Gathered, Phase};
use types::bundle::BundleId;
use types::limits::BUNDLES_OPEN_MAX;
use types::target::TargetIndex;
use wire::mds::PeerExchange;

/// What another MDT has answered.
type Answer = (TargetIndex, Vec<Offered<Steps>>, Vec<BundleId>);

impl Mds {
    /// This MDT's clients have come. Shows itself to the others with which something may be under
    /// way, answers those that ask, and asks them; waits until they have answered. `None`: the MDT
    /// stops.
    pub(crate) async fn exchange(
        &self,
        changes: &[Gathered<Bytes>],
        stop: &mut Stop,
    ) -> Option<Exchange<Steps>> {
        let gathered: Vec<Bundle> =
            changes.iter().filter_map(|gathered| bundle_in(&gathered.change)).collect();
        let peers = {
            let bundles = &mut self.state.lock().bundles;
            bundles.gathered.clone_from(&gathered);
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
        let ask = |mdt: TargetIndex| async move {
            let answer = self.unless_given_up(self.ask_for_lost(mdt)).await;
            self.window.mdts.lock().remove(&mdt);
            answer.unwrap_or_else(|| self.given_up(mdt))
        };
        let all = async {
            let announce = |mdt: &TargetIndex| self.unless_given_up(self.announce_to(*mdt));
            join_all(peers.iter().map(announce)).await;
            self.window.enter(Phase::Applying);
            join_all(peers.iter().copied().map(ask)).await
        };
        let answers = tokio::select! {
            biased;
            () = stop.stopped() => return None,
            answers = all => answers,
        };
        let mut exchange = Exchange::new(peers.iter().copied(), gathered);
        for (mdt, brought, stopped) in answers {
            exchange.answered(mdt, brought, stopped);
        }
        Some(exchange)
    }

    /// `None`: an administrator says that other MDTs are not waited for any longer.
    async fn unless_given_up<R>(&self, answer: impl Future<Output = R>) -> Option<R> {
        let mut given_up = self.window.mdts_given_up.subscribe();
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            // An error: the MDT itself is gone.
            _ = given_up.wait_for(|given_up| *given_up) => None,
        }
    }

    /// An MDT is not waited for any longer: as if it had answered that nothing was lost.
    fn given_up(&self, mdt: TargetIndex) -> Answer {
        let bundles: Vec<BundleId> = {
            let bundles = &self.state.lock().bundles;
            bundles.participant.brings(mdt).map(|bundle| bundle.id).collect()
        };
        tracing::error!(target = %self.name, ?mdt, ?bundles, "an MDT is not waited for: operations with it may be half done; sheen fsck finds them");
        (mdt, Vec::new(), Vec::new())
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
    async fn ask_for_lost(&self, mdt: TargetIndex) -> Answer {
        'anew: loop {
            let (mut brought, mut after) = (Vec::new(), None);
            loop {
                let answer = match self.peers.get(mdt) {
                    Some(peer) => peer.peer_exchange(self.question(false, after)).await.map(Some),
                    None => Ok(None),
                };
                match answer {
                    Ok(Some((bundles, stopped, more))) => {
                        after = bundles.last().map(|last| last.id);
                        for told in bundles {
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
                        if !more {
                            return (mdt, brought, stopped);
                        }
                    }
                    Ok(None) => {
                        self.env.clock.sleep(AGAIN).await;
                        continue 'anew;
                    }
                    Err(error) => {
                        tracing::debug!(?mdt, %error, "another MDT does not say what was lost");
                        self.env.clock.sleep(AGAIN).await;
                        continue 'anew;
                    }
                }
            }
        }
    }
}
