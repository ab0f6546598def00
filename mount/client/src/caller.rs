//! The caller of an operation, and the answers about names.

use data::node::NodeId;
use std::time::Duration;
use types::attr::Attr;
use types::credentials::Credentials;

/// The process on whose behalf an operation runs.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// User, group, supplementary groups.
    pub credentials: Credentials,
    /// Process id, as other processes see it with F_GETLK.
    pub pid: u32,
    /// File mode creation mask, for operations that create.
    pub umask: u32,
}

impl Caller {
    /// The file system itself.
    pub fn root() -> Caller {
        Caller::default()
    }
}

/// An inode that was found or made. Its lookup count grew by one: [`crate::client::Client::forget`]
/// gives it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Number for the kernel.
    pub node: NodeId,
    /// Distinguishes inodes that had the same `node`; always 0, numbers are never reused.
    pub generation: u64,
    /// Attributes.
    pub attr: Attr,
    /// Inode number that programs see.
    pub ino: u64,
    /// How long the name may be trusted without asking.
    pub entry_valid: Duration,
    /// How long the attributes may be trusted without asking.
    pub attr_valid: Duration,
}

/// Attributes with the time for which they may be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    /// Attributes.
    pub attr: Attr,
    /// Inode number that programs see.
    pub ino: u64,
    /// How long the attributes may be trusted without asking.
    pub attr_valid: Duration,
}
