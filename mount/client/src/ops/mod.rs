//! The operations, by what they work on.

mod about;
mod access;
pub(crate) mod attributes;
pub(crate) mod by_fid;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod dir_scan;
pub(crate) mod directory;
mod groups;
mod leases;
pub(crate) mod locks;
pub(crate) mod lookup;
pub(crate) mod names;
pub(crate) mod no_open;
pub(crate) mod openclose;
pub(crate) mod page_cache;
mod pin;
pub(crate) mod read;
mod removal;
mod removed;
pub(crate) mod space;
mod statahead;
pub(crate) mod statfs;
pub(crate) mod sync;
mod truncate;
pub(crate) mod write;
pub(crate) mod xattr;
