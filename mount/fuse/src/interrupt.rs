//! Requests that wait, and the signals that end their waiting.
//!
//! A request that was handed to a reactor is registered here by its `unique`, so FUSE_INTERRUPT
//! finds it. An INTERRUPT may overtake its request (another thread has read it and not yet
//! registered it). It is then remembered, and meets the request at its registration. Uniques are
//! never reused, so a remembered one that comes too late does no harm.
//!
//! Registering is also where back-pressure begins: a full table makes the FUSE thread wait.

use crate::abi::opcode::Opcode;
use crate::limits::{EARLY_INTERRUPTS_MAX, PENDING_LOCK_WAITS_MAX, PENDING_REQUESTS_MAX};
use env::clock::Monotonic;
use futures_util::task::AtomicWaker;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;
use std::time::Duration;

/// How a request is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Ends when a server answers.
    Request,
    /// Ends when another process lets go.
    Lock,
}

/// Description of a waiting request, for finding out why something hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Kind.
    pub opcode: Opcode,
    /// Node it works on.
    pub node: u64,
    /// Thread that asked; 0: none.
    pub thread: u32,
    /// Its number in this process ([`observe::cause`]).
    pub cause: u64,
    /// Time at which it was handed over, by the environment's clock.
    pub since: Monotonic,
}

/// Why a request should stop waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its caller got a signal.
    Signal,
    /// The mount is gone.
    Ended,
}

const RUNNING: u8 = 0;
const SIGNAL: u8 = 1;
const ENDED: u8 = 2;

/// All requests that wait.
#[derive(Debug)]
pub struct Waiting {
    state: Mutex<State>,
    changed: Condvar,
    requests_max: usize,
    lock_waits_max: usize,
}

#[derive(Debug, Default)]
struct State {
    by_unique: HashMap<u64, (Arc<Flag>, About)>,
    lock_waits: usize,
    early: VecDeque<u64>,
    ended: bool,
}

#[derive(Debug, Default)]
struct Flag {
    state: AtomicU8,
    waker: AtomicWaker,
}

impl Flag {
    fn raise(&self, to: u8) {
        self.state.fetch_max(to, Ordering::AcqRel);
        self.waker.wake();
    }
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting::new(PENDING_REQUESTS_MAX, PENDING_LOCK_WAITS_MAX)
    }
}

impl Waiting {
    /// An empty table with these bounds.
    pub fn new(requests_max: usize, lock_waits_max: usize) -> Waiting {
        Waiting { state: Mutex::default(), changed: Condvar::new(), requests_max, lock_waits_max }
    }

    /// Registers a request. Blocks while the table is full (so not on a reactor); `None`: too many
    /// wait for locks.
    pub fn register(self: &Arc<Self>, unique: u64, wait: Wait, about: About) -> Option<Ticket> {
        let mut state = self.state.lock();
        match wait {
            Wait::Lock if state.lock_waits >= self.lock_waits_max => return None,
            Wait::Lock => state.lock_waits += 1,
            Wait::Request => {
                while state.by_unique.len() - state.lock_waits >= self.requests_max && !state.ended
                {
                    self.changed.wait(&mut state);
                }
            }
        }
        let flag = Arc::new(Flag::default());
        if state.ended {
            flag.raise(ENDED);
        }
        if let Some(at) = state.early.iter().position(|early| *early == unique) {
            state.early.remove(at);
            flag.raise(SIGNAL);
        }
        state.by_unique.insert(unique, (flag.clone(), about));
        Some(Ticket { waiting: self.clone(), unique, wait, flag })
    }

    /// FUSE_INTERRUPT for `unique`.
    pub fn interrupt(&self, unique: u64) {
        let mut state = self.state.lock();
        match state.by_unique.get(&unique) {
            Some((flag, _)) => flag.raise(SIGNAL),
            None => {
                // Either answered meanwhile, or about to be registered.
                if state.early.len() >= EARLY_INTERRUPTS_MAX {
                    state.early.pop_front();
                }
                state.early.push_back(unique);
            }
        }
    }

    /// The mount is gone: all waiting requests end.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        state.by_unique.values().for_each(|(flag, _)| flag.raise(ENDED));
        self.changed.notify_all();
    }

    /// Waits until no request is left; false if some are after `timeout`.
    pub fn drained(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !state.by_unique.is_empty(), timeout);
        state.by_unique.is_empty()
    }

    /// All waiting requests, the longest wait first.
    pub fn list(&self) -> Vec<About> {
        let mut list: Vec<About> =
            self.state.lock().by_unique.values().map(|(_, about)| *about).collect();
        list.sort_by_key(|about| about.since);
        list
    }

    /// Number of waiting requests.
    pub fn count(&self) -> usize {
        self.state.lock().by_unique.len()
    }
}

