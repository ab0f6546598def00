//! What a program that walks through directories will ask next. Decisions only: entries, names and
//! times go in, what to ask of the MDT comes out. `ops::directories` asks.

pub(crate) mod directory;
pub(crate) mod files;
pub(crate) mod found_in;
pub(crate) mod names;
pub(crate) mod statahead;
pub(crate) mod windows;
pub(crate) mod written;
