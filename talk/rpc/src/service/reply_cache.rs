//! Replies to one client's changes, kept so that a request that is resent over a new connection is
//! answered again and not done again.
//!
//! In memory, for the life of a session. A reply is dropped once the client says (`xid_known`) that
//! it has seen it. From then on the request is not done, whenever it comes: a connection that the
//! client gave up may deliver much later what was on its way, for instance when a cable is plugged
//! in again, and other changes were made since.
//!
//! Bound: [`KEPT_MAX`]; beyond it the oldest go first. A client has at most WINDOW_MAX requests on
//! its way, so only one that leaves an old request unanswered while thousands of others pass comes
//! near.
//!
//! Locks of flock(2) and fcntl(2) may wait for ever, so a client says of none that it has seen its
//! reply. These replies are kept for [`LATE_MAX`], the newest [`WAITED_MAX`]: done again, such a
//! request would lock what its owner has unlocked since. One that still waits ends with its
//! connection, whatever other copies there are.

use env::clock::Monotonic;
use lnet::payload::Payload;
use observe::mutant::{Mutant, is_mutant};
use parking_lot::Mutex;
use std::collections::btree_map::OccupiedEntry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::oneshot;
use types::session::Xid;

/// Replies kept for one client.
const KEPT_MAX: usize = 16_384;
/// Replies to requests that may wait for ever, kept for one client.
const WAITED_MAX: usize = 4096;
/// Longest time for which a request stays under way on a connection that its client gave up: TCP
/// of the client gives up after 30 s, and that of a router after it.
const LATE_MAX: Duration = Duration::from_secs(120);

/// The cache of one export.
#[derive(Default)]
pub(crate) struct ReplyCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_xid: BTreeMap<Xid, Kept>,
    /// The client has seen the answers to all requests below this one.
    answered: Xid,
    /// Newest greeting of the client: its session was opened, or last renewed, with it.
    greeting: Xid,
    /// Requests that may wait for ever and were answered.
    waited: BTreeMap<Xid, Payload>,
    /// When they are forgotten, ascending.
    forgets: VecDeque<(Monotonic, Xid)>,
}

enum Kept {
    /// Under way; repetitions of the request wait here.
    Running(Vec<oneshot::Sender<Payload>>),
    Done(Payload),
}

/// What to do with a request.
pub(crate) enum Verdict {
    /// Do it, then call [`ReplyCache::done`].
    New,
    /// The request was done.
    Done(Payload),
    /// The request is under way: the reply comes here.
    Running(oneshot::Receiver<Payload>),
    /// Not to be done: the client has seen the answer, or gave the request up.
    Over,
}

impl ReplyCache {
    /// The client greeted the target; it has seen the answers to all requests below `known`, or
    /// gave them up.
    pub(crate) fn greeted(&self, greeting: Xid, known: Xid) {
        let state = &mut *self.state.lock();
        state.greeting = greeting.max(state.greeting);
        state.answered = known.max(state.answered);
    }

    /// True if the request was made before the client last greeted the target.
    pub(crate) fn is_before_greeting(&self, xid: Xid) -> bool {
        xid < self.state.lock().greeting
    }

