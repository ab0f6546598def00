//! Errors of a link.

use types::limits::MESSAGE_BYTES_MAX;
use types::nid::Nid;
use types::session::ClusterId;
use wire::frame::FrameError;

/// Why a link could not be made, or ended, or gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// There is no listener at that address, or no route to it.
    #[error("connect to {nid}: {reason}")]
    Connect { nid: Nid, reason: String },
    /// The two sides have no protocol version in common.
    #[error("{nid} speaks protocol versions {theirs_min} to {theirs_max}, we {ours_min} to {ours_max}")]
    Version { nid: Nid, theirs_min: u16, theirs_max: u16, ours_min: u16, ours_max: u16 },
    /// The peer belongs to another cluster.
    #[error("{nid} belongs to another cluster ({theirs}), we to {ours}")]
    Cluster { nid: Nid, theirs: ClusterId, ours: ClusterId },
    /// The peer takes us for a user of its host who may not connect.
    #[error("{nid} takes connections from its own host only from root and from the user that it runs as")]
    OtherUser { nid: Nid },
    /// A process of this host may not connect, or could not be told from one that may not.
    #[error("{nid} is on this host, and {reason}")]
    Local { nid: Nid, reason: String },
    /// The peer takes no more connections for now, or is stopping.
    #[error("{nid} takes no connections now")]
    Busy { nid: Nid },
    /// The peer sent bytes that are no frame, or a damaged one.
    #[error("{nid}: {error}")]
    Frame { nid: Nid, error: FrameError },
    /// The peer sent a frame that has no place there, or a body that cannot be read.
    #[error("{nid}: {reason}")]
    Protocol { nid: Nid, reason: String },
    /// The message is longer than allowed: nothing was sent.
    #[error("a message of {bytes} bytes to {nid} is longer than the {MESSAGE_BYTES_MAX} that one may have")]
    TooLong { nid: Nid, bytes: usize },
    /// The connection ended.
    #[error("connection to {nid} lost: {reason}")]
    Lost { nid: Nid, reason: String },
    /// No answer came in time.
    #[error("{nid} did not answer for {seconds} s")]
    NoAnswer { nid: Nid, seconds: u64 },
    /// This process is shutting down.
    #[error("shutting down")]
    Shutdown,
}
