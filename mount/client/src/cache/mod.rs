//! What the client keeps of files' data: bytes that were written and not stored yet, and bytes that were read.
//!
//! [`dirty`] is what is kept of one file's writes; it decides nothing about time or requests. [`batch`] makes requests of
//! it. [`grant`] counts space that OSTs granted.

pub mod batch;
pub mod dirty;
pub mod grant;
