//! fcntl, flock and group locks: `dlm::flock` decides, and this module carries its answers to the
//! waiting requests.

use crate::locks::groups::Groups;
use dlm::flock::{FlockAction, FlockTable, FlockTicket};
use env::clock::Monotonic;
use foldhash::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, FlockFlavor};
use types::session::ClientUuid;

type Answer = Result<(), Errno>;

/// All locks of an MDT, and the requests that wait for one.
#[derive(Default)]
pub struct Flocks {
    table: FlockTable,
    last_ticket: u64,
    waiting: HashMap<FlockTicket, Waiter>,
    actions: Vec<FlockAction>,
    groups: Arc<Groups>,
}

/// A waiting request.
struct Waiter {
    sender: oneshot::Sender<Answer>,
    wait: FlockWait,
}

/// A request for a file lock that waits.
#[derive(Clone, Debug)]
pub struct FlockWait {
    /// Cause of the request ([`observe::cause`]); 0: none.
    pub cause: u64,
    /// Since when.
    pub since: Monotonic,
    /// The file.
    pub fid: Fid,
    /// Client of the request.
    pub client: ClientUuid,
    /// For what.
    pub lock: Flock,
    /// Holders of the lock.
    pub holders: Vec<(ClientUuid, Flock)>,
}

/// Answer to a request for a lock.
pub enum Set {
    /// At once.
    Now(Answer),
    /// Sent when the lock is free, or the wait is given up.
    Later(oneshot::Receiver<Answer>),
}

impl Flocks {
    /// An empty table; `groups` is kept in step.
    pub(crate) fn new(groups: Arc<Groups>) -> Flocks {
        Flocks { groups, ..Flocks::default() }
    }

    /// A lock in the way, if any.
    pub fn test(&self, fid: Fid, client: ClientUuid, lock: &Flock) -> Option<Flock> {
        self.table.test(fid, client, lock)
    }

    /// Takes or releases.
    pub fn set(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        lock: &Flock,
        wait: bool,
        now: Monotonic,
    ) -> Set {
        self.last_ticket += 1;
        let ticket = FlockTicket(self.last_ticket);
        self.table.set(fid, (client, lock), wait, ticket, &mut self.actions);
        let answer = self.deliver(Some(ticket));
        if lock.flavor == FlockFlavor::Group {
            self.groups.set(fid, self.table.group_members(fid));
        }
        match answer {
            Some(answer) => Set::Now(answer),
            None => {
                let (sender, receiver) = oneshot::channel();
                let cause = observe::cause::current();
                let wait =
                    FlockWait { cause, since: now, fid, client, lock: *lock, holders: Vec::new() };
                self.waiting.insert(ticket, Waiter { sender, wait });
                Set::Later(receiver)
            }
        }
    }

    /// Number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Waiting requests, the longest wait first, at most `max`; each with at most `holders` of the
    /// lock.
    pub fn waits(&self, max: usize, holders: usize) -> Vec<FlockWait> {
        let mut waits: Vec<&FlockWait> = self.waiting.values().map(|waiter| &waiter.wait).collect();
        waits.sort_by_key(|wait| wait.since);
        waits.truncate(max);
        let with_holders = |wait: &FlockWait| FlockWait {
            holders: self.table.holders(wait.fid, wait.client, &wait.lock, holders),
            ..wait.clone()
        };
        waits.into_iter().map(with_holders).collect()
    }

    /// Gives up a waiting request.
    pub fn cancel(&mut self, fid: Fid, client: ClientUuid, lock: &Flock) {
        self.table.cancel(fid, client, lock, &mut self.actions);
        self.deliver(None);
    }

    /// The client is gone.
    pub fn release_client(&mut self, client: ClientUuid) {
        self.table.release_client(client, &mut self.actions);
        self.deliver(None);
        // A request for a group lock waits for the members of another group: there is no other file
        // to look at.
        self.groups
            .files()
            .into_iter()
            .for_each(|fid| self.groups.set(fid, self.table.group_members(fid)));
        self.groups.look_again();
    }

    /// Hands out answers; returns the one to `mine`.
    fn deliver(&mut self, mine: Option<FlockTicket>) -> Option<Answer> {
        let mut answer_to_mine = None;
        for action in self.actions.drain(..) {
            let (ticket, answer) = match action {
                FlockAction::Granted(ticket) => (ticket, Ok(())),
                FlockAction::Refused(ticket, errno) => (ticket, Err(errno)),
            };
            if Some(ticket) == mine {
                answer_to_mine = Some(answer);
            } else if let Some(Waiter { sender, .. }) = self.waiting.remove(&ticket) {
                // The receiver is gone: the request was dropped with its session, whose end
                // releases the lock.
                let _ = sender.send(answer);
            }
        }
        answer_to_mine
    }
}
