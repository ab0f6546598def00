//! Judges whether a file system is whole. It takes the records of metadata targets and the objects,
//! and gives findings and their repairs.
//!
//! [`check::Check`] takes every record and every object once and reports what does not fit. On a
//! running system work goes on meanwhile, so a finding is a suspicion until it is judged.
//! [`finding::Finding::keys`] names the records that decide. [`judge::judge`] looks at them and
//! says whether the finding holds, no longer holds, or cannot be judged because the inode changed.
//! A repair is a [`judge::Mend`]: change these records if they are still as they were seen.
//!
//! Owner: `fsck` and the simulation. No I/O, no clock; memory is a few hundred bytes per inode, at
//! most [`check::INODES_MAX`] of them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod check;
mod files;
pub mod finding;
pub mod judge;
mod lost_found;
mod tree;

#[cfg(test)]
mod tests;
