//! Metadata targets: the name space over a store.
//!
//! [`mds::Mds`] answers one MDT's requests. An operation is *prepare* (may wait: for room in the
//! store, for a lock of another client) -> *apply* (a transaction: never waits, never fails
//! half-way) -> reply, all in the caller's own poll. `namespace` decides; [`records`] is its view
//! over the store; `ops` has one file per kind of operation. Only open handles, locks and the work
//! of background tasks are in memory; everything else is a record.
//!
//! Tasks, started by `Mds::start` and ended by `Mds::stop` ([`background`]): the destroyer removes
//! objects of removed files, the settler asks OSTs for the size of files whose writer vanished, a
//! third watches the space of OSTs. Before those, if clients of the previous life are waited for,
//! comes [`recovery`]. The fourth ends operations over several MDTs that no request works on
//! ([`bundles`]).
//!
//! Each type that the MDT is made of lies in a file that does not know [`mds::Mds`]; what the MDT
//! does with it lies in another file beside it, as methods of `Mds`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod acks;
pub mod audit;
pub mod background;
mod bundles;
mod dir_growth;
mod dir_placement;
pub mod error;
mod expected;
mod fencing;
mod held_names;
mod last_found;
pub mod locks;
pub mod mds;
pub mod moves;
pub mod object_targets;
pub mod opens;
pub mod ops;
pub mod peers;
pub mod realm;
pub mod realms;
mod records;
pub mod recovery;
pub mod service;
pub mod settings;
pub mod state;
pub mod striping;
mod went;
