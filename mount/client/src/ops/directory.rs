//! Listing directories.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::error::ClientError;
use crate::node::NodeId;
use crate::open::DirHandle;
use std::sync::Arc;
use types::attr::FileType;

/// One entry for the kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct DirItem {
    /// Name; also `.` and `..`.
    pub name: Box<[u8]>,
    /// Inode number that programs see.
    pub ino: u64,
    /// What is there.
    pub file_type: FileType,
    /// Position behind this entry: the `cookie` that continues after it.
    pub next: u64,
    /// With `plus`: the inode, its lookup count grown by one. `None` for `.`, `..` and inodes of other MDTs.
    pub found: Option<Found>,
}

/// How many entries to answer: each costs `per_entry` plus its name rounded up to 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Bytes of the caller's buffer.
    pub bytes: usize,
    /// Fixed bytes of one entry (24 in FUSE_READDIR, 152 in FUSE_READDIRPLUS).
    pub per_entry: usize,
}

impl Client {
    /// Opens a directory for listing. No request.
    pub async fn opendir(self: Arc<Self>, _caller: Caller, _node: NodeId) -> Result<DirHandle, ClientError> {
        unimplemented!()
    }

    /// Entries from `cookie` on (0 = start again) that fit into `budget`; empty at the end.
    pub async fn readdir(
        self: Arc<Self>,
        _caller: Caller,
        _handle: DirHandle,
        _cookie: u64,
        _budget: Budget,
        _plus: bool,
    ) -> Result<Vec<DirItem>, ClientError> {
        unimplemented!()
    }

    /// Lets an open directory go.
    pub fn releasedir(&self, _handle: DirHandle) {
        unimplemented!()
    }
}
