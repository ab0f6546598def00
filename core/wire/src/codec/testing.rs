//! What samples and strategies of operations are made of.

pub(crate) use super::samples::{DIR, FID, OBJECT, flock, name, record, sample_open};
pub(crate) use super::strategies::*;
pub(crate) use proptest::collection::vec;
pub(crate) use proptest::option::of;
pub(crate) use proptest::prelude::*;
