//! Open files and directories: the kernel's handle numbers and what is behind them.

use crate::listing::Listing;
use data::file::{Counted, File};
pub use data::handle::FileHandle;
use data::kernel_view::kernel_eof::Watched;
use data::locks::opens::LocalOpen;
use data::writeback::failures::LossCursors;
use foldhash::HashMap;
use parking_lot::Mutex;
use session::error::ClientError;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;
use types::credentials::Credentials;
use types::fid::Fid;
use types::session::OpenHandle;
use wire::mds::OpenFlags;

/// An open directory of this mount; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DirHandle(pub u64);

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenMode {
    /// What the caller may do.
    pub flags: OpenFlags,
    /// O_TRUNC: cut to nothing.
    pub truncate: bool,
    /// O_EXCL: the name must not exist (create only).
    pub exclusive: bool,
}

impl OpenMode {
    /// From the flags of open(2). `exec`: the kernel opens to execute (FMODE_EXEC).
    pub fn from_libc(flags: i32, exec: bool) -> OpenMode {
        let access = flags & libc::O_ACCMODE;
        OpenMode {
            flags: OpenFlags {
                read: access == libc::O_RDONLY || access == libc::O_RDWR,
                write: access == libc::O_WRONLY || access == libc::O_RDWR,
                exec,
                append: flags & libc::O_APPEND != 0,
                lasting: false,
            },
            truncate: flags & libc::O_TRUNC != 0,
            exclusive: flags & libc::O_EXCL != 0,
        }
    }
}

/// Relation of an open file to group locks.
#[derive(Default)]
pub(crate) enum Membership {
    /// No group.
    #[default]
    None,
    /// It is about to join a group; sending here gives that up, once.
    Joining(Option<oneshot::Sender<()>>),
    /// It is a member of this group.
    Of(u64),
    /// It is closed, and a member of no group any more.
    Closed,
}

/// Behind a [`FileHandle`].
pub(crate) struct OpenFile {
    /// The inode.
    pub(crate) file: Arc<File>,
    /// How it was opened.
    pub(crate) mode: OpenMode,
    /// The opener, for opening it again after its MDT restarted.
    pub(crate) credentials: Credentials,
    handle: AtomicU64,
    /// Counted as open here, without the MDT.
    local: Option<LocalOpen>,
    /// The kernel has read something of it.
    was_read: AtomicBool,
    pub(crate) loss_cursors: LossCursors,
    pub(crate) group: Mutex<Membership>,
    /// True if the MDT may know of a lease of it. Held by a task that asks for one, asks about it,
    /// or ends it.
    pub(crate) leased: tokio::sync::Mutex<bool>,
    /// The kernel has pages for it: since then the end that the kernel believes in is known.
    pub(crate) eof: OnceLock<Watched>,
    stale: AtomicBool,
    closed: AtomicBool,
    _counted: Counted,
}

