//! Tasks.

use crate::BoxFuture;

/// Starts tasks. A task is named for what it does. Its starter must also have a way to end it.
pub trait Tasks: Send + Sync {
    /// Runs a future on a reactor: the current one if the caller is on one, else the next in turn.
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>);

    /// As [`Tasks::spawn`], but always on the next reactor in turn: this spreads long-lived tasks
    /// (connections).
    fn spawn_apart(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.spawn(name, future);
    }

    /// Runs something that blocks (disk I/O) on a thread that may block. Bounded pool; beyond it
    /// work queues.
    fn spawn_blocking(&self, name: &'static str, work: Box<dyn FnOnce() + Send>);

    /// Starts a thread for a long-lived blocking loop (a commit thread).
    fn spawn_thread(&self, name: &'static str, work: Box<dyn FnOnce() + Send>);

    /// True if the caller is on a reactor thread, which must not block. On other threads work that
    /// blocks may run in place.
    fn on_reactor(&self) -> bool;
}
