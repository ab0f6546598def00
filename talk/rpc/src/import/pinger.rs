//! Pings: an idle session is kept alive, a dead peer is noticed, a restarted target is found before
//! a caller needs it.
//!
//! One task per process, started with the first session over the network; each ping is a task of
//! its own, at most one per import.

use crate::Rpc;
use crate::import::remote::{Outcome, RemoteSession};
use crate::import::{Import, Session};
use futures_util::future::{Either, select};
use lnet::error::LinkError;
use lnet::peer::Ask;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::message::Op;

/// Missing for this many intervals, an answer to a ping means that the peer is dead.
const PATIENCE: u32 = 3;

impl Rpc {
    /// Starts the task, if it does not run.
    pub(crate) fn start_pings(self: &Arc<Self>) {
        if self.pings.swap(true, Ordering::AcqRel) {
            return;
        }
        let (rpc, env) = (Arc::downgrade(self), self.env().clone());
        let mut stopped = Box::pin(self.stopped());
        let interval = self.timings().ping_interval;
        let ping = async move {
            let mut seen = HashMap::new();
            while let Either::Left(_) = select(env.clock.sleep(interval), &mut stopped).await {
                let Some(rpc) = rpc.upgrade() else { return };
                let imports = rpc.imports();
                seen.retain(|client, _| {
                    imports.iter().any(|import| (import.target, import.client) == *client)
                });
                for import in imports {
                    visit(&import, &mut seen);
                }
            }
        };
        self.env().tasks.spawn("ping", Box::pin(ping));
    }
}

type Seen = HashMap<(types::target::TargetName, types::session::ClientUuid), u64>;

fn visit(import: &Arc<Import>, seen: &mut Seen) {
    let (session, had_one) = import.session_and_history();
    match session {
        Some(Session::Remote(remote)) => {
            let answers = remote.answers();
            if seen.insert((import.target, import.client), answers) == Some(answers) {
                let import = import.clone();
                let tasks = import.rpc.env().tasks.clone();
                tasks.spawn("one ping", Box::pin(async move { one(&import, &remote).await }));
            }
        }
        None if had_one => {
            let again = import.clone();
            let connect = async move {
                if let Err(error) = again.connect().await {
                    tracing::debug!(target = %again.target, %error, "still no session");
                }
            };
            if !import.is_connecting() {
                import.rpc.env().tasks.spawn("reconnect", Box::pin(connect));
            }
        }
        Some(Session::Local(_)) | None => {}
    }
}

impl Import {
    /// Pings the target now, in a task of its own.
    pub(crate) fn ping_soon(&self) {
        let Some(import) = self.me.upgrade() else { return };
        let (Some(Session::Remote(remote)), _) = import.session_and_history() else { return };
        let tasks = import.rpc.env().tasks.clone();
        tasks.spawn("one ping", Box::pin(async move { one(&import, &remote).await }));
    }
}

async fn one(import: &Arc<Import>, remote: &Arc<RemoteSession>) {
    if import.pinging.swap(true, Ordering::AcqRel) {
        return;
    }
    let limit = import.rpc.timings().ping_interval * PATIENCE;
    let request = import.request_of(import.xids.begin(true).xid, vec![Op::Ping]);
    let ask = Ask { reply_bulk: 0, limit: Some(limit), outside_window: true, background: false };
    let answer = pin!(remote.exchange(&request, ask, false));
    let stopped = pin!(import.rpc.stopped());
    match select(answer, stopped).await {
        Either::Left((Outcome::Reply(reply), _)) => import.learn_committed(reply.last_committed),
        Either::Left((Outcome::Lost, _)) => import.lost_remote(remote),
        Either::Left((Outcome::Failed(error), _)) => {
            let nid = remote.peer.nid();
            tracing::warn!(target = %import.target, %nid, %error, "peer does not answer pings");
            remote
                .peer
                .close(&LinkError::Lost { nid, reason: "it does not answer pings".to_owned() });
            import.lost_remote(remote);
        }
        Either::Right(_) => {}
    }
    import.pinging.store(false, Ordering::Release);
}
