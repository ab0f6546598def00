//! One OST as a service.
//!
//! A request's operations run in order, in place if the caller's thread may block. A reactor runs
//! only operations on warm objects with little data. From the first other operation on, the request
//! goes to a thread that may block.
//!
//! Every change gets a transno from the [`Ledger`](crate::ledger::Ledger) and is answered when it
//! is in the page cache. Clients on the network keep it until it is committed. A flush task,
//! started with the OST and ended by [`Ost::stop`] or when the OST is dropped, syncs everything
//! older than the flush interval, sooner if much was written. It then records how far changes are
//! durable. Clients bring back what a power cut took (`recovery`).

use crate::ledger::Author;
use crate::ost::Ost;
use crate::sums::Begun;
use env::BoxFuture;
use observe::mutant::{Mutant, is_mutant};
use rpc::service::{Export, Gone, Service};
use std::sync::Arc;
use store::object_store::BackEnd;
use target::room::Payment;
use types::errno::Errno;
use types::limits::OBJECTS_PER_LIST_MAX;
use types::nid::Nid;
use types::object_ticket::Signer;
use types::principal::Claim;
use types::session::{ClientUuid, ClusterId, Transno};
use types::target::TargetName;
use wire::message::{ConnectReply, ConnectRequest, Op, OpReply, Redo, Reply, Request, VERSION_MAX};
use wire::ost::{
    FenceClients, GrantSpace, ObjectDestroy, ObjectGetattr, ObjectList, ObjectPunch, ObjectRead,
    ObjectSeek, ObjectSync, ObjectWrite, OstOp, OstReply,
};

/// Data up to this many bytes is copied on a reactor if the object is warm: less than a hand-off to
/// another thread costs.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// A request half done.
struct Work {
    ops: std::vec::IntoIter<Op>,
    results: Vec<Result<OpReply, Errno>>,
    transno: Transno,
    /// For each operation, what clients keep of it; 0 = nothing.
    kept: Vec<Transno>,
    failed: bool,
    context: Context,
    /// The changes it makes, until it is done.
    _changing: Vec<Begun>,
}

impl Work {
    /// True if its client keeps any of it.
    fn keeps(&self) -> bool {
        self.context.author.keeps && self.kept.iter().any(|transno| *transno != Transno(0))
    }
}

/// State shared by the operations of a request.
struct Context {
    author: Author,
    payment: Payment,
    /// Before the answer, durable changes must be recorded.
    record: bool,
    /// Before it is answered, the store must commit.
    commit: bool,
}

/// True if it brings something back to a restarted OST.
fn is_of_recovery(request: &Request) -> bool {
    matches!(request.ops.first(), Some(Op::Replay(_) | Op::Replayed | Op::Restored))
}

impl Ost {
    fn apply(&self, op: &OstOp, work: &mut Context) -> Result<(OstReply, Transno), Errno> {
        let stopped = self.stopped.read();
        if *stopped {
            return Err(Errno::ESHUTDOWN);
        }
        if self.ledger.is_full() {
            self.sync_all()?;
            work.record = true;
        }
        let (author, payment) = (work.author, &mut work.payment);
        let unchanged = |reply| Ok((reply, Transno(0)));
        let changed = |(blocks_delta, transno)| (OstReply::Changed { blocks_delta }, transno);
        match op {
            OstOp::Read(ObjectRead { object, offset, len }) => {
                unchanged(OstReply::Data(self.read(*object, *offset, *len)?))
            }
            OstOp::Write(ObjectWrite { object, offset, data, sync }) => {
                let written = self.write((author, payment), *object, *offset, data, *sync)?;
                if *sync {
                    work.commit |= self.sync_object(*object)?;
                }
                Ok(changed(written))
            }
            OstOp::Punch(ObjectPunch { object, start, end, kind }) => {
                self.punch((author, payment), *object, *start, *end, *kind).map(changed)
            }
            OstOp::Getattr(ObjectGetattr { object }) => {
                let (size, blocks) = self.getattr(*object)?;
                unchanged(OstReply::Attr { size, blocks })
            }
            OstOp::Seek(ObjectSeek { object, offset, hole }) => {
                unchanged(OstReply::Offset(self.seek(*object, *offset, *hole)?))
            }
            OstOp::Destroy(ObjectDestroy { objects }) => {
                let (transno, settled) = self.destroy(objects)?;
                work.commit |= settled;
                Ok((OstReply::Done, transno))
            }
            OstOp::Sync(ObjectSync { objects }) if objects.is_empty() => {
                work.record = true;
                self.sync_all().and_then(|()| unchanged(OstReply::Done))
            }
            OstOp::Sync(ObjectSync { objects }) => {
                for object in objects {
                    work.commit |= self.sync_object(*object)?;
                }
                unchanged(OstReply::Done)
            }
            OstOp::Statfs => unchanged(OstReply::Statfs(self.statfs()?)),
            OstOp::List(ObjectList { after, limit }) => {
                let limit = (*limit as usize).clamp(1, OBJECTS_PER_LIST_MAX);
                let objects = self.objects().list(*after, limit)?;
                unchanged(OstReply::Objects { more: objects.len() == limit, objects })
            }
            // Taken before: see `Ost::lets`.
            OstOp::Tickets(_) => unchanged(OstReply::Done),
            OstOp::Fence(fence) => {
                let (boot, clients) = (self.target().boot(), self.fence(fence));
                unchanged(OstReply::Fenced { boot, clients })
            }
            OstOp::Grant(GrantSpace { spend, back, want }) => {
                let (holder, asked) = ((self.name(), author.client), (*spend, *back, *want));
                let (more, paid) = self.room.grant(
                    payment,
                    self.env().clock.now(),
                    &self.look(),
                    holder,
                    asked,
                )?;
                unchanged(OstReply::Granted { more, paid })
            }
        }
    }

