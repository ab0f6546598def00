//! The data path: bytes of files between programs, this mount's cache and the objects.
//!
//! [`path::DataPath`] stands on the sessions and the locks of a mount, and knows no operation of
//! the kernel. [`guard`] gets the lock under which data is worked with; [`read`] and [`write`] are
//! what read(2) and write(2) come to; [`transfer`] splits a range by the layout and asks all
//! objects at once; [`read_ahead`] fetches bytes before programs ask; [`writeback`] keeps what was
//! written until it is flushed; [`recorded`] keeps objects from running ahead of the MDT;
//! [`show_eof`] tells the kernel where files end.
//! [`kernel_view`] is what the kernel may believe, and for how long.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod accessed;
mod asking;
pub mod cache;
pub mod cut;
pub mod dom;
pub mod file;
pub mod finish;
mod guard;
pub mod handle;
pub mod kernel_view;
pub mod lock_namespace;
pub mod locks;
pub mod node;
mod note_access;
pub mod open;
pub mod open_prefetch;
pub mod parts;
pub mod path;
pub mod read;
pub mod read_ahead;
mod recorded;
mod recount;
mod show_eof;
mod transfer;
pub mod write;
pub mod writeback;
