//! The words that every crate shares: ids, units, attributes, errors, limits.
//!
//! No I/O, no clock, no randomness. Every id and every unit is a type of its own, so mixing them
//! does not compile.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod about;
pub mod attr;
pub mod bounded;
pub mod bundle;
pub mod credentials;
pub mod dir_path;
pub mod dir_stripes;
pub mod errno;
pub mod fid;
pub mod generations;
pub mod job;
pub mod limits;
pub mod lock;
pub mod mkdir_at;
pub mod name;
pub mod names;
pub mod net;
pub mod nid;
pub mod object;
pub mod object_ticket;
pub mod principal;
pub mod project;
pub mod proof;
pub mod ranges;
pub mod session;
pub mod target;
pub mod time;
