//! One system call, its two times, its answer.

use crate::history::{Action, Answer, Attributes, Entry, Place, Record, SLOT, Times};
use crate::mapped::{self, Words};
use crate::marks;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom, XattrFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The name that a directory made during the run may hold.
const INSIDE: &str = "x";

/// The operation of a thread at the moment, and its start.
pub type Doing = Mutex<Option<(u64, Action)>>;

/// Calls the file system for one thread and remembers what happened.
pub struct Performer<'a> {
    pub thread: u16,
    pub mount: u16,
    /// The folder of the round, through this thread's mount.
    pub arena: BorrowedFd<'a>,
    /// The one clock of the run.
    pub clock: Instant,
    /// When that clock began, nanoseconds since 1970.
    pub began: i128,
    pub doing: &'a Doing,
    pub records: Vec<Record>,
    /// The number of the newest open file of this thread.
    pub opened: u64,
    /// The mapped words; none in an audit.
    pub words: Option<Words>,
}

/// An open file or directory.
pub struct Open {
    pub file: File,
    pub ino: u64,
    /// Length when it was last looked at, bytes.
    pub length: u64,
    /// Open for writing, not only for reading.
    pub writable: bool,
    /// Tells open files of a round apart; never 0.
    pub number: u64,
    /// It has the OFD lock.
    pub locked: bool,
    /// A directory whose name is gone.
    pub removed: bool,
}

impl Open {
    fn new(fd: OwnedFd, ino: u64, writable: bool, number: u64) -> Open {
        Open { file: fd.into(), ino, length: 0, writable, number, locked: false, removed: false }
    }
}

/// Time within which a lock that ends with a close is gone.
const LOCK_ENDS: Duration = Duration::from_secs(5);

fn path(at: Place) -> String {
    at.to_string()
}

fn done(result: rustix::io::Result<()>) -> Answer {
    result.map_or_else(failed, |()| Answer::Done)
}

fn failed(errno: Errno) -> Answer {
    Answer::Failed(errno.raw_os_error())
}

