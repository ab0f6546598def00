//! Settings in, a running node out: the one place that wires parts.
//!
//! A node is one process with any set of roles: MGS, MDTs, OSTs, mounts. [`settings`] say which, [`home`] says where
//! its files lie, [`node`] starts and stops the roles in order, [`lifecycle`] is the process around it, [`control`] is
//! how commands ask it. [`plan`] and [`format`] are what `up` does before there is a process.

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

/// Where daemons are found: whoever asks them needs only this.
pub use ask::{home, local};
