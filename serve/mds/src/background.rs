//! Background tasks of an MDT, and what they work on.

pub mod destroyer;
pub(crate) mod failing;
pub(crate) mod fence;
pub(crate) mod realms;
pub mod settler;
pub mod spaces;
pub mod tasks;
pub mod unsettled;
mod watch_spaces;
