//! The receive memory of a process: room that long requests take before they are read, and give
//! back when they are answered.
//!
//! Room is granted in the order of asking. An address has a share of its own: a request for more
//! waits without holding up other addresses. Holders never wait for another request's room, so each
//! gives its room back. Bound: one waiting request per connection.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

/// The memory of one process.
pub(crate) struct Budget {
    share: usize,
    state: Mutex<State>,
}

struct State {
    free: usize,
    held: BTreeMap<IpAddr, usize>,
    asked: VecDeque<Arc<Asked>>,
}

/// A request that waits for room.
struct Asked {
    owner: IpAddr,
    bytes: usize,
    granted: AtomicBool,
    waker: Mutex<Waker>,
}

/// Room for one request; given back when dropped.
pub struct Room {
    budget: Arc<Budget>,
    owner: IpAddr,
    bytes: usize,
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Room({} bytes)", self.bytes)
    }
}

/// A request for room; dropping it takes the request back.
pub(crate) struct Wait {
    budget: Arc<Budget>,
    asked: Arc<Asked>,
}

impl Budget {
    /// `max` bytes in all, `share` for one address.
    pub(crate) fn new(max: usize, share: usize) -> Arc<Budget> {
        let state = State { free: max, held: BTreeMap::new(), asked: VecDeque::new() };
        Arc::new(Budget { share, state: Mutex::new(state) })
    }

    /// Asks for room. A request for more than the share is cut to the share, so that it is granted
    /// some time.
    pub(crate) fn ask(self: &Arc<Self>, owner: IpAddr, bytes: usize) -> Wait {
        let asked = Arc::new(Asked {
            owner,
            bytes: bytes.min(self.share),
            granted: AtomicBool::new(false),
            waker: Mutex::new(Waker::noop().clone()),
        });
        let mut state = self.state.lock();
        state.asked.push_back(asked.clone());
        let woken = state.grant(self.share);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        Wait { budget: self.clone(), asked }
    }

    /// Bytes that are held.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.state.lock().held.values().sum()
    }

    fn give_back(&self, owner: IpAddr, bytes: usize) {
        let mut state = self.state.lock();
        state.free += bytes;
        if let Some(held) = state.held.get_mut(&owner) {
            *held -= bytes;
            if *held == 0 {
                state.held.remove(&owner);
            }
        }
        let woken = state.grant(self.share);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Grants what can be granted; returns the wakers of those requests.
    fn grant(&mut self, share: usize) -> Vec<Waker> {
        let mut woken = Vec::new();
        let State { free, held, asked } = self;
        let mut blocked = false;
        asked.retain(|wait| {
            let holds = held.get(&wait.owner).copied().unwrap_or_default();
            if blocked || holds + wait.bytes > share {
                return true;
            }
            if wait.bytes > *free {
                // Later requests wait too, or large ones would never have their turn.
                blocked = true;
                return true;
            }
            *free -= wait.bytes;
            held.insert(wait.owner, holds + wait.bytes);
            wait.granted.store(true, Ordering::Release);
            woken.push(wait.waker.lock().clone());
            false
        });
        woken
    }
}

impl Wait {
    /// The room, once it is granted. Not to be polled after that.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Room> {
        self.asked.waker.lock().clone_from(cx.waker());
        // After the waker was stored: a grant in between wakes it.
        if !self.asked.granted.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let (owner, bytes) = (self.asked.owner, self.asked.bytes);
        Poll::Ready(Room { budget: self.budget.clone(), owner, bytes })
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.budget.state.lock().asked.retain(|other| !Arc::ptr_eq(other, &self.asked));
        let granted = self.asked.granted.swap(false, Ordering::AcqRel);
        // Also if there is nothing to give back: others may have waited for this request.
        self.budget.give_back(self.asked.owner, if granted { self.asked.bytes } else { 0 });
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.give_back(self.owner, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(n: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, n).into()
    }

    fn poll(wait: &mut Wait) -> Option<Room> {
        match wait.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(room) => Some(room),
            Poll::Pending => None,
        }
    }

    #[test]
    fn room_is_bounded_and_comes_back() {
        let budget = Budget::new(100, 60);
        let first = poll(&mut budget.ask(address(1), 60)).expect("there is room");
        let mut second = budget.ask(address(2), 50);
        assert!(poll(&mut second).is_none());
        assert_eq!(budget.held(), 60);
        drop(first);
        let room = poll(&mut second).expect("it was given back");
        drop(second);
        assert_eq!(budget.held(), 50, "the question is over, the room is held");
        drop(room);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn an_address_beyond_its_share_holds_up_only_itself() {
        let budget = Budget::new(100, 60);
        let first = poll(&mut budget.ask(address(1), 50)).unwrap();
        let mut more = budget.ask(address(1), 20);
        assert!(poll(&mut more).is_none(), "beyond its share, though there is room");
        let _other = poll(&mut budget.ask(address(2), 50)).expect("another address has its share");
        drop(first);
        assert!(poll(&mut more).is_some());
    }

    #[test]
    fn large_ones_have_their_turn() {
        let budget = Budget::new(100, 100);
        let first = poll(&mut budget.ask(address(1), 80)).unwrap();
        let mut large = budget.ask(address(2), 90);
        let mut small = budget.ask(address(3), 10);
        assert!(poll(&mut large).is_none() && poll(&mut small).is_none(), "in the order of asking");
        drop(first);
        let large = poll(&mut large).expect("its turn");
        assert!(poll(&mut small).is_some(), "{large:?} leaves room");
    }

    #[test]
    fn a_question_that_is_taken_back_costs_nothing() {
        let budget = Budget::new(100, 100);
        let first = poll(&mut budget.ask(address(1), 80)).unwrap();
        let waits = budget.ask(address(2), 90);
        let granted = budget.ask(address(3), 10);
        drop(waits);
        assert_eq!(budget.held(), 90, "the one behind has its turn");
        drop(first);
        drop(granted);
        assert_eq!(budget.held(), 0);
        assert!(poll(&mut budget.ask(address(1), 1000)).is_some(), "as much as there is");
    }
}
