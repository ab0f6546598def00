//! Requests of the owner: each has a number, one that changes the store a slot, and each is sent
//! again until it is answered, its time is up, or it is pointless.

use crate::error::RpcError;
use crate::import::remote::{Outcome, ask_of};
use crate::import::xids::{NO_SLOT, Ticket};
use crate::import::{Import, Session};
use crate::patience;
use crate::under_way::{self, Side};
use crate::weight;
use env::BoxFuture;
use std::pin::pin;
use std::time::Duration;
use types::credentials::Credentials;
use types::errno::Errno;
use types::job::JobId;
use types::lock::InodeBits;
use types::nid::Nid;
use types::session::{Transno, Xid};
use wire::class::Changes;
use wire::message::{Op, OpReply, Reply, Request};

/// Pause before a request that came too late is sent again.
const LATE_PAUSE: Duration = Duration::from_millis(100);

impl Import {
    /// Sends operations as one request and waits for the results, one per operation, in order.
    /// Takes no locks.
    ///
    /// # Errors
    /// Only if the request as a whole got no answer; results of single operations are inside.
    pub async fn call(
        &self,
        credentials: &Credentials,
        ops: Vec<Op>,
    ) -> Result<Vec<Result<OpReply, Errno>>, RpcError> {
        Ok(self.ask(credentials, ops, InodeBits::NONE).await?.results)
    }

    /// As [`Import::call`], with everything that comes with the results. `locks`: the bits that the
    /// caller keeps if they are granted; its callbacks answer for them.
    ///
    /// # Errors
    /// As [`Import::call`].
    pub async fn ask(
        &self,
        credentials: &Credentials,
        ops: Vec<Op>,
        locks: InodeBits,
    ) -> Result<Reply, RpcError> {
        let clock = &self.rpc.env().clock;
        let _waiting = self.asked.begin(self.rpc.callers());
        let started = self.stats.begin(&ops, JobId::NONE, clock.now());
        let answer = match self.live_session() {
            Some(Session::Local(local)) => {
                let count = ops.len();
                let ticket = self.xids.begin(false);
                let request = self.request(credentials, ops, locks, &ticket);
                self.learn(local.handle(request, clock).await, &[], count)
            }
            session => self.ask_anywhere(session, credentials, ops, locks).await,
        };
        match &answer {
            Ok(reply) => started.answered(clock.now(), reply),
            Err(RpcError::Timeout { .. }) => self.stats.timed_out(),
            Err(_) => {}
        }
        answer
    }

