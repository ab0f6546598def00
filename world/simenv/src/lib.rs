//! The seeded twin of `env::real`: a whole cluster in one thread, repeated bit for bit from one seed.
//!
//! A [`world::World`] has machines; a process runs on a machine and sees it through an ordinary [`env::Env`]. Time is
//! virtual: it goes on only when nobody has anything to do, so a minute of time-outs costs nothing. Which of the tasks
//! that may run does run, how long a message takes, what a disk keeps after a power cut: all of it is drawn from the
//! seed. A process can be killed at any instant; what stays is its machine's disk.
//!
//! What must hold for code that runs here: no thread of its own, no hash map whose order anybody can see, no
//! `tokio::select!` without `biased`, no clock but the environment's. The event hash of two runs tells on offenders.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod clock;
pub mod disk;
mod executor;
pub mod hash;
pub mod net;
mod random;
pub mod rng;
mod tasks;
pub mod world;
