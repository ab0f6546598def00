//! Files of the machine. File systems without fallocate (or a part of it) get zeros written
//! instead.

use crate::disk::{Disk, DiskSpace, File, Open};
use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Zeros are written in pieces of this many bytes.
const ZEROS: &[u8] = &[0; 64 << 10];

/// The file in which Linux identifies the current boot of the kernel.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

pub(super) struct RealDisk;

struct RealFile {
    file: std::fs::File,
}

impl RealFile {
    /// Zeros over `[start, end)` by writing.
    fn write_zeros(&self, mut start: u64, end: u64) -> io::Result<()> {
        while start < end {
            let len = (end - start).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..len as usize], start)?;
            start += len;
        }
        Ok(())
    }

    /// fallocate; `false` if this file system cannot.
    fn fallocate(&self, flags: FallocateFlags, start: u64, len: u64) -> io::Result<bool> {
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, start, len)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Allocates without changing data, where fallocate is missing: zeros into holes and beyond the
    /// end.
    fn fill_holes(&self, start: u64, end: u64) -> io::Result<()> {
        let mut at = start;
        while at < end {
            let hole = self.seek(at, true)?.map_or(at, |hole| hole.min(end));
            let data = self.seek(hole, false)?.map_or(end, |data| data.min(end));
            self.write_zeros(hole, data)?;
            at = data.max(hole);
            if hole == data && at < end {
                at = end;
            }
        }
        Ok(())
    }
}

fn end_of(start: u64, len: u64) -> io::Result<u64> {
    start.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or_else(|| Errno::FBIG.into())
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn size_and_blocks(&self) -> io::Result<(u64, u64)> {
        let meta = self.file.metadata()?;
        if meta.file_type().is_block_device() {
            let bytes = rustix::fs::seek(&self.file, SeekFrom::End(0))?;
            return Ok((bytes, bytes / 512));
        }
        Ok((meta.size(), meta.blocks()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn punch(&self, start: u64, len: u64) -> io::Result<()> {
        let end = end_of(start, len)?;
        if len == 0
            || self.fallocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, len)?
        {
            return Ok(());
        }
        self.write_zeros(start, end.min(self.file.metadata()?.size()))
    }

    fn allocate(&self, start: u64, len: u64, zero: bool) -> io::Result<()> {
        let end = end_of(start, len)?;
        if len == 0 {
            return Ok(());
        }
        if zero {
            if self.fallocate(FallocateFlags::ZERO_RANGE, start, len)? {
                return Ok(());
            }
            // tmpfs has no ZERO_RANGE, but can punch and allocate.
            self.punch(start, len)?;
        }
        if self.fallocate(FallocateFlags::empty(), start, len)? {
            return Ok(());
        }
        self.fill_holes(start, end)
    }

    fn seek(&self, offset: u64, hole: bool) -> io::Result<Option<u64>> {
        let whence = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
        match rustix::fs::seek(&self.file, whence) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn start_write_back(&self, start: u64, len: u64) -> io::Result<()> {
        let len = end_of(start, len)? - start;
        // SAFETY: the descriptor is open as long as `self`; no memory is passed.
        let done = unsafe {
            libc::sync_file_range(
                self.file.as_raw_fd(),
                start as i64,
                len as i64,
                libc::SYNC_FILE_RANGE_WRITE,
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Boot id of the kernel.
pub(super) fn boot() -> io::Result<u128> {
    let id = std::fs::read_to_string(BOOT_ID)?;
    u128::from_str_radix(&id.trim().replace('-', ""), 16).map_err(io::Error::other)
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true);
        match how {
            Open::Existing => {}
            Open::Sole => {
                // A file is not a device, and its open knows no such holder.
                if std::fs::metadata(path)?.file_type().is_block_device() {
                    options.custom_flags(libc::O_EXCL);
                }
            }
            Open::Create => {
                options.create(true);
            }
            Open::CreateNew => {
                options.create_new(true);
            }
        }
        Ok(Arc::new(RealFile { file: options.open(path)? }))
    }

    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        std::fs::read_dir(path)?
            .map(|entry| {
                let name = entry?.file_name();
                name.into_string().map_err(|name| {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("{name:?} in {} is not text", path.display()),
                    )
                })
            })
            .collect()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::File::open(path)?.sync_all()
    }

    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::syncfs(std::fs::File::open(path)?)?)
    }

    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        let space = rustix::fs::statvfs(path)?;
        Ok(DiskSpace {
            bytes_total: space.f_blocks.saturating_mul(space.f_frsize),
            bytes_free: space.f_bfree.saturating_mul(space.f_frsize),
            bytes_available: space.f_bavail.saturating_mul(space.f_frsize),
            files_total: space.f_files,
            files_free: space.f_ffree,
        })
    }

    fn kernel_run(&self) -> u128 {
        boot().unwrap_or_else(|error| {
            // Then it counts as another boot each time: clients are asked once too often for what
            // may be lost.
            tracing::warn!(%error, "{BOOT_ID} does not tell which run of the kernel this is");
            0
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
