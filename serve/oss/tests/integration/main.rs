//! Tests of the OST, one program so that what they share is compiled once.

mod content;
mod durability;
mod fence;
mod full;
mod power;
mod rig;
mod sums;
mod tickets;
