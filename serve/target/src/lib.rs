//! The common part of all targets: the folder, its superblock, its lock, its store and object
//! files.
//!
//! [`format::format`] makes a folder into a target; [`target::Target`] serves one. The boot number
//! grows durably before the first request, so that handles and FID sequences of an earlier life are
//! never handed out again.
//!
//! [`room`] shares out the free space of a volume, and promises parts of it to clients.
//! [`shown_tickets`] remembers what tickets let one client do.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod error;
pub mod format;
mod grants;
pub mod room;
pub mod shown_tickets;
pub mod superblock;
pub mod target;
pub mod tree;

pub use error::TargetError;
pub use format::{FormatSpec, format};
pub use target::{Target, TargetOptions};
