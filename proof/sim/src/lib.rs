//! The whole cluster in one thread from one seed, judged by oracles outside it.
//!
//! [`cluster`] puts the real servers and clients on simulated machines. [`program`]s work on a
//! small name space from several clients. [`run`] makes faults and asks the oracles: [`tree`] and
//! [`linear`] (an order that explains every answer), [`bytes_seen`] (every block of data),
//! [`locks_seen`], [`realms_seen`] (what a tenant sees is its own), leaks, liveness. A seed is
//! repeated with `cargo run --release -p sim -- --seed N`.

#![allow(missing_docs, reason = "a library for its own program and tests only")]

pub mod bytes_seen;
pub mod cluster;
pub mod contact;
pub mod directories;
pub mod fault_profile;
pub mod history;
pub mod linear;
pub mod locks_seen;
pub mod log;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod program;
pub mod realms_seen;
pub mod run;
pub mod thefts;
pub mod tree;
pub mod twin;
pub mod went;
pub mod workload;
