//! Answers of an MDT.

use super::shared::{DirEntry, Entry, Record, Removed};
use bytes::Bytes;
use layout::layout::Layout;
use std::sync::Arc;
use types::attr::{FileType, Statfs};
use types::fid::Fid;
use types::lock::{Flock, LeaseMode};
use types::ranges::ByteRange;
use types::session::OpenHandle;

/// What an operation answered.
#[derive(Clone, PartialEq, Debug)]
pub enum MdsReply {
    /// Done.
    Done,
    /// An inode.
    Entry(Box<Entry>),
    /// An inode, made (`created`) or found; opened if `handle` is not 0, then with its layout.
    Opened {
        /// The inode.
        entry: Box<Entry>,
        /// It was made by this operation.
        created: bool,
        /// Number of the open file; 0: it was not opened.
        handle: OpenHandle,
        /// Layout of the open file.
        layout: Option<Arc<Layout>>,
    },
    /// Attributes of many; `None` where there is no such inode.
    Attrs(Vec<Option<Entry>>),
    /// Entries; `more` if the directory goes on.
    Entries {
        /// The entries, in the order of the directory.
        entries: Vec<DirEntry>,
        /// There are others behind.
        more: bool,
    },
    /// Bytes: link target, xattr value or list.
    Bytes(Bytes),
    /// A layout.
    Layout(Arc<Layout>),
    /// Bytes that live on the MDT, cut at the end of the file, and the inode as it was with them.
    Data {
        /// The inode.
        entry: Box<Entry>,
        /// The bytes.
        data: Bytes,
    },
    /// Position found.
    Offset(Option<u64>),
    /// Locks on these bytes, at most EXTENTS_PER_REPLY_MAX; the first one covers what was needed.
    /// The inode is as its record has it: no client cuts the file while one of the locks is held.
    Extents {
        /// The inode.
        entry: Box<Entry>,
        /// The bytes, ascending.
        ranges: Vec<ByteRange>,
        /// The locks are to write; else to read.
        write: bool,
    },
    /// The inode is on another MDT, which has its attributes: the name leads there, or was made.
    Remote {
        /// The inode.
        fid: Fid,
        /// Its type.
        file_type: FileType,
    },
    /// A name went.
    Removed(Removed),
    /// Totals.
    Statfs(Statfs),
    /// The lock in the way; `None` = free.
    Flock(Option<Flock>),
    /// The lease, if it is not broken.
    Lease(Option<LeaseMode>),
    /// Records; `more` if there are others behind. All have values.
    Records {
        /// The records, by key.
        records: Vec<Record>,
        /// There are others behind.
        more: bool,
    },
}