/// A registered request; dropping it ends the registration.
#[derive(Debug)]
pub struct Ticket {
    waiting: Arc<Waiting>,
    unique: u64,
    wait: Wait,
    flag: Arc<Flag>,
}

impl Ticket {
    /// Ready when the request should stop waiting for a reason at least as strong as `than`.
    pub fn stopped(&self, than: Stop) -> impl Future<Output = Stop> + '_ {
        let least = if than == Stop::Signal { SIGNAL } else { ENDED };
        std::future::poll_fn(move |cx| {
            // Register first: a flag raised in between wakes this task.
            self.flag.waker.register(cx.waker());
            match self.flag.state.load(Ordering::Acquire) {
                state if state < least || state == RUNNING => Poll::Pending,
                ENDED => Poll::Ready(Stop::Ended),
                _ => Poll::Ready(Stop::Signal),
            }
        })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.waiting.state.lock();
        state.by_unique.remove(&self.unique);
        if self.wait == Wait::Lock {
            state.lock_waits -= 1;
        }
        self.waiting.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn about(since: u64) -> About {
        About {
            opcode: Opcode::Lookup,
            node: 1,
            thread: 2,
            cause: 3,
            since: Duration::from_secs(since),
        }
    }

    #[test]
    fn who_waits_longest_is_named_first() {
        let waiting = Arc::new(Waiting::default());
        let tickets =
            [6, 2, 4].map(|unique| waiting.register(unique, Wait::Request, about(unique)));
        let since: Vec<u64> = waiting.list().iter().map(|about| about.since.as_secs()).collect();
        assert_eq!(since, [2, 4, 6]);
        drop(tickets);
        assert!(waiting.list().is_empty());
    }

    #[test]
    fn a_signal_finds_its_request() {
        let waiting = Arc::new(Waiting::default());
        let ticket = waiting.register(2, Wait::Request, about(2)).unwrap();
        assert_eq!(ticket.stopped(Stop::Signal).now_or_never(), None);
        waiting.interrupt(2);
        assert_eq!(ticket.stopped(Stop::Signal).now_or_never(), Some(Stop::Signal));
        assert_eq!(ticket.stopped(Stop::Ended).now_or_never(), None);
    }

    #[test]
    fn a_signal_that_overtakes_its_request_meets_it() {
        let waiting = Arc::new(Waiting::default());
        waiting.interrupt(4);
        let other = waiting.register(2, Wait::Request, about(2)).unwrap();
        let ticket = waiting.register(4, Wait::Request, about(4)).unwrap();
        assert_eq!(other.stopped(Stop::Signal).now_or_never(), None);
        assert_eq!(ticket.stopped(Stop::Signal).now_or_never(), Some(Stop::Signal));
    }

    #[test]
    fn overtaking_signals_are_bounded() {
        let waiting = Arc::new(Waiting::default());
        (0..3 * EARLY_INTERRUPTS_MAX as u64).for_each(|unique| waiting.interrupt(unique * 2));
        assert_eq!(waiting.state.lock().early.len(), EARLY_INTERRUPTS_MAX);
    }

    #[test]
    fn a_full_table_makes_the_next_wait_but_not_lock_waits() {
        let waiting = Arc::new(Waiting::new(1, 1));
        let first = waiting.register(2, Wait::Request, about(2)).unwrap();
        let lock = waiting.register(4, Wait::Lock, about(4)).unwrap();
        assert!(waiting.register(6, Wait::Lock, about(6)).is_none());
        let (send, receive) = std::sync::mpsc::channel();
        let blocked = {
            let waiting = waiting.clone();
            std::thread::spawn(move || {
                let ticket = waiting.register(8, Wait::Request, about(8));
                send.send(()).unwrap();
                ticket
            })
        };
        assert!(receive.recv_timeout(Duration::from_millis(100)).is_err(), "must wait");
        drop(first);
        receive.recv_timeout(Duration::from_secs(10)).expect("room again");
        drop((blocked.join().unwrap(), lock));
        assert_eq!(waiting.count(), 0);
        assert!(waiting.drained(Duration::ZERO));
    }

    #[test]
    fn the_end_stops_everyone_now_and_later() {
        let waiting = Arc::new(Waiting::new(1, 1));
        let before = waiting.register(2, Wait::Request, about(2)).unwrap();
        waiting.end();
        assert_eq!(before.stopped(Stop::Signal).now_or_never(), Some(Stop::Ended));
        let after = waiting.register(4, Wait::Request, about(4)).unwrap();
        assert_eq!(after.stopped(Stop::Ended).now_or_never(), Some(Stop::Ended));
        assert!(!waiting.drained(Duration::from_millis(1)));
    }
}
