//! Crash at every write of a target's store.
//!
//! A sequence of operations runs on a real MDT over the real engine (journal and LMDB) and object
//! files, on a disk that notes every write and every sync. [`images`] then makes the folder as a
//! crash after each of those writes would leave it: a killed process (all writes are there), or a
//! power cut (what no sync covers is lost, torn, or there in part). Each folder must open to the
//! records as they were after some operation, none older than what was acknowledged. `check` must
//! find the name space whole, and everything that an fsync covered must be there.
//!
//! LMDB writes by itself. So its writes are taken from the difference of its file before and after
//! each of its commits, in the order that it documents: pages, sync, the page with the new root,
//! sync.

pub mod images;
pub mod judge;
pub mod recorded;
pub mod workload;
