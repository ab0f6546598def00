//! The machine itself.
//!
//! A reactor is a thread with a tokio current_thread runtime: a task spawned on it stays on it, and
//! no work is stolen. Disk work and commit loops run on threads that may block. Clock and sockets
//! may also be polled outside the reactors; they then enter a reactor by its handle. A FUSE thread
//! does that: it polls a call once in place and hands it over if it must wait.
//!
//! Owner: the [`RealGuard`] that [`RealEnv::start`] returns; dropping it stops the reactors (their
//! tasks are dropped) and joins every thread that was started here.

pub mod blocking;
pub mod clock;
pub mod disk;
mod local;
pub mod net;
mod peer_owner;
pub mod random;
pub mod reactors;
mod tcp;
mod watched;

pub use peer_owner::owner_of;

use crate::Env;
use reactors::Reactors;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Numbers of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealConfig {
    /// Reactor threads, at least 1.
    pub reactors: usize,
    /// Threads for blocking work, at least 1; started when needed.
    pub blocking_threads: usize,
}

impl Default for RealConfig {
    /// A reactor per core; 16 blocking threads (enough to keep a disk queue full).
    fn default() -> RealConfig {
        RealConfig {
            reactors: std::thread::available_parallelism().map_or(1, usize::from),
            blocking_threads: 16,
        }
    }
}

/// Starts the real doors.
pub struct RealEnv;

impl RealEnv {
    /// Starts the reactors.
    ///
    /// # Errors
    /// Threads, epoll instances or entropy cannot be had.
    pub fn start(config: RealConfig) -> io::Result<(Env, RealGuard)> {
        let reactors = Reactors::start(config.reactors.max(1), config.blocking_threads.max(1))?;
        let env = Env {
            clock: Arc::new(clock::RealClock::new(reactors.clone())),
            random: Arc::new(random::RealRandom::new()?),
            tasks: reactors.clone(),
            net: Arc::new(net::RealNet::new(reactors.clone())),
            disk: Arc::new(disk::RealDisk),
        };
        Ok((env, RealGuard { reactors }))
    }
}

/// Keeps the reactors running; stops and joins them when dropped.
pub struct RealGuard {
    reactors: Arc<Reactors>,
}

impl RealGuard {
    /// Time that threads of [`crate::tasks::Tasks::spawn_thread`] may take to end. After it they
    /// are named in the log and left behind.
    pub const THREADS_END_MAX: Duration = Duration::from_secs(10);
}

impl Drop for RealGuard {
    fn drop(&mut self) {
        self.reactors.stop(Self::THREADS_END_MAX);
    }
}
