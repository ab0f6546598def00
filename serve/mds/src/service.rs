//! Requests of clients: each is served once, however often it comes ([`operations`]).

mod operations;

use crate::acks::kept_replies::Kept;
use crate::acks::{AckEvent, Begin};
use crate::locks::When;
use crate::mds::Mds;
use crate::state::State;
use env::BoxFuture;
use observe::mutant::{Mutant, is_mutant};
use rpc::service::{Export, Gone, Service};
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::nid::Nid;
use types::principal::Claim;
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use types::target::TargetName;
use wire::class::Changes;
use wire::message::{ConnectReply, ConnectRequest, Op, Reply, Request, VERSION_MAX};

impl Service for Mds {
    fn target(&self) -> TargetName {
        self.name
    }

    fn cluster(&self) -> ClusterId {
        self.cluster
    }

    fn claim_of(&self, client: ClientUuid) -> Option<Claim> {
        self.recorded_claim(client)
    }

    fn connect(&self, export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno> {
        let standing = self.admit_session(export)?;
        let last = self.store.last_assigned();
        self.with_state(When::Later, |state| {
            if !state.acks.volatile().is_watched() {
                state.unwatched = last;
            }
            state.locks.connect(export);
            if export.nid() != Nid::Loopback {
                state.acknowledge(AckEvent::Connected { client: export.client() });
            }
        });
        // Behind that: see `Mds::tell_fences`.
        self.fencing.session(export.client(), true);
        Ok(ConnectReply {
            version: hello.version_max.min(VERSION_MAX),
            cluster: self.cluster,
            boot: self.boot,
            session: 0,
            last_committed: self.last_committed(),
            standing,
            squash: self.squash_news(export),
        })
    }

    fn connected(&self, export: &Arc<Export>) -> Option<BoxFuture<'static, ()>> {
        let changed = self.state.lock().acks.newest_volatile(export.client());
        self.session_known(export.client(), changed)
    }

    fn last_committed(&self) -> Transno {
        let last = self.store.last_committed();
        if is_mutant(Mutant::CommittedTooHigh) { Transno(last.0 + 1) } else { last }
    }

    fn handle(
        self: Arc<Self>,
        export: Arc<Export>,
        mut request: Request,
    ) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            if !self.window.is_open()
                && let Some(reply) = Box::pin(self.at_the_door(&export, &request)).await
            {
                return reply;
            }
            if let [Op::Replay(_), ..] | [Op::Replayed | Op::Restored] = &request.ops[..] {
                // The answer to an earlier attempt was lost; that one is over.
                return self.done(&request, Ok(()));
            }
            if let [Op::Tree(after)] = &request.ops[..] {
                let page = Box::pin(target::tree::page(&self.store, after)).await;
                return Reply::new(request.xid, Transno(0), self.last_committed(), vec![page]);
            }
            // In this process nothing is lost on the way, so nothing is resent.
            if export.nid() == Nid::Loopback || !changes(&request) {
                self.serve(&export, &mut request).await
            } else {
                self.serve_once(&export, &mut request).await
            }
        })
    }

    fn pinged(&self, export: &Arc<Export>, known: Xid) {
        self.heard_again(export);
        self.arrived(export.client(), known, |_| ());
    }

    fn gone(&self, export: &Arc<Export>, why: Gone) {
        self.audit_ends(export);
        self.room.gone((self.name, export.client()));
        self.tickets_given.lock().remove(&export.client());
        self.session_gone(export, why);
    }
}

impl Mds {
    /// Serves a changing request that may be resent over another connection; else as
    /// [`Mds::serve`].
    pub async fn serve_once(&self, export: &Arc<Export>, request: &mut Request) -> Reply {
        let (client, xid) = (export.client(), request.xid);
        loop {
            let (begin, connection) = self.arrived(client, request.xid_known, |state| {
                (state.acks.begin(client, xid, request.slot), state.acks.connection(client))
            });
            match begin {
                Begin::Run { reply: slot, kept } => {
                    let unfinished = Unfinished { mds: self, client, xid, finished: false };
                    let kept = kept.and_then(Kept::decode);
                    let reply = self.serve_rest(export, request, connection, kept).await;
                    unfinished.finish();
                    slot.send_replace(Some(reply.clone()));
                    return reply;
                }
                Begin::Again(mut slot) => {
                    if let Ok(reply) = slot.wait_for(Option::is_some).await
                        && let Some(reply) = reply.clone()
                    {
                        return Reply { last_committed: self.last_committed(), ..reply };
                    }
                    // The first one was dropped before its end, and its slot with it: now it is
                    // this one's turn.
                }
                // One request of the client waits, and so many were answered behind it.
                Begin::Full => {
                    if let Err(errno) = Box::pin(self.pause(export)).await {
                        return self.refuse(request, errno);
                    }
                }
            }
        }
    }

    pub(crate) fn refuse(&self, request: &Request, errno: Errno) -> Reply {
        let results = request.ops.iter().map(|_| Err(errno)).collect();
        Reply::new(request.xid, Transno(0), self.last_committed(), results)
    }

    /// Serves one request of a client. Its ids become those of the file system, and its references
    /// the inodes that they stand for, in place.
    pub async fn serve(&self, export: &Arc<Export>, request: &mut Request) -> Reply {
        let mut connection = 0;
        if export.nid() != Nid::Loopback {
            let client = export.client();
            connection =
                self.arrived(client, request.xid_known, |state| state.acks.connection(client));
        }
        self.serve_rest(export, request, connection, None).await
    }

    /// A client on the network has the answers to all its requests below `known`: a request says
    /// so, or a ping. Then `f` works with the state.
    fn arrived<R>(&self, client: ClientUuid, known: Xid, f: impl FnOnce(&mut State) -> R) -> R {
        let now = self.env.clock.now();
        self.with_state(When::Later, |state| {
            state.acknowledge(AckEvent::Known { client, known, now });
            f(state)
        })
    }

    /// A client is gone: releases everything that it held.
    pub(crate) fn release(&self, client: ClientUuid, why: Gone) {
        let left = self.release_all(client, why == Gone::Stopped);
        self.flocks.lock().release_client(client);
        if why == Gone::Stopped {
            // The target goes, not the client: marks and orphans stay for the next start.
            return;
        }
        self.close_all(client);
        self.end_orphans(&left.orphans);
        if why == Gone::Evicted {
            // It may have stored data without reporting the size.
            left.written.into_iter().for_each(|fid| self.unsettle(fid, Duration::ZERO));
        }
    }
}

/// A request that is dropped before its end leaves no slot.
struct Unfinished<'a> {
    mds: &'a Mds,
    client: ClientUuid,
    xid: Xid,
    finished: bool,
}

impl Unfinished<'_> {
    /// The request came to its end.
    fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let dropped = AckEvent::Dropped { client: self.client, xid: self.xid };
            self.mds.with_state(When::Later, |state| state.acknowledge(dropped));
        }
    }
}

/// True if the request must not run twice. Then its reply is kept with the change. Locks and leases
/// are taken and given up by owner: their replies are kept by the session only.
fn changes(request: &Request) -> bool {
    request.ops.iter().any(|op| op.class().changes == Changes::Store)
}
