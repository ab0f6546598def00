//! Metadata targets: the name space over a store.
//!
//! [`mds::Mds`] answers one MDT's requests. An operation is *prepare* (may wait: for room in the
//! store, for a lock of another client) -> *apply* (a transaction: never waits, never fails
//! half-way) -> reply, all in the caller's own poll. `namespace` decides; [`records`] is its view
//! over the store; `ops` has one file per kind of operation. Only open handles, locks and the work
//! of background tasks are in memory; everything else is a record.
//!
//! Tasks, started by `Mds::start` and ended by `Mds::stop`: [`destroyer`] removes objects of
//! removed files, [`settler`] asks OSTs for the size of files whose writer vanished, [`spaces`]
//! watches the OSTs. Before those, if clients of the previous life are waited for, comes the
//! recovery of `window`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod acks;
pub mod destroyer;
mod dom;
mod dom_limits;
pub mod fids;
pub mod flocks;
pub mod groups;
mod lock_context;
mod lock_stats;
pub mod locks;
pub mod mds;
pub mod object_targets;
pub mod opens;
pub mod ops;
pub mod records;
pub mod recovery;
pub mod service;
pub mod settings;
pub mod settler;
mod shared_writers;
pub mod spaces;
pub mod striping;
pub mod tail;
pub mod tasks;
mod tunables;
pub mod waits;
pub mod window;
