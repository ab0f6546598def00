//! Object targets: the bytes of files, one local file per object.
//!
//! [`ost::Ost`] is one target: its state, and a change of one object. [`life`] starts and stops it,
//! [`service`] answers requests with it. [`data`] reads and writes. [`space`] allocates, cuts and
//! frees. [`ledger`] knows which changes are durable, and [`durable`] makes them so. [`window`] is
//! what the previous life left, and [`recovery`] gets back what a power cut took. [`sums`] are the
//! checksums of data at rest; [`checked`] reads and changes under them, [`scrub`] compares
//! everything with them. [`gate`] keeps changes of one object apart, and [`graveyard`] keeps
//! destroyed objects dead. [`fences`] knows the clients that MDTs have evicted, [`tickets`] those
//! that must show tickets. [`streams`] starts write-back of long writes, [`buffers`] has memory for
//! long reads. [`target::room`] shares out the free space, [`used`] counts the space of objects.
//! Nothing here knows layouts or names of files: an object's name says only to which file it
//! belongs.
//!
//! An object appears at its first write, reads as empty before, and is durable after a sync of it
//! or of everything.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod buffers;
mod checked;
mod data;
mod durable;
pub mod error;
mod fences;
mod gate;
mod graveyard;
mod ledger;
mod life;
pub mod ost;
mod recovery;
pub mod scrub;
mod service;
pub mod settings;
mod space;
mod streams;
mod sums;
mod tickets;
mod used;
mod window;
