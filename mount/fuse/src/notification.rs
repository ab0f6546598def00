//! What a daemon tells the kernel without being asked.

use bytes::Bytes;
use types::name::Name;

/// One thing to tell the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// Forget attributes, and cached data of `[offset, offset + len)`; `offset` < 0: attributes
    /// only; `len` <= 0: all behind.
    InvalInode {
        /// The node.
        node: u64,
        /// First byte.
        offset: i64,
        /// Bytes.
        len: i64,
    },
    /// Drop a name, and the parent's attributes.
    InvalEntry {
        /// Node of the directory.
        parent: u64,
        /// The name.
        name: Name,
    },
    /// Ask again at the name's next use.
    ExpireEntry {
        /// Node of the directory.
        parent: u64,
        /// The name.
        name: Name,
    },
    /// The name was removed by another: also tells watchers.
    Delete {
        /// Node of the directory.
        parent: u64,
        /// The node that it led to.
        child: u64,
        /// The name.
        name: Name,
    },
    /// Ask again at every name's next use.
    IncEpoch,
    /// Drop unused names of these nodes (at most `PRUNE_NODES_MAX`).
    Prune {
        /// The nodes.
        nodes: Vec<u64>,
    },
    /// Send all requests in flight again (a new daemon took over the descriptor).
    Resend,
    /// Put data into the page cache.
    Store {
        /// The node.
        node: u64,
        /// First byte.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
}
