//! Which of several hosts serves a target.
//!
//! An owner that is stopped, or cut off, keeps its connections, and says nothing when another host
//! takes its target over. So a client that knows several hosts asks them, without a session,
//! whether they serve the target: before it connects, and when an answer does not come. Each host
//! answers by itself; a session is ended only for a host that says it does.

use crate::error::RpcError;
use crate::import::Import;
use crate::import::connect::PAUSE_OF_HOSTS_MAX;
use crate::import::remote::{Opened, Outcome, RemoteSession, open, payload_of};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use lnet::peer::{Ask, Peer};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::limits::CONNECT_TIMEOUT;
use types::nid::Nid;
use wire::envelope::Refusal;
use wire::message::{Op, Request};

/// A host that has not answered a request for so long is doubted: it is asked whether it is there,
/// and if it does not say so in the same time, the others are.
const SILENCE: Duration = Duration::from_millis(500);

/// What came of one look for a host.
pub(crate) struct Looked {
    /// Its NID.
    pub(crate) nid: Nid,
    /// It had not been asked before.
    pub(crate) first: bool,
    /// The host, or why it is none.
    pub(crate) peer: Result<Arc<Peer>, RpcError>,
}

impl Import {
    /// True if the target may be served by another host than that of this session.
    pub(crate) fn has_other_hosts(&self) -> bool {
        self.link.lock().nids.len() > 1
    }

    /// Sends a request and waits for the reply, or until the target is found elsewhere.
    pub(crate) async fn exchange(
        &self,
        remote: &Arc<RemoteSession>,
        request: &Request,
        ask: Ask,
        waits: bool,
    ) -> Outcome {
        if !self.has_other_hosts() {
            return remote.exchange(request, ask, waits).await;
        }
        let mut answer = pin!(remote.exchange(request, ask, waits));
        loop {
            match select(answer.as_mut(), self.rpc.env().clock.sleep(SILENCE)).await {
                Either::Left((outcome, _)) => return outcome,
                Either::Right(_) => self.doubt(remote),
            }
        }
    }

    /// Looks for the target, beside the requests that wait. One task per import.
    fn doubt(&self, remote: &Arc<RemoteSession>) {
        let Some(import) = self.me.upgrade() else { return };
        if import.doubting.swap(true, Ordering::AcqRel) {
            return;
        }
        let remote = remote.clone();
        let look = async move {
            import.look_elsewhere(&remote).await;
            import.doubting.store(false, Ordering::Release);
        };
        self.rpc.env().tasks.spawn("look for the owner", Box::pin(look));
    }

    async fn look_elsewhere(&self, remote: &Arc<RemoteSession>) {
        // The request may only take long.
        if self.serves(&remote.peer, SILENCE).await.is_ok() {
            return;
        }
        let here = remote.peer.nid();
        let nids = self.link.lock().nids.clone();
        let others = nids.into_iter().filter(|nid| *nid != here);
        let mut asked: FuturesUnordered<_> =
            others.map(|nid| self.look_at(nid, true, Duration::ZERO)).collect();
        let mut silent = asked.len();
        while let Some(Looked { nid, first, peer }) = asked.next().await {
            silent -= usize::from(first);
            let Ok(peer) = peer else {
                // Another one may be gone, too: this one is not waited for until that is clear.
                if silent > 0 {
                    asked.push(self.look_at(nid, true, PAUSE_OF_HOSTS_MAX));
                }
                continue;
            };
            tracing::info!(target = %self.target, silent = %here, nid = %peer.nid(), "another host serves it");
            self.lost_remote(remote);
            remote.end();
            return;
        }
    }

    /// Looks for a host, after a pause if it was asked before. `serves`: it must say that it serves
    /// the target.
    pub(crate) async fn look_at(&self, nid: Nid, serves: bool, pause: Duration) -> Looked {
        if !pause.is_zero() {
            self.rpc.env().clock.sleep(pause).await;
        }
        let peer = match serves {
            true => self.served_at(nid).await,
            false => self.reach(nid).await,
        };
        Looked { nid, first: pause.is_zero(), peer }
    }

    /// The host at a NID, if it serves the target.
    async fn served_at(&self, nid: Nid) -> Result<Arc<Peer>, RpcError> {
        let peer = self.reach(nid).await?;
        self.serves(&peer, CONNECT_TIMEOUT).await?;
        Ok(peer)
    }

    /// Succeeds if a host says within this time that it serves the target.
    async fn serves(&self, peer: &Arc<Peer>, limit: Duration) -> Result<(), RpcError> {
        let nid = peer.nid();
        let request = self.request_of(self.xids.begin(true).xid, vec![Op::Ping]);
        let ask =
            Ask { reply_bulk: 0, limit: Some(limit), outside_window: true, background: false };
        let frame = peer.request(payload_of(self.client, &request, false, 0), ask).await;
        let frame = frame.map_err(|error| self.link_error(error))?;
        match open(nid, &frame) {
            Ok(_) | Err(Opened::Refused(Refusal::NoSession)) => Ok(()),
            // It says so about any session of another process of this client.
            Err(Opened::Refused(Refusal::OtherProcess)) => Ok(()),
            Err(Opened::Refused(_)) => Err(RpcError::NoTarget { nid, target: self.target }),
            Err(Opened::Bad(error)) => Err(error),
        }
    }
}
