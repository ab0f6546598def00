//! One thread of `io`.

use super::plan::{Access, Pattern, Plan};
use crate::failure::BenchError;
use crate::stop::Stop;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// How it ended.
pub enum Ended {
    /// So many bytes were moved.
    Bytes(u64),
    /// The file system refuses O_DIRECT.
    NoDirect,
}

/// Alignment that O_DIRECT wants of memory: a page does everywhere.
const ALIGN: usize = 4096;

/// Memory that begins at a page.
struct Aligned {
    start: *mut u8,
    layout: Layout,
}

impl Aligned {
    fn new(bytes: usize) -> Result<Aligned, BenchError> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGN)
            .map_err(BenchError::of("lay out a buffer"))?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Ok(Aligned { start, layout })
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory is ours alone, initialised, and of this size until dropped.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout and is given back once.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// The byte at `offset` of every file, by which a wrong block is noticed.
fn mark(offset: u64) -> u8 {
    (offset / 4096).wrapping_mul(31).wrapping_add(offset >> 20) as u8 | 1
}

/// Offsets of all operations of a thread.
fn offsets(plan: &Plan, thread: usize, seed: u64) -> Box<dyn Iterator<Item = u64> + Send> {
    let record = plan.record as u64;
    let whole = plan.bytes / record;
    let (thread, threads) = (thread as u64, plan.threads as u64);
    match plan.pattern {
        Pattern::Random => {
            let mut random = fastrand::Rng::with_seed(seed);
            Box::new((0..plan.operations).map(move |_| random.u64(0..whole.max(1)) * record))
        }
        Pattern::SharedParts => {
            let start = thread * whole * record;
            Box::new((0..whole).map(move |n| start + n * record))
        }
        Pattern::SharedInterleaved => {
            Box::new((0..whole).map(move |n| (n * threads + thread) * record))
        }
        _ => Box::new((0..whole).map(move |n| n * record)),
    }
}

fn open(plan: &Plan, path: &Path) -> io::Result<File> {
    let flags = if plan.pattern == Pattern::Direct { libc::O_DIRECT } else { 0 };
    let mut options = OpenOptions::new();
    match plan.access {
        Access::Write => options.write(true).create(true).truncate(false),
        Access::Read => options.read(true),
    };
    options.custom_flags(flags).open(path)
}

/// Does the work of one thread. Random reads and writes go into the file that the sequential step
/// before left there. `forgets`: the file system keeps no data (the empty one), so zeros may come
/// back.
///
/// # Errors
/// A system call fails, or other bytes come back than were written.
pub fn work(
    plan: &Plan,
    path: &Path,
    thread: usize,
    seed: u64,
    forgets: bool,
    stop: &Stop,
) -> Result<Ended, BenchError> {
    let file = match open(plan, path) {
        Err(e) if plan.pattern == Pattern::Direct && e.raw_os_error() == Some(libc::EINVAL) => {
            return Ok(Ended::NoDirect);
        }
        other => other.map_err(BenchError::at("open", path))?,
    };
    let mut buffer = Aligned::new(plan.record)?;
    let buffer = buffer.bytes();
    let mut bytes = 0;
    for offset in offsets(plan, thread, seed) {
        stop.check()?;
        match plan.access {
            Access::Write => {
                buffer[0] = mark(offset);
                file.write_all_at(buffer, offset).map_err(BenchError::at("write", path))?;
            }
            Access::Read => {
                file.read_exact_at(buffer, offset).map_err(BenchError::at("read", path))?;
                // Only some blocks of a file have been written by themselves; the others have no
                // mark.
                let unmarked = plan.pattern == Pattern::Random || forgets;
                if buffer[0] != mark(offset) && !(unmarked && buffer[0] == 0) {
                    let (path, found, want) = (path.display(), buffer[0], mark(offset));
                    return Err(BenchError::Failed(format!(
                        "{path} has {found} at byte {offset}, not {want}"
                    )));
                }
            }
        }
        bytes += plan.record as u64;
    }
    if plan.access == Access::Write {
        file.sync_all().map_err(BenchError::at("fsync", path))?;
    }
    drop(file);
    Ok(Ended::Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(access: Access, pattern: Pattern) -> Plan {
        Plan { access, pattern, record: 4096, bytes: 5 * 4096, operations: 7, threads: 3 }
    }

    #[test]
    fn threads_of_one_file_cover_it_once() {
        for pattern in [Pattern::SharedParts, Pattern::SharedInterleaved] {
            let mut all: Vec<u64> = (0..3)
                .flat_map(|thread| offsets(&plan(Access::Write, pattern), thread, 0))
                .map(|o| o / 4096)
                .collect();
            all.sort_unstable();
            assert_eq!(all, (0..15).collect::<Vec<_>>(), "{pattern:?}");
        }
    }

    #[test]
    fn random_places_come_from_the_seed() {
        let random =
            |seed| offsets(&plan(Access::Read, Pattern::Random), 0, seed).collect::<Vec<_>>();
        assert_eq!(random(4), random(4));
        assert_ne!(random(4), random(5));
        assert!(random(4).iter().all(|offset| *offset < 5 * 4096 && offset % 4096 == 0));
    }

    #[test]
    fn what_is_written_comes_back_and_else_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, stop) = (dir.path().join("f"), Stop::default());
        let run = |access, pattern| work(&plan(access, pattern), &path, 0, 1, false, &stop);
        for (access, pattern) in [
            (Access::Write, Pattern::Sequential),
            (Access::Write, Pattern::Random),
            (Access::Read, Pattern::Sequential),
            (Access::Read, Pattern::Random),
        ] {
            assert!(
                matches!(run(access, pattern), Ok(Ended::Bytes(bytes)) if bytes > 0),
                "{access:?} {pattern:?}"
            );
        }
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[mark(8192) ^ 2], 8192).unwrap();
        let told = run(Access::Read, Pattern::Sequential).err().expect("noticed").to_string();
        assert!(told.contains("at byte 8192"), "{told}");
        stop.ask();
        assert!(matches!(run(Access::Read, Pattern::Sequential), Err(BenchError::Interrupted)));
    }
}
