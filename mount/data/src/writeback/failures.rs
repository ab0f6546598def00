//! Losses of answered writes, and the open files they were reported to. Pure.
//!
//! As in Linux (`errseq_t`): each open file that existed gets the error once, from its next fsync
//! or write, whatever other open files, processes or mappings got. A close reports it, too, but
//! that does not count: one open file may have several descriptors, and a program rarely looks at
//! the result of close. If the file was closed before an fsync or write reported a loss, the first
//! fsync of the next open file reports it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use types::errno::Errno;

/// Threads for which the reported losses of one file are known. Beyond it they are forgotten, and
/// the loss is reported again.
const THREADS_MAX: usize = 1024;

/// Losses of one file.
#[derive(Debug, Default)]
pub struct Failures {
    count: u64,
    /// Number of losses that were reported to at least one open file.
    reported: u64,
    newest: Option<Errno>,
}

/// The losses that one open file has reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// Losses that its fsync does not report any more.
    reported: u64,
    /// Losses that were reported to it, or that happened before it was opened.
    past: u64,
}

impl Failures {
    /// A loss that no program was told of while its file was in use.
    pub(crate) fn remembered(unreported: Errno) -> Failures {
        Failures { count: 1, reported: 0, newest: Some(unreported) }
    }

    /// Something is lost.
    pub fn fail(&mut self, errno: Errno) {
        self.count += 1;
        self.newest = Some(errno);
    }

    /// Number of losses.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The newest loss, if it was reported to no open file.
    pub(crate) fn unreported(&self) -> Option<Errno> {
        self.newest.filter(|_| self.reported < self.count)
    }

    /// Of a file that is being opened.
    pub fn cursor(&self) -> Cursor {
        Cursor { reported: self.reported, past: self.count }
    }

    /// The error of a close: there was a loss since the file was opened that was not reported to
    /// it.
    pub fn at_close(&self, cursor: &Cursor) -> Option<Errno> {
        self.newest.filter(|_| cursor.past < self.count)
    }

    /// The error of a write, once.
    pub fn at_write(&mut self, cursor: &mut Cursor) -> Option<Errno> {
        let failed = self.at_close(cursor)?;
        self.note(cursor);
        Some(failed)
    }

    /// The error of an fsync, once.
    pub fn at_sync(&mut self, cursor: &mut Cursor) -> Option<Errno> {
        let failed = self.newest.filter(|_| cursor.reported < self.count)?;
        self.note(cursor);
        Some(failed)
    }

    fn note(&mut self, cursor: &mut Cursor) {
        self.reported = self.count;
        *cursor = self.cursor();
    }
}

/// Cursors behind one handle. Small lock, taken within that of the dirty file.
pub struct LossCursors(Mutex<Cursors>);

struct Cursors {
    first: Cursor,
    /// Where the kernel does not say which open file asks (`localflock`, `noflock`), each thread
    /// counts as one.
    threads: Option<BTreeMap<u32, Cursor>>,
}

impl Cursors {
    fn of(&mut self, thread: u32) -> &mut Cursor {
        match &mut self.threads {
            None => &mut self.first,
            Some(threads) => {
                if threads.len() >= THREADS_MAX && !threads.contains_key(&thread) {
                    threads.clear();
                }
                threads.entry(thread).or_insert(self.first)
            }
        }
    }
}

impl LossCursors {
    /// For a file that is being opened; `first` is where its losses stand. `by_open_file`: the
    /// kernel says which open file asks.
    pub fn new(first: Cursor, by_open_file: bool) -> LossCursors {
        LossCursors(Mutex::new(Cursors { first, threads: (!by_open_file).then(BTreeMap::new) }))
    }

    /// What a close says.
    pub fn at_close(&self, failures: &Failures) -> Option<Errno> {
        failures.at_close(&self.0.lock().first)
    }

    /// What a write by this thread says, once.
    pub fn at_write(&self, thread: u32, failures: &mut Failures) -> Option<Errno> {
        self.tell(thread, failures, Failures::at_write)
    }

    /// What an fsync by this thread says, once.
    pub fn at_sync(&self, thread: u32, failures: &mut Failures) -> Option<Errno> {
        self.tell(thread, failures, Failures::at_sync)
    }

    fn tell(
        &self,
        thread: u32,
        failures: &mut Failures,
        what: impl FnOnce(&mut Failures, &mut Cursor) -> Option<Errno>,
    ) -> Option<Errno> {
        if failures.count() == 0 {
            return None;
        }
        what(failures, self.0.lock().of(thread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_reported_once_to_every_open_file() {
        let mut failures = Failures::default();
        let (mut a, mut b) = (failures.cursor(), failures.cursor());
        assert_eq!((failures.at_sync(&mut a), failures.at_close(&a)), (None, None));
        failures.fail(Errno::EIO);
        for _ in 0..3 {
            assert_eq!(failures.at_close(&a), Some(Errno::EIO), "a close does not count");
        }
        assert_eq!(failures.at_sync(&mut a), Some(Errno::EIO));
        assert_eq!(
            (failures.at_sync(&mut a), failures.at_write(&mut a), failures.at_close(&a)),
            (None, None, None)
        );
        assert_eq!(failures.at_write(&mut b), Some(Errno::EIO), "by a write");
        assert_eq!((failures.at_sync(&mut b), failures.at_close(&b)), (None, None));
        failures.fail(Errno::ENOSPC);
        assert_eq!(failures.at_sync(&mut a), Some(Errno::ENOSPC), "the next loss");
        assert_eq!(failures.at_sync(&mut b), Some(Errno::ENOSPC));
    }

    #[test]
    fn a_loss_that_no_program_knows_is_reported_to_the_next_open_file() {
        let mut failures = Failures::default();
        failures.fail(Errno::EIO);
        let (mut a, mut b) = (failures.cursor(), failures.cursor());
        assert_eq!(
            (failures.at_write(&mut a), failures.at_close(&a)),
            (None, None),
            "it was not there"
        );
        assert_eq!(failures.unreported(), Some(Errno::EIO));
        assert_eq!(failures.at_sync(&mut a), Some(Errno::EIO));
        assert_eq!(failures.unreported(), None);
        let mut c = failures.cursor();
        assert_eq!(failures.at_sync(&mut c), None, "an fsync reported it");
        assert_eq!(failures.at_sync(&mut b), Some(Errno::EIO), "opened when none was");
    }

    #[test]
    fn without_open_files_a_loss_is_reported_once_to_each_thread() {
        let mut failures = Failures::default();
        let seen = LossCursors::new(failures.cursor(), false);
        failures.fail(Errno::EIO);
        for thread in 0..2 * THREADS_MAX as u32 {
            assert_eq!(seen.at_sync(thread, &mut failures), Some(Errno::EIO));
            assert_eq!(seen.at_sync(thread, &mut failures), None);
        }
        assert!(seen.0.lock().threads.as_ref().unwrap().len() <= THREADS_MAX);
    }
}
