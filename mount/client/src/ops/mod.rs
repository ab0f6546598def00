//! The operations, by what they work on.

mod about;
mod access;
pub mod attributes;
pub(crate) mod by_fid;
pub mod copy;
pub mod create;
pub mod dir_scan;
pub mod directory;
mod groups;
mod leases;
pub mod locks;
pub mod lookup;
pub mod names;
pub mod no_open;
pub mod openclose;
pub mod page_cache;
mod pin;
pub mod read;
mod removal;
mod removed;
pub mod space;
pub mod statfs;
pub mod sync;
mod truncate;
pub mod write;
pub mod xattr;
