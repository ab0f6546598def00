//! Locks that programs ask for: flock(2), fcntl(2), leases, group locks.

mod flock;
mod groups;
mod leases;
