//! Decisions of recovery, without clock or I/O: event in, action out (`docs/recovery.md` tells the whole story).
//!
//! [`import`] is a client's side: where its session with one target stands, and which changes it keeps until they are
//! durable there. [`recovery`] is a restarted MDT's side: whom it waits for, in which order it does again what they
//! bring, when it opens for service, and who comes too late. [`merge`] is an OST's: the same for data, which it cannot
//! gather first.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod import;
pub mod merge;
pub mod recovery;
