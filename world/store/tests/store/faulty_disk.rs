//! A disk whose writes or syncs fail on request.

use env::disk::{Disk, DiskSpace, File, Open};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Counts down to a failure; negative: never.
#[derive(Default)]
pub struct Faults {
    pub writes_left: AtomicI64,
    pub syncs_left: AtomicI64,
}

impl Faults {
    pub fn none() -> Arc<Faults> {
        Arc::new(Faults { writes_left: AtomicI64::new(-1), syncs_left: AtomicI64::new(-1) })
    }
}

fn hit(left: &AtomicI64) -> io::Result<()> {
    let now = left.load(Ordering::SeqCst);
    if now == 0 {
        return Err(io::Error::from_raw_os_error(5));
    }
    if now > 0 {
        left.fetch_sub(1, Ordering::SeqCst);
    }
    Ok(())
}

pub struct FaultyDisk {
    pub inner: Arc<dyn Disk>,
    pub faults: Arc<Faults>,
}

struct FaultyFile {
    inner: Arc<dyn File>,
    faults: Arc<Faults>,
}

impl File for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        hit(&self.faults.writes_left)?;
        self.inner.write_all_at(buf, offset)
    }
    fn size_and_blocks(&self) -> io::Result<(u64, u64)> {
        self.inner.size_and_blocks()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn punch(&self, start: u64, len: u64) -> io::Result<()> {
        self.inner.punch(start, len)
    }
    fn allocate(&self, start: u64, len: u64, zero: bool) -> io::Result<()> {
        self.inner.allocate(start, len, zero)
    }
    fn seek(&self, offset: u64, hole: bool) -> io::Result<Option<u64>> {
        self.inner.seek(offset, hole)
    }
    fn sync_data(&self) -> io::Result<()> {
        hit(&self.faults.syncs_left)?;
        self.inner.sync_data()
    }
}

impl Disk for FaultyDisk {
    fn kernel_run(&self) -> u128 {
        self.inner.kernel_run()
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(FaultyFile { inner: self.inner.open(path, how)?, faults: self.faults.clone() }))
    }
    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dirs(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        hit(&self.faults.syncs_left)?;
        self.inner.sync_dir(path)
    }
    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        hit(&self.faults.syncs_left)?;
        self.inner.sync_volume(path)
    }
    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        self.inner.space(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.inner.lock(path)
    }
}
