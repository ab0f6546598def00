//! The seeded twin of `env::real`: a whole cluster in one thread, repeated bit for bit from one
//! seed.
//!
//! A [`world::World`] has machines. A process runs on a machine and sees it through an ordinary
//! [`env::Env`]. Time is virtual: it goes on only when no task can run, so a minute of time-outs
//! costs nothing. The seed decides which ready task runs, how long a message takes, and what a disk
//! keeps after a power cut. A process can be killed at any instant; its machine's disk stays.
//!
//! [`machine`], [`volume`] and [`network`] are what outlives a process. `clock`, `tasks`, `net`,
//! `disk` and `random` are what a process sees of it, behind the traits of `env`.
//!
//! Rules for code that runs here: no thread of its own, no visible hash-map order, no
//! `tokio::select!` without `biased`, no clock but the environment's. The event hash of two runs
//! exposes code that breaks them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod clock;
mod core;
mod disk;
mod executor;
pub mod hash;
pub mod machine;
mod net;
pub mod network;
mod random;
pub mod rng;
mod tasks;
pub mod volume;
pub mod world;
