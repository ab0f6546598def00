//! Open files and directories.

use wire::mds::OpenFlags;

/// An open regular file of this mount; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileHandle(pub u64);

/// An open directory of this mount; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DirHandle(pub u64);

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenMode {
    /// What the caller may do.
    pub flags: OpenFlags,
    /// O_TRUNC: cut to nothing.
    pub truncate: bool,
    /// O_EXCL: the name must not exist (create only).
    pub exclusive: bool,
}

impl OpenMode {
    /// From the flags of open(2). `exec`: the kernel opens to execute (FMODE_EXEC).
    pub fn from_libc(flags: i32, exec: bool) -> OpenMode {
        let access = flags & libc::O_ACCMODE;
        OpenMode {
            flags: OpenFlags {
                read: access == libc::O_RDONLY || access == libc::O_RDWR,
                write: access == libc::O_WRONLY || access == libc::O_RDWR,
                exec,
            },
            truncate: flags & libc::O_TRUNC != 0,
            exclusive: flags & libc::O_EXCL != 0,
        }
    }
}
