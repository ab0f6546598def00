//! Requests: a vector of operations, one after the other, one reply.

use crate::deal::Deal;
use crate::mds::{Call, Mds};
use crate::replies::Begin;
use env::BoxFuture;
use rpc::service::{Export, Gone, Service};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use types::target::TargetName;
use wire::mds::{MdsOp, MdsReply};
use wire::message::{ConnectReply, ConnectRequest, Op, OpReply, Reply, Request, VERSION_MAX};

/// FIDs that the operations of a request have found so far.
type Found = SmallVec<[Fid; 8]>;

impl Service for Mds {
    fn target(&self) -> TargetName {
        self.name
    }

    fn cluster(&self) -> ClusterId {
        self.cluster
    }

    fn connect(&self, export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno> {
        self.state.lock().locks.connect(export);
        Ok(ConnectReply {
            version: hello.version_max.min(VERSION_MAX),
            cluster: self.cluster,
            boot: self.boot,
            last_committed: self.store.last_committed(),
        })
    }

    fn handle(self: Arc<Self>, export: Arc<Export>, request: Request) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            // In this process nothing is lost on the way, so nothing comes twice.
            if export.nid() == Nid::Loopback || !changes(&request) {
                self.serve(&export, request).await
            } else {
                self.serve_once(&export, request).await
            }
        })
    }

    fn pinged(&self, export: &Arc<Export>, known: Xid) {
        let now = self.env.clock.now();
        self.state.lock().locks.authors.known(export.client(), known, now);
    }

    fn gone(&self, export: &Arc<Export>, why: Gone) {
        self.forget(export.client(), why);
    }
}

impl Mds {
    /// Serves a changing request that may come again over another connection.
    pub async fn serve_once(&self, export: &Arc<Export>, request: Request) -> Reply {
        let (client, xid) = (export.client(), request.xid);
        loop {
            let begin = self.replies.lock().begin(client, xid, request.xid_known);
            match begin {
                Begin::Run(slot) => {
                    let mut unfinished = Unfinished { mds: self, client, xid, armed: true };
                    let reply = self.serve(export, request).await;
                    unfinished.armed = false;
                    slot.send_replace(Some(reply.clone()));
                    return reply;
                }
                Begin::Again(mut slot) => {
                    if let Ok(reply) = slot.wait_for(Option::is_some).await
                        && let Some(reply) = reply.clone()
                    {
                        return Reply { last_committed: self.store.last_committed(), ..reply };
                    }
                    // The first one was dropped before its end, and takes its slot with it: now it is our turn.
                }
                Begin::Full => return self.refuse(&request, Errno::EBUSY),
            }
        }
    }

    fn refuse(&self, request: &Request, errno: Errno) -> Reply {
        let results = request.ops.iter().map(|_| Err(errno)).collect();
        Reply::new(request.xid, Transno(0), self.store.last_committed(), results)
    }

    /// Serves one request of a client.
    pub async fn serve(&self, export: &Arc<Export>, request: Request) -> Reply {
        let Request { xid, xid_known, credentials, ops, locks, .. } = request;
        let deal = Deal { xids: (xid, xid_known), ..Deal::new(export.client(), locks) };
        let mut call = Call { export, credentials: &credentials, transno: Transno(0), deal };
        let mut results = Vec::with_capacity(ops.len());
        let mut found = Found::new();
        let mut failed = false;
        for op in ops {
            let mut result = match op {
                _ if failed => Err(Errno::ECANCELED),
                Op::Mds(mut op) => match resolve(&mut op, &found) {
                    Ok(()) => self.run(&mut call, op).await.map(OpReply::Mds),
                    Err(errno) => Err(errno),
                },
                Op::Ping => Ok(OpReply::Done),
                Op::Mgs(_) | Op::Ost(_) | Op::Client(_) | Op::Connect(_) | Op::Disconnect => Err(Errno::EOPNOTSUPP),
            };
            if call.deal.written_elsewhere
                && let Ok(OpReply::Mds(reply)) = &mut result
            {
                // Apart, so that the future of the short road stays small.
                Box::pin(self.ask_writers(&mut call, reply)).await;
            }
            let fid = result.as_ref().map_or(Fid::NONE, result_fid);
            if let Ok(OpReply::Mds(MdsReply::Entry(_) | MdsReply::Opened { .. })) = &result {
                call.deal.untouch(fid);
            }
            found.push(fid);
            failed |= result.is_err();
            results.push(result);
        }
        if !call.deal.seen.is_empty() {
            let seen = std::mem::take(&mut call.deal.seen);
            Box::pin(self.call_authors_back(seen, call.deal.urgent)).await;
        }
        let Call { transno, deal: Deal { grants, touched, .. }, .. } = call;
        Reply { xid, transno, last_committed: self.store.last_committed(), results, grants, touched }
    }

