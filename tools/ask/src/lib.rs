//! Questions to a mount and to the daemons of a host: the part that `lfs`, `lctl` and the C library
//! share.
//!
//! A mount answers through extended attributes ([`types::about`], `lustre.lov`), daemons through
//! their control sockets, which are found by the registry of the host ([`local`]). Nothing is kept
//! between two questions. It stays light: what is here goes into programs of others.

pub mod fit;
pub mod home;
pub mod links;
pub mod local;
pub mod mkdir_at;
pub mod mounts;
pub mod params;
pub mod socket;
pub mod together;
pub mod versions;
pub mod xattr;
