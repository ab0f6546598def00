//! A process' view of its machine's disk. A killed process sees it no more.

mod file;

use crate::core::Core;
use crate::hash::Event;
use crate::machine::Process;
use crate::volume::inode::Inode;
use crate::volume::{Dir, Entry, Names, Volume};
use env::disk::{Disk, DiskSpace, File, Open};
use file::SimFile;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Inodes that a volume says it has.
const FILES_TOTAL: u64 = 1 << 20;

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let name =
        path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok((path.parent().unwrap_or(Path::new("/")).to_owned(), name.to_owned()))
}

/// A process' view of its machine's disk.
pub(crate) struct SimDisk {
    pub(crate) core: Arc<Core>,
    pub(crate) process: Arc<Process>,
}

/// Operations in the event hash.
#[derive(Clone, Copy)]
pub(crate) enum DiskEvent {
    Write = 1,
    Resize = 2,
    Punch = 3,
    Allocate = 4,
    Sync = 5,
    Make = 6,
    Remove = 7,
    Rename = 8,
    SyncDir = 9,
    SyncVolume = 10,
}

impl SimDisk {
    fn names<T>(&self, work: impl FnOnce(&mut Names) -> io::Result<T>) -> io::Result<T> {
        if !self.process.is_alive() {
            return Err(io::Error::other("this process was killed"));
        }
        work(&mut self.process.machine.volume.names.lock())
    }

    fn note(&self, event: DiskEvent, what: u64) {
        self.core.executor.note(Event::Disk, what, event as u64);
    }

    fn dir<T>(&self, path: &Path, work: impl FnOnce(&mut Dir) -> io::Result<T>) -> io::Result<T> {
        self.names(|names| work(names.dirs.get_mut(path).ok_or_else(not_found)?))
    }
}

impl Disk for SimDisk {
    fn kernel_run(&self) -> u128 {
        self.process.machine.volume.kernel_runs.load(Ordering::Relaxed).into()
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let (parent, name) = split(path)?;
        let usage = self.process.machine.volume.usage.clone();
        let (inode, made) = self.names(|names| {
            let number = names.next_inode;
            let dir = names.dirs.get_mut(&parent).ok_or_else(not_found)?;
            match (dir.names.get(&name), how) {
                (Some(Entry::Dir), _) => Err(io::ErrorKind::IsADirectory.into()),
                (Some(_), Open::CreateNew) => Err(io::ErrorKind::AlreadyExists.into()),
                (Some(Entry::File(inode)), _) => Ok((inode.clone(), false)),
                (None, Open::Existing | Open::Sole) => Err(not_found()),
                (None, Open::Create | Open::CreateNew) => {
                    let inode = Arc::new(Inode::new(number, usage));
                    dir.change(vec![(name, Some(Entry::File(inode.clone())))]);
                    names.next_inode += 1;
                    Ok((inode, true))
                }
            }
        })?;
        if made {
            self.note(DiskEvent::Make, inode.number);
        }
        Ok(Arc::new(SimFile { core: self.core.clone(), process: self.process.clone(), inode }))
    }

    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        self.names(|names| {
            let mut ways: Vec<&Path> = path.ancestors().collect();
            ways.reverse();
            for way in ways.into_iter().skip(1) {
                let (parent, name) = split(way)?;
                let dir = names.dirs.get_mut(&parent).ok_or_else(not_found)?;
                match dir.names.get(&name) {
                    Some(Entry::Dir) => {}
                    Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                    None => {
                        dir.change(vec![(name, Some(Entry::Dir))]);
                        names.dirs.insert(way.to_owned(), Dir::default());
                    }
                }
            }
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.dir(path, |dir| Ok(dir.names.keys().cloned().collect()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = split(path)?;
        let removed = self.dir(&parent, |dir| match dir.names.get(&name) {
            None => Err(not_found()),
            Some(Entry::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            Some(Entry::File(inode)) => {
                let number = inode.number;
                dir.change(vec![(name, None)]);
                Ok(number)
            }
        })?;
        self.note(DiskEvent::Remove, removed);
        Ok(())
    }

    /// Within one directory only: no caller needs more.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((parent, name), (parent_to, name_to)) = (split(from)?, split(to)?);
        if parent != parent_to {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.dir(&parent, |dir| {
            let entry = dir.names.get(&name).cloned().ok_or_else(not_found)?;
            dir.change(vec![(name, None), (name_to, Some(entry))]);
            Ok(())
        })?;
        self.note(DiskEvent::Rename, 0);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.dir(path, |dir| {
            dir.sync();
            Ok(())
        })?;
        self.note(DiskEvent::SyncDir, 0);
        Ok(())
    }

    fn sync_volume(&self, _: &Path) -> io::Result<()> {
        self.names(|names| {
            for dir in names.dirs.values_mut() {
                dir.sync();
                for entry in dir.names.values() {
                    if let Entry::File(inode) = entry {
                        inode.sync();
                    }
                }
            }
            Ok(())
        })?;
        self.note(DiskEvent::SyncVolume, 0);
        Ok(())
    }

    fn space(&self, _: &Path) -> io::Result<DiskSpace> {
        let volume = &self.process.machine.volume;
        let (total, used) = (volume.usage.capacity.load(Ordering::Relaxed), volume.used());
        let free = total.saturating_sub(used);
        Ok(DiskSpace {
            bytes_total: total,
            bytes_free: free,
            bytes_available: free,
            files_total: FILES_TOTAL,
            files_free: FILES_TOTAL / 2,
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.open(path, Open::Create)?;
        let (process, volume) = (self.process.id, self.process.machine.volume.clone());
        let locked = self.names(|names| {
            let free = !names.locks.contains_key(path);
            if free {
                names.locks.insert(path.to_owned(), process);
            }
            Ok(free)
        })?;
        Ok(locked.then(|| {
            Box::new(LockGuard { volume, path: path.to_owned(), process }) as Box<dyn Send + Sync>
        }))
    }
}

struct LockGuard {
    volume: Arc<Volume>,
    path: PathBuf,
    process: u64,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut names = self.volume.names.lock();
        // A killed process' lock was released already, and another process may hold it now.
        if names.locks.get(&self.path) == Some(&self.process) {
            names.locks.remove(&self.path);
        }
    }
}
