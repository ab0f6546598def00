//! Names: found, made, removed, listed.

mod create;
mod link;
pub(super) mod links;
pub(super) mod lookup;
pub(super) mod readdir;
mod remove;
mod rename;
mod root;
