//! Errors between a client and a target.

use types::errno::Errno;
use types::nid::Nid;
use types::target::TargetName;

/// A request did not get its answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// There is no answer at its NIDs.
    #[error("{target} does not answer at {nids:?}: {reason}")]
    Unreachable {
        /// The target.
        target: TargetName,
        /// NIDs at which it was looked for.
        nids: Vec<Nid>,
        /// The reason, as the system or the decoder words it.
        reason: String,
    },
    /// The target left the configuration for good.
    #[error("{target} was removed from the file system")]
    Removed {
        /// The target.
        target: TargetName,
    },
    /// The peer speaks other versions.
    #[error(
        "{nid} speaks protocol versions {theirs_min} to {theirs_max}, we {ours_min} to {ours_max}: update the older side"
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
        theirs: types::session::ClusterId,
        /// Cluster of this process.
        ours: types::session::ClusterId,
    },
    /// The peer is on this host, and lets no process of our user connect.
    #[error(
        "{nid} takes connections from its own host only from root and from the user that it runs as"
    )]
    OtherUser {
        /// The peer.
        nid: Nid,
    },
    /// The peer shows no key of this cluster, or takes that of this host for none.
    #[error("{nid}: {reason}")]
    Key {
        /// The peer.
        nid: Nid,
        /// What is wrong with whose key.
        reason: String,
    },
    /// No such target is served there.
    #[error("{nid} does not serve {target}")]
    NoTarget {
        /// The peer.
        nid: Nid,
        /// The target.
        target: TargetName,
    },
    /// The peer sent what no peer may send.
    #[error("{nid} sent a bad message: {reason}")]
    BadMessage {
        /// The peer.
        nid: Nid,
        /// The reason, as the system or the decoder words it.
        reason: String,
    },
    /// The target refused the session.
    #[error("{target} refuses the connection: {errno}")]
    Refused {
        /// The target.
        target: TargetName,
        /// The target's reason.
        errno: Errno,
    },
    /// The target forgot this client (it restarted without the session, or evicted it).
    #[error("{target} evicted this client")]
    Evicted {
        /// The target.
        target: TargetName,
    },
    /// No answer came in time.
    #[error("{target} did not answer for {seconds} s")]
    Timeout {
        /// The target.
        target: TargetName,
        /// Time that it was waited for, seconds.
        seconds: u64,
    },
    /// The request reached the target when another client might have had the lock that it was sent
    /// under: nothing was done.
    #[error("a request reached {target} too late")]
    Late {
        /// The target.
        target: TargetName,
    },
    /// The target knows this client's name, but as that of another process.
    #[error("{target} has a session of another process under the name of this client")]
    OtherProcess {
        /// The target.
        target: TargetName,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {addr}: {reason}")]
    Listen {
        /// The address.
        addr: std::net::SocketAddr,
        /// The reason, as the system or the decoder words it.
        reason: String,
    },
    /// This process is shutting down.
    #[error("shutting down")]
    Shutdown,
    /// The operation itself failed.
    #[error("{0}")]
    Errno(#[from] Errno),
}

impl RpcError {
    /// The errno that a program sees.
    pub fn errno(&self) -> Errno {
        match self {
            RpcError::Unreachable { .. } | RpcError::Removed { .. } => Errno::EIO,
            RpcError::Version { .. } => Errno::EPROTONOSUPPORT,
            RpcError::Cluster { .. } => Errno::EPROTO,
            RpcError::NoTarget { .. } => Errno::ENODEV,
            RpcError::BadMessage { .. } => Errno::EPROTO,
            RpcError::Refused { errno, .. } => *errno,
            RpcError::OtherProcess { .. } | RpcError::OtherUser { .. } | RpcError::Key { .. } => {
                Errno::EACCES
            }
            RpcError::Evicted { .. } => Errno::EIO,
            RpcError::Timeout { .. } | RpcError::Late { .. } => Errno::ETIMEDOUT,
            RpcError::Listen { .. } => Errno::EADDRINUSE,
            RpcError::Shutdown => Errno::ESHUTDOWN,
            RpcError::Errno(errno) => *errno,
        }
    }
}
