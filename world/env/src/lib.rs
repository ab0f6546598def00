//! Clock, randomness, tasks, network, disk: the only door to the outside.
//!
//! Everything below the commands reaches the world through an [`Env`]; `real` is the machine. Tests
//! put a faulty twin in the place of one door. No crate between here and `tools` calls
//! `Instant::now`, spawns a thread, or opens a file or socket; LMDB's files and `/dev/fuse` are the
//! two exceptions.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod boxed;
pub mod clock;
pub mod disk;
pub mod net;
pub mod random;
pub mod ration;
#[allow(clippy::disallowed_methods, reason = "the machine itself: what all other crates ask for")]
pub mod real;
pub mod tasks;
pub mod watch;

pub use boxed::BoxFuture;
use std::sync::Arc;

/// All interfaces to the world together; cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// Time.
    pub clock: Arc<dyn clock::Clock>,
    /// Randomness.
    pub random: Arc<dyn random::Random>,
    /// Tasks and threads.
    pub tasks: Arc<dyn tasks::Tasks>,
    /// Sockets.
    pub net: Arc<dyn net::Net>,
    /// Files.
    pub disk: Arc<dyn disk::Disk>,
}
