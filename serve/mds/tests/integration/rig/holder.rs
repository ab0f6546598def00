//! A client whose answers to callbacks are scripted.

use super::{CREDENTIALS, Rig, mds_reply, until, wait};
use env::BoxFuture;
use parking_lot::Mutex;
use rpc::callbacks::Callbacks;
use rpc::service::{Export, Service};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::watch;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;
use wire::client::{ClientOp, ClientReply, Glimpse, Glimpsed};
use wire::mds::{MdsOp, MdsReply};
use wire::message::{ConnectRequest, Reply};

/// How a client answers callbacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It drops and forgets, and knows no size.
    Done,
    /// Its programs use the inode that is to be removed.
    Kept,
    /// It drops a directory whose names change.
    Dropped,
    /// It knows this size (and times).
    Size(Glimpse),
    /// It drops and forgets, and has no use for WRITE.
    Idle,
    /// It does not answer until it is told to answer otherwise.
    Later,
}

/// A client.
pub struct Holder {
    pub client: ClientUuid,
    pub export: Arc<Export>,
    script: Arc<Script>,
}

struct Script {
    asked: Mutex<VecDeque<ClientOp>>,
    answer: watch::Sender<Answer>,
}

impl Callbacks for Script {
    fn callback(self: Arc<Self>, op: ClientOp) -> BoxFuture<'static, Result<ClientReply, Errno>> {
        self.asked.lock().push_back(op.clone());
        let mut answers = self.answer.subscribe();
        Box::pin(async move {
            let answer = *answers
                .wait_for(|answer| *answer != Answer::Later)
                .await
                .map_err(|_| Errno::EIO)?;
            Ok(match (op, answer) {
                (ClientOp::Revoke { locks }, Answer::Kept) => {
                    let opens = |(_, bits): &(Fid, InodeBits)| bits.contains(InodeBits::OPEN);
                    ClientReply::Kept(
                        locks
                            .into_iter()
                            .filter(opens)
                            .map(|(f, _)| (f, InodeBits::OPEN))
                            .collect(),
                    )
                }
                (ClientOp::Changing { .. }, Answer::Dropped) => ClientReply::Dropped,
                (ClientOp::Glimpse { fids, .. }, Answer::Size(glimpse)) => {
                    ClientReply::Glimpses(vec![Glimpsed::Dirty(glimpse); fids.len()])
                }
                (ClientOp::Glimpse { fids, .. }, Answer::Idle) => {
                    ClientReply::Glimpses(vec![Glimpsed::Idle; fids.len()])
                }
                (ClientOp::Glimpse { fids, .. }, _) => {
                    ClientReply::Glimpses(vec![Glimpsed::Reported; fids.len()])
                }
                _ => ClientReply::Done,
            })
        })
    }
}

impl Rig {
    /// A client that begins a session, and answers at once.
    pub fn holder(&self, n: u128) -> Holder {
        let client = ClientUuid(n);
        let script =
            Arc::new(Script { asked: Mutex::default(), answer: watch::Sender::new(Answer::Done) });
        let export =
            Export::local(self.mds.name(), client, format!("holder {n}"), Some(script.clone()));
        let hello = ConnectRequest {
            version_min: 1,
            version_max: 1,
            cluster: types::session::ClusterId(7),
            client,
            description: String::new(),
            boot: 0,
            proof: types::proof::Proof(n),
            server: types::proof::Proof(0),
        };
        self.mds.connect(&export, &hello).unwrap();
        self.sessions.lock().insert(client, export.clone());
        Holder { client, export, script }
    }

    pub fn reply(&self, holder: &Holder, ops: Vec<MdsOp>) -> Reply {
        wait(self.send(holder.client, &CREDENTIALS, ops))
    }

    /// One operation of a holder: its result, and its grants.
    pub fn by(
        &self,
        holder: &Holder,
        op: MdsOp,
    ) -> (Result<MdsReply, Errno>, Vec<(Fid, InodeBits)>) {
        let mut reply = self.reply(holder, vec![op]);
        let grants = reply.grants.iter().map(|grant| (grant.fid, grant.bits)).collect();
        (reply.results.remove(0).map(mds_reply), grants)
    }

    /// One operation of a holder, for the locks that come with it.
    pub fn warm(&self, holder: &Holder, op: MdsOp) -> Vec<(Fid, InodeBits)> {
        self.by(holder, op).1
    }

    /// One operation in a thread of its own.
    pub fn start(&self, holder: &Holder, op: MdsOp) -> JoinHandle<Reply> {
        let request = self.send(holder.client, &CREDENTIALS, vec![op]);
        std::thread::spawn(move || wait(request))
    }
}

impl Holder {
    /// From now on.
    pub fn answers(&self, answer: Answer) {
        self.script.answer.send_replace(answer);
    }

    /// The next callback to it; waits for that.
    pub fn asked(&self) -> ClientOp {
        let mut next = None;
        until("a callback", || {
            next = self.script.asked.lock().pop_front();
            next.is_some()
        });
        next.unwrap()
    }

    /// Checks that it got no more callbacks.
    pub fn at_rest(&self) {
        assert_eq!(self.script.asked.lock().front(), None);
    }

    /// The bits that it was asked to drop; waits for that.
    pub fn revoked(&self) -> Vec<(Fid, InodeBits)> {
        match self.asked() {
            ClientOp::Revoke { locks } => locks,
            other => panic!("{other:?}"),
        }
    }
}
