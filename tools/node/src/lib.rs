//! Settings in, a running node out: the one place that wires parts.
//!
//! A node is one process with any set of roles: MGS, MDTs, OSTs, mounts. [`config`] names the
//! roles, [`home`] the places of its files. [`node`] starts and stops the roles in order,
//! [`lifecycle`] is the process around it. Commands ask it over [`manage`], and [`watch`] is what
//! it shows of itself. [`config::plan`] and [`config::format`] are the work of `up` before there is
//! a process; [`host`] is what its host has and limits.

pub mod config;
pub mod error;
pub mod host;
pub mod lifecycle;
pub mod manage;
pub mod node;
pub mod role;
pub mod watch;

/// Addresses of daemons: programs that ask them need only this.
pub use ask::{home, local};
