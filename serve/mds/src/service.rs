//! Requests: a vector of operations, one after the other, one reply.

use crate::acks::kept_replies::{Kept, Origin};
use crate::acks::{AckEvent, Begin, Pieces};
use crate::audit::Asked;
use crate::expected::Expected;
use crate::locks::When;
use crate::locks::context::{Durability, LockContext, LockOutcome};
use crate::mds::{Mds, RequestContext};
use crate::realm::Realm;
use crate::settings::ids;
use crate::state::State;
use env::BoxFuture;
use idmap::acting::{Acting, Denied};
use observe::fault::{self, Act};
use observe::mutant::{Mutant, is_mutant};
use rpc::service::{Export, Gone, Service};
use smallvec::SmallVec;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::nid::Nid;
use types::principal::Claim;
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use types::target::TargetName;
use wire::class::Changes;
use wire::mds::{Create, CreateKind, MdsOp, MdsReply, Open, Tmpfile};
use wire::message::{ConnectReply, ConnectRequest, Op, OpReply, Redo, Reply, Request, VERSION_MAX};

/// How long an answer waits for the changes it shows to be seen, before it asks for a commit.
const SEEN_PAUSE: Duration = Duration::from_millis(1);

/// FIDs that the operations of a request have found so far.
type Found = SmallVec<[Fid; 8]>;

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

    /// Serves the rest of a request whose first operations, perhaps all, ran in an earlier life
    /// (`kept`). `connection`: the newest of its client when it came.
    async fn serve_rest(
        &self,
        export: &Arc<Export>,
        request: &mut Request,
        connection: u64,
        kept: Option<Kept>,
    ) -> Reply {
        self.heard_again(export);
        let over_network = export.nid() != Nid::Loopback;
        // Before any change: a durable change never comes without its client's record.
        let mut recorded =
            if over_network && leaves_something(request) { self.record(export) } else { None };
        // A request that only reads does not wait for the record: until it is durable, the client
        // gets no locks and keeps nothing, so a restarted MDT need not know it.
        let reads = request.ops.iter().all(|op| op.class().changes == Changes::Nothing);
        let unready = |recorded: &mut Transno| reads && self.store.last_committed() < *recorded;
        let is_ready = recorded.take_if(unready).is_none();
        let Request { xid, xid_known, slot, locks, replay, .. } = *request;
        let Request { credentials, ops, .. } = request;
        let acting = self.acting(export);
        let claimed = (credentials.uid, credentials.gid);
        let rules = acting.as_ref().filter(|_| !is_mutant(Mutant::CallerBelieved));
        let (is_squashed, is_denied) = match rules.map(|a| a.caller(credentials)) {
            None => (false, false),
            Some(Ok(is_squashed)) => (is_squashed, false),
            Some(Err(Denied)) => (true, true),
        };
        let credentials = &*credentials;
        let says = |what: fn(&Acting) -> bool| acting.as_ref().is_some_and(|acting| what(acting));
        let realm = Realm::of(acting.as_ref().and_then(|acting| acting.realm()));
        let is_restricted = says(Acting::is_restricted);
        let (is_read_only, is_audited) = (says(Acting::is_read_only), says(Acting::is_audited));
        let restores = replay != Transno(0) && !self.window.is_open();
        let client = export.client();
        let locks = if is_ready { locks } else { InodeBits::NONE };
        let mut lock_context = LockContext::new(client, locks);
        lock_context.asked.xids = (xid, xid_known);
        lock_context.asked.realm = realm;
        let mut keeps = false;
        if over_network {
            lock_context.durability.origin = Some(Origin { xid, slot });
            keeps = is_ready && (recorded.is_some() || self.is_recorded(client));
        }
        let results = Vec::with_capacity(ops.len());
        let Kept { transno, results: done } = kept.unwrap_or_default();
        let mut request = RequestContext {
            export,
            credentials,
            is_squashed,
            is_restricted,
            is_denied,
            is_read_only,
            realm,
            restores,
            transno,
            results,
            expected: Expected::default(),
            names_are_held: false,
            lock_context,
            payment: None,
        };
        let mut found = Found::new();
        let mut failed = false;
        let mut done = done.into_iter();
        // Before the first of them is done, so that the client can send all of it again. What
        // follows on an earlier life's part is looked at in its turn.
        let goes_on = done.len() > 0;
        let lacks = |op: &Op| matches!(op, Op::Mds(op) if self.may_use(&request, op).is_err());
        let lacks_ticket = is_restricted && !goes_on && ops.iter().any(lacks);
        // Places of results that are ACLs, where their ids are to be mapped.
        let mut acls = SmallVec::<[usize; 1]>::new();
        for op in ops {
            request.lock_context.outcome.refused.next_step();
            let by_name = matches!(op, Op::Mds(MdsOp::Lookup(_)));
            // In boxes, what is rare: the future of the fast path stays small.
            let kept = done.next().map(Box::new);
            let asked = match &*op {
                // The life before has written down what it did. And of a request that is refused
                // for a missing ticket only that counts.
                Op::Mds(op)
                    if is_audited
                        && kept.is_none()
                        && (!lacks_ticket || self.may_use(&request, op).is_err()) =>
                {
                    Some(Box::new(Asked::of(op, &found)))
                }
                _ => None,
            };
            let mut result = match (kept, op) {
                (Some(result), op) => Box::pin(self.open_again(&mut request, op, *result)).await,
                (None, _) if lacks_ticket => Err(Errno::ENOKEY),
                (None, _) if failed => Err(Errno::ECANCELED),
                (None, Op::Mds(op)) if is_denied && ids::is_denied(op) => Err(Errno::EACCES),
                (None, Op::Mds(op)) => {
                    let mapped = match acting.as_ref().and_then(|acting| acting.mapping()) {
                        None => Ok(()),
                        Some(nodemap) => {
                            acls.extend(ids::asks_for_acl(op).then_some(request.results.len()));
                            ids::map_op(nodemap, op)
                        }
                    };
                    let by_reference = |(fid, _): (Fid, _)| fid.as_result_of().is_some();
                    let is_new = goes_on || op.bytes_used().is_some_and(by_reference);
                    match mapped.and_then(|()| resolve(op, &found)) {
                        Ok(())
                            if is_restricted && is_new && self.may_use(&request, op).is_err() =>
                        {
                            Err(Errno::ENOKEY)
                        }
                        Ok(()) if realm != Realm::ALL && ids::is_outside(op) => Err(Errno::EACCES),
                        Ok(()) if self.unless_outside(&mut request, op).is_err() => {
                            Err(Errno::ESTALE)
                        }
                        Ok(())
                            if is_read_only
                                && self.unless_read_only(export, op, restores).is_err() =>
                        {
                            Err(Errno::EROFS)
                        }
                        Ok(()) => self.run(&mut request, op).await.map(OpReply::Mds),
                        Err(errno) => Err(errno),
                    }
                }
                (None, Op::Ping) => Ok(OpReply::Done),
                (None, _) => Err(Errno::EOPNOTSUPP),
            };
            if !request.lock_context.outcome.written_elsewhere.is_empty()
                && let Ok(OpReply::Mds(reply)) = &mut result
                && let Err(errno) = Box::pin(self.ask_writers(&mut request, reply)).await
            {
                // Some other file may have the name by now.
                result = Err(if by_name { Errno::EAGAIN } else { errno });
            }
            let fid = result.as_ref().map_or(Fid::NONE, result_fid);
            if let Some(asked) = asked {
                let who = (claimed, credentials);
                if let Ok(OpReply::Mds(MdsReply::Tickets { tickets, .. })) = &result {
                    self.audit_tickets(export, who, &asked, tickets);
                }
                let done = result.as_ref().map(|_| fid).map_err(|errno| *errno);
                self.audit(export, who, *asked, done);
            }
            if let Ok(OpReply::Mds(MdsReply::Entry(_) | MdsReply::Opened { .. })) = &result {
                request.lock_context.outcome.untouch(fid);
            }
            found.push(fid);
            failed |= result.is_err();
            request.results.push(result);
        }
        let depends = request.lock_context.durability.depends.take();
        let others = match depends.is_empty() {
            true => Vec::new(),
            false => Box::pin(self.until_stable(&depends, (client, xid), keeps)).await,
        };
        if !request.lock_context.outcome.seen.is_empty() {
            let seen = std::mem::take(&mut request.lock_context.outcome.seen);
            Box::pin(self.call_authors_back(seen, request.lock_context.outcome.urgent)).await;
        }
        if fault::armed()
            && request.lock_context.durability.origin.is_some()
            && !request.lock_context.durability.redo.is_empty()
        {
            Box::pin(self.answer_late()).await;
        }
        // Whatever the answer shows is not younger.
        let transno = self.store.last_assigned().max(request.transno);
        if let Some(recorded) = recorded
            && self.store.last_committed() < recorded
            && let Err(error) = Box::pin(self.store.commit()).await
        {
            tracing::error!(client = %client.brief(), %error, "a session may be forgotten");
        }
        let RequestContext {
            results, lock_context: LockContext { outcome, durability, .. }, ..
        } = request;
        let (mut results, LockOutcome { grants, gap, mut touched, .. }) = (results, outcome);
        // As it holds now: what was granted before it changed, the client was asked to give back.
        if let Some(nodemap) = self.acting(export).as_ref().and_then(|acting| acting.mapping()) {
            ids::map_entries(nodemap, &mut touched);
            for (at, result) in results.iter_mut().enumerate() {
                if let Ok(OpReply::Mds(reply)) = result
                    && let Err(errno) = ids::map_reply(nodemap, reply, acls.contains(&at))
                {
                    *result = Err(errno);
                }
            }
        }
        let Durability { redo, origin, .. } = durability;
        if origin.is_some() && !redo.is_empty() {
            self.with_state(When::Later, |state| {
                state.acknowledge(AckEvent::Answered { client, xid, connection });
            });
        }
        if let Some(stats) = self.lock_stats.get() {
            if !others.is_empty() {
                stats.redo_of_others.add(others.len() as u64);
            }
            if gap.is_some() {
                stats.gaps_granted.increment();
            }
        }
        let others = others.into_iter().map(|redo| (redo, Pieces::new()));
        let kept = redo.into_iter().chain(others);
        let redo = kept.map(|(redo, data)| self.redo.seal(redo, &data)).collect();
        Reply {
            xid,
            transno,
            last_committed: self.last_committed(),
            results,
            grants,
            touched,
            redo,
            gap,
        }
    }

    /// An answer of an earlier life; a handle in it is of that life, too.
    async fn open_again(
        &self,
        request: &mut RequestContext<'_>,
        op: &Op,
        result: Result<OpReply, Errno>,
    ) -> Result<OpReply, Errno> {
        let flags = match op {
            Op::Mds(
                MdsOp::Create(Create { kind: CreateKind::Regular(Some(flags)), .. })
                | MdsOp::Tmpfile(Tmpfile { flags, .. })
                | MdsOp::Open(Open { flags, .. }),
            ) => *flags,
            _ => return result,
        };
        let Ok(OpReply::Mds(MdsReply::Opened { entry, created, layout, .. })) = result else {
            return result;
        };
        // Under its own origin the answer to this part would overwrite that to the whole.
        let open = |request: &mut RequestContext<'_>| {
            request.without_origin(|request| self.open(request, entry.attr.fid, flags))
        };
        match self.in_turn(request, open).await? {
            MdsReply::Opened { handle, .. } => {
                Ok(OpReply::Mds(MdsReply::Opened { entry, created, handle, layout }))
            }
            other => Ok(OpReply::Mds(other)),
        }
    }

    /// A fault point: a change is made, and its author waits for the answer.
    async fn answer_late(&self) {
        if let Some(Act::Delay(delay)) = fault::hit(&fault::MDS_BEFORE_ANSWER) {
            self.env.clock.sleep(delay).await;
        }
    }

    /// Other clients' changes that the client must keep, so that what the answer to this request
    /// shows cannot be lost: see `acks::volatile`. Waits if that is too much, or if the client
    /// keeps nothing (`keeps`).
    async fn until_stable(
        &self,
        depends: &[Transno],
        asks: (ClientUuid, Xid),
        keeps: bool,
    ) -> Vec<Redo> {
        if is_mutant(Mutant::TellsTooSoon) {
            return Vec::new();
        }
        let mut asked = false;
        loop {
            let mut seen = pin!(self.acknowledged.notified());
            seen.as_mut().enable();
            let others = self.with_state(When::Later, |state| {
                state.acknowledge(AckEvent::Committed(self.store.last_committed()));
                state.acks.volatile().to_keep(depends, asks)
            });
            if let Some(others) = others.filter(|others| keeps || others.is_empty()) {
                return others;
            }
            if !asked {
                // An own answer is usually on its way, and others that wait share the commit.
                asked = true;
                if let Some(stats) = self.lock_stats.get() {
                    stats.commits_awaited.increment();
                }
                tokio::select! {
                    biased;
                    () = seen => {}
                    () = self.env.clock.sleep(SEEN_PAUSE) => {}
                }
                continue;
            }
            tokio::select! {
                biased;
                () = seen => {}
                committed = self.store.commit() => if committed.is_err() {
                    // The MDT stops anyway; a change cannot become durable now.
                    return Vec::new();
                }
            }
        }
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

/// True if this request may leave the client something that it must bring back to a restarted MDT,
/// or rely on something that others must not change before it was told: a change, an open file, a
/// lock.
fn leaves_something(request: &Request) -> bool {
    request.locks != InodeBits::NONE
        || request.ops.iter().any(|op| op.class().changes != Changes::Nothing)
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

/// The inode that an operation found or made.
fn result_fid(reply: &OpReply) -> Fid {
    match reply {
        OpReply::Mds(
            MdsReply::Entry(entry) | MdsReply::Opened { entry, .. } | MdsReply::Data { entry, .. },
        ) => entry.attr.fid,
        OpReply::Mds(MdsReply::Remote { fid, .. } | MdsReply::Root { fid, .. }) => *fid,
        OpReply::Mds(MdsReply::Removed(removed)) => removed.fid,
        _ => Fid::NONE,
    }
}

/// Replaces references to results of earlier operations by those results.
///
/// # Errors
/// EINVAL: a reference to an operation that is not before this one, or that found nothing.
fn resolve(op: &mut MdsOp, found: &[Fid]) -> Result<(), Errno> {
    op.try_each_fid(|fid| {
        if let Some(index) = fid.as_result_of() {
            let result = found.get(index as usize).copied().filter(|f| *f != Fid::NONE);
            *fid = result.ok_or(Errno::EINVAL)?;
        }
        Ok(())
    })
}
