//! Tests of the MDT, one program so that what they share is compiled once.

mod brought_back;
mod components;
mod dom;
mod fence;
mod gaps;
mod groups;
mod leases;
mod listings;
mod locks;
mod operations;
mod promises;
mod realms;
mod restart;
mod rig;
mod root;
mod shared_writers;
mod squash;
mod tickets;
mod writer_marks;
