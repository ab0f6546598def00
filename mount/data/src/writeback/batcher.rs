//! Small requests to one MDT that no program waits for, sent together: bytes of small files, and
//! closes (docs/dom.md).
//!
//! While a request is on its way, others wait for it, and go as one then. So a lone one goes at
//! once, many share requests, and nothing waits for time to pass. The members of one request have
//! one sender (credentials, job). If an operation fails, the MDT does none behind it: the members
//! behind are sent again.
//!
//! A member whose sender no longer waits is not sent, and a request of such members is given up, as
//! any that is dropped. Bounds: [`MEMBERS_MAX`] and [`BYTES_MAX`] in a request, [`REQUESTS_MAX`]
//! requests at once; what waits is bounded by dirty bytes and by closes under way.

use super::FLUSHES_MAX;
use env::Env;
use futures_util::future::join_all;
use observe::cause::follow_job;
use parking_lot::Mutex;
use rpc::error::RpcError;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stubs::mdc::Mdc;
use tokio::sync::oneshot;
use types::credentials::Credentials;
use types::errno::Errno;
use types::job::JobId;
use types::target::TargetIndex;
use wire::mds::{MdsOp, MdsReply};

/// Members of one request. An MDT keeps all answers of a request so far with each change.
const MEMBERS_MAX: usize = 8;
/// Bytes of files in one request, unless one member has more.
const BYTES_MAX: usize = 1 << 20;
/// Requests under way at the same time, if there are members enough for more than one: over a long
/// line, all files that are flushed at once.
const REQUESTS_MAX: usize = FLUSHES_MAX / MEMBERS_MAX;

/// Results of the operations of a member.
pub type Answered = Result<Vec<Result<MdsReply, Errno>>, RpcError>;

struct Member {
    by: (Credentials, JobId),
    ops: Vec<MdsOp>,
    answer: oneshot::Sender<Answered>,
}

impl Member {
    fn bytes(&self) -> usize {
        let bytes = |op: &MdsOp| match op {
            MdsOp::Store(store) => store.pieces.iter().map(|(_, data)| data.len()).sum::<usize>(),
            _ => 0,
        };
        self.ops.iter().map(bytes).sum()
    }
}

#[derive(Default)]
struct Queue {
    under_way: usize,
    waiting: VecDeque<Member>,
}

impl Queue {
    /// True if one more request begins with what waits.
    fn begins(&mut self) -> bool {
        let begins = match self.under_way {
            0 => !self.waiting.is_empty(),
            some => some < REQUESTS_MAX && self.waiting.len() >= MEMBERS_MAX,
        };
        self.under_way += usize::from(begins);
        begins
    }

    /// The members of the next request: the first one, and others of its sender. Without any, one
    /// request fewer is under way.
    fn next(&mut self) -> Vec<Member> {
        self.waiting.retain(|member| !member.answer.is_closed());
        let (mut members, mut left) = (Vec::<Member>::new(), VecDeque::new());
        let mut bytes = 0;
        for member in self.waiting.drain(..) {
            let first = members.first();
            let fits = first.is_none_or(|first| {
                first.by == member.by
                    && members.len() < MEMBERS_MAX
                    && bytes + member.bytes() <= BYTES_MAX
            });
            if fits {
                bytes += member.bytes();
                members.push(member);
            } else {
                left.push_back(member);
            }
        }
        self.waiting = left;
        self.under_way -= usize::from(members.is_empty());
        members
    }
}

/// See the module.
#[derive(Default)]
pub struct Batcher {
    queues: Mutex<BTreeMap<TargetIndex, Queue>>,
}

impl Batcher {
    /// Sends operations, with those of others if there are any. One result per operation; after one
    /// fails the rest answer ECANCELED.
    ///
    /// # Errors
    /// Only if the request as a whole got no answer.
    pub async fn ask(
        self: &Arc<Self>,
        env: &Env,
        mdc: &Mdc,
        by: (Credentials, JobId),
        ops: Vec<MdsOp>,
    ) -> Answered {
        if mdc.import().is_local() {
            let (credentials, job) = by;
            return follow_job(job, mdc.ask(&credentials, ops)).await;
        }
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut queues = self.queues.lock();
            let queue = queues.entry(mdc.import().target().index).or_default();
            queue.waiting.push_back(Member { by, ops, answer });
            queue.begins()
        };
        if begins {
            let (me, mdc) = (self.clone(), mdc.clone());
            env.tasks.spawn("send together", Box::pin(async move { me.carry(&mdc).await }));
        }
        // An error: the process ends.
        answered.await.unwrap_or(Err(RpcError::Shutdown))
    }

    async fn carry(&self, mdc: &Mdc) {
        let mdt = mdc.import().target().index;
        loop {
            let mut members = self.queues.lock().entry(mdt).or_default().next();
            let Some(first) = members.first() else { return };
            let (credentials, job) = first.by.clone();
            let ops = members.iter().flat_map(|member| member.ops.iter().cloned()).collect();
            let results = tokio::select! {
                biased;
                results = follow_job(job, mdc.ask(&credentials, ops)) => results,
                _ = join_all(members.iter_mut().map(|member| member.answer.closed())) => continue,
            };
            let again = deliver(members, results);
            let mut queues = self.queues.lock();
            let queue = queues.entry(mdt).or_default();
            again.into_iter().rev().for_each(|member| queue.waiting.push_front(member));
        }
    }
}

