//! Callbacks: operations that a server asks of a client, on the connection that the client made.

use types::credentials::SquashNews;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::ranges::ByteRange;
use types::time::Timestamp;

/// One callback.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientOp {
    /// Drop these bits of these inodes: invalidate what they covered, then answer.
    /// Data that was written (WRITE) is stored and told first. Answers `Done`, or `Kept`.
    Revoke {
        /// Inodes, each with the bits to drop.
        locks: Vec<(Fid, InodeBits)>,
    },
    /// Another client is about to change these names of a directory, and so its attributes: forget
    /// those, keep the lock. Answers `Done`, or `Dropped`: UPDATE of the directory is given up as a
    /// whole.
    Changing {
        /// The directory.
        dir: Fid,
        /// The names.
        names: Vec<Name>,
    },
    /// Asks the holder of WRITE, or of an extent to write, for size and times of these files.
    /// Answers `Glimpses`, in order.
    Glimpse {
        /// The files.
        fids: Vec<Fid>,
        /// What was written of them is stored and told first.
        store: bool,
    },
    /// Give up these bytes of these files. The client first stores what was written of the files
    /// and tells the MDT. Answers `Done`.
    RevokeExtents {
        /// Files, each with the bytes to give up.
        extents: Vec<(Fid, ByteRange)>,
    },
    /// The callers of this client act as others from now on. Answers `Done`.
    Squash(SquashNews),
}

/// Size and times of a file that is being written, as its writer knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glimpse {
    /// Bytes.
    pub size: u64,
    /// Of the newest write; also the ctime, if that is not newer.
    pub mtime: Timestamp,
}

/// What a writer says of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glimpsed {
    /// The MDT has been told of everything that was written.
    Reported,
    /// As `Reported`, and no program has the file open for writing: the writer does not miss WRITE
    /// if it is called back.
    Idle,
    /// The MDT has not been told of all that was written.
    Dirty(Glimpse),
}

/// Its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientReply {
    /// Done.
    Done,
    /// Revoked, except these: OPEN of inodes that programs of this client still use. The client
    /// gives them back with `Unlock`.
    Kept(Vec<(Fid, InodeBits)>),
    /// The whole lock is given up.
    Dropped,
    /// One for each inode, in the order of the question.
    Glimpses(Vec<Glimpsed>),
}
