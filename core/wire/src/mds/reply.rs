//! Answers of an MDT.

use super::shared::{DirEntry, Entry, PeerBundle, PeerFacts, Record, Removed};
use bytes::Bytes;
use layout::layout::Layout;
use std::sync::Arc;
use types::attr::{FileType, Statfs};
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, LeaseMode};
use types::name::Name;
use types::object_ticket::ObjectTicket;
use types::ranges::ByteRange;
use types::session::{OpenHandle, Transno};

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
    /// The inode is on another MDT, which has its attributes: the name leads there.
    Remote {
        /// The inode.
        fid: Fid,
        /// Its type.
        file_type: FileType,
    },
    /// A directory on the way to the root of a mount.
    Root {
        /// The directory.
        fid: Fid,
        /// Names on the way to it.
        walked: u32,
        /// The first so many of them are those of the fileset.
        fileset: u32,
        /// It is the root; else its MDT goes on.
        is_root: bool,
        /// The client's nodemap lets it change nothing.
        read_only: bool,
    },
    /// Tickets for the objects of files, in the order in which they were asked for: each with all
    /// that the caller, or what the client had before, gives it; or why there is none.
    Tickets {
        /// For how long they are good, seconds.
        life: u32,
        /// The tickets.
        tickets: Vec<Result<ObjectTicket, Errno>>,
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
    /// As of an OST: `more` bytes more are granted. `paid` bytes of `spend` had been granted; the
    /// rest had not (or the session is a new one).
    Granted {
        /// Bytes that are granted in addition.
        more: u64,
        /// Bytes that had been granted.
        paid: u64,
    },
    /// A sequence whose FIDs are the asker's to hand out; they belong to the sender.
    PeerFids(u64),
    /// It is pinned. `boot`: of the sender, here and below.
    PeerPrepared {
        /// Boot number of the sender.
        boot: u64,
        /// What it is.
        facts: PeerFacts,
    },
    /// The sender's part is applied.
    PeerApplied {
        /// Boot number of the sender.
        boot: u64,
        /// The change; 0: it is durable.
        transno: Transno,
    },
    /// The sender does not take it, now or later.
    PeerRefused {
        /// Boot number of the sender.
        boot: u64,
        /// The reason. EAGAIN: it was stopped.
        errno: Errno,
    },
    /// Done.
    PeerDone {
        /// Boot number of the sender.
        boot: u64,
        /// Everything up to here is durable there.
        committed: Transno,
    },
    /// What a restarted MDT may have lost; `more` if there are others behind.
    PeerBundles {
        /// Boot number of the sender.
        boot: u64,
        /// The bundles, by name.
        bundles: Vec<PeerBundle>,
        /// The bundles that the sender has stopped.
        stopped: Vec<BundleId>,
        /// There are others behind.
        more: bool,
    },
    /// What became of a bundle at the sender, which takes part in it.
    PeerTold {
        /// Boot number of the sender.
        boot: u64,
        /// Its record, if it is applied; else the sender does not take it from its coordinator any
        /// more, durably.
        applied: Option<Bytes>,
    },
    /// Inodes of the sender are of a realm.
    PeerMarked {
        /// Those that were not before, and one that is not where it was found.
        marked: u32,
        /// The directory above the children.
        parent: Fid,
        /// Inodes that are to be marked, too, at most MARKED_CHILDREN_MAX: directories, and inodes
        /// of other MDTs.
        children: Vec<Fid>,
        /// The name after which the directory goes on; `None`: this was its end.
        more: Option<Name>,
    },
}