impl Performer<'_> {
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// One call between two readings of the clock.
    fn timed<T>(&self, action: &Action, call: impl FnOnce() -> T) -> (u64, u64, T) {
        let begin = self.now();
        *self.doing.lock().expect("nobody panics with it") = Some((begin, action.clone()));
        let begin = self.now();
        let result = call();
        let end = self.now();
        *self.doing.lock().expect("nobody panics with it") = None;
        (begin, end, result)
    }

    fn remember(&mut self, begin: u64, end: u64, action: Action, answer: Answer) {
        self.records.push(Record {
            thread: self.thread,
            mount: self.mount,
            begin,
            end,
            action,
            answer,
        });
    }

    pub(crate) fn simple(&mut self, action: Action, call: impl FnOnce(BorrowedFd<'_>) -> Answer) {
        let (begin, end, answer) = self.timed(&action, || call(self.arena));
        self.remember(begin, end, action, answer);
    }

    /// An open: its answer is the inode, which fstat of the descriptor tells.
    fn open(
        &mut self,
        action: Action,
        call: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<OwnedFd>,
    ) -> Option<Open> {
        let (begin, end, result) = self.timed(&action, || call(self.arena));
        match result {
            Err(errno) => {
                self.remember(begin, end, action, failed(errno));
                None
            }
            Ok(fd) => {
                let number = self.number();
                let mut open = Open::new(fd, 0, true, number);
                let ino = self.fstat(&mut open)?.ino;
                self.remember(begin, end, action, Answer::Inode(ino));
                open.ino = ino;
                Some(open)
            }
        }
    }

    /// `writable`: kernels may keep pages for files that are open only for reading. (It suits well
    /// that O_CREAT opens no directory.)
    pub fn create(&mut self, at: Place, exclusive: bool, writable: bool) -> Option<Open> {
        let exclusively = if exclusive { OFlags::EXCL } else { OFlags::empty() };
        let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = OFlags::CREATE | access | OFlags::CLOEXEC | exclusively;
        let open = self.open(Action::Create { at, exclusive }, |dir| {
            rustix::fs::openat(dir, path(at), flags, Mode::from_bits_retain(crate::split::MODES[0]))
        })?;
        Some(Open { writable, ..open })
    }

    pub fn open_file(&mut self, at: Place) -> Option<Open> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        self.open(Action::Open { at }, |dir| {
            rustix::fs::openat(dir, path(at), flags, Mode::empty())
        })
    }

    pub fn open_dir(&mut self, at: Place) -> Option<Open> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let action = Action::OpenDir { at };
        let call = || rustix::fs::openat(self.arena, path(at), flags, Mode::empty());
        let (begin, end, result) = self.timed(&action, call);
        let number = self.number();
        let (answer, open) = match result {
            Err(errno) => (failed(errno), None),
            // Another client may remove it before anything is known of it.
            Ok(fd) => match rustix::fs::fstat(&fd) {
                Err(Errno::NOENT | Errno::STALE) => (Answer::Done, None),
                Err(errno) => (failed(errno), None),
                Ok(stat) => {
                    (Answer::Inode(stat.st_ino), Some(Open::new(fd, stat.st_ino, false, number)))
                }
            },
        };
        self.remember(begin, end, action, answer);
        open
    }

    pub fn make_in(&mut self, dir: &Open) -> Option<Open> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_bits_retain(crate::split::MODES[0]);
        self.open(Action::MakeIn { dir: dir.ino }, |_| {
            rustix::fs::openat(&dir.file, INSIDE, flags, mode)
        })
    }

    pub fn unlink_in(&mut self, dir: &Open) {
        self.simple(Action::UnlinkIn { dir: dir.ino }, |_| {
            done(rustix::fs::unlinkat(&dir.file, INSIDE, AtFlags::empty()))
        });
    }

    pub fn unlink(&mut self, at: Place) {
        self.simple(Action::Unlink { at }, |dir| {
            done(rustix::fs::unlinkat(dir, path(at), AtFlags::empty()))
        });
    }

    pub fn mkdir(&mut self, at: Place) {
        let mode = Mode::from_bits_retain(crate::split::MODES[1]);
        self.simple(Action::Mkdir { at }, |dir| done(rustix::fs::mkdirat(dir, path(at), mode)));
    }

    pub fn rmdir(&mut self, at: Place) {
        self.simple(Action::Rmdir { at }, |dir| {
            done(rustix::fs::unlinkat(dir, path(at), AtFlags::REMOVEDIR))
        });
    }

    pub fn rename(&mut self, from: Place, to: Place) {
        let call = |dir: BorrowedFd<'_>| done(rustix::fs::renameat(dir, path(from), dir, path(to)));
        self.simple(Action::Rename { from, to }, call);
    }

    pub fn link(&mut self, from: Place, to: Place) {
        let call = |dir: BorrowedFd<'_>| {
            done(rustix::fs::linkat(dir, path(from), dir, path(to), AtFlags::empty()))
        };
        self.simple(Action::Link { from, to }, call);
    }

    pub fn stat(&mut self, at: Place) {
        let began = self.began;
        self.simple(Action::Stat { at }, |dir| {
            rustix::fs::statat(dir, path(at), AtFlags::SYMLINK_NOFOLLOW)
                .map_or_else(failed, |stat| Answer::Attributes(attributes(&stat, began)))
        });
    }

    pub fn list(&mut self, dir: u8) {
        self.simple(Action::List { dir }, |arena| {
            list(arena, dir).map_or_else(failed, Answer::Entries)
        });
    }

    /// Also updates what the handle knows of its length.
    pub fn fstat(&mut self, open: &mut Open) -> Option<Attributes> {
        let (begin, end, result) =
            self.timed(&Action::Fstat { ino: open.ino }, || rustix::fs::fstat(&open.file));
        match result {
            Ok(stat) => {
                let found = attributes(&stat, self.began);
                (open.length, open.removed) = (found.size, found.dir && found.links == 0);
                self.remember(
                    begin,
                    end,
                    Action::Fstat { ino: found.ino },
                    Answer::Attributes(found),
                );
                Some(found)
            }
            Err(errno) => {
                self.remember(begin, end, Action::Fstat { ino: open.ino }, failed(errno));
                None
            }
        }
    }

    pub fn read(&mut self, open: &Open, slot: u64, slots: u64) {
        let mut buffer = vec![0; (slots * SLOT) as usize];
        let action = Action::Read { ino: open.ino, slot, slots };
        let (begin, end, result) =
            self.timed(&action, || rustix::io::pread(&open.file, &mut buffer[..], slot * SLOT));
        let answer = result.map_or_else(failed, |n| Answer::Cells {
            bytes: n as u64,
            cells: marks::read(&buffer[..n]),
        });
        self.remember(begin, end, action, answer);
    }

    pub fn write(&mut self, open: &Open, slot: u64, slots: u64, id: u64) {
        let bytes = marks::fill(id, slots);
        self.simple(Action::Write { ino: open.ino, slot, slots, id }, |_| {
            written(rustix::io::pwrite(&open.file, &bytes, slot * SLOT), bytes.len())
        });
    }

    pub fn append(&mut self, open: &Open, slots: u64, id: u64) {
        let bytes = marks::fill(id, slots);
        let appending = |on| {
            let flags = if on { OFlags::APPEND } else { OFlags::empty() };
            rustix::fs::fcntl_setfl(&open.file, flags)
        };
        appending(true).expect("O_APPEND can be set");
        self.simple(Action::Append { ino: open.ino, slots, id }, |_| {
            written(rustix::io::write(&open.file, &bytes), bytes.len())
        });
        appending(false).expect("O_APPEND can be cleared");
    }

    pub fn truncate(&mut self, open: &Open, slots: u64) {
        self.simple(Action::Truncate { ino: open.ino, slots }, |_| {
            done(rustix::fs::ftruncate(&open.file, slots * SLOT))
        });
    }

    pub fn chmod(&mut self, open: &Open, mode: u32) {
        self.simple(Action::Chmod { ino: open.ino, mode }, |_| {
            done(rustix::fs::fchmod(&open.file, Mode::from_bits_retain(mode)))
        });
    }

    /// A directory whose name is gone, but which is open.
    pub fn chmod_removed(&mut self, open: &Open, mode: u32) {
        self.simple(Action::ChmodRemoved { ino: open.ino, mode }, |_| {
            done(rustix::fs::fchmod(&open.file, Mode::from_bits_retain(mode)))
        });
    }

    /// The one entry that an open directory may have is shown as 0, any other as one that cannot be
    /// there.
    pub fn list_in(&mut self, open: &Open) {
        let call = |_: BorrowedFd<'_>| {
            let list = || {
                rustix::fs::seek(&open.file, SeekFrom::Start(0))?;
                let mut buffer = Vec::with_capacity(4096);
                // `Dir` takes ENOENT, by which Linux tells of a removed directory, for the end.
                let mut dir = RawDir::new(&open.file, buffer.spare_capacity_mut());
                let mut entries = Vec::new();
                while let Some(entry) = dir.next() {
                    let entry = entry?;
                    let name = match entry.file_name().to_bytes() {
                        b"." | b".." => continue,
                        name if name == INSIDE.as_bytes() => 0,
                        _ => u8::MAX,
                    };
                    entries.push(Entry { name, ino: entry.ino(), dir: entry.file_type().is_dir() });
                }
                Ok(entries)
            };
            list().map_or_else(failed, Answer::Entries)
        };
        self.simple(Action::ListIn { dir: open.ino }, call);
    }

    pub fn setxattr(&mut self, open: &Open, which: u8, value: u64) {
        self.simple(Action::Setxattr { ino: open.ino, which, value }, |_| {
            let value = value.to_string();
            done(rustix::fs::fsetxattr(
                &open.file,
                xattr(which),
                value.as_bytes(),
                XattrFlags::empty(),
            ))
        });
    }

    pub fn getxattr(&mut self, open: &Open, which: u8) {
        self.simple(Action::Getxattr { ino: open.ino, which }, |_| {
            let mut value = [0; 32];
            match rustix::fs::fgetxattr(&open.file, xattr(which), &mut value[..]) {
                Ok(len) => {
                    let number =
                        std::str::from_utf8(&value[..len]).ok().and_then(|text| text.parse().ok());
                    // A value that no setxattr ever gave is recorded as one that was never set.
                    Answer::Value(Some(number.unwrap_or(u64::MAX - 1)))
                }
                Err(Errno::NODATA) => Answer::Value(None),
                Err(errno) => failed(errno),
            }
        });
    }

    pub fn removexattr(&mut self, open: &Open, which: u8) {
        self.simple(Action::Removexattr { ino: open.ino, which }, |_| {
            done(rustix::fs::fremovexattr(&open.file, xattr(which)))
        });
    }

    pub fn fsync(&mut self, open: &Open) {
        self.simple(Action::Fsync { ino: open.ino }, |_| done(rustix::fs::fsync(&open.file)));
    }

    /// Takes the OFD lock, or gives it back if it is there.
    pub fn lock(&mut self, open: &mut Open) {
        let (ino, number) = (open.ino, open.number);
        let (kind, action) = match open.locked {
            true => (libc::F_UNLCK, Action::Unlock { ino, open: number }),
            false => (libc::F_WRLCK, Action::Lock { ino, open: number }),
        };
        let whole = libc::flock {
            l_type: kind as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        let fd = open.file.as_raw_fd();
        // SAFETY: the descriptor is open and `whole` lives through the call.
        let call = || match unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &whole) } {
            0 => Answer::Done,
            _ => last_error(),
        };
        let (begin, end, answer) = self.timed(&action, call);
        open.locked ^= answer == Answer::Done;
        self.remember(begin, end, action, answer);
    }

    pub fn load(&mut self, word: u8) {
        let Some(words) = &self.words else { return };
        let action = Action::Load { word };
        let (begin, end, value) = self.timed(&action, || words.get(word));
        self.remember(begin, end, action, Answer::Value(Some(value)));
    }

    pub fn store(&mut self, word: u8, value: u64) {
        let Some(words) = &self.words else { return };
        let action = Action::Store { word, value };
        let (begin, end, ()) = self.timed(&action, || words.set(word, value));
        self.remember(begin, end, action, Answer::Done);
    }

    pub fn read_word(&mut self, word: u8) {
        let Some(words) = &self.words else { return };
        let action = Action::ReadWord { word };
        let mut bytes = [0; 8];
        let call = || rustix::io::pread(&words.file, &mut bytes[..], mapped::offset(word) as u64);
        let (begin, end, result) = self.timed(&action, call);
        let answer = match result {
            Ok(8) => Answer::Value(Some(u64::from_ne_bytes(bytes))),
            Ok(short) => Answer::Short(short as u64),
            Err(errno) => failed(errno),
        };
        self.remember(begin, end, action, answer);
    }

    fn number(&mut self) -> u64 {
        self.opened += 1;
        u64::from(self.thread) << 40 | self.opened
    }

    pub fn close(&mut self, open: Open) {
        if open.locked {
            let (begin, later) = (self.now(), LOCK_ENDS.as_nanos() as u64);
            let action = Action::LockEnds { ino: open.ino, open: open.number };
            self.remember(begin, begin + later, action, Answer::Done);
        }
        let fd = open.file.into_raw_fd();
        self.simple(Action::Close { ino: open.ino }, |_| {
            // SAFETY: the descriptor was ours and is given up here.
            let result = unsafe { libc::close(fd) };
            if result == 0 { Answer::Done } else { last_error() }
        });
    }
}

