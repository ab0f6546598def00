//! Names: they are found, made, changed and removed. What is known of an inode without its name.

mod below;
pub(crate) mod by_fid;
mod change;
mod create;
pub(crate) mod elsewhere;
pub(crate) mod lookup;
mod pin;
mod removal;
mod removed;
