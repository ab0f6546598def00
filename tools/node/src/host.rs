//! What the host of a node has and limits: descriptors, mounts, the process that started it.

pub mod announce;
pub mod descriptors;
pub mod mount_point;
pub mod mount_table;
pub mod rlimit;
