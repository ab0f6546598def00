//! Decisions of recovery, without clock or I/O: event in, action out (`docs/recovery.md` tells the
//! whole story).
//!
//! [`import`] is a client's side: the state of its session with one target, and the changes that it
//! keeps until they are durable there. [`recovery`] is a restarted MDT's side: which clients it
//! waits for, in which order it redoes their changes, when it opens for service, and which clients
//! come too late. [`merge`] is the same for an OST's data, which it cannot gather first. [`bundle`]
//! decides about operations over several MDTs.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod bundle;
pub mod import;
pub mod merge;
pub mod recovery;
