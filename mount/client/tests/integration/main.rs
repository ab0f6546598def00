//! Tests of the client, one program so that what they share is compiled once.

mod cluster;
mod kernel;
mod leases;
mod library;
mod locks;
mod names_ahead;
mod operations;
mod races;
mod read_ahead;
mod recount;
mod remote;
mod rig;
