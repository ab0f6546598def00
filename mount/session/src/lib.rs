//! Sessions of one mount with its targets, which know no file.
//!
//! [`session::Session`] is the base of every operation of a mount: the targets of the
//! configuration, the MDT of an inode, the time for which that MDT surely keeps its grants, and
//! work that must not outlive it ([`epoch`]). Events of a session are told to the parts above
//! through [`hooks::Hooks`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod config;
pub mod epoch;
pub mod error;
pub mod fan_out;
pub mod hooks;
pub mod session;
pub mod space;
pub mod squash;
pub mod targets;
pub mod tickets;
pub mod validity;
