//! Files that are open, and their bytes and sizes.

mod accessed;
mod dom;
mod glimpse;
mod lease;
pub(super) mod open;
mod promises;
mod tickets;
mod wrote;
