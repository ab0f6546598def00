//! Every byte on the network: frames, requests, replies.
//!
//! Within a process the values below travel as they are; over TCP they are encoded (little-endian
//! structs with a variable tail). Nothing here performs I/O. `docs/formats.md` has the tables.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod checksum;
pub mod class;
pub mod client;
pub mod codec;
pub mod envelope;
pub mod frame;
#[cfg(test)]
mod golden;
pub mod hello;
pub mod mds;
pub mod message;
pub mod mgs;
pub mod opcode;
pub mod ost;
pub mod report;
pub mod route;
