//! What is known of answers: which requests a client has the answers to, and what ends with that.
//!
//! One table by client and request number (xid). Of a request it holds
//!
//! - its reply, as long as the client may send the request again over another connection: it gets
//!   the same answer, and nothing changes twice ([`Begin`]);
//! - its changes that are not durable, as long as no client surely keeps them ([`volatile`]);
//! - its changes that the author's own mount may not show yet ([`unacked`]);
//! - the inodes that it opened in an earlier life of the MDT ([`unconfirmed`]);
//!
//! and of a client the replies that outlived a restart ([`kept_replies`]).
//!
//! A client says that it has all answers below a number with each request and with each ping
//! (`xid_known`). All of the above hears of it by the same event, [`AckEvent::Known`], and of the
//! end of a session by [`AckEvent::Gone`].
//!
//! Pure: events in, actions out; no clock, and no lock of its own. Owner: the MDT's state. Bounds:
//! `REQUESTS_IN_FLIGHT_MAX` replies per client, the changes that are not committed,
//! [`UNACKED_MAX`] unacked changes per client, the kept replies.

mod in_order;
pub(crate) mod kept_replies;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
pub(crate) mod unacked;
mod unconfirmed;
mod volatile;

use bytes::Bytes;
use env::watch;
use foldhash::HashMap;
use in_order::InOrder;
use kept_replies::KeptReply;
use namespace::view::{Change, Shown};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::fid::Fid;
use types::limits::REQUESTS_IN_FLIGHT_MAX;
use types::lock::InodeBits;
use types::session::{ClientUuid, Transno, Xid};
use unacked::{Unacked, UnackedChanges};
use unconfirmed::UnconfirmedOpens;
use volatile::VolatileChanges;
use wire::message::Reply;

pub(crate) use volatile::{Applied, Pieces};

/// Unacked changes of one client that are kept. Beyond it the oldest go: a client with this many
/// unanswered changes, or this many in so short a time, is long past the first of them.
const UNACKED_MAX: usize = 65_536;

/// What happened.
#[derive(Debug)]
pub(crate) enum AckEvent<'a> {
    /// A client connected over the network, or did so again.
    Connected {
        /// The client.
        client: ClientUuid,
    },
    /// A client has the answers to all its requests below `known`: its next request says so, or a
    /// ping.
    Known {
        /// The client.
        client: ClientUuid,
        /// The oldest request without an answer.
        known: Xid,
        /// Time of the monotonic clock.
        now: Duration,
    },
    /// A request is about to change this, and locks of its author cover some of it.
    Changes {
        /// The author.
        client: ClientUuid,
        /// The request.
        xid: Xid,
        /// All parts of the change.
        changes: &'a [Change<'a>],
    },
    /// A change was applied.
    Applied(Applied),
    /// The answer to a request was handed to a connection of its client.
    Answered {
        /// The client.
        client: ClientUuid,
        /// The request.
        xid: Xid,
        /// Number of the connection, as [`Acks::connection`] told it when the request came.
        connection: u64,
    },
    /// A request was dropped before its end: it may come again, and runs then.
    Dropped {
        /// The client.
        client: ClientUuid,
        /// The request.
        xid: Xid,
    },
    /// Everything up to this change is durable.
    Committed(Transno),
    /// An author was asked to drop these bits, and has.
    CalledBack {
        /// The author.
        client: ClientUuid,
        /// The newest unacked change of the moment at which it was asked.
        newest: u64,
        /// The bits.
        asked: &'a BTreeMap<Fid, InodeBits>,
    },
    /// A session ended.
    Gone {
        /// The client.
        client: ClientUuid,
        /// The target stops: the client may go on with the next life of the MDT, and believe open
        /// what it opened in the life before this one.
        returns: bool,
    },
}

/// What the caller must do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AckAction {
    /// Wake the answers that wait because of what they show: some of it may go out now.
    Wake,
    /// No client may believe this inode open any more because of an answer that was lost.
    Close(Fid),
    /// No author shows a name of this destroyed inode any more: the last locks on it are over.
    Release(Fid),
}

