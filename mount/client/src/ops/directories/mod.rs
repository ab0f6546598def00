//! Directories: they are listed, walked through ahead of programs, and spread over MDTs.

mod ahead;
mod files_ahead;
pub(crate) mod list;
mod scan;
mod statahead;
pub(crate) mod stripes;
