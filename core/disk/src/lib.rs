//! Every byte in a store: superblock, journal, records. Encoders and bounded decoders; no I/O.
//!
//! Numbers are little endian (keys that need byte order are big endian and say so). `docs/store.md` has the tables,
//! the order of writes and the argument per crash point.

pub mod checksum;
pub mod config;
pub mod journal;
pub mod superblock;
