//! What to do to a range of an object or a file.

/// What to do to a range of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PunchKind {
    /// Cut the object at `start` (`end` is ignored); longer objects only, a shorter one stays as it
    /// is.
    Truncate = 0,
    /// Deallocate `[start, end)`; reads give zeros; the size stays.
    Hole = 1,
    /// Zeros in `[start, end)`, allocated; the object grows if need be.
    Zero = 2,
    /// Allocate `[start, end)` without changing data; the object grows if need be.
    Allocate = 3,
}
