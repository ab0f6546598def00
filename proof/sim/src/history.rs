//! Calls and answers of the programs, in the order in which they happened. Kept outside the system.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::errno::Errno;
use types::fid::Fid;

/// Inode number as programs see it. A synthetic one stands for an inode whose number was not seen
/// yet.
pub type Ino = u64;
/// The MDT of an inode whose number was seen.
pub fn mdt_of(ino: Ino) -> u16 {
    // The high bits of an inode number are the sequence of its FID.
    Fid { seq: ino >> 24, oid: 0, ver: 0 }.mdt()
}

/// A point in the order of events.
pub type Moment = u64;

/// Kinds of inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Symlink,
}

/// One operation on the name space, on inodes that the program holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Finds a name.
    Lookup { parent: Ino, name: String },
    /// Attributes.
    Getattr { ino: Ino },
    /// Makes an inode on this MDT; a file may be there already unless `exclusive`.
    Make { parent: Ino, name: String, kind: Kind, exclusive: bool, mdt: u16 },
    /// Removes a name of a file or symbolic link.
    Unlink { parent: Ino, name: String },
    /// Removes an empty directory.
    Rmdir { parent: Ino, name: String },
    /// Moves a name.
    Rename { parent: Ino, name: String, new_parent: Ino, new_name: String },
    /// A second name.
    Link { ino: Ino, parent: Ino, name: String },
    /// All names.
    Readdir { ino: Ino },
}

impl Call {
    /// The directories that it changes.
    pub fn changes(&self) -> Vec<Ino> {
        match self {
            Call::Lookup { .. } | Call::Getattr { .. } | Call::Readdir { .. } => Vec::new(),
            Call::Make { parent, .. }
            | Call::Unlink { parent, .. }
            | Call::Rmdir { parent, .. }
            | Call::Link { parent, .. } => vec![*parent],
            Call::Rename { parent, new_parent, .. } => vec![*parent, *new_parent],
        }
    }

    /// The directories in which its names are.
    pub fn directories(&self) -> Vec<Ino> {
        match self {
            Call::Lookup { parent, .. } => vec![*parent],
            call => call.changes(),
        }
    }
}

/// The link count of a directory that may be split. It comes from several MDTs at several moments,
/// or with a name from one of them alone.
pub const ANY_NLINK: u32 = u32::MAX;

/// The answer that a program got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An inode.
    Inode { ino: Ino, kind: Kind, nlink: u32 },
    /// Names with inode numbers.
    Names(BTreeMap<String, Ino>),
    /// It is done.
    Done,
    /// It was refused: nothing was changed.
    Refused(Errno),
}

/// One operation in the history.
#[derive(Clone, Debug)]
pub struct Record {
    /// The program.
    pub program: usize,
    /// Its call.
    pub call: Call,
    /// Start of the call.
    pub began: Moment,
    /// Answer and its time. `None`: the program never got one, and the operation may happen at any
    /// time after its start, or never.
    pub ended: Option<(Moment, Answer)>,
    /// The operation has happened by then, with this answer if there is one, or never does. `None`:
    /// there is no such moment.
    pub over: Option<Moment>,
}

impl Record {
    /// Time of the answer; without one the end of all time.
    pub fn end(&self) -> Moment {
        self.ended.as_ref().map_or(Moment::MAX, |(ended, _)| *ended)
    }
}

#[derive(Default)]
struct Inner {
    now: Moment,
    records: Vec<Record>,
}

/// The history of a run; shared by all programs.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Inner>>);

/// Errors after which it is unknown whether the operation happened.
pub fn is_unknown(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EIO
            | Errno::ETIMEDOUT
            | Errno::ENOTCONN
            | Errno::ESHUTDOWN
            | Errno::ECONNRESET
            | Errno::EHOSTUNREACH
            | Errno::ECONNREFUSED
            | Errno::EINTR
    )
}

impl History {
    /// The next moment.
    pub fn moment(&self) -> Moment {
        let mut inner = self.0.lock();
        inner.now += 1;
        inner.now
    }

    /// The newest moment so far.
    pub fn now(&self) -> Moment {
        self.0.lock().now
    }

    /// A program asks something; the number of the record.
    pub fn begin(&self, program: usize, call: Call) -> usize {
        let began = self.moment();
        let mut inner = self.0.lock();
        inner.records.push(Record { program, call, began, ended: None, over: None });
        inner.records.len() - 1
    }

    /// Records the answer. Errors that say nothing leave the operation open for ever.
    pub fn end(&self, record: usize, answer: Answer) {
        let now = self.moment();
        tracing::debug!(record, ended = now, told = ?answer, asked = ?self.0.lock().records[record]);
        if !matches!(&answer, Answer::Refused(errno) if is_unknown(*errno)) {
            self.0.lock().records[record].ended = Some((now, answer));
        }
    }

    /// So many operations of these programs were answered after this moment.
    pub fn answered_since(&self, moment: Moment, of: impl Fn(usize) -> bool) -> u64 {
        let inner = self.0.lock();
        let recent = inner.records.iter().filter(|record| of(record.program));
        let ended = recent.filter_map(|record| record.ended.as_ref());
        ended.filter(|(ended, _)| *ended > moment).count() as u64
    }

    /// Everything so far.
    pub fn records(&self) -> Vec<Record> {
        self.0.lock().records.clone()
    }
}
