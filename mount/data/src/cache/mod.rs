//! The client's cache of file data: bytes that were written and not stored yet, and bytes that were
//! read.
//!
//! [`dirty`] has the dirty bytes of one file; it decides nothing about time or requests. [`batch`]
//! makes requests of it. [`grant`] counts space that OSTs granted.

pub mod batch;
pub mod dirty;
pub mod grant;
