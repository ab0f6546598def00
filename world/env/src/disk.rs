//! Files. All calls block; call them from threads that may block.

use std::io;
use std::path::Path;
use std::sync::Arc;

/// Space of a volume, bytes and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// Size, bytes.
    pub bytes_total: u64,
    /// Free, bytes.
    pub bytes_free: u64,
    /// Free for unprivileged users, bytes.
    pub bytes_available: u64,
    /// Inodes.
    pub files_total: u64,
    /// Free inodes.
    pub files_free: u64,
}

/// An open file. Positions are bytes from 0.
pub trait File: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `buf` at `offset`.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// (size in bytes, 512-byte blocks allocated). A block device has its size.
    fn size_and_blocks(&self) -> io::Result<(u64, u64)>;
    /// Cuts or grows (with a hole).
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Deallocates a range, the size stays.
    fn punch(&self, start: u64, len: u64) -> io::Result<()>;
    /// Allocates a range; with `zero` its bytes become zeros; grows the file if need be.
    fn allocate(&self, start: u64, len: u64, zero: bool) -> io::Result<()>;
    /// Next data (or hole) at or after `offset`; `None` beyond the end.
    fn seek(&self, offset: u64, hole: bool) -> io::Result<Option<u64>>;
    /// Data and size are durable when this returns (fdatasync). After an error the file must not be
    /// trusted.
    fn sync_data(&self) -> io::Result<()>;
    /// Starts to write a range out, so that a later `sync_data` waits for less. It is a hint and
    /// promises nothing; `sync_data` reports later errors. May block while the disk's queue is
    /// full.
    fn start_write_back(&self, start: u64, len: u64) -> io::Result<()> {
        let _ = (start, len);
        Ok(())
    }
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Must exist; for reading and writing.
    Existing,
    /// As `Existing`; a block device that is mounted, or that another process has opened so, is
    /// busy.
    Sole,
    /// Made if absent.
    Create,
    /// Must not exist.
    CreateNew,
}

/// The file system that stores live on.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// Makes a directory and its parents; no error if it exists.
    fn create_dirs(&self, path: &Path) -> io::Result<()>;
    /// Names in a directory, unordered.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames, replacing.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Entries of the directory are durable when this returns.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Everything on the volume of `path` is durable when this returns (syncfs).
    fn sync_volume(&self, path: &Path) -> io::Result<()>;
    /// Space of the volume of `path`.
    fn space(&self, path: &Path) -> io::Result<DiskSpace>;
    /// Identity of the current boot of the machine's kernel. While it is the same, written data can
    /// be read, also by another process, even without a sync. 0: not known.
    fn kernel_run(&self) -> u128;
    /// Takes an exclusive lock that ends with the returned guard or the process; `None` if another
    /// holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>>;
}
