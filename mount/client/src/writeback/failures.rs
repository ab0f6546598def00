//! Losses of answered writes, and the open files they were reported to. Pure.
//!
//! As in Linux (`errseq_t`): each open file that existed gets the error once, from its next fsync
//! or write, whatever other open files, processes or mappings got. A close reports it, too, but
//! that does not count: one open file may have several descriptors, and a program rarely looks at
//! the result of close. If the file was closed before an fsync or write reported a loss, the first
//! fsync of the next open file reports it.

use crate::file::File;
use crate::open::OpenFile;
use parking_lot::Mutex;
use session::error::ClientError;
use std::collections::BTreeMap;
use types::errno::Errno;

/// Threads for which the reported losses of one file are known. Beyond it they are forgotten, and
/// the loss is reported again.
const THREADS_MAX: usize = 1024;

/// Losses of one file.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u64,
    /// Number of losses that were reported to at least one open file.
    reported: u64,
    newest: Option<Errno>,
}

/// The losses that one open file has reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor {
    /// Losses that its fsync does not report any more.
    reported: u64,
    /// Losses that were reported to it, or that happened before it was opened.
    past: u64,
}

impl Failures {
    /// A loss that no program was told of while its file was in use.
    pub fn remembered(unreported: Errno) -> Failures {
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
    pub fn unreported(&self) -> Option<Errno> {
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
pub(crate) struct LossCursors(Mutex<Cursors>);

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
    /// For a file that is being opened. `by_open_file`: the kernel says which open file asks.
    pub fn new(file: &File, by_open_file: bool) -> LossCursors {
        let first = file.dirty.lock().failures.cursor();
        LossCursors(Mutex::new(Cursors { first, threads: (!by_open_file).then(BTreeMap::new) }))
    }
}

impl OpenFile {
    /// A close reports a loss.
    ///
    /// # Errors
    /// The error of the OST or MDT; EIO after an eviction.
    pub(crate) fn failed_at_close(&self) -> Result<(), ClientError> {
        let dirty = self.file.dirty.lock();
        let failed = dirty.failures.at_close(&self.loss_cursors.0.lock().first);
        failed.map_or(Ok(()), |errno| Err(errno.into()))
    }

    /// A write by this thread reports a loss, once.
    ///
    /// # Errors
    /// As [`OpenFile::failed_at_close`].
    pub(crate) fn failed_at_write(&self, thread: u32) -> Result<(), ClientError> {
        self.report(thread, Failures::at_write)
    }

    /// An fsync by this thread reports a loss, once.
    ///
    /// # Errors
    /// As [`OpenFile::failed_at_close`].
    pub(crate) fn failed_at_sync(&self, thread: u32) -> Result<(), ClientError> {
        self.report(thread, Failures::at_sync)
    }

    fn report(
        &self,
        thread: u32,
        what: impl FnOnce(&mut Failures, &mut Cursor) -> Option<Errno>,
    ) -> Result<(), ClientError> {
        let mut dirty = self.file.dirty.lock();
        if dirty.failures.count() == 0 {
            return Ok(());
        }
        what(&mut dirty.failures, self.loss_cursors.0.lock().of(thread)).map_or(Ok(()), |errno| Err(errno.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::FileTable;
    use crate::open::OpenMode;
    use std::sync::Arc;
    use types::credentials::Credentials;
    use types::fid::Fid;
    use types::session::OpenHandle;

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

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
        assert_eq!((failures.at_sync(&mut a), failures.at_write(&mut a), failures.at_close(&a)), (None, None, None));
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
        assert_eq!((failures.at_write(&mut a), failures.at_close(&a)), (None, None), "it was not there");
        assert_eq!(failures.unreported(), Some(Errno::EIO));
        assert_eq!(failures.at_sync(&mut a), Some(Errno::EIO));
        assert_eq!(failures.unreported(), None);
        let mut c = failures.cursor();
        assert_eq!(failures.at_sync(&mut c), None, "an fsync reported it");
        assert_eq!(failures.at_sync(&mut b), Some(Errno::EIO), "opened when none was");
    }

    #[test]
    fn a_loss_outlives_the_last_close() {
        let table = Arc::new(FileTable::default());
        let open = |by_open_file| {
            let open = OpenFile::new(table.get(FID), OpenMode::default(), Credentials::root(), OpenHandle(1));
            if by_open_file { open } else { open.no_open() }
        };
        let first = open(true);
        first.file.dirty.lock().fail(Errno::EIO);
        assert_eq!(first.failed_at_close().unwrap_err().errno(), Errno::EIO);
        drop(first);
        let second = open(true);
        assert!(second.failed_at_close().is_ok() && second.failed_at_write(1).is_ok());
        assert_eq!(second.failed_at_sync(1).unwrap_err().errno(), Errno::EIO);
        drop(second);
        assert!(open(true).failed_at_sync(1).is_ok());
    }

    #[test]
    fn without_open_files_a_loss_is_reported_once_to_each_thread() {
        let table = Arc::new(FileTable::default());
        let open = OpenFile::new(table.get(FID), OpenMode::default(), Credentials::root(), OpenHandle(1)).no_open();
        open.file.dirty.lock().fail(Errno::EIO);
        for thread in 0..2 * THREADS_MAX as u32 {
            assert!(open.failed_at_sync(thread).is_err() && open.failed_at_sync(thread).is_ok());
        }
        assert!(open.loss_cursors.0.lock().threads.as_ref().unwrap().len() <= THREADS_MAX);
    }
}