/// The reply of a request that came before; `None` as long as it runs.
pub(crate) type ReplySlot = watch::Receiver<Option<Reply>>;

/// What to do with a changing request of a client on the network.
pub(crate) enum Begin {
    /// It is new to this life: run it, and fill the slot.
    Run {
        /// Takes the reply.
        reply: watch::Sender<Option<Reply>>,
        /// The bytes of the reply so far, if an earlier life did the request, or its first part.
        kept: Option<Bytes>,
    },
    /// It came before: the answer is here, or will be. If the sender goes without an answer, it was
    /// never finished.
    Again(ReplySlot),
    /// The client has too many unanswered requests.
    Full,
}

/// What depends on whether a client has the answer to one request.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
struct Answer {
    /// A reply that is sent again if need be.
    reply: Option<ReplySlot>,
    /// Changes that are not durable, ascending.
    volatile: SmallVec<[Transno; 2]>,
    /// Changes that the author's mount may not show yet.
    unacked: SmallVec<[Unacked; 1]>,
    /// Inodes that an earlier life opened.
    opened: Vec<Fid>,
}

impl Answer {
    fn is_empty(&self) -> bool {
        self.reply.is_none()
            && self.volatile.is_empty()
            && self.unacked.is_empty()
            && self.opened.is_empty()
    }
}

/// What is known of one client.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
struct Client {
    /// Number of connections that it made over the network in this session.
    connection: u64,
    /// Requests that it may not have the answers to.
    answers: BTreeMap<Xid, Answer>,
    /// Number of them that hold a reply.
    replies: usize,
    /// Its changes that are not durable and that it may not have the answers to. Those of a client
    /// in this process stay until they are durable, because it ends with the MDT.
    volatile: InOrder<()>,
    /// Unacked changes that it has the answers to, and since when; oldest first.
    in_grace: VecDeque<(Duration, Unacked)>,
    /// Number of all its unacked changes.
    unacked: usize,
    /// Replies of an earlier life, by slot.
    kept: BTreeMap<u16, (Xid, Bytes)>,
}

impl Client {
    fn is_empty(&self) -> bool {
        let Client { connection, answers, replies: _, volatile, in_grace, unacked: _, kept } = self;
        *connection == 0
            && answers.is_empty()
            && volatile.is_empty()
            && in_grace.is_empty()
            && kept.is_empty()
    }

    /// Takes the oldest unacked change.
    fn oldest_unacked(&mut self) -> Option<Unacked> {
        if let Some((_, oldest)) = self.in_grace.pop_front() {
            return Some(oldest);
        }
        let (xid, answer) =
            self.answers.iter_mut().find(|(_, answer)| !answer.unacked.is_empty())?;
        let (xid, oldest) = (*xid, answer.unacked.remove(0));
        if answer.is_empty() {
            self.answers.remove(&xid);
        }
        Some(oldest)
    }
}

/// See the module.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Acks {
    /// Time that the kernel of a client takes to read an arrived reply.
    grace: Duration,
    clients: HashMap<ClientUuid, Client>,
    volatile: VolatileChanges,
    unacked: UnackedChanges,
    unconfirmed: UnconfirmedOpens,
}

impl Acks {
    /// Nothing is known. A client's kernel reads an arrived reply within `grace`.
    pub(crate) fn new(grace: Duration) -> Acks {
        Acks { grace, ..Acks::default() }
    }

    /// Something happened.
    pub(crate) fn apply(&mut self, event: AckEvent<'_>, actions: &mut Vec<AckAction>) {
        match event {
            AckEvent::Connected { client } => {
                self.volatile.watch();
                self.clients.entry(client).or_default().connection += 1;
            }
            AckEvent::Known { client, known, now } => self.known(client, known, now, actions),
            AckEvent::Changes { client, xid, changes } => self.changes(client, xid, changes),
            AckEvent::Applied(applied) => self.applied(applied),
            AckEvent::Answered { client, xid, connection } => {
                self.answered(client, xid, connection, actions)
            }
            AckEvent::Dropped { client, xid } => self.dropped(client, xid),
            AckEvent::Committed(last) => self.committed(last),
            AckEvent::CalledBack { client, newest, asked } => {
                self.unacked.called_back(client, newest, asked)
            }
            AckEvent::Gone { client, returns } => self.gone(client, returns, actions),
        }
        actions.extend(self.unacked.take_over().map(AckAction::Release));
    }

