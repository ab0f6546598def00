//! Tasks and virtual time: one thread, one step at a time.
//!
//! A step polls one task of those that were woken, chosen by the seed. If none was, time jumps to
//! the next timer. Lock rule of this crate: each lock guards one structure, none is held while
//! another is taken, while a task is polled, while something foreign is dropped.

use crate::hash::{Event, EventHash};
use crate::machine::Process;
use crate::network::delivery::Delivery;
use crate::rng::Rng;
use env::BoxFuture;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

thread_local! {
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// True if the caller is a task (and not blocking work).
pub(crate) fn in_task() -> bool {
    IN_TASK.get()
}

/// What happens at a point in time.
pub(crate) enum Action {
    Wake(Waker),
    Deliver(Delivery),
    Work { name: &'static str, process: Arc<Process>, work: Box<dyn FnOnce() + Send> },
}

/// Tasks that were woken.
#[derive(Default)]
struct Ready {
    queue: Mutex<Vec<u64>>,
}

struct TaskWaker {
    id: u64,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.queue.lock().push(self.id);
        }
    }
}

struct Task {
    name: &'static str,
    process: Option<Arc<Process>>,
    /// `None` while it is polled.
    future: Option<BoxFuture<'static, ()>>,
    waker: Arc<TaskWaker>,
}

struct State {
    now: Duration,
    next: u64,
    tasks: BTreeMap<u64, Task>,
    timers: BTreeMap<(Duration, u64), Action>,
    hash: EventHash,
    rng: Rng,
    failures: Vec<String>,
    /// Polls since time went on.
    polls: u64,
    trace: bool,
}

/// Tasks and time of a world.
pub(crate) struct Executor {
    state: Mutex<State>,
    ready: Arc<Ready>,
}

/// Result of a step.
pub(crate) enum Step {
    Done,
    Deliver(Delivery),
    /// No event is left: nothing will ever happen again.
    Idle,
}

/// So many polls at one instant are a loop that never waits.
const POLLS_AT_ONE_INSTANT_MAX: u64 = 5_000_000;

