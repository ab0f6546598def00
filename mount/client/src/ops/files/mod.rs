//! Regular files: they are opened, read, written, truncated, synced and closed.

mod access;
mod copy;
mod no_open;
mod open_close;
pub(crate) mod page_cache;
mod read;
mod space;
mod sync;
mod truncate;
mod write;
