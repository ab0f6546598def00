//! Is a file system whole? Records of metadata targets and objects in, findings and their repairs out.
//!
//! [`check::Check`] takes every record and every object once and says what does not fit. On a running system work goes
//! on meanwhile, so a finding is a suspicion until it was judged: [`finding::Finding::keys`] names the records that
//! decide, [`judge::judge`] looks at them and says whether it is so, is so no more, or cannot be said because the inode
//! changed since. A repair is a [`judge::Mend`]: change these records if those are still what was seen.
//!
//! Owner: `fsck` and the simulation. No I/O, no clock; memory is a few hundred bytes per inode, at most
//! [`check::INODES_MAX`] of them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod check;
mod files;
pub mod finding;
pub mod judge;
mod lost_found;
mod tree;

#[cfg(test)]
mod tests;