impl OpenFile {
    /// An open file; `handle` is the MDT's.
    pub(crate) fn new(
        file: Arc<File>,
        mode: OpenMode,
        credentials: Credentials,
        handle: OpenHandle,
    ) -> OpenFile {
        let handle = AtomicU64::new(handle.0);
        let (group, leased) = (Mutex::default(), tokio::sync::Mutex::default());
        let (stale, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        let loss_cursors = LossCursors::new(file.dirty.lock().failures.cursor(), true);
        let eof = OnceLock::new();
        let _counted = Counted::new(&file, mode.flags.read, mode.flags.write);
        OpenFile {
            file,
            mode,
            credentials,
            handle,
            local: None,
            was_read: AtomicBool::new(false),
            loss_cursors,
            group,
            leased,
            eof,
            stale,
            closed,
            _counted,
        }
    }

    /// A file that is open here only, under OPEN.
    pub(crate) fn new_local(
        file: Arc<File>,
        mode: OpenMode,
        credentials: Credentials,
        local: LocalOpen,
    ) -> OpenFile {
        OpenFile { local: Some(local), ..OpenFile::new(file, mode, credentials, OpenHandle(0)) }
    }

    /// The mount without opens' own handle of an inode: it stands for all opens of its programs.
    #[must_use]
    pub(crate) fn no_open(self) -> OpenFile {
        let first = self.file.dirty.lock().failures.cursor();
        OpenFile { loss_cursors: LossCursors::new(first, false), ..self }
    }

    /// True once, with the first read, if the server was not asked for the open.
    pub(crate) fn begins_unasked(&self) -> bool {
        self.local.is_some() && !self.was_read.swap(true, Ordering::Relaxed)
    }

    /// How it counts among the files that are open here only.
    pub(crate) fn local(&self) -> Option<LocalOpen> {
        self.local
    }

    /// The last descriptor is gone: the handle to close, if the server has one.
    pub(crate) fn close(&self) -> Option<OpenHandle> {
        self.closed.store(true, Ordering::SeqCst);
        let handle = OpenHandle(self.handle.load(Ordering::SeqCst));
        (!self.stale.load(Ordering::Acquire) && handle.0 != 0).then_some(handle)
    }

    /// The MDT restarted and gave a new handle. `false` if the file was closed meanwhile: the
    /// handle must be closed.
    #[must_use]
    pub(crate) fn reopened(&self, handle: OpenHandle) -> bool {
        self.handle.store(handle.0, Ordering::SeqCst);
        !self.closed.load(Ordering::SeqCst)
    }

    /// The MDT restarted and no longer has the inode.
    pub(crate) fn lost(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// A close reports a loss.
    ///
    /// # Errors
    /// The error of the OST or MDT; EIO after an eviction.
    pub(crate) fn failed_at_close(&self) -> Result<(), ClientError> {
        let dirty = self.file.dirty.lock();
        self.loss_cursors.at_close(&dirty.failures).map_or(Ok(()), |errno| Err(errno.into()))
    }

    /// A write by this thread reports a loss, once.
    ///
    /// # Errors
    /// As [`OpenFile::failed_at_close`].
    pub(crate) fn failed_at_write(&self, thread: u32) -> Result<(), ClientError> {
        let mut dirty = self.file.dirty.lock();
        self.loss_cursors
            .at_write(thread, &mut dirty.failures)
            .map_or(Ok(()), |errno| Err(errno.into()))
    }

    /// An fsync by this thread reports a loss, once.
    ///
    /// # Errors
    /// As [`OpenFile::failed_at_close`].
    pub(crate) fn failed_at_sync(&self, thread: u32) -> Result<(), ClientError> {
        let mut dirty = self.file.dirty.lock();
        self.loss_cursors
            .at_sync(thread, &mut dirty.failures)
            .map_or(Ok(()), |errno| Err(errno.into()))
    }

    /// True if the server still has it.
    ///
    /// # Errors
    /// StaleHandle if not.
    pub(crate) fn check(&self) -> Result<(), ClientError> {
        if self.stale.load(Ordering::Acquire) {
            Err(ClientError::StaleHandle(self.file.fid))
        } else {
            Ok(())
        }
    }
}

/// Behind a [`DirHandle`].
pub(crate) struct OpenDir {
    /// The directory.
    pub(crate) fid: Fid,
    /// Its entries, as far as read.
    pub(crate) listing: Arc<Listing>,
    /// The same with everything that is known of the entries, for
    /// [`Client::dir_scan`](crate::client::Client::dir_scan): without layouts and with them.
    pub(crate) dir_scan: [OnceLock<Listing>; 2],
}

/// All open regular files of a mount.
pub(crate) type OpenFiles = Handles<FileHandle, OpenFile>;

/// Numbers for open things; never reused.
pub(crate) struct Handles<H, T> {
    open: Mutex<HashMap<H, Arc<T>>>,
    /// Those whose last descriptor is gone, and of whose close the server has not heard yet.
    closing: Mutex<HashMap<H, Arc<T>>>,
    next: AtomicU64,
}

/// An open thing while it is being closed: a server that restarts meanwhile is told of it.
pub(crate) struct Closing<'a, H: Copy + Eq + Hash, T> {
    handles: &'a Handles<H, T>,
    handle: H,
    open: Arc<T>,
}

impl<H: Copy + Eq + Hash, T> Deref for Closing<'_, H, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.open
    }
}

impl<H: Copy + Eq + Hash, T> Drop for Closing<'_, H, T> {
    fn drop(&mut self) {
        self.handles.closing.lock().remove(&self.handle);
    }
}

impl<H: Copy + Ord + Hash + From<u64> + Into<u64>, T> Handles<H, T> {
    /// No open handles.
    pub(crate) fn new() -> Handles<H, T> {
        Handles { open: Mutex::default(), closing: Mutex::default(), next: AtomicU64::new(1) }
    }

    /// Gives a number.
    pub(crate) fn insert(&self, value: T) -> H {
        let handle = H::from(self.next.fetch_add(1, Ordering::Relaxed));
        self.open.lock().insert(handle, Arc::new(value));
        handle
    }

