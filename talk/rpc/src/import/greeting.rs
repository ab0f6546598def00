//! A session with a target at a peer is opened, or renewed.

use crate::error::RpcError;
use crate::import::remote::{Opened, RemoteSession, open, payload_of};
use crate::import::{Import, Session};
use crate::service::admission;
use lnet::error::LinkError;
use lnet::payload::Frame;
use lnet::peer::{Ask, Peer};
use replay::import::ImportAction;
use std::sync::Arc;
use types::errno::Errno;
use types::limits::CONNECT_TIMEOUT;
use types::nid::Nid;
use wire::envelope::Refusal;
use wire::message::{ConnectRequest, Op, OpReply, VERSION_MAX, VERSION_MIN};

impl Import {
    /// Opens (or renews) the session at a peer, which has this NID.
    pub(crate) async fn connect_remote(
        &self,
        nid: Nid,
        mut peer: Arc<Peer>,
        boot_before: u64,
    ) -> Result<(), RpcError> {
        let lnet = self.rpc.lnet();
        self.link.lock().tried = Some(nid);
        let hello = self.hello(boot_before, Some(peer.pairing()));
        let request = self.request_of(self.xids.begin(true).xid, vec![Op::Connect(hello.clone())]);
        let ask = Ask {
            reply_bulk: 0,
            limit: Some(CONNECT_TIMEOUT),
            outside_window: true,
            background: false,
        };
        let mut sent = self.rpc.env().clock.now();
        let mut answer = peer.request(payload_of(self.client, &request, false, 0), ask).await;
        if let Err(LinkError::Lost { .. }) = answer {
            // A connection without a session may have been closed for that while the request went
            // out.
            peer = lnet.peer(nid).await.map_err(|error| self.link_error(error))?;
            sent = self.rpc.env().clock.now();
            answer = peer.request(payload_of(self.client, &request, false, 0), ask).await;
        }
        let frame = answer.map_err(|error| self.link_error(error))?;
        let (envelope, mut reply) = open(nid, &frame).map_err(|opened| match opened {
            Opened::Bad(error) => error,
            Opened::Refused(refusal) => self.refusal(nid, &frame, &hello, refusal),
        })?;
        let connected = match reply.results.pop() {
            Some(Ok(OpReply::Connect(connected))) => connected,
            other => {
                return Err(RpcError::BadMessage {
                    nid,
                    reason: format!("answers a connect with {other:?}"),
                });
            }
        };
        if !(VERSION_MIN..=VERSION_MAX).contains(&connected.version) {
            return Err(RpcError::Version {
                nid,
                theirs_min: connected.version,
                theirs_max: connected.version,
                ours_min: VERSION_MIN,
                ours_max: VERSION_MAX,
            });
        }
        if connected.boot < self.link.lock().boot_min {
            // An owner that does not know yet that it lost the target.
            return Err(RpcError::NoTarget { nid, target: self.target });
        }
        let (own, proved) = (self.rpc.env().clock.clone(), self.proved.clone());
        let remote =
            Arc::new(RemoteSession::new(peer, self.client, own, proved, self.line.clone()));
        remote.learn_clock(envelope.clock);
        let mut action = self.connected(&connected);
        if action == ImportAction::Replay {
            action = self.recover(&remote).await?;
        }
        self.enter_session(Session::Remote(remote.clone()), action, connected.boot);
        // Only now: if the session is a new one, grants of the previous one must not be trusted
        // again.
        self.proved.prove(sent, envelope.open_ms);
        self.watch_session(&remote);
        self.rpc.start_pings();
        Ok(())
    }

    fn refusal(
        &self,
        nid: Nid,
        frame: &Frame,
        hello: &ConnectRequest,
        refusal: Refusal,
    ) -> RpcError {
        match refusal {
            Refusal::NoTarget => RpcError::NoTarget { nid, target: self.target },
            Refusal::NoSession => RpcError::Evicted { target: self.target },
            Refusal::Version => admission::Refusal::Version.error((nid, self.target), hello),
            Refusal::Cluster => {
                admission::Refusal::Cluster(frame.header.cluster).error((nid, self.target), hello)
            }
            Refusal::Errno(errno) => RpcError::Refused { target: self.target, errno },
            Refusal::Late => RpcError::Late { target: self.target },
            Refusal::OtherProcess => RpcError::OtherProcess { target: self.target },
            Refusal::BadRequest => RpcError::Refused { target: self.target, errno: Errno::EPROTO },
        }
    }

    pub(crate) fn link_error(&self, error: LinkError) -> RpcError {
        match error {
            LinkError::Version { nid, theirs_min, theirs_max, ours_min, ours_max } => {
                RpcError::Version { nid, theirs_min, theirs_max, ours_min, ours_max }
            }
            LinkError::Cluster { nid, theirs, ours } => RpcError::Cluster { nid, theirs, ours },
            LinkError::OtherUser { nid } => RpcError::OtherUser { nid },
            LinkError::Key { nid, reason } => RpcError::Key { nid, reason },
            LinkError::Frame { nid, error } => {
                RpcError::BadMessage { nid, reason: error.to_string() }
            }
            LinkError::Protocol { nid, reason } => RpcError::BadMessage { nid, reason },
            LinkError::TooLong { .. } => RpcError::Errno(Errno::EMSGSIZE),
            LinkError::Shutdown => RpcError::Shutdown,
            error @ (LinkError::Connect { nid, .. }
            | LinkError::Busy { nid }
            | LinkError::Local { nid, .. }
            | LinkError::Lost { nid, .. }
            | LinkError::NoAnswer { nid, .. }) => RpcError::Unreachable {
                target: self.target,
                nids: vec![nid],
                reason: error.to_string(),
            },
        }
    }
}
