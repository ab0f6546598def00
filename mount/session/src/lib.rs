//! Sessions of one mount with its targets, which know no file.
//!
//! [`session::Session`] is what every operation of a mount stands on: the targets of the
//! configuration, which MDT has an inode, for how long that MDT surely keeps what it granted, and
//! work that must not outlive it ([`epoch`]). What happens to a session is told to the parts above
//! through [`hooks::Hooks`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod config;
pub mod epoch;
pub mod error;
pub mod fan_out;
pub mod hooks;
pub mod session;
pub mod space;
pub mod targets;
pub mod validity;