    /// A changing request of a client on the network came.
    pub(crate) fn begin(&mut self, client: ClientUuid, xid: Xid, slot: u16) -> Begin {
        let of = self.clients.entry(client).or_default();
        let answer = of.answers.get(&xid);
        if let Some(reply) = answer.and_then(|answer| answer.reply.clone()) {
            return Begin::Again(reply);
        }
        if of.replies >= REQUESTS_IN_FLIGHT_MAX {
            return Begin::Full;
        }
        let (sender, receiver) = watch::channel(None);
        of.answers.entry(xid).or_default().reply = Some(receiver);
        of.replies += 1;
        // The slot is used again: whatever was kept there is over, or is of this very request.
        let kept = of.kept.remove(&slot).filter(|(of, _)| *of == xid).map(|(_, bytes)| bytes);
        Begin::Run { reply: sender, kept }
    }

    /// The change `transno` destroys an inode. Returns the clients that may still show a name of
    /// it. If there are any, [`AckAction::Release`] comes when none is left.
    pub(crate) fn destroyed(&mut self, transno: Transno, fid: Fid) -> SmallVec<[ClientUuid; 1]> {
        self.volatile.destroys(transno, fid);
        self.unacked.destroyed(fid)
    }

    /// The change `transno` makes this name lead to another inode, or to none.
    pub(crate) fn name_changed(&mut self, transno: Transno, dir: Fid, name: &[u8]) {
        self.volatile.names(transno, dir, name);
    }

    /// Replies of an earlier life are there.
    pub(crate) fn restore(&mut self, replies: Vec<KeptReply>) {
        for KeptReply { client, slot, xid, bytes, opened } in replies {
            let of = self.clients.entry(client).or_default();
            of.kept.insert(slot, (xid, bytes));
            if !opened.is_empty() {
                opened.iter().for_each(|fid| self.unconfirmed.add(*fid));
                of.answers.entry(xid).or_default().opened.extend(opened);
            }
        }
    }

    /// Number of a client's newest connection; 0: it made none over the network.
    pub(crate) fn connection(&self, client: ClientUuid) -> u64 {
        self.clients.get(&client).map_or(0, |of| of.connection)
    }

    /// The newest change of this client that is not durable and that it may not have the answer to;
    /// 0: there is none.
    pub(crate) fn newest_volatile(&self, client: ClientUuid) -> Transno {
        self.clients.get(&client).and_then(|of| of.volatile.last()).unwrap_or_default()
    }

    /// Changes that are not durable.
    pub(crate) fn volatile(&self) -> &VolatileChanges {
        &self.volatile
    }

    /// Changes that their authors' mounts may not show yet.
    pub(crate) fn unacked(&self) -> &UnackedChanges {
        &self.unacked
    }

    /// True if a client may believe that it has the inode open, because of an answer that was lost.
    pub(crate) fn may_be_open(&self, fid: Fid) -> bool {
        self.unconfirmed.contains(fid)
    }

    fn known(
        &mut self,
        client: ClientUuid,
        known: Xid,
        now: Duration,
        actions: &mut Vec<AckAction>,
    ) {
        let Some(of) = self.clients.get_mut(&client) else { return };
        // The record stays until the slot is used again; the next life reads it for nothing.
        of.kept.retain(|_, (xid, _)| *xid >= known);
        let mut wake = false;
        while let Some(first) = of.answers.first_entry().filter(|first| *first.key() < known) {
            let Answer { reply, volatile, unacked, opened } = first.remove();
            of.replies -= usize::from(reply.is_some());
            wake |= !volatile.is_empty();
            for transno in volatile {
                of.volatile.remove(transno);
                self.volatile.known(transno);
            }
            of.in_grace.extend(unacked.into_iter().map(|change| (now, change)));
            let closed = opened.into_iter().filter(|fid| self.unconfirmed.remove(*fid));
            actions.extend(closed.map(AckAction::Close));
        }
        if wake {
            actions.push(AckAction::Wake);
        }
        while let Some((since, _)) = of.in_grace.front()
            && now.saturating_sub(*since) >= self.grace
            && let Some((_, over)) = of.in_grace.pop_front()
        {
            of.unacked -= 1;
            self.unacked.remove(&over);
        }
    }

