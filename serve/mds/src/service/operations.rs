//! The operations of a request: one after the other, and one reply.

use crate::acks::kept_replies::{Kept, Origin};
use crate::acks::{AckEvent, Pieces};
use crate::audit::Asked;
use crate::expected::Expected;
use crate::locks::When;
use crate::locks::context::{Durability, LockContext, LockOutcome};
use crate::mds::{Mds, RequestContext};
use crate::realm::Realm;
use crate::settings::ids;
use idmap::acting::{Acting, Denied};
use observe::fault::{self, Act};
use observe::mutant::{Mutant, is_mutant};
use rpc::service::{Export, Service};
use smallvec::SmallVec;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::nid::Nid;
use types::session::{ClientUuid, Transno, Xid};
use wire::class::Changes;
use wire::mds::{Create, CreateKind, MdsOp, MdsReply, Open, Tmpfile};
use wire::message::{Op, OpReply, Redo, Reply, Request};

/// How long an answer waits for the changes it shows to be seen, before it asks for a commit.
const SEEN_PAUSE: Duration = Duration::from_millis(1);

/// FIDs that the operations of a request have found so far.
type Found = SmallVec<[Fid; 8]>;

/// What the record of a client allows a request.
struct Footing {
    /// The transaction that records the client; the answer waits for it.
    recorded: Option<Transno>,
    /// What the request may lock.
    locks: InodeBits,
    /// The client keeps changes of others that its answers show.
    keeps: bool,
}

/// By what the operations of a request are let in.
struct Admission {
    acting: Option<Arc<Acting>>,
    /// An earlier life has done some of them.
    goes_on: bool,
    /// One of them lacks its ticket: none is done.
    lacks_ticket: bool,
    /// Places of results that are ACLs, where their ids are to be mapped.
    acls: SmallVec<[usize; 1]>,
}

