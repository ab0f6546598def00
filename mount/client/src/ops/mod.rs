//! The operations, by what they work on.

mod about;
pub(crate) mod attributes;
pub(crate) mod directories;
pub(crate) mod files;
mod locks;
pub(crate) mod names;
pub(crate) mod statfs;
pub(crate) mod xattr;