    fn changes(&mut self, client: ClientUuid, xid: Xid, changes: &[Change<'_>]) {
        if changes.iter().all(|change| change.shown == Shown::All) {
            return;
        }
        let noted = self.unacked.note(client, changes);
        let of = self.clients.entry(client).or_default();
        of.answers.entry(xid).or_default().unacked.push(noted);
        of.unacked += 1;
        while of.unacked > UNACKED_MAX
            && let Some(oldest) = of.oldest_unacked()
        {
            of.unacked -= 1;
            self.unacked.remove(&oldest);
        }
    }

    fn applied(&mut self, mut applied: Applied) {
        let (transno, client, xid) = (applied.transno, applied.client, applied.xid);
        if !self.volatile.concerns_any(transno) {
            return;
        }
        let of = self.clients.entry(client).or_default();
        applied.rests_on.extend(of.volatile.last());
        of.volatile.insert(transno, ());
        if let Some(xid) = xid {
            of.answers.entry(xid).or_default().volatile.push(transno);
        }
        self.volatile.insert(applied);
    }

    fn answered(
        &mut self,
        client: ClientUuid,
        xid: Xid,
        connection: u64,
        actions: &mut Vec<AckAction>,
    ) {
        let Some(of) = self.clients.get(&client).filter(|of| of.connection == connection) else {
            return;
        };
        let Some(answer) = of.answers.get(&xid).filter(|answer| !answer.volatile.is_empty()) else {
            return;
        };
        answer.volatile.iter().for_each(|transno| self.volatile.sent(*transno));
        actions.push(AckAction::Wake);
    }

    fn dropped(&mut self, client: ClientUuid, xid: Xid) {
        let Some(of) = self.clients.get_mut(&client) else { return };
        let Some(answer) = of.answers.get_mut(&xid) else { return };
        of.replies -= usize::from(answer.reply.take().is_some());
        if answer.is_empty() {
            of.answers.remove(&xid);
        }
    }

    /// Answers that wait for this are not woken: they wait for the store itself.
    fn committed(&mut self, last: Transno) {
        while let Some((transno, client, xid)) = self.volatile.pop_committed(last) {
            let Some(of) = self.clients.get_mut(&client) else { continue };
            of.volatile.remove(transno);
            if let Some(xid) = xid
                && let Some(answer) = of.answers.get_mut(&xid)
            {
                answer.volatile.retain(|of| *of != transno);
                if answer.is_empty() {
                    of.answers.remove(&xid);
                }
            }
            if of.is_empty() {
                self.clients.remove(&client);
            }
        }
    }

    /// Changes that are not durable stay: other clients may have been told of them, and the client
    /// may come back in a new session, which sees them.
    fn gone(&mut self, client: ClientUuid, returns: bool, actions: &mut Vec<AckAction>) {
        let Some(of) = self.clients.get_mut(&client) else { return };
        (of.connection, of.replies, of.unacked) = (0, 0, 0);
        of.in_grace.drain(..).for_each(|(_, change)| self.unacked.remove(&change));
        if !returns {
            of.kept.clear();
        }
        of.answers.retain(|_, answer| {
            answer.reply = None;
            answer.unacked.drain(..).for_each(|change| self.unacked.remove(&change));
            if !returns {
                let closed = answer.opened.drain(..).filter(|fid| self.unconfirmed.remove(*fid));
                actions.extend(closed.map(AckAction::Close));
            }
            !answer.is_empty()
        });
        if of.is_empty() {
            self.clients.remove(&client);
        }
    }
}