    /// The slow path: over the network, or to a session that must be made first. Goes on until the
    /// request is answered, the time is up, or it is pointless.
    ///
    /// Boxed here: the future of the fast path stays small, and the machine code of this one is
    /// made once, in this crate, and not again in each crate that sends a request.
    fn ask_anywhere<'a>(
        &'a self,
        session: Option<Session>,
        credentials: &'a Credentials,
        ops: Vec<Op>,
        locks: InodeBits,
    ) -> BoxFuture<'a, Result<Reply, RpcError>> {
        Box::pin(async move {
            let waits = weight::waits(&ops);
            let has_slot = !waits && weight::changes(&ops) == Changes::Store;
            let ticket = if has_slot { self.xids.begin_change() } else { self.xids.begin(waits) };
            let request = self.request(credentials, ops, locks, &ticket);
            let now = self.rpc.env().clock.now();
            let about = under_way::of(Side::Asked, self.client, &request, now);
            // By reference, because each of the two would move it, and it is large.
            let answer = pin!(self.until_answered(session, request, waits));
            patience::of_caller(self.rpc.note(about, answer)).await
        })
    }

    /// See [`Import::ask_anywhere`]. What comes before a session is in boxes: the future of a
    /// request over the network stays small.
    async fn until_answered(
        &self,
        mut session: Option<Session>,
        mut request: Request,
        waits: bool,
    ) -> Result<Reply, RpcError> {
        let clock = &self.rpc.env().clock;
        let count = request.ops.len();
        let timeout = self.rpc.timings().request_timeout;
        let ask = ask_of(&request.ops, timeout);
        let mut deadline = clock.now() + timeout;
        // Evictions when it was sent first.
        let mut sent_at: Option<u64> = None;
        let replayed = weight::is_replayed(&request.ops);
        let relies = weight::changes(&request.ops) != Changes::Nothing
            || waits
            || request.locks != InodeBits::NONE;
        loop {
            match session {
                None => {
                    if let Err(error) = Box::pin(self.connect_until(deadline)).await {
                        self.or_go_on(error, &mut deadline)?;
                    }
                }
                Some(Session::Local(local)) => {
                    return self.learn(Box::pin(local.handle(request, clock)).await, &[], count);
                }
                Some(Session::Remote(remote)) => {
                    let evictions = self.evictions();
                    let before = sent_at.replace(evictions).unwrap_or(evictions);
                    if before != evictions && !weight::survives_eviction(&request.ops) {
                        return Err(RpcError::Evicted { target: self.target });
                    }
                    if replayed && let Err(error) = self.room_to_keep(&remote, deadline).await {
                        self.or_go_on(error, &mut deadline)?;
                        session = self.live_session();
                        continue;
                    }
                    let newest = self.newest_kept(&request.ops);
                    let outcome = self.exchange(&remote, &request, ask, waits).await;
                    if relies && matches!(outcome, Outcome::Reply(_)) {
                        self.link.lock().machine.rely();
                    }
                    match outcome {
                        Outcome::Reply(reply) if newest != Transno(0) => {
                            self.drop_synced(&request.ops, &reply, newest);
                            return self.learn(reply, &request.ops, count);
                        }
                        Outcome::Reply(reply) => {
                            match self.keep_sent(&remote, &reply, &mut request.ops) {
                                true => return self.learn(reply, &request.ops, count),
                                false => request.resent = true,
                            }
                        }
                        // Nothing was done. Its next limit is that of the moment in which it is
                        // sent again.
                        Outcome::Failed(RpcError::Late { .. }) if self.is_awaited() => {
                            clock.sleep(LATE_PAUSE).await
                        }
                        Outcome::Failed(error) => {
                            self.or_go_on(error, &mut deadline)?;
                            request.resent = true;
                        }
                        Outcome::Lost => {
                            self.lost_remote(&remote);
                            request.resent = true;
                            if waits {
                                // It may have waited for hours: the time to reconnect counts from
                                // now.
                                deadline = clock.now() + timeout;
                            } else if clock.now() >= deadline {
                                let seconds = timeout.as_secs();
                                self.or_go_on(
                                    RpcError::Timeout { target: self.target, seconds },
                                    &mut deadline,
                                )?;
                            }
                        }
                    }
                }
            }
            session = self.live_session();
        }
    }

    /// One operation, one result.
    ///
    /// # Errors
    /// As [`Import::call`]; the operation's own failure is [`RpcError::Errno`].
    pub async fn one(&self, credentials: &Credentials, op: Op) -> Result<OpReply, RpcError> {
        let mut results = self.call(credentials, vec![op]).await?;
        match results.pop() {
            Some(result) => Ok(result?),
            None => Err(self.misfit(0, 1)),
        }
    }

    fn request(
        &self,
        credentials: &Credentials,
        ops: Vec<Op>,
        locks: InodeBits,
        ticket: &Ticket<'_>,
    ) -> Request {
        Request {
            target: self.target,
            xid: ticket.xid,
            xid_known: ticket.known,
            resent: false,
            replay: Transno(0),
            slot: ticket.slot,
            locks,
            credentials: credentials.clone(),
            job: observe::cause::job(),
            ops,
        }
    }

    /// A request that carries no user's operations.
    pub(crate) fn request_of(&self, xid: Xid, ops: Vec<Op>) -> Request {
        Request {
            target: self.target,
            xid,
            // Its own answer was not seen, though its number holds none back.
            xid_known: self.xids.known().min(xid),
            resent: false,
            replay: Transno(0),
            slot: NO_SLOT,
            locks: InodeBits::NONE,
            credentials: Credentials::root(),
            job: JobId::NONE,
            ops,
        }
    }

    /// Takes from a reply to these operations what concerns the session.
    pub(crate) fn learn(&self, reply: Reply, ops: &[Op], count: usize) -> Result<Reply, RpcError> {
        self.keep(&reply, ops);
        if reply.results.len() != count {
            return Err(self.misfit(reply.results.len(), count));
        }
        Ok(reply)
    }

    fn misfit(&self, found: usize, wanted: usize) -> RpcError {
        let nid = self.link.lock().nids.first().copied().unwrap_or(Nid::Loopback);
        RpcError::BadMessage { nid, reason: format!("{found} results for {wanted} operations") }
    }
}
