//! Settings in, a running node out: the one place that wires parts.
//!
//! A node is one process with any set of roles: MGS, MDTs, OSTs, mounts. [`settings`] name the
//! roles, [`home`] the places of its files. [`node`] starts and stops the roles in order,
//! [`lifecycle`] is the process around it, and commands ask it over [`control`]. [`plan`] and
//! [`format`] are the work of `up` before there is a process.

pub mod admin;
pub mod alive;
pub mod announce;
pub mod client_file;
pub mod control;
pub mod descriptors;
pub mod devices;
pub mod error;
pub mod faults;
pub mod format;
pub mod http_settings;
pub mod kept;
pub mod lifecycle;
pub mod mount_options;
pub mod mount_point;
pub mod mount_source;
pub mod mount_table;
pub mod node;
pub mod object_targets;
pub mod params;
pub mod parts;
pub mod persistent;
pub mod plan;
pub mod recent;
pub mod registration;
pub mod report;
pub mod reporter;
pub mod rlimit;
pub mod role;
pub mod scrubs;
pub mod settings;
pub mod status;
pub mod units;
pub mod view;
mod waits;
pub mod web;

/// Addresses of daemons: programs that ask them need only this.
pub use ask::{home, local};