    /// Takes in which clients an MDT has evicted. When it returns, none of their changes is under
    /// way, and none will begin: each change looks at the list under the gate of its object, and
    /// all gates are passed after the list was changed.
    fn fence(&self, fence: &FenceClients) -> Vec<ClientUuid> {
        let clients = self.fences.take(fence);
        if !clients.is_empty() && fence.number != 0 {
            self.gates.pass();
            tracing::info!(target = %self.name(), mdt = ?fence.mdt, clients = clients.len(), "clients that an MDT has evicted are refused until they come back");
        }
        clients
    }

    /// True if nothing is done for this client now, but that it may bring back what it was
    /// answered.
    fn refuses(&self, client: ClientUuid, request: &Request) -> bool {
        !is_of_recovery(request) && self.fences.has(client) && !is_mutant(Mutant::FenceIgnored)
    }

    /// Takes the tickets that come with these operations; succeeds if the client may do them all.
    ///
    /// # Errors
    /// ENOKEY: it must show a ticket. EKEYREJECTED: what it shows is none.
    fn lets(&self, export: &Export, ops: &[Op], recovers: bool) -> Result<(), Errno> {
        if !self.tickets.are_asked_for() {
            return Ok(());
        }
        let now = u64::try_from(self.env().clock.wall().sec).unwrap_or(0);
        let signer = Signer::new(self.target().server_key(), self.name().fsname);
        self.tickets.admit(export, ops, signer, (now, recovers))
    }

    /// True if a reactor may run this itself.
    fn is_quick(&self, op: &OstOp) -> bool {
        !self.ledger.is_full()
            && match op {
                OstOp::Read(ObjectRead { object, len, .. }) => {
                    *len as usize <= INLINE_BYTES_MAX && self.gates.is_warm(*object)
                }
                OstOp::Write(ObjectWrite { object, data, sync, .. }) => {
                    !sync
                        && data.len() <= INLINE_BYTES_MAX
                        && self.gates.is_warm(*object)
                        // A unit that moves is read first.
                        && self.objects().back_end() == BackEnd::Files
                }
                OstOp::Getattr(ObjectGetattr { object }) => self.gates.is_warm(*object),
                OstOp::Statfs | OstOp::Grant(_) | OstOp::Tickets(_) => true,
                OstOp::Punch(_)
                | OstOp::Seek(_)
                | OstOp::Destroy(_)
                | OstOp::Sync(_)
                | OstOp::Fence(_)
                | OstOp::List(_) => false,
            }
    }

    /// Runs operations from the front; those that are left need a thread that may block.
    fn run(&self, work: &mut Work, may_block: bool) {
        while let Some(op) = work.ops.as_slice().first() {
            let result = match op {
                _ if work.failed => Err(Errno::ECANCELED),
                Op::Ost(op) if may_block || self.is_quick(op) => self.apply(op, &mut work.context),
                Op::Ost(_) => return,
                _ => Err(Errno::EPROTO),
            };
            let replayed = op.row().class.replayed;
            work.ops.next();
            work.failed |= result.is_err();
            let transno = result.as_ref().map_or(Transno(0), |(_, transno)| *transno);
            work.transno = work.transno.max(transno);
            work.kept.push(if replayed { transno } else { Transno(0) });
            work.results.push(result.map(|(reply, _)| OpReply::Ost(reply)));
        }
    }

    /// What a request needs beside its operations before it is answered.
    async fn before_answer(&self, export: &Export, work: &Work) -> Result<(), Errno> {
        if work.context.record {
            self.record(false).await?;
        } else if work.context.commit {
            self.target().store().commit().await?;
        }
        if work.keeps()
            && let Some(known) = self.know(export)
        {
            known.await?;
        }
        Ok(())
    }

