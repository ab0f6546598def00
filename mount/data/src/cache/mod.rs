//! The client's cache of file data: bytes that were written and not stored yet, and bytes that were
//! read.
//!
//! [`dirty`] has the dirty bytes of one file; it decides nothing about time or requests. [`batch`]
//! makes requests of it. [`grant`] counts space that targets granted.

pub mod batch;
pub mod dirty;
pub mod grant;

use types::target::TargetIndex;

/// A target that dirty bytes go to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DataTarget {
    /// The MDT of the file has the bytes itself (docs/dom.md).
    Mdt(TargetIndex),
    /// An OST, in objects.
    Ost(TargetIndex),
}
