//! Every byte in a store: superblock, journal, records. Encoders and bounded decoders; no I/O.
//!
//! Numbers are little endian (keys that need byte order are big endian and say so). `docs/store.md`
//! has the tables, the order of writes and the argument per crash point; `docs/formats.md` the
//! records of a metadata target.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod bundle;
pub mod checkpoint;
pub mod checksum;
pub mod chunk;
pub mod config;
pub mod copying;
pub mod damaged;
pub mod destroy_log;
pub mod dirent;
pub mod entry;
pub mod inode;
pub mod journal;
pub mod key;
pub mod links;
pub mod logged_block;
pub mod mark;
pub mod mdt_state;
pub mod object;
pub mod objects_at;
pub mod redo;
pub mod redo_keys;
pub mod session;
pub mod sums;
pub mod superblock;
pub mod volume;
pub mod xattr;

#[cfg(test)]
mod golden;
