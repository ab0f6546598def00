//! Answers of an MDT.

use super::shared::{DirEntry, Entry, Record, Removed};
use bytes::Bytes;
use layout::layout::Layout;
use std::sync::Arc;
use types::attr::Statfs;
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
    Opened { entry: Box<Entry>, created: bool, handle: OpenHandle, layout: Option<Arc<Layout>> },
    /// Attributes of many; `None` where there is no such inode.
    Attrs(Vec<Option<Entry>>),
    /// Entries; `more` if the directory goes on.
    Entries { entries: Vec<DirEntry>, more: bool },
    /// Bytes: link target, xattr value or list.
    Bytes(Bytes),
    /// A layout.
    Layout(Arc<Layout>),
    /// Where the appended data goes.
    Appended { offset: u64 },
    /// Bytes that live on the MDT, cut at the end of the file, and the inode as it was with them.
    Data { entry: Box<Entry>, data: Bytes },
    /// Position found.
    Offset(Option<u64>),
    /// Locks on these bytes, at most EXTENTS_PER_REPLY_MAX; the first one covers what was needed.
    /// The inode is as its record has it: no client cuts the file while one of the locks is held.
    Extents { entry: Box<Entry>, ranges: Vec<ByteRange>, write: bool },
    /// A name went.
    Removed(Removed),
    /// Totals.
    Statfs(Statfs),
    /// The lock in the way; `None` = free.
    Flock(Option<Flock>),
    /// The lease, if it is not broken.
    Lease(Option<LeaseMode>),
    /// Records; `more` if there are others behind. All have values.
    Records { records: Vec<Record>, more: bool },
}
