//! The MGS: the targets and their addresses, persistent parameters, and the clients that must hear
//! of a change.
//!
//! [`registry`] decides: pure state, event in, records to write out. [`mgs`] is the service around
//! it. It writes the records, waits until they are durable, and only then publishes the new
//! configuration and answers. Clients keep a `Config` request waiting, so a change reaches all of
//! them at once. One MGS serves many file systems.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod mgs;
mod owners;
pub mod registry;
pub mod reports;
mod scopes;