impl Mds {
    /// Serves the rest of a request whose first operations, perhaps all, ran in an earlier life
    /// (`kept`). `connection`: the newest of its client when it came.
    pub(super) async fn serve_rest(
        &self,
        export: &Arc<Export>,
        request: &mut Request,
        connection: u64,
        kept: Option<Kept>,
    ) -> Reply {
        self.heard_again(export);
        let Footing { recorded, locks, keeps } = self.footing(export, request);
        let (client, xid) = (export.client(), request.xid);
        let lock_context = lock_context(export, request, locks);
        let restores = request.replay != Transno(0) && !self.window.is_open();
        let acting = self.acting(export);
        let Request { credentials, ops, .. } = request;
        let claimed = (credentials.uid, credentials.gid);
        let caller = caller(acting.as_deref(), credentials);
        let credentials = &*credentials;
        let Kept { transno, results: done } = kept.unwrap_or_default();
        let mut done = done.into_iter();
        let mut request = RequestContext {
            transno,
            results: Vec::with_capacity(ops.len()),
            restores,
            ..context(export, credentials, acting.as_deref(), caller, lock_context)
        };
        // Before the first of them is done, so that the client can send all of it again. What
        // follows on an earlier life's part is looked at in its turn.
        let goes_on = done.len() > 0;
        let lacks = |op: &Op| matches!(op, Op::Mds(op) if self.may_use(&request, op).is_err());
        let lacks_ticket = request.is_restricted && !goes_on && ops.iter().any(lacks);
        let mut admission = Admission { acting, goes_on, lacks_ticket, acls: SmallVec::new() };
        let mut found = Found::new();
        let mut failed = false;
        for op in ops {
            request.lock_context.outcome.refused.next_step();
            let by_name = matches!(op, Op::Mds(MdsOp::Lookup(_)));
            // In boxes, what is rare: the future of the fast path stays small.
            let kept = done.next().map(Box::new);
            let asked = match &*op {
                // The life before has written down what it did.
                Op::Mds(op) if kept.is_none() => self.audited(&request, op, &admission, &found),
                _ => None,
            };
            let mut result = match (kept, op) {
                (Some(result), op) => Box::pin(self.open_again(&mut request, op, *result)).await,
                (None, _) if lacks_ticket => Err(Errno::ENOKEY),
                (None, _) if failed => Err(Errno::ECANCELED),
                (None, Op::Mds(op)) => {
                    match self.let_in(&mut request, op, &mut admission, &found) {
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
                self.audit_result(export, (claimed, credentials), *asked, &result, fid);
            }
            if let Ok(OpReply::Mds(MdsReply::Entry(_) | MdsReply::Opened { .. })) = &result {
                request.lock_context.outcome.untouch(fid);
            }
            found.push(fid);
            failed |= result.is_err();
            request.results.push(result);
        }
        let others = self.settle(&mut request, xid, keeps).await;
        // Whatever the answer shows is not younger.
        let transno = self.store.last_assigned().max(request.transno);
        if let Some(recorded) = recorded
            && self.store.last_committed() < recorded
            && let Err(error) = Box::pin(self.store.commit()).await
        {
            tracing::error!(client = %client.brief(), %error, "a session may be forgotten");
        }
        self.reply_to(request, (xid, connection, transno), others, &admission.acls)
    }

    /// Records the client of a request that needs it.
    fn footing(&self, export: &Arc<Export>, request: &Request) -> Footing {
        let over_network = export.nid() != Nid::Loopback;
        // Before any change: a durable change never comes without its client's record.
        let mut recorded =
            if over_network && leaves_something(request) { self.record(export) } else { None };
        // A request that only reads does not wait for the record: until it is durable, the client
        // gets no locks and keeps nothing, so a restarted MDT need not know it.
        let reads = request.ops.iter().all(|op| op.class().changes == Changes::Nothing);
        let unready = |recorded: &mut Transno| reads && self.store.last_committed() < *recorded;
        let is_ready = recorded.take_if(unready).is_none();
        Footing {
            recorded,
            locks: if is_ready { request.locks } else { InodeBits::NONE },
            keeps: over_network
                && is_ready
                && (recorded.is_some() || self.is_recorded(export.client())),
        }
    }

    /// What the audit is to have of an operation, if it is to have it.
    fn audited(
        &self,
        request: &RequestContext<'_>,
        op: &MdsOp,
        admission: &Admission,
        found: &[Fid],
    ) -> Option<Box<Asked>> {
        let is_audited = admission.acting.as_ref().is_some_and(|acting| acting.is_audited());
        // Of a request that is refused for a missing ticket only that counts.
        let counts = || !admission.lacks_ticket || self.may_use(request, op).is_err();
        (is_audited && counts()).then(|| Box::new(Asked::of(op, found)))
    }

    /// Lets an operation in: its ids become those of the file system, its references the inodes
    /// that they stand for.
    ///
    /// # Errors
    /// EACCES, ESTALE, EROFS, ENOKEY: its client or caller may not do it; EINVAL: see [`resolve`].
    fn let_in(
        &self,
        request: &mut RequestContext<'_>,
        op: &mut MdsOp,
        admission: &mut Admission,
        found: &[Fid],
    ) -> Result<(), Errno> {
        if request.is_denied && op.class().for_caller {
            return Err(Errno::EACCES);
        }
        if let Some(nodemap) = admission.acting.as_ref().and_then(|acting| acting.mapping()) {
            admission.acls.extend(ids::asks_for_acl(op).then_some(request.results.len()));
            ids::map_op(nodemap, op)?;
        }
        let by_reference = |(fid, _): (Fid, _)| fid.as_result_of().is_some();
        let is_new = admission.goes_on || op.bytes_used().is_some_and(by_reference);
        resolve(op, found)?;
        if request.is_restricted && is_new && self.may_use(request, op).is_err() {
            return Err(Errno::ENOKEY);
        }
        if request.realm != Realm::ALL && ids::is_outside(op) {
            return Err(Errno::EACCES);
        }
        self.unless_outside(request, op).map_err(|_| Errno::ESTALE)?;
        if request.is_read_only {
            self.unless_read_only(request.export, op, request.restores)
                .map_err(|_| Errno::EROFS)?;
        }
        Ok(())
    }

    /// Audits an operation. `who`: its caller, as its client says and as it acts.
    fn audit_result(
        &self,
        export: &Export,
        who: ((u32, u32), &Credentials),
        asked: Asked,
        result: &Result<OpReply, Errno>,
        fid: Fid,
    ) {
        if let Ok(OpReply::Mds(MdsReply::Tickets { tickets, .. })) = result {
            self.audit_tickets(export, who, &asked, tickets);
        }
        let done = result.as_ref().map(|_| fid).map_err(|errno| *errno);
        self.audit(export, who, asked, done);
    }

    /// Before an answer: what it shows cannot be lost, and authors of what it shows know that.
    /// Returns others' changes that the client must keep.
    async fn settle(&self, request: &mut RequestContext<'_>, xid: Xid, keeps: bool) -> Vec<Redo> {
        let client = request.client();
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
        others
    }

    /// The answer. `numbers`: of the request, of the connection that it came over, of the newest
    /// change; `acls`: see [`Admission`].
    fn reply_to(
        &self,
        request: RequestContext<'_>,
        numbers: (Xid, u64, Transno),
        others: Vec<Redo>,
        acls: &[usize],
    ) -> Reply {
        let (xid, connection, transno) = numbers;
        let (client, acting) = (request.client(), self.acting(request.export));
        let RequestContext {
            results, lock_context: LockContext { outcome, durability, .. }, ..
        } = request;
        let (mut results, LockOutcome { grants, gap, mut touched, .. }) = (results, outcome);
        // As it holds now: what was granted before it changed, the client was asked to give back.
        if let Some(nodemap) = acting.as_ref().and_then(|acting| acting.mapping()) {
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
        let last_committed = self.last_committed();
        Reply { xid, transno, last_committed, results, grants, touched, redo, gap }
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
}

/// A request before its first operation.
fn context<'a>(
    export: &'a Arc<Export>,
    credentials: &'a Credentials,
    acting: Option<&Acting>,
    (is_squashed, is_denied): (bool, bool),
    mut lock_context: LockContext,
) -> RequestContext<'a> {
    let realm = Realm::of(acting.and_then(|acting| acting.realm()));
    lock_context.asked.realm = realm;
    RequestContext {
        export,
        credentials,
        is_squashed,
        is_restricted: acting.is_some_and(Acting::is_restricted),
        is_denied,
        is_read_only: acting.is_some_and(Acting::is_read_only),
        realm,
        restores: false,
        transno: Transno(0),
        results: Vec::new(),
        expected: Expected::default(),
        names_are_held: false,
        lock_context,
        payment: None,
    }
}

/// The locks of a request, and what its session must know of it.
fn lock_context(export: &Export, request: &Request, locks: InodeBits) -> LockContext {
    let Request { xid, xid_known, slot, .. } = *request;
    let mut lock_context = LockContext::new(export.client(), locks);
    lock_context.asked.xids = (xid, xid_known);
    if export.nid() != Nid::Loopback {
        lock_context.durability.origin = Some(Origin { xid, slot });
    }
    lock_context
}

/// Gives a caller the ids as which it acts. True if it acts as another than its client says; and
/// if it is refused, whatever it asks of names and attributes.
fn caller(acting: Option<&Acting>, credentials: &mut Credentials) -> (bool, bool) {
    let rules = acting.filter(|_| !is_mutant(Mutant::CallerBelieved));
    match rules.map(|acting| acting.caller(credentials)) {
        None => (false, false),
        Some(Ok(is_squashed)) => (is_squashed, false),
        Some(Err(Denied)) => (true, true),
    }
}

/// True if this request may leave the client something that it must bring back to a restarted MDT,
/// or rely on something that others must not change before it was told: a change, an open file, a
/// lock.
fn leaves_something(request: &Request) -> bool {
    request.locks != InodeBits::NONE
        || request.ops.iter().any(|op| op.class().changes != Changes::Nothing)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the future that `f` makes.
    fn bytes<F>(
        _: impl FnOnce(&'static Mds, &'static Arc<Export>, &'static mut Request) -> F,
    ) -> usize {
        size_of::<F>()
    }

    /// Each request in flight has one, and it is moved into its box.
    #[test]
    fn the_future_of_a_request_stays_small() {
        let bytes = bytes(|mds, export, request| mds.serve_rest(export, request, 0, None));
        assert!(bytes <= 2560, "{bytes}");
    }
}
