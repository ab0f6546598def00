//! `sheen fsck`: is a file system whole? And if not, what can be put right?
//!
//! [`source::Source`] is where records and objects come from: a cluster at work, over the network, or targets at rest,
//! from their folders. [`run`] reads everything, lets `check` compare, looks at every suspicion a second time, and
//! repairs if asked. [`place`] finds out what the user named; [`report`] is what is told.
//!
//! Read-only unless told otherwise. Work may go on all the time.

pub mod cli;
pub mod error;
mod offline;
mod online;
pub mod place;
pub mod report;
pub mod run;
pub mod scrub;
pub mod source;
