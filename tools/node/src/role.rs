//! Roles of a node: each takes shared parts and a target, and has a start and a stop.

pub mod mdt;
pub mod mgs;
pub mod mount;
pub mod object_targets;
pub mod ost;
pub mod parts;
pub mod registration;
pub mod restricted;
pub mod router;
pub mod standby;
