//! The kernel's numbers of open files.

/// An open regular file of this mount; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileHandle(pub u64);

impl From<u64> for FileHandle {
    fn from(n: u64) -> FileHandle {
        FileHandle(n)
    }
}

impl From<FileHandle> for u64 {
    fn from(handle: FileHandle) -> u64 {
        handle.0
    }
}
