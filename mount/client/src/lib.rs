//! The file system client: POSIX operations over sessions with MDTs and OSTs. No FUSE in it.
//!
//! [`client::Client`] is one mount. Each operation is an `async fn` that owns its arguments. So its
//! future can be polled once in the caller's thread and, if it must wait, be handed to a reactor.
//! Kernel-facing numbers ([`node::NodeId`], [`open::FileHandle`], [`open::DirHandle`]) live in
//! tables here; inodes are FIDs everywhere else.
//!
//! Requests that locks cover are answered here, without a request (`locks`), and the kernel may
//! trust the answer until it is called back.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod accessed;
pub mod cache;
pub mod caller;
pub mod client;
pub mod counters;
mod data;
mod dom;
mod file;
mod finish;
mod hooks;
pub mod inspect;
mod listing;
pub mod locks;
pub mod node;
pub mod open;
mod open_prefetch;
pub mod ops;
mod pins;
mod recorded;
mod recount;
mod removed;
mod reopen;
mod uncommitted;
pub mod writeback;

pub use session::error;
