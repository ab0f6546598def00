//! The C library: what `include/lustre/lustreapi.h` declares, and nothing else, under the names of
//! Lustre's user interface, so that C programs written for Lustre compile and link unchanged.
//!
//! Only the levels and receivers of messages are kept. Each function asks the mount (extended
//! attributes, as `lfs`) or the daemons of the host (control sockets, as `lctl`) through the crate
//! `ask`. [`door`] is the boundary to C: it checks what can be checked of pointers, catches panics
//! and sets errno. Everything behind it is ordinary Rust. `docs/lustreapi.md` lists the functions
//! and their differences.

pub mod abi;
pub mod absent;
pub mod advice;
pub mod by_fid;
pub mod components;
pub mod directories;
pub mod door;
pub mod fids;
pub mod files;
pub mod groups;
pub mod layout_attributes;
pub mod layout_files;
pub mod layout_value;
pub mod leases;
pub mod messages;
pub mod params;
pub mod pools;
pub mod sizes;
pub mod targets;
pub mod versions;
pub mod whereabouts;
