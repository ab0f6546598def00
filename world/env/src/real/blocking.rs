//! Threads that may block: a bounded pool for disk work, and single threads for long loops.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Work = (&'static str, Box<dyn FnOnce() + Send>);

/// A pool with a bounded number of threads, started when work queues. Each caller that queues work
/// is bounded itself (requests per link, frozen groups), and so is the queue.
pub(super) struct BlockingPool {
    shared: Arc<Shared>,
    threads_max: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    work_came: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    idle: usize,
    started: usize,
    stopping: bool,
}

impl BlockingPool {
    pub(super) fn new(threads_max: usize) -> BlockingPool {
        let shared =
            Arc::new(Shared { state: Mutex::new(State::default()), work_came: Condvar::new() });
        BlockingPool { shared, threads_max, threads: Mutex::new(Vec::new()) }
    }

    pub(super) fn submit(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) {
        let index = {
            let mut state = self.shared.state.lock();
            if state.stopping {
                // Dropping the work drops the sender of its result: the caller sees the end.
                tracing::debug!(work = name, "not run: shutting down");
                return;
            }
            state.queue.push_back((name, work));
            if state.idle >= state.queue.len() || state.started >= self.threads_max {
                self.shared.work_came.notify_one();
                return;
            }
            state.started += 1;
            state.started
        };
        let shared = self.shared.clone();
        match std::thread::Builder::new()
            .name(format!("blocking-{index}"))
            .spawn(move || run(&shared))
        {
            Ok(thread) => self.threads.lock().push(thread),
            Err(error) => {
                let mut state = self.shared.state.lock();
                state.started -= 1;
                let alone = state.started == 0;
                tracing::error!(%error, "cannot start a thread for blocking work");
                if alone {
                    // No thread will ever take the queue: run it here rather than never.
                    let queue = std::mem::take(&mut state.queue);
                    drop(state);
                    queue.into_iter().for_each(run_one);
                }
            }
        }
    }

    /// Runs the queued work, then ends and joins the threads.
    pub(super) fn stop(&self) {
        self.shared.state.lock().stopping = true;
        self.shared.work_came.notify_all();
        let here = std::thread::current().id();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.thread().id() != here && thread.join().is_err() {
                tracing::error!("a blocking thread panicked");
            }
        }
    }
}

fn run(shared: &Shared) {
    loop {
        let work = {
            let mut state = shared.state.lock();
            loop {
                if let Some(work) = state.queue.pop_front() {
                    break work;
                }
                if state.stopping {
                    return;
                }
                state.idle += 1;
                shared.work_came.wait(&mut state);
                state.idle -= 1;
            }
        };
        run_one(work);
    }
}

fn run_one((name, work): Work) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!(work = name, "blocking work panicked");
    }
}

/// Threads for long loops. Their owners end them; here they are counted and joined.
pub(super) struct Threads {
    running: Mutex<Vec<(&'static str, JoinHandle<()>)>>,
    one_ended: Condvar,
}

impl Threads {
    pub(super) fn new() -> Arc<Threads> {
        Arc::new(Threads { running: Mutex::new(Vec::new()), one_ended: Condvar::new() })
    }

    pub(super) fn start(self: &Arc<Self>, name: &'static str, work: Box<dyn FnOnce() + Send>) {
        let threads = self.clone();
        let mut running = self.running.lock();
        running.retain(|(_, thread)| !thread.is_finished());
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            run_one((name, work));
            // Taking the lock orders this after the push below.
            drop(threads.running.lock());
            threads.one_ended.notify_all();
        });
        match started {
            Ok(thread) => running.push((name, thread)),
            // A store without its commit thread would take operations and never make them durable.
            Err(error) => panic!("cannot start thread {name}: {error}"),
        }
    }

    pub(super) fn stop(&self, end_max: Duration) {
        let deadline = Instant::now() + end_max;
        let here = std::thread::current().id();
        let mut running = self.running.lock();
        loop {
            running.retain(|(_, thread)| !thread.is_finished() && thread.thread().id() != here);
            if running.is_empty() {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let names: Vec<&str> = running.iter().map(|(name, _)| *name).collect();
                tracing::error!(threads = ?names, "threads did not end");
                return;
            }
            // A thread is "finished" a moment after it notified: look again soon.
            self.one_ended.wait_for(&mut running, left.min(Duration::from_millis(20)));
        }
    }
}
