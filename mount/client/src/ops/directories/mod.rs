//! Directories: they are listed, walked through ahead of programs, and spread over MDTs.

mod ahead;
mod files_ahead;
pub(crate) mod list;
mod names_ahead;
mod scan;
mod statahead;
pub(crate) mod stripes;
