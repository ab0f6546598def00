//! The kernel's door: FUSE requests in, client calls out, errno back. No logic.
//!
//! `abi`, `decode`, `reply` and `directory` are the bytes; `device`, `mount` and `session` mount
//! and unmount. `dispatch` serves requests. Each FUSE thread reads one, calls the
//! [`filesystem::FileSystem`] and polls the answer once in place. It writes the answer, or hands it
//! to a reactor whose completion writes it. `notify` tells the kernel what to forget. `ops` is the
//! file system that calls the client. `null` holds everything in memory: it is the reference for
//! the cost of the transport itself.
//!
//! Nothing here touches its own mount: a request that waited for itself would hang uninterruptibly.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod abi;
pub mod buffer;
pub mod decode;
pub mod device;
pub mod directory;
pub mod dispatch;
pub mod filesystem;
pub mod init;
pub mod interrupt;
pub mod jobs;
pub mod limits;
pub mod mount;
pub mod notification;
pub mod notify;
pub mod notify_apart;
pub mod null;
pub mod ops;
pub mod process;
pub mod reply;
pub mod session;
pub mod stale;