impl Executor {
    pub(crate) fn new(seed: u64, trace: bool) -> Executor {
        let state = State {
            now: Duration::ZERO,
            next: 1,
            tasks: BTreeMap::new(),
            timers: BTreeMap::new(),
            hash: EventHash::new(seed),
            rng: Rng::new(seed, "scheduler"),
            failures: Vec::new(),
            polls: 0,
            trace,
        };
        Executor { state: Mutex::new(state), ready: Arc::default() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.state.lock().now
    }

    pub(crate) fn hash(&self) -> EventHash {
        self.state.lock().hash
    }

    pub(crate) fn note(&self, event: Event, a: u64, b: u64) {
        let mut state = self.state.lock();
        state.hash.note(event, a, b);
        if state.trace {
            eprintln!("{:>14?} {event:?} {a:x} {b:x} -> {:016x}", state.now, state.hash.value());
        }
    }

    /// Something that must never happen did.
    pub(crate) fn fail(&self, what: String) {
        self.state.lock().failures.push(what);
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.state.lock().failures.is_empty()
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.state.lock().failures.clone()
    }

    pub(crate) fn spawn(
        &self,
        name: &'static str,
        process: Option<Arc<Process>>,
        future: BoxFuture<'static, ()>,
    ) {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let waker =
            Arc::new(TaskWaker { id, queued: AtomicBool::new(true), ready: self.ready.clone() });
        state.tasks.insert(id, Task { name, process, future: Some(future), waker });
        drop(state);
        self.ready.queue.lock().push(id);
    }

    /// Something will happen at a point in time, the present one at the earliest. Returns the key
    /// for `forget`.
    pub(crate) fn at(&self, when: Duration, action: Action) -> (Duration, u64) {
        let mut state = self.state.lock();
        let key = (when.max(state.now), state.next);
        state.next += 1;
        state.timers.insert(key, action);
        key
    }

    /// Another waker for a timer that is still set.
    pub(crate) fn rewake(&self, key: (Duration, u64), waker: Waker) {
        let before = self
            .state
            .lock()
            .timers
            .get_mut(&key)
            .map(|at| std::mem::replace(at, Action::Wake(waker)));
        drop(before);
    }

    pub(crate) fn forget(&self, key: (Duration, u64)) {
        let removed = self.state.lock().timers.remove(&key);
        drop(removed);
    }

    /// Drops all tasks and blocking work of a dead process, unpolled.
    pub(crate) fn bury(&self, process: &Arc<Process>) {
        let (mut futures, mut work) = (Vec::new(), Vec::new());
        {
            let mut state = self.state.lock();
            let owned =
                |task: &Task| task.process.as_ref().is_some_and(|p| Arc::ptr_eq(p, process));
            let ids: Vec<u64> =
                state.tasks.iter().filter(|(_, task)| owned(task)).map(|(id, _)| *id).collect();
            futures.extend(ids.into_iter().filter_map(|id| state.tasks.remove(&id)));
            let theirs = |action: &Action| matches!(action, Action::Work { process: p, .. } if Arc::ptr_eq(p, process));
            let keys: Vec<_> = state
                .timers
                .iter()
                .filter(|(_, action)| theirs(action))
                .map(|(key, _)| *key)
                .collect();
            work.extend(keys.into_iter().filter_map(|key| state.timers.remove(&key)));
        }
        drop((futures, work));
    }

    /// Drops everything: what is left of a world that ended.
    pub(crate) fn clear(&self) {
        let (tasks, timers) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.tasks), std::mem::take(&mut state.timers))
        };
        drop((tasks, timers));
    }

    /// Tasks that live: (name, how many). For reports of what is stuck.
    pub(crate) fn living(&self) -> BTreeMap<&'static str, usize> {
        let mut living = BTreeMap::new();
        for task in self.state.lock().tasks.values() {
            *living.entry(task.name).or_default() += 1;
        }
        living
    }

    /// Makes one step; time does not pass `limit`.
    pub(crate) fn step(&self, limit: Duration) -> Step {
        if let Some(id) = self.choose() {
            self.poll(id);
            return Step::Done;
        }
        let action = {
            let mut state = self.state.lock();
            match state.timers.first_key_value() {
                Some(((when, _), _)) if *when <= limit => {}
                Some(_) => {
                    state.now = state.now.max(limit);
                    return Step::Idle;
                }
                None => return Step::Idle,
            }
            let Some(((when, number), action)) = state.timers.pop_first() else {
                return Step::Idle;
            };
            if when > state.now {
                state.polls = 0;
            }
            state.now = when;
            state.hash.note(Event::Timer, when.as_nanos() as u64, number);
            action
        };
        match action {
            Action::Wake(waker) => waker.wake(),
            Action::Deliver(delivery) => return Step::Deliver(delivery),
            Action::Work { name, process, work } => {
                if process.is_alive() {
                    self.guarded(name, work);
                }
            }
        }
        Step::Done
    }

    fn choose(&self) -> Option<u64> {
        let count = self.ready.queue.lock().len();
        if count == 0 {
            return None;
        }
        let index = match count {
            1 => 0,
            count => self.state.lock().rng.below(count as u64) as usize,
        };
        Some(self.ready.queue.lock().swap_remove(index))
    }

    fn poll(&self, id: u64) {
        let (mut future, waker, name) = {
            let mut state = self.state.lock();
            // The task may have been dropped since it was woken.
            let Some(task) = state.tasks.get_mut(&id) else { return };
            let Some(future) = task.future.take() else { return };
            let (waker, name) = (task.waker.clone(), task.name);
            state.hash.note(Event::Poll, id, 0);
            state.polls += 1;
            if state.polls == POLLS_AT_ONE_INSTANT_MAX {
                state.failures.push(format!(
                    "tasks run without end at one instant; the last one is `{name}`"
                ));
            }
            if state.trace {
                eprintln!("{:>14?} poll {id:x} {name} -> {:016x}", state.now, state.hash.value());
            }
            (future, waker, name)
        };
        waker.queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(waker);
        let mut pending = true;
        let whole = self.guarded(name, || {
            IN_TASK.set(true);
            pending =
                future.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending();
        });
        IN_TASK.set(false);
        let finished = {
            let mut state = self.state.lock();
            match state.tasks.get_mut(&id) {
                Some(task) if pending && whole => {
                    task.future = Some(future);
                    return;
                }
                _ => (state.tasks.remove(&id), future),
            }
        };
        self.guarded(name, || drop(finished));
    }

    /// Runs something; a panic in it is a failure of the world, not of the thread.
    fn guarded(&self, name: &'static str, work: impl FnOnce()) -> bool {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        if let Err(panic) = &caught {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no text)");
            self.fail(format!("`{name}` panicked: {text}"));
        }
        caught.is_ok()
    }
}
