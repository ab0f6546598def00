//! Object targets: the bytes of files, one local file per object.
//!
//! [`ost::Ost`] is the service. [`data`] reads and writes. [`space`] allocates, cuts and frees.
//! [`ledger`] knows which changes are durable, and [`durable`] makes them so. [`recovery`] gets
//! back what a power cut took. [`gate`] keeps changes of one object apart, and [`graveyard`] keeps
//! destroyed objects dead. [`streams`] starts write-back of long writes, [`buffers`] has memory for
//! long reads. [`room`] and [`grants`] share out the free space, [`used`] counts the space of the
//! objects. Nothing here knows layouts or names of files: an object's name says only to which file
//! it belongs.
//!
//! An object appears at its first write, reads as empty before, and is durable after a sync of it
//! or of everything.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod buffers;
mod data;
mod durable;
mod gate;
mod grants;
mod graveyard;
mod ledger;
pub mod ost;
mod recovery;
pub mod room;
pub mod scrub;
pub mod settings;
mod space;
mod streams;
mod sums;
mod used;
