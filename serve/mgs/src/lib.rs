//! The MGS: which targets exist and where, persistent parameters, and who must hear of a change.
//!
//! [`registry`] decides: pure state, event in, records to write out. [`mgs`] is the service around it: it writes the
//! records, waits until they are durable, and only then publishes the new configuration and answers. Clients keep a
//! `Config` request waiting, so a change reaches everyone at once. One MGS serves many file systems.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod mgs;
pub mod registry;
pub mod reports;
