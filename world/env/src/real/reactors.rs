//! Reactor threads, and whether the caller is on one.

use super::blocking::{BlockingPool, Threads};
use crate::BoxFuture;
use crate::tasks::Tasks;
use futures_util::FutureExt;
use parking_lot::Mutex;
use std::cell::Cell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{EnterGuard, Handle};
use tokio::sync::oneshot;

thread_local! {
    /// (identity of the set, index of the reactor) of a reactor thread. Two sets may live in one
    /// process (tests).
    static CURRENT: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

static NEXT_IDENTITY: AtomicUsize = AtomicUsize::new(1);

/// All reactors of an [`crate::Env`], with its blocking pool and its own threads.
pub struct Reactors {
    identity: usize,
    handles: Vec<Handle>,
    next: AtomicUsize,
    stopping: AtomicBool,
    running: Mutex<Vec<Running>>,
    blocking: BlockingPool,
    threads: Arc<Threads>,
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Reactors {
    pub(super) fn start(reactors: usize, blocking_threads: usize) -> io::Result<Arc<Reactors>> {
        let identity = NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed);
        let mut handles = Vec::with_capacity(reactors);
        let mut running = Vec::with_capacity(reactors);
        for index in 0..reactors {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            handles.push(runtime.handle().clone());
            let (stop, stopped) = oneshot::channel::<()>();
            let thread =
                std::thread::Builder::new().name(format!("reactor-{index}")).spawn(move || {
                    CURRENT.set(Some((identity, index)));
                    // Ends on request, or when the sender is gone because a later reactor could not
                    // start.
                    let _ = runtime.block_on(stopped);
                    // Tasks are dropped here, still on their own thread.
                    drop(runtime);
                })?;
            running.push(Running { stop, thread });
        }
        Ok(Arc::new(Reactors {
            identity,
            handles,
            next: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            running: Mutex::new(running),
            blocking: BlockingPool::new(blocking_threads),
            threads: Threads::new(),
        }))
    }

    /// Index of the reactor that the caller is on.
    fn current(&self) -> Option<usize> {
        CURRENT.get().filter(|(identity, _)| *identity == self.identity).map(|(_, index)| index)
    }

    fn turn(&self) -> &Handle {
        &self.handles[self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len()]
    }

    /// The reactor that the caller is on, else the next in turn.
    pub(super) fn here_or_next(&self) -> &Handle {
        self.current().map_or_else(|| self.turn(), |index| &self.handles[index])
    }

    /// Makes sure that tokio finds a reactor: nothing to do on a reactor, else enters one for the
    /// guard's life.
    pub(super) fn enter(&self) -> Option<EnterGuard<'_>> {
        if self.current().is_some() { None } else { Some(self.turn().enter()) }
    }

    /// True if the reactors are going away. Timers must not be touched any more.
    pub(super) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn spawn_on(handle: &Handle, name: &'static str, future: BoxFuture<'static, ()>) {
        // The handle of the task is not needed: its starter has its own way to end it, and the
        // runtime ends it at last.
        drop(handle.spawn(async move {
            if AssertUnwindSafe(future).catch_unwind().await.is_err() {
                tracing::error!(task = name, "task panicked");
            }
        }));
    }

    pub(super) fn stop(&self, threads_end_max: Duration) {
        self.stopping.store(true, Ordering::Release);
        let running = std::mem::take(&mut *self.running.lock());
        let here = std::thread::current().id();
        let mut threads = Vec::with_capacity(running.len());
        for Running { stop, thread } in running {
            // An error means that the thread ended already.
            let _ = stop.send(());
            threads.push(thread);
        }
        for thread in threads {
            // The last owner may be a task of a reactor: that thread cannot wait for itself.
            if thread.thread().id() != here && thread.join().is_err() {
                tracing::error!("a reactor thread panicked");
            }
        }
        self.blocking.stop();
        self.threads.stop(threads_end_max);
    }
}

impl Tasks for Reactors {
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        Self::spawn_on(self.here_or_next(), name, future);
    }

    fn spawn_apart(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        Self::spawn_on(self.turn(), name, future);
    }

    fn spawn_blocking(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) {
        self.blocking.submit(name, work);
    }

    fn spawn_thread(&self, name: &'static str, work: Box<dyn FnOnce() + Send>) {
        self.threads.start(name, work);
    }

    fn on_reactor(&self) -> bool {
        self.current().is_some()
    }
}
