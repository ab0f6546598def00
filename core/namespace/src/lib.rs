//! POSIX name space operations as functions over a [`view::View`].
//!
//! No I/O, no clock, no randomness: the time, the caller, a fresh FID and the version come in with
//! the call. Every function checks everything first and changes then. After an `Err` nothing is
//! changed, and changing cannot fail. An MDT runs these functions over its store; a client that
//! holds a directory exclusively may run the same code over its own memory. Behaviour is that of
//! ext4 on Linux; `docs/namespace.md` lists the rules.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod access;
pub mod accessed;
pub mod acl;
pub mod context;
pub mod create;
pub mod dom;
pub mod flags;
pub mod inode;
pub mod link;
pub mod lookup;
pub mod open;
pub mod project;
pub mod readdir;
pub mod rename;
pub mod rmdir;
pub mod setattr;
pub mod unlink;
pub mod view;
pub mod written;
pub mod xattr;
