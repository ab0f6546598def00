//! Callbacks: operations that a server asks of a client, on the connection that the client made.

use types::fid::Fid;
use types::lock::InodeBits;

/// One callback.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientOp {
    /// Drop these bits of these inodes: invalidate what they covered, then answer.
    Revoke { locks: Vec<(Fid, InodeBits)> },
}

/// Its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientReply {
    /// Done.
    Done,
}
