//! Three hosts, one target, one store of keys: which of them owns the target, and what owners say.
//!
//! The real log, store and lease over the twin of etcd in memory. From one seed: requests and
//! answers of the log are lost, hosts are cut off, killed (some with their folder), stopped in the
//! middle of an answer; clocks drift. [`judge`] looks from outside (docs/ownership.md).

#![allow(missing_docs, reason = "a library for its own program and tests only")]

pub mod host;
pub mod judge;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod run;
