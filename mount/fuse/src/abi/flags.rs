//! Flag bits of the ABI, by the message that carries them.

/// INIT: what kernel and daemon can do. Bits 32..63 travel in `flags2`.
pub mod init {
    /// Reads of one file may run in parallel.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// fcntl locks come to the daemon.
    pub const POSIX_LOCKS: u64 = 1 << 1;
    /// O_TRUNC comes with OPEN.
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    /// "." and ".." can be looked up (NFS export).
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// Writes larger than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// The daemon applies the umask (it knows the default ACL).
    pub const DONT_MASK: u64 = 1 << 6;
    /// flock(2) comes to the daemon.
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    /// Directories may get ioctls.
    pub const HAS_IOCTL_DIR: u64 = 1 << 11;
    /// Cached pages are dropped when size or mtime changed.
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    /// READDIRPLUS exists.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// The kernel chooses between READDIR and READDIRPLUS.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Direct I/O is split into parallel requests.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Kernel write-back cache. Never negotiated: it ignores what other clients do to the size.
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    /// OPEN may be answered ENOSYS.
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    /// Lookups and readdir of one directory in parallel.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The kernel checks and caches POSIX ACLs.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// Reading the device after an abort gives ECONNABORTED.
    pub const ABORT_ERROR: u64 = 1 << 21;
    /// `max_pages` is meant.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// READLINK answers are cached.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// Cached pages are dropped by notification only.
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    /// The daemon clears set-id bits; the kernel says when.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// Long form of SETXATTR.
    pub const SETXATTR_EXT: u64 = 1 << 29;
    /// `flags2` is meant.
    pub const INIT_EXT: u64 = 1 << 30;
    /// One supplementary group travels with requests that create.
    pub const CREATE_SUPP_GROUP: u64 = 1 << 34;
    /// NOTIFY_INVAL_ENTRY knows EXPIRE_ONLY.
    pub const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    /// Shared mmap of files opened with DIRECT_IO.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    /// NOTIFY_RESEND exists.
    pub const HAS_RESEND: u64 = 1 << 39;
}

/// SETATTR: which fields are meant.
pub mod setattr {
    /// mode
    pub const MODE: u32 = 1 << 0;
    /// uid
    pub const UID: u32 = 1 << 1;
    /// gid
    pub const GID: u32 = 1 << 2;
    /// size
    pub const SIZE: u32 = 1 << 3;
    /// atime
    pub const ATIME: u32 = 1 << 4;
    /// mtime
    pub const MTIME: u32 = 1 << 5;
    /// fh
    pub const FH: u32 = 1 << 6;
    /// atime is now
    pub const ATIME_NOW: u32 = 1 << 7;
    /// mtime is now
    pub const MTIME_NOW: u32 = 1 << 8;
    /// lock_owner
    pub const LOCKOWNER: u32 = 1 << 9;
    /// ctime
    pub const CTIME: u32 = 1 << 10;
    /// Clear set-id bits as an unprivileged change must.
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// Answers to OPEN and OPENDIR.
pub mod open {
    /// Bypass the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// Keep cached pages.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// No FLUSH at close.
    pub const NOFLUSH: u32 = 1 << 5;
    /// Direct writes to one inode may run in parallel.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    /// Request: clear set-id bits (with O_TRUNC).
    pub const REQUEST_KILL_SUIDGID: u32 = 1 << 0;
}

/// The rest.
pub mod misc {
    /// GETATTR, STATX: `fh` is meant.
    pub const GETATTR_FH: u32 = 1 << 0;
    /// IOCTL: of an open directory.
    pub const IOCTL_DIR: u32 = 1 << 4;
    /// RELEASE: drop the flock of `lock_owner`.
    pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
    /// GETLK and family: flock(2), not fcntl.
    pub const LK_FLOCK: u32 = 1 << 0;
    /// READ: `lock_owner` is meant. The kernel says so of what a program reads past the page cache,
    /// and never of pages.
    pub const READ_LOCKOWNER: u32 = 1 << 1;
    /// WRITE: from the page cache (mmap); handle and caller are guesses.
    pub const WRITE_CACHE: u32 = 1 << 0;
    /// WRITE: `lock_owner` is meant.
    pub const WRITE_LOCKOWNER: u32 = 1 << 1;
    /// WRITE: clear set-id bits.
    pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
    /// FSYNC: data only.
    pub const FSYNC_FDATASYNC: u32 = 1 << 0;
    /// SETXATTR: clear the set-gid bit with this ACL.
    pub const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
    /// NOTIFY_INVAL_ENTRY: revalidate at next use rather than drop.
    pub const EXPIRE_ONLY: u32 = 1 << 0;
}