    /// A request that changes something came.
    pub(crate) fn begin(&self, xid: Xid, known: Xid) -> Verdict {
        let State { by_xid, answered, .. } = &mut *self.state.lock();
        *answered = known.max(*answered);
        let is_seen = |entry: &OccupiedEntry<'_, Xid, Kept>| {
            entry.key() < answered && matches!(entry.get(), Kept::Done(_))
        };
        while let Some(first) = by_xid.first_entry().filter(is_seen) {
            first.remove();
        }
        match by_xid.get_mut(&xid) {
            Some(Kept::Done(reply)) => return Verdict::Done(reply.clone()),
            Some(Kept::Running(waiting)) => {
                let (send, receive) = oneshot::channel();
                waiting.push(send);
                return Verdict::Running(receive);
            }
            None => {}
        }
        if xid < *answered && !is_mutant(Mutant::LateCopyDone) {
            return Verdict::Over;
        }
        if by_xid.len() >= KEPT_MAX {
            let oldest =
                by_xid.iter().find(|(_, kept)| matches!(kept, Kept::Done(_))).map(|(xid, _)| *xid);
            oldest.map(|xid| by_xid.remove(&xid));
        }
        by_xid.insert(xid, Kept::Running(Vec::new()));
        Verdict::New
    }

    /// The request was done, this is the reply.
    pub(crate) fn done(&self, xid: Xid, reply: &Payload) {
        let before = self.state.lock().by_xid.insert(xid, Kept::Done(reply.clone()));
        if let Some(Kept::Running(waiting)) = before {
            for again in waiting {
                // An error: that connection is gone, too.
                let _ = again.send(reply.clone());
            }
        }
    }

    /// The request was refused before it began: this is the answer, also to its repetitions so far.
    /// The next one is a new request.
    pub(crate) fn not_begun(&self, xid: Xid, refusal: &Payload) {
        let before = self.state.lock().by_xid.remove(&xid);
        if let Some(Kept::Running(waiting)) = before {
            for again in waiting {
                // An error: that connection is gone, too.
                let _ = again.send(refusal.clone());
            }
        }
    }

    /// The answer to a request that may wait for ever, if it was answered not long ago.
    pub(crate) fn waited(&self, xid: Xid, now: Monotonic) -> Option<Payload> {
        let State { waited, forgets, .. } = &mut *self.state.lock();
        while let Some((until, over)) = forgets.front()
            && *until <= now
        {
            waited.remove(over);
            forgets.pop_front();
        }
        waited.get(&xid).cloned()
    }

    /// A request that may wait for ever was done, this is the reply.
    pub(crate) fn done_waiting(&self, xid: Xid, now: Monotonic, reply: &Payload) {
        let State { waited, forgets, .. } = &mut *self.state.lock();
        if waited.insert(xid, reply.clone()).is_some() {
            return;
        }
        forgets.push_back((now + LATE_MAX, xid));
        if forgets.len() > WAITED_MAX
            && let Some((_, oldest)) = forgets.pop_front()
        {
            waited.remove(&oldest);
        }
    }

    /// Replies kept.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.state.lock().by_xid.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn payload(text: &'static str) -> Payload {
        Payload { body: Bytes::from_static(text.as_bytes()), ..Payload::default() }
    }

    #[test]
    fn what_was_answered_and_seen_is_not_done_again_whenever_it_comes() {
        let cache = ReplyCache::default();
        assert!(matches!(cache.begin(Xid(7), Xid(7)), Verdict::New));
        cache.done(Xid(7), &payload("first"));
        // It saw that answer; a request below it was never sent, or given up.
        assert!(matches!(cache.begin(Xid(9), Xid(9)), Verdict::New));
        for late in [6, 7, 8] {
            assert!(matches!(cache.begin(Xid(late), Xid(6)), Verdict::Over), "{late}");
        }
        // What says less than others said before takes nothing back.
        assert!(matches!(cache.begin(Xid(10), Xid(6)), Verdict::New));
        assert!(matches!(cache.begin(Xid(8), Xid(8)), Verdict::Over));
        assert!(matches!(cache.begin(Xid(9), Xid(9)), Verdict::Running(_)));
    }

    #[test]
    fn a_session_has_what_its_client_waits_for_and_nothing_older() {
        let cache = ReplyCache::default();
        cache.greeted(Xid(100), Xid(98));
        assert!(cache.is_before_greeting(Xid(99)) && !cache.is_before_greeting(Xid(100)));
        assert!(matches!(cache.begin(Xid(97), Xid(97)), Verdict::Over));
        // It was begun before the greeting, and sent after it.
        assert!(matches!(cache.begin(Xid(98), Xid(98)), Verdict::New));
        // An old greeting takes nothing back.
        cache.greeted(Xid(50), Xid(50));
        assert!(cache.is_before_greeting(Xid(99)));
        assert!(matches!(cache.begin(Xid(97), Xid(97)), Verdict::Over));
    }

    #[test]
    fn locks_that_waited_are_answered_again_for_a_while() {
        let (cache, at) = (ReplyCache::default(), Monotonic::from_secs);
        assert!(cache.waited(Xid(7), at(1)).is_none());
        cache.done_waiting(Xid(7), at(1), &payload("lock"));
        assert_eq!(cache.waited(Xid(7), at(100)).unwrap().body, "lock");
        assert!(cache.waited(Xid(8), at(100)).is_none());
        assert!(cache.waited(Xid(7), at(1) + LATE_MAX).is_none());
        (0..2 * WAITED_MAX as u64).for_each(|n| cache.done_waiting(Xid(n), at(1), &payload("x")));
        let state = cache.state.lock();
        assert_eq!((state.waited.len(), state.forgets.len()), (WAITED_MAX, WAITED_MAX));
    }

    #[test]
    fn a_repetition_gets_the_first_reply() {
        let cache = ReplyCache::default();
        assert!(matches!(cache.begin(Xid(7), Xid(7)), Verdict::New));
        let Verdict::Running(mut later) = cache.begin(Xid(7), Xid(7)) else { panic!("under way") };
        assert!(later.try_recv().is_err());
        cache.done(Xid(7), &payload("first"));
        assert_eq!(later.try_recv().unwrap().body, "first");
        let Verdict::Done(again) = cache.begin(Xid(7), Xid(7)) else { panic!("done") };
        assert_eq!(again.body, "first");
    }

    #[test]
    fn what_was_not_begun_may_begin_later() {
        let cache = ReplyCache::default();
        assert!(matches!(cache.begin(Xid(7), Xid(7)), Verdict::New));
        let Verdict::Running(mut later) = cache.begin(Xid(7), Xid(7)) else { panic!("under way") };
        cache.not_begun(Xid(7), &payload("late"));
        assert_eq!(later.try_recv().unwrap().body, "late");
        assert!(matches!(cache.begin(Xid(7), Xid(7)), Verdict::New));
    }

    #[test]
    fn replies_that_were_seen_are_dropped() {
        let cache = ReplyCache::default();
        for n in 1..=100 {
            assert!(matches!(cache.begin(Xid(n), Xid(1)), Verdict::New));
            if n != 50 {
                cache.done(Xid(n), &payload("x"));
            }
        }
        assert!(matches!(cache.begin(Xid(101), Xid(90)), Verdict::New));
        assert_eq!(cache.len(), 101 - 49, "what runs stays, and holds back what is above");
        cache.done(Xid(50), &payload("x"));
        assert!(matches!(cache.begin(Xid(102), Xid(102)), Verdict::New));
        assert_eq!(cache.len(), 2, "101 and 102 are under way");
    }

    #[test]
    fn it_is_bounded() {
        let cache = ReplyCache::default();
        for n in 0..2 * KEPT_MAX as u64 {
            cache.begin(Xid(n), Xid(0));
            cache.done(Xid(n), &payload("x"));
        }
        assert_eq!(cache.len(), KEPT_MAX);
    }
}