fn last_error() -> Answer {
    Answer::Failed(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn xattr(which: u8) -> String {
    format!("user.x{which}")
}

fn written(result: rustix::io::Result<usize>, all: usize) -> Answer {
    match result {
        Ok(n) if n == all => Answer::Done,
        Ok(n) => Answer::Short(n as u64),
        Err(errno) => failed(errno),
    }
}

fn attributes(stat: &rustix::fs::Stat, began: i128) -> Attributes {
    let at = |sec: i64, nsec| (i128::from(sec) * 1_000_000_000 + i128::from(nsec) - began) as i64;
    Attributes {
        ino: stat.st_ino,
        dir: stat.st_mode & libc::S_IFMT == libc::S_IFDIR,
        mode: stat.st_mode & 0o7777,
        size: stat.st_size as u64,
        links: stat.st_nlink as u32,
        times: Times {
            access: at(stat.st_atime, stat.st_atime_nsec),
            change: at(stat.st_ctime, stat.st_ctime_nsec),
        },
    }
}

fn list(arena: BorrowedFd<'_>, dir: u8) -> rustix::io::Result<Vec<Entry>> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(arena, format!("d{dir}"), flags, Mode::empty())?;
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::read_from(fd.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let name = std::str::from_utf8(name).ok().and_then(|n| n.strip_prefix('n')?.parse().ok());
        // A name that was never made is recorded as one that cannot be there.
        let name = name.unwrap_or(u8::MAX);
        entries.push(Entry { name, ino: entry.ino(), dir: entry.file_type().is_dir() });
    }
    Ok(entries)
}
