//! How a program writes, and what came of it.

/// How to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteFlags {
    /// O_APPEND: at the present end of the file; the given offset is ignored.
    pub append: bool,
    /// Clear set-id bits (FUSE_WRITE_KILL_SUIDGID).
    pub kill_suidgid: bool,
    /// O_SYNC, O_DSYNC: durable before the answer.
    pub sync: bool,
    /// Pages of the kernel that a mapping made dirty: only targets may be waited for, because a
    /// callback may wait for this.
    pub from_page_cache: bool,
}

/// Result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Where it went: the given offset, or for `append` the end of the file. If that differs from
    /// the kernel's offset, its cached pages and size of this inode must be dropped.
    pub offset: u64,
    /// Bytes from there on; fewer than given only if a target failed after some were stored.
    pub bytes: u32,
}
