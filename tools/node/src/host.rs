//! What the host of a node has and limits: descriptors, mounts, the process that started it.

pub mod announce;
pub mod authority;
pub mod descriptors;
pub mod interfaces;
pub mod join;
pub mod keys;
pub mod lease_end;
pub mod memory;
pub mod mount_point;
pub mod mount_table;
pub mod rlimit;
pub mod secret_file;
pub mod shared_log;
