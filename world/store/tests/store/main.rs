//! The store against a model, against crashes at every write, against failing and full disks.

mod blobs;
mod crash;
mod epochs;
mod failures;
mod faulty_disk;
mod identity;
mod kill;
mod model;
mod objects;
mod packed;
mod support;
mod tree_copy;
mod volume;
