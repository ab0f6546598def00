//! One local target's store: ordered records with group commit, and object files.
//!
//! A [`store::Store`] puts an overlay over an [`engine::Engine`]. Operations change the overlay
//! through a [`tx::Tx`] and never wait for the disk. A commit makes everything of the open group
//! durable as one batch, so what survives a crash is always a prefix of the transno order. The
//! engine of a real target is [`journalled`]: one checksummed append makes a batch durable, and
//! LMDB takes it over in the background. [`memory`] is its twin for tests and simulation.
//! [`object_store`] is where data is: [`objects`] keeps it in one local file per object, [`volume`]
//! on one device.
//!
//! Owner: the target. It knows no network and no file system: keys and values are bytes.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod back_end;
pub mod batch;
pub mod blobs;
mod blocking;
pub mod checkpoint;
pub mod engine;
pub mod error;
pub mod journal;
pub mod journalled;
pub mod kv;
pub mod lease;
mod list;
pub mod log;
pub mod memory;
pub mod memory_blobs;
pub mod memory_kv;
pub mod merge;
pub mod object_store;
pub mod objects;
pub mod open_files;
pub mod progress;
pub mod replica;
pub mod ring;
pub mod shared_log;
pub mod store;
pub mod sweep;
pub mod tree;
pub mod tree_copy;
pub mod tx;
pub mod unsynced;
pub mod volume;
