//! The caller, the time and the change number under which an operation runs.

use types::credentials::Credentials;
use types::time::Timestamp;

/// What comes with every operation.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Identity of the caller.
    pub credentials: &'a Credentials,
    /// The time that changed inodes get.
    pub now: Timestamp,
    /// The version (transno) that changed inodes get.
    pub version: u64,
}

impl Context<'_> {
    /// True if the caller has the superuser's rights (all of Linux' CAP_* that matter here).
    pub fn is_root(&self) -> bool {
        self.credentials.uid == 0
    }

    /// Owner of an inode, or root.
    pub fn owns(&self, uid: u32) -> bool {
        self.is_root() || self.credentials.uid == uid
    }

    /// True if the caller is in the group, or root: it may then keep the set-group-id bit.
    pub fn in_group_or_root(&self, gid: u32) -> bool {
        self.is_root() || self.credentials.in_group(gid)
    }
}
