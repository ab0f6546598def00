//! `sheen fsck`: checks whether a file system is whole, and repairs it.
//!
//! [`source::Source`] gives records and objects: from a cluster at work, over the network, or from
//! targets at rest, from their folders. [`run`] reads everything, lets `check` compare, looks at
//! every suspicion a second time, and repairs if asked. [`place`] finds what the user named;
//! [`report`] is the result.
//!
//! Read-only unless asked to repair. The file system may be in use all the time.

pub mod cli;
pub mod error;
mod offline;
mod online;
pub mod page;
pub mod place;
pub mod report;
pub mod run;
pub mod scrub;
pub mod source;
mod volume;
