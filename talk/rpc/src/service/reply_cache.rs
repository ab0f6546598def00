//! Replies to one client's changes, kept so that a request that is resent over a new connection is
//! answered again and not done again.
//!
//! In memory, for the life of a session. A reply is dropped once the client says (`xid_known`) that
//! it has seen it. Bound: [`KEPT_MAX`]; beyond it the oldest go first. A client has at most
//! WINDOW_MAX requests on its way, so only one that leaves an old request unanswered while
//! thousands of others pass comes near.

use lnet::payload::Payload;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::sync::oneshot;
use types::session::Xid;

/// Replies kept for one client.
const KEPT_MAX: usize = 16_384;

/// The cache of one export.
#[derive(Default)]
pub(crate) struct ReplyCache {
    by_xid: Mutex<BTreeMap<Xid, Kept>>,
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
}

impl ReplyCache {
    /// A request that changes something came.
    pub(crate) fn begin(&self, xid: Xid, known: Xid) -> Verdict {
        let mut by_xid = self.by_xid.lock();
        while let Some(first) =
            by_xid.first_entry().filter(|e| *e.key() < known && matches!(e.get(), Kept::Done(_)))
        {
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
        let before = self.by_xid.lock().insert(xid, Kept::Done(reply.clone()));
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
        let before = self.by_xid.lock().remove(&xid);
        if let Some(Kept::Running(waiting)) = before {
            for again in waiting {
                // An error: that connection is gone, too.
                let _ = again.send(refusal.clone());
            }
        }
    }

    /// Replies kept.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_xid.lock().len()
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