    /// A client is gone: what it held is released.
    pub(crate) fn forget(&self, client: ClientUuid, why: Gone) {
        let left = self.release_all(client);
        self.flocks.lock().release_client(client);
        self.replies.lock().release_client(client);
        if why == Gone::Stopped {
            // The target goes, not the client: marks and orphans stay for the next start to see.
            return;
        }
        self.close_all(client);
        self.end_orphans(&left.orphans);
        if why == Gone::Evicted {
            // It may have stored data without telling how far.
            left.written.into_iter().for_each(|fid| self.unsettle(fid, Duration::ZERO));
        }
    }
}

/// A request that is dropped before its end leaves no slot.
struct Unfinished<'a> {
    mds: &'a Mds,
    client: ClientUuid,
    xid: Xid,
    armed: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.mds.replies.lock().forget(self.client, self.xid);
        }
    }
}

/// Must not the request run twice? Locks are taken and given up by owner: asking again does no harm.
fn changes(request: &Request) -> bool {
    request.ops.iter().any(|op| match op {
        Op::Mds(op) => match op {
            MdsOp::Setattr { .. }
            | MdsOp::Create { .. }
            | MdsOp::Open { .. }
            | MdsOp::Close { .. }
            | MdsOp::Unlink { .. }
            | MdsOp::Rmdir { .. }
            | MdsOp::Rename { .. }
            | MdsOp::Link { .. }
            | MdsOp::Setxattr { .. }
            | MdsOp::Removexattr { .. }
            | MdsOp::Wrote { .. }
            | MdsOp::Append { .. }
            | MdsOp::Mend { .. } => true,
            MdsOp::Lookup { .. }
            | MdsOp::GetParent { .. }
            | MdsOp::Getattr { .. }
            | MdsOp::GetattrMany { .. }
            | MdsOp::Readdir { .. }
            | MdsOp::Readlink { .. }
            | MdsOp::Getxattr { .. }
            | MdsOp::Listxattr { .. }
            | MdsOp::GetLayout { .. }
            | MdsOp::Statfs
            | MdsOp::Sync
            | MdsOp::FlockTest { .. }
            | MdsOp::FlockSet { .. }
            | MdsOp::FlockCancel { .. }
            | MdsOp::Lock { .. }
            | MdsOp::Unlock { .. }
            | MdsOp::Scan { .. } => false,
        },
        Op::Mgs(_) | Op::Ost(_) | Op::Client(_) | Op::Connect(_) | Op::Disconnect | Op::Ping => false,
    })
}

/// The inode that an operation found or made.
fn result_fid(reply: &OpReply) -> Fid {
    match reply {
        OpReply::Mds(MdsReply::Entry(entry) | MdsReply::Opened { entry, .. }) => entry.attr.fid,
        OpReply::Mds(MdsReply::Removed(removed)) => removed.fid,
        _ => Fid::NONE,
    }
}

/// Replaces references to results of earlier operations by what they found.
///
/// # Errors
/// EINVAL: a reference to an operation that is not before this one, or found nothing.
fn resolve(op: &mut MdsOp, found: &[Fid]) -> Result<(), Errno> {
    let one = |fid: &mut Fid| -> Result<(), Errno> {
        if let Some(index) = fid.as_result_of() {
            let result = found.get(index as usize).copied().filter(|f| *f != Fid::NONE);
            *fid = result.ok_or(Errno::EINVAL)?;
        }
        Ok(())
    };
    match op {
        MdsOp::Lookup { parent: fid, .. }
        | MdsOp::Create { parent: fid, .. }
        | MdsOp::Unlink { parent: fid, .. }
        | MdsOp::Rmdir { parent: fid, .. }
        | MdsOp::GetParent { fid }
        | MdsOp::Getattr { fid }
        | MdsOp::Setattr { fid, .. }
        | MdsOp::Open { fid, .. }
        | MdsOp::Close { fid, .. }
        | MdsOp::Readdir { fid, .. }
        | MdsOp::Readlink { fid }
        | MdsOp::Getxattr { fid, .. }
        | MdsOp::Listxattr { fid }
        | MdsOp::Setxattr { fid, .. }
        | MdsOp::Removexattr { fid, .. }
        | MdsOp::GetLayout { fid, .. }
        | MdsOp::Wrote { fid, .. }
        | MdsOp::Append { fid, .. }
        | MdsOp::FlockTest { fid, .. }
        | MdsOp::FlockSet { fid, .. }
        | MdsOp::FlockCancel { fid, .. }
        | MdsOp::Lock { fid, .. } => one(fid),
        MdsOp::Rename { parent: a, new_parent: b, .. } | MdsOp::Link { fid: a, new_parent: b, .. } => {
            one(a)?;
            one(b)
        }
        MdsOp::GetattrMany { fids } => fids.iter_mut().try_for_each(one),
        MdsOp::Statfs | MdsOp::Sync | MdsOp::Unlock { .. } | MdsOp::Scan { .. } | MdsOp::Mend { .. } => Ok(()),
    }
}
