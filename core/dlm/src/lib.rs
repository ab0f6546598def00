//! Lock manager decisions: event in, actions out.
//!
//! A server feeds events (a request, a cancel, the end of a client) into a table here and carries
//! out the table's answers. Nothing in this crate waits, sends or asks the time, and every map is
//! ordered: the same events always give the same actions.
//!
//! - [`flock`]: fcntl(2) and flock(2) locks, which programs ask for and wait for;
//! - [`ibits`]: inode-bit locks, which let clients keep what they were shown;
//! - [`leases`]: promises to an open file that it has the file to itself, until another one comes;
//! - [`extents`]: ranges of bytes of files that several clients work with at once.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod extents;
pub mod flock;
pub mod ibits;
pub mod leases;
