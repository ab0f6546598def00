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
    Connect {
        /// The peer.
        nid: Nid,
        /// The reason, as the system or the decoder words it.
        reason: String,
    },
    /// The two sides have no protocol version in common.
    #[error(
        "{nid} speaks protocol versions {theirs_min} to {theirs_max}, we {ours_min} to {ours_max}"
    )]
    Version {
        /// The peer.
        nid: Nid,
        /// Oldest version that the peer speaks.
        theirs_min: u16,
        /// Newest version that the peer speaks.
        theirs_max: u16,
        /// Oldest version that this process speaks.
        ours_min: u16,
        /// Newest version that this process speaks.
        ours_max: u16,
    },
    /// The peer belongs to another cluster.
    #[error("{nid} belongs to another cluster ({theirs}), we to {ours}")]
    Cluster {
        /// The peer.
        nid: Nid,
        /// Cluster of the peer.
        theirs: ClusterId,
        /// Cluster of this process.
        ours: ClusterId,
    },
    /// The peer is on this host, and lets no process of our user connect.
    #[error(
        "{nid} takes connections from its own host only from root and from the user that it runs as"
    )]
    OtherUser {
        /// The peer.
        nid: Nid,
    },
    /// A process of this host may not connect, or could not be told from one that may not.
    #[error("{nid} is on this host, and {reason}")]
    Local {
        /// The peer.
        nid: Nid,
        /// Why it may not, or what the system said.
        reason: String,
    },
    /// The peer shows no key of this cluster, or takes that of this process for none.
    #[error("{nid}: {reason}")]
    Key {
        /// The peer.
        nid: Nid,
        /// What is wrong with whose key.
        reason: String,
    },
    /// The peer takes no more connections for now, or is stopping.
    #[error("{nid} takes no connections now")]
    Busy {
        /// The peer.
        nid: Nid,
    },
    /// The peer sent bytes that are no frame, or a damaged one.
    #[error("{nid}: {error}")]
    Frame {
        /// The peer.
        nid: Nid,
        /// What is wrong with the frame.
        error: FrameError,
    },
    /// The peer sent a frame that has no place there, or a body that cannot be read.
    #[error("{nid}: {reason}")]
    Protocol {
        /// The peer.
        nid: Nid,
        /// The reason, as the system or the decoder words it.
        reason: String,
    },
    /// The message is longer than allowed: nothing was sent.
    #[error(
        "a message of {bytes} bytes to {nid} is longer than the {MESSAGE_BYTES_MAX} that one may have"
    )]
    TooLong {
        /// The peer.
        nid: Nid,
        /// Length of the message, bytes.
        bytes: usize,
    },
    /// The connection ended.
    #[error("connection to {nid} lost: {reason}")]
    Lost {
        /// The peer.
        nid: Nid,
        /// The reason, as the system or the decoder words it.
        reason: String,
    },
    /// No answer came in time.
    #[error("{nid} did not answer for {seconds} s")]
    NoAnswer {
        /// The peer.
        nid: Nid,
        /// Time that it was waited for, seconds.
        seconds: u64,
    },
    /// This process is shutting down.
    #[error("shutting down")]
    Shutdown,
}