    async fn serve(self: Arc<Self>, export: Arc<Export>, request: Request) -> Reply {
        let count = request.ops.len();
        let author = Author { client: export.client(), keeps: export.nid() != Nid::Loopback };
        let context =
            Context { author, payment: self.room.payment(), record: false, commit: false };
        let changing = match self.begin_changes(&request.ops).await {
            Ok(changing) => changing,
            Err(errno) => return self.refusal(request.xid, count, errno),
        };
        let mut work = Work {
            _changing: changing,
            ops: request.ops.into_iter(),
            results: Vec::with_capacity(count),
            transno: Transno(0),
            kept: Vec::with_capacity(count),
            failed: false,
            context,
        };
        self.run(&mut work, !self.env().tasks.on_reactor());
        if !work.ops.as_slice().is_empty() {
            let theirs = self.clone();
            let run = move || {
                theirs.run(&mut work, true);
                work
            };
            work = match self.blocking("ost request", run).await {
                Some(work) => work,
                // Only when the process shuts down; the request may or may not have been carried
                // out.
                None => return self.refusal(request.xid, count, Errno::ESHUTDOWN),
            };
        }
        if let Err(errno) = self.before_answer(&export, &work).await {
            return self.refusal(request.xid, count, errno);
        }
        if self.ledger.bytes() >= self.settings.flush_bytes {
            self.flush.notify_one();
        }
        let keeps = work.keeps();
        let mut reply = Reply::new(request.xid, work.transno, self.last_committed(), work.results);
        if keeps {
            let number = |transno| Redo::whole(transno, bytes::Bytes::new());
            reply.redo = work.kept.into_iter().map(number).collect();
        }
        reply
    }
}

impl Service for Ost {
    fn target(&self) -> TargetName {
        self.name()
    }

    fn cluster(&self) -> ClusterId {
        self.target().cluster()
    }

    fn last_committed(&self) -> Transno {
        self.ledger.last_committed()
    }

    fn claim_of(&self, client: ClientUuid) -> Option<Claim> {
        self.recorded_claim(client)
    }

    fn connect(&self, export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno> {
        if self.is_stopped() {
            return Err(Errno::ESHUTDOWN);
        }
        let standing = self.admit_session(export, hello)?;
        Ok(ConnectReply {
            version: hello.version_max.min(VERSION_MAX),
            cluster: self.target().cluster(),
            boot: self.target().boot(),
            session: 0,
            last_committed: self.last_committed(),
            standing,
            squash: types::credentials::SquashNews::silent(self.target().boot()),
        })
    }

    fn handle(self: Arc<Self>, export: Arc<Export>, request: Request) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            // Other clients wait for the door, but not for what an MDT says.
            let is_fence = matches!(request.ops[..], [Op::Ost(OstOp::Fence(_))]);
            let recovers = !self.window.is_open();
            let result = match &request.ops[..] {
                // Also before what the client brings back.
                shown @ [Op::Ost(OstOp::Tickets(_))] if recovers => {
                    let shown = self.lets(&export, shown, true);
                    let results = vec![shown.map(|()| OpReply::Ost(OstReply::Done))];
                    let committed = self.last_committed();
                    return Reply::new(request.xid, Transno(0), committed, results);
                }
                [Op::Replay(_), ops @ ..] if recovers => self.lets(&export, ops, true),
                _ => Ok(()),
            };
            if result.is_err() {
                let client = export.client();
                tracing::warn!(target = %self.name(), client = %client.brief(), "changes cannot be brought back without tickets");
                self.give_up(client);
                return self.refusal(request.xid, request.ops.len(), Errno::ENOTCONN);
            }
            if (is_of_recovery(&request) || !is_fence && !self.window.is_open())
                && let Some(reply) = self.at_the_door(&export, &request).await
            {
                return reply;
            }
            // A client in this process comes without limits; others may have waited at the door.
            if self.refuses(export.client(), &request) {
                return self.refusal(request.xid, request.ops.len(), Errno::ETIMEDOUT);
            }
            if let Err(errno) = self.lets(&export, &request.ops, false) {
                return self.refusal(request.xid, request.ops.len(), errno);
            }
            self.serve(export, request).await
        })
    }

    fn is_fenced(&self, export: &Export, request: &Request) -> bool {
        self.refuses(export.client(), request)
    }

    fn gone(&self, export: &Arc<Export>, why: Gone) {
        self.room.gone((self.name(), export.client()));
        self.tickets.gone(export.client());
        match why {
            Gone::Disconnected | Gone::Evicted => {
                self.forget_client(export.client(), why == Gone::Evicted)
            }
            // The target goes, not the client: the next life waits for it.
            Gone::Stopped => self.window.nudge(),
        }
        tracing::debug!(client = %export.client().brief(), ?why, "client gone");
    }
}