    /// The value behind a number.
    ///
    /// # Errors
    /// UnknownHandle.
    pub(crate) fn get(&self, handle: H) -> Result<Arc<T>, ClientError> {
        self.open.lock().get(&handle).cloned().ok_or(ClientError::UnknownHandle(handle.into()))
    }

    /// Takes a number back.
    pub(crate) fn remove(&self, handle: H) -> Option<Arc<T>> {
        self.open.lock().remove(&handle)
    }

    /// Takes a number back; the server still has what is behind it open, until the result is
    /// dropped.
    pub(crate) fn begin_close(&self, handle: H) -> Option<Closing<'_, H, T>> {
        // Under both locks, so that `at_server` misses nothing.
        let (mut all_open, mut all_closing) = (self.open.lock(), self.closing.lock());
        let open = all_open.remove(&handle)?;
        all_closing.insert(handle, open.clone());
        Some(Closing { handles: self, handle, open })
    }

    /// All open handles, in the order of opening.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        in_order(self.open.lock().iter())
    }

    /// All handles that the server has open, in the order of opening: also those that are being
    /// closed.
    pub(crate) fn at_server(&self) -> Vec<Arc<T>> {
        let (open, closing) = (self.open.lock(), self.closing.lock());
        in_order(open.iter().chain(closing.iter()))
    }

    /// True if `so` holds for any of them.
    pub(crate) fn any(&self, so: impl Fn(&T) -> bool) -> bool {
        self.open.lock().values().any(|open| so(open))
    }

    /// Number of open handles.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }
}

fn in_order<'a, H: Copy + Ord + 'a, T: 'a>(
    handles: impl Iterator<Item = (&'a H, &'a Arc<T>)>,
) -> Vec<Arc<T>> {
    let mut all: Vec<_> = handles.map(|(handle, open)| (*handle, open.clone())).collect();
    all.sort_unstable_by_key(|(handle, _)| *handle);
    all.into_iter().map(|(_, open)| open).collect()
}

impl<H: Copy + Ord + Hash + From<u64> + Into<u64>, T> Default for Handles<H, T> {
    fn default() -> Self {
        Handles::new()
    }
}

impl From<u64> for DirHandle {
    fn from(n: u64) -> DirHandle {
        DirHandle(n)
    }
}

impl From<DirHandle> for u64 {
    fn from(handle: DirHandle) -> u64 {
        handle.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data::file::FileTable;
    use types::errno::Errno;

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    #[test]
    fn numbers_are_not_used_twice() {
        let handles = Handles::<FileHandle, u8>::new();
        let a = handles.insert(7);
        assert_eq!(handles.get(a).as_deref(), Ok(&7));
        handles.remove(a);
        assert_eq!(handles.get(a).unwrap_err(), ClientError::UnknownHandle(a.0));
        assert_ne!(handles.insert(8), a);
    }

    #[test]
    fn what_is_being_closed_is_open_at_the_server() {
        let handles = Handles::<FileHandle, u8>::new();
        let (a, b) = (handles.insert(7), handles.insert(8));
        let closing = handles.begin_close(a).unwrap();
        assert_eq!((*closing, handles.count(), handles.get(a).is_ok()), (7, 1, false));
        assert_eq!(
            (handles.all(), handles.at_server()),
            (vec![8.into()], vec![7.into(), 8.into()])
        );
        assert!(handles.begin_close(a).is_none());
        drop(closing);
        assert_eq!(handles.at_server(), [8.into()]);
        handles.remove(b);
        assert!(handles.at_server().is_empty());
    }

    #[test]
    fn open_flags_are_those_of_open_2() {
        let mode = OpenMode::from_libc(libc::O_WRONLY | libc::O_TRUNC, false);
        assert!(mode.flags.write && !mode.flags.read && mode.truncate && !mode.exclusive);
        let mode = OpenMode::from_libc(libc::O_RDWR | libc::O_EXCL, true);
        assert!(
            mode.flags.write
                && mode.flags.read
                && mode.flags.exec
                && !mode.truncate
                && mode.exclusive
        );
    }

    #[test]
    fn a_loss_outlives_the_last_close() {
        let table = Arc::new(FileTable::default());
        let open = |by_open_file| {
            let open = OpenFile::new(
                table.get(FID),
                OpenMode::default(),
                Credentials::root(),
                OpenHandle(1),
            );
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
}
