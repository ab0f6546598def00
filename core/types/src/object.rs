//! Objects: where the bytes of a file live on OSTs.

use crate::fid::Fid;
use std::fmt;

/// Byte position in a file, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FileOffset(pub u64);

/// Byte position in one object, from 0. `layout` is the only way between the two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct ObjectOffset(pub u64);

/// Name of an object: (file, layout component instance, stripe number), so that a create needs no
/// object from an OST.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The file it belongs to.
    pub fid: Fid,
    /// Layout component instance: never reused within the file, so migration and mirrors coexist
    /// with the old objects.
    pub instance: u32,
    /// Stripe within the component, from 0.
    pub stripe: u32,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.fid, self.instance, self.stripe)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
