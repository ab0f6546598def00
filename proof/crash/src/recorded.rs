//! A disk that notes what is written, in order.

use env::disk::{Disk, DiskSpace, File, Open};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One step of the disk. Paths are those of the live folder.
#[derive(Clone, Debug)]
pub enum Step {
    /// Bytes of a file.
    Write {
        /// The file or folder.
        path: PathBuf,
        /// First byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A new length.
    Length {
        /// The file or folder.
        path: PathBuf,
        /// The new length, bytes.
        len: u64,
    },
    /// A file came.
    Create {
        /// The file or folder.
        path: PathBuf,
    },
    /// A folder came.
    Folder {
        /// The file or folder.
        path: PathBuf,
    },
    /// A file went.
    Remove {
        /// The file or folder.
        path: PathBuf,
    },
    /// A file got another name.
    Rename {
        /// The name before.
        from: PathBuf,
        /// The name after.
        to: PathBuf,
    },
    /// The file's bytes and length are durable.
    Sync {
        /// The file or folder.
        path: PathBuf,
    },
    /// The names in the folder are durable.
    SyncFolder {
        /// The file or folder.
        path: PathBuf,
    },
    /// Everything is durable.
    SyncAll,
}

/// The notes.
pub type Steps = Arc<Mutex<Vec<Step>>>;

/// See the module. Reads go through.
pub struct RecordedDisk {
    /// The disk with the files.
    pub inner: Arc<dyn Disk>,
    /// The recorded steps.
    pub steps: Steps,
}

struct RecordedFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    steps: Steps,
}

impl RecordedDisk {
    fn note(&self, step: Step) {
        self.steps.lock().push(step);
    }
}

/// The code under test must not use what the recorder cannot replay.
fn unknown(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{what} is not recorded"))
}

impl File for RecordedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_all_at(buf, offset)?;
        self.steps.lock().push(Step::Write {
            path: self.path.clone(),
            offset,
            bytes: buf.to_vec(),
        });
        Ok(())
    }
    fn size_and_blocks(&self) -> io::Result<(u64, u64)> {
        self.inner.size_and_blocks()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)?;
        self.steps.lock().push(Step::Length { path: self.path.clone(), len });
        Ok(())
    }
    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        Err(unknown("punch"))
    }
    fn allocate(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        Err(unknown("allocate"))
    }
    fn seek(&self, offset: u64, hole: bool) -> io::Result<Option<u64>> {
        self.inner.seek(offset, hole)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()?;
        self.steps.lock().push(Step::Sync { path: self.path.clone() });
        Ok(())
    }
}

impl Disk for RecordedDisk {
    fn kernel_run(&self) -> u128 {
        self.inner.kernel_run()
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let there = path.exists();
        let inner = self.inner.open(path, how)?;
        if !there {
            self.note(Step::Create { path: path.to_owned() });
        }
        Ok(Arc::new(RecordedFile { inner, path: path.to_owned(), steps: self.steps.clone() }))
    }
    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        let mut missing: Vec<&Path> =
            path.ancestors().take_while(|folder| !folder.exists()).collect();
        self.inner.create_dirs(path)?;
        missing.reverse();
        missing.into_iter().for_each(|folder| self.note(Step::Folder { path: folder.to_owned() }));
        Ok(())
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)?;
        self.note(Step::Remove { path: path.to_owned() });
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)?;
        self.note(Step::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)?;
        self.note(Step::SyncFolder { path: path.to_owned() });
        Ok(())
    }
    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_volume(path)?;
        self.note(Step::SyncAll);
        Ok(())
    }
    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        self.inner.space(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.inner.lock(path)
    }
}
