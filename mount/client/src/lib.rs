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

mod ahead;
pub mod caller;
pub mod client;
pub mod counters;
mod expected;
mod hooks;
pub mod inspect;
mod last_looks;
mod listing;
mod no_open;
mod not_known;
pub mod open;
mod ops;
mod pins;
mod removed;
mod reopen;
mod uncommitted;

/// Numbers by which the kernel names inodes.
pub mod node {
    pub use data::node::NodeId;
}

/// What the kernel's door gives to a mount, and holds of it.
pub mod kernel {
    pub use data::kernel_view::kernel_cache::KernelCache;
    pub use data::kernel_view::reply_barrier::Token;
    pub use data::locks::held_pages::HoldsPage;
}

/// Bounds and figures of read-ahead.
pub mod read_ahead {
    pub use data::read_ahead::ledger::{ReadAheadFigures, ReadAheadLimits};
}

pub use ahead::windows::StataheadFigures;
pub use data::writeback::flags::{WriteFlags, Written};
pub use ops::attributes::AccessMask;
pub use ops::directories::list::{Budget, DirItem};
pub use ops::files::page_cache::PageCache;
pub use ops::names::lookup::Looked;
pub use session::error;