/// Gives each member its results; returns those that were not done because one before them failed.
fn deliver(members: Vec<Member>, results: Answered) -> Vec<Member> {
    let mut results = results.map(Vec::into_iter);
    let (mut again, mut failed) = (Vec::new(), false);
    for member in members {
        let answer: Answered = match &mut results {
            Ok(results) => Ok(results.by_ref().take(member.ops.len()).collect()),
            Err(error) => Err(error.clone()),
        };
        if failed {
            again.push(member);
            continue;
        }
        failed = answer.as_ref().is_ok_and(|results| results.iter().any(Result::is_err));
        // Its sender may be gone.
        let _ = member.answer.send(answer);
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use types::attr::WrittenAt;
    use types::fid::Fid;
    use wire::mds::{Getattr, Store};

    fn member(uid: u32, ops: usize) -> (Member, oneshot::Receiver<Answered>) {
        let (answer, answered) = oneshot::channel();
        let by = (Credentials { uid, ..Credentials::root() }, JobId::NONE);
        let ops = vec![MdsOp::Getattr(Getattr::of(Fid::ROOT)); ops];
        (Member { by, ops, answer }, answered)
    }

    impl Queue {
        /// A member waits, whose sender waits for it.
        fn gets(&mut self, uid: u32, bytes: usize) -> oneshot::Receiver<Answered> {
            let (mut member, answered) = member(uid, 1);
            let pieces = vec![(0, Bytes::from(vec![1; bytes]))];
            member.ops = vec![MdsOp::Store(Store { fid: Fid::ROOT, pieces, at: WrittenAt::Now })];
            self.waiting.push_back(member);
            answered
        }
    }

    #[test]
    fn a_lone_member_goes_at_once_and_many_go_together() {
        let mut queue = Queue::default();
        let mut senders = vec![queue.gets(0, 1)];
        assert!(queue.begins());
        assert_eq!(queue.next().len(), 1);
        senders.push(queue.gets(7, 1));
        for n in 2..MEMBERS_MAX {
            senders.push(queue.gets(0, 1));
            assert!(!queue.begins(), "{n} wait for the one that is on its way");
        }
        senders.push(queue.gets(0, 1));
        assert!(queue.begins(), "enough for a request of their own");
        assert_eq!((queue.next().len(), queue.under_way), (1, 2), "of one sender");
        assert_eq!(queue.next().len(), MEMBERS_MAX - 1, "those of the other one");
        assert!(queue.next().is_empty() && queue.next().is_empty());
        assert_eq!(queue.under_way, 0);
        senders.extend((0..MEMBERS_MAX + 1).map(|_| queue.gets(0, 1)));
        assert!(queue.begins());
        assert_eq!([queue.next().len(), queue.next().len()], [MEMBERS_MAX, 1]);
    }

    #[test]
    fn a_request_is_not_long_and_a_long_member_goes_alone() {
        let mut queue = Queue::default();
        let sizes = [BYTES_MAX / 2, BYTES_MAX / 2 + 1, BYTES_MAX + 1, BYTES_MAX / 2];
        let _senders: Vec<_> = sizes.into_iter().map(|bytes| queue.gets(0, bytes)).collect();
        assert!(queue.begins());
        let next: Vec<usize> = (0..4).map(|_| queue.next().len()).collect();
        assert_eq!(next, [2, 1, 1, 0], "the first and the last, the second, the long one");
    }

    #[test]
    fn what_nobody_waits_for_is_not_sent() {
        let mut queue = Queue::default();
        let senders: Vec<_> = (0..3).map(|_| queue.gets(0, 1)).collect();
        assert!(queue.begins());
        drop(senders);
        let _sender = queue.gets(0, 1);
        assert_eq!(queue.next().len(), 1);
    }

    #[test]
    fn what_stands_behind_a_failure_is_sent_again() {
        let (members, mut answers): (Vec<_>, Vec<_>) = (0..3).map(|_| member(0, 2)).unzip();
        let done = || Ok(MdsReply::Done);
        let canceled = || Err(Errno::ECANCELED);
        let results = vec![done(), done(), done(), Err(Errno::ESTALE), canceled(), canceled()];
        let again = deliver(members, Ok(results));
        assert_eq!(again.len(), 1);
        assert_eq!(answers[0].try_recv().unwrap(), Ok(vec![done(), done()]));
        assert_eq!(answers[1].try_recv().unwrap(), Ok(vec![done(), Err(Errno::ESTALE)]));
        assert!(answers[2].try_recv().is_err(), "it is still on its way");
        let again = deliver(again, Err(RpcError::Shutdown));
        assert!(again.is_empty());
        assert_eq!(answers[2].try_recv().unwrap(), Err(RpcError::Shutdown));
    }
}
