//! Through the tree, with several threads: waiting for answers is what takes the time.
//!
//! A directory is the unit of work. A thread reads it, judges its entries, prints the result in one
//! piece, and leaves its sub-directories to the next free thread. So a directory is always printed
//! before its entries; otherwise the order is undefined. Waiting directories are kept as paths; the
//! newest is taken first, which keeps them few.
//!
//! If more than names and types is needed, the directory is scanned: attributes and layouts come
//! with the names. Facts that the scan does not return (inodes of other MDTs) are asked for one by
//! one.

use super::facts::Facts;
use super::format::print;
use super::words::Query;
use crate::dir_scan;
use ask::mounts;
use report::Report;
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use types::errno::Errno;
use wire::mds::DirEntry;

/// Printed text is handed on in pieces of about so many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Failures that are reported at most; further ones are only counted.
const FAILURES_MAX: usize = 1000;

struct Directory {
    path: PathBuf,
    level: usize,
}

/// Result of one directory.
struct Found {
    below: Vec<Directory>,
    text: Vec<u8>,
}

#[derive(Default)]
struct Work {
    waiting: Vec<Directory>,
    busy: usize,
}

struct Search<'a> {
    query: &'a Query,
    work: Mutex<Work>,
    more: Condvar,
    out: Mutex<(&'a mut (dyn Write + Send), io::Result<()>)>,
    failures: Mutex<(Vec<(String, Errno)>, usize)>,
    matched: AtomicU64,
}

/// Prints what matches.
///
/// # Errors
/// `out` cannot be written.
pub fn run(query: &Query, out: &mut (dyn Write + Send), report: &mut Report<'_>) -> io::Result<()> {
    let search = Search {
        query,
        work: Mutex::default(),
        more: Condvar::new(),
        out: Mutex::new((out, Ok(()))),
        failures: Mutex::default(),
        matched: AtomicU64::new(0),
    };
    for path in &query.paths {
        let first = mounts::mount_of(path).map(|_| Facts::new(path.clone(), 0, None));
        match first.and_then(|file| file.kind().map(|kind| (file, kind))) {
            Ok((file, kind)) => {
                let mut text = Vec::new();
                search.judge(&file, &mut text);
                search.write(&text);
                if kind == FileType::Directory && query.max_depth > 0 {
                    search.lock().waiting.push(Directory { path: path.clone(), level: 0 });
                }
            }
            Err(error) => search.failed(&path.display().to_string(), &error),
        }
    }
    std::thread::scope(|scope| {
        for _ in 0..query.threads {
            scope.spawn(|| search.help());
        }
    });
    let (failures, untold) = search.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (what, errno) in failures {
        report.errno(&what, errno);
    }
    if untold > 0 {
        report.sentence(&format!("{untold} more files could not be read"), Errno::EIO);
    }
    search.out.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

impl Search<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes directories until there are none and no other thread can find more.
    fn help(&self) {
        loop {
            let directory = {
                let mut work = self.lock();
                loop {
                    if let Some(directory) = work.waiting.pop() {
                        work.busy += 1;
                        break directory;
                    }
                    if work.busy == 0 {
                        return;
                    }
                    work = self.more.wait(work).unwrap_or_else(PoisonError::into_inner);
                }
            };
            let found = self.read(&directory);
            let mut work = self.lock();
            work.busy -= 1;
            work.waiting.extend(found);
            drop(work);
            self.more.notify_all();
        }
    }

    /// Judges and prints what is in a directory; its sub-directories.
    fn read(&self, directory: &Directory) -> Vec<Directory> {
        let mut found = Found { below: Vec::new(), text: Vec::new() };
        let read = dir_scan::Directory::open(&directory.path).and_then(|open| {
            let needs = self.query.needs;
            if needs.attributes || needs.layouts {
                let take = |entry: DirEntry| {
                    let path = directory.path.join(OsStr::from_bytes(&entry.name));
                    match Facts::scanned(path, directory.level + 1, &entry) {
                        Ok(file) => self.take(file, &mut found),
                        Err(error) => self.failed(
                            &directory
                                .path
                                .join(OsStr::from_bytes(&entry.name))
                                .display()
                                .to_string(),
                            &error,
                        ),
                    }
                };
                match open.dir_scan(needs.layouts, take) {
                    // Without permission to search it, each file gives a failure of its own.
                    Err(error) if error.raw_os_error() == Some(libc::EACCES) => {}
                    Ok(false) => {}
                    scanned => return scanned.map(|_| ()),
                }
            }
            self.list(open.into_fd(), directory, &mut found)
        });
        if let Err(error) = read {
            self.failed(&directory.path.display().to_string(), &error);
        }
        self.write(&found.text);
        found.below
    }

    /// Names and types.
    fn list(&self, open: OwnedFd, directory: &Directory, found: &mut Found) -> io::Result<()> {
        for entry in Dir::new(open)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let path = directory.path.join(OsStr::from_bytes(name));
                self.take(Facts::new(path, directory.level + 1, Some(entry.file_type())), found);
            }
        }
        Ok(())
    }

    fn take(&self, file: Facts, found: &mut Found) {
        self.judge(&file, &mut found.text);
        if found.text.len() >= PIECE_BYTES {
            self.write(&std::mem::take(&mut found.text));
        }
        match file.kind() {
            Ok(FileType::Directory) if file.level < self.query.max_depth => {
                found.below.push(Directory { level: file.level, path: file.path });
            }
            Ok(_) => {}
            Err(error) => self.failed(&file.path.display().to_string(), &error),
        }
    }

    /// Appends what is printed of a file, if it matches.
    fn judge(&self, file: &Facts, text: &mut Vec<u8>) {
        if file.level < self.query.min_depth {
            return;
        }
        let mut matches = true;
        for (wanted, test) in &self.query.tests {
            match test.holds(file) {
                Ok(holds) if holds == *wanted => {}
                Ok(_) => {
                    matches = false;
                    break;
                }
                Err(error) => return self.failed(&file.path.display().to_string(), &error),
            }
        }
        if !matches || self.skips() {
            return;
        }
        for how in &self.query.prints {
            if let Err(error) = print(how, file, text) {
                self.failed(&file.path.display().to_string(), &error);
            }
        }
    }

    /// Of every hundred that match the first `skip` are left out, spread evenly.
    fn skips(&self) -> bool {
        if self.query.skip == 0 {
            return false;
        }
        let (n, skip) = (self.matched.fetch_add(1, Ordering::Relaxed), u64::from(self.query.skip));
        (n + 1) * skip / 100 > n * skip / 100
    }

    fn write(&self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.1.is_ok() {
            let written = out.0.write_all(text);
            if written.is_err() {
                // The reader is gone: waiting directories need not be searched.
                self.lock().waiting.clear();
            }
            out.1 = written;
        }
    }

    fn failed(&self, what: &str, error: &io::Error) {
        // A file that was removed during the search is not there to be found.
        if error.raw_os_error() == Some(libc::ENOENT)
            && !self.query.paths.iter().any(|p| p.display().to_string() == what)
        {
            return;
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.0.len() < FAILURES_MAX {
            failures.0.push((report::told(&format!("'{what}'"), error), Errno::from(error)));
        } else {
            failures.1 += 1;
        }
    }
}
