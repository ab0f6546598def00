//! Errors between a client and a target.

use types::errno::Errno;
use types::nid::Nid;
use types::target::TargetName;

/// A request did not get its answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// There is no answer at its NIDs.
    #[error("{target} does not answer at {nids:?}: {reason}")]
    Unreachable { target: TargetName, nids: Vec<Nid>, reason: String },
    /// The target left the configuration for good.
    #[error("{target} was removed from the file system")]
    Removed { target: TargetName },
    /// The peer speaks other versions.
    #[error(
        "{nid} speaks protocol versions {theirs_min} to {theirs_max}, we {ours_min} to {ours_max}: update the older side"
    )]
    Version { nid: Nid, theirs_min: u16, theirs_max: u16, ours_min: u16, ours_max: u16 },
    /// The peer belongs to another cluster.
    #[error("{nid} belongs to another cluster ({theirs}), we to {ours}")]
    Cluster { nid: Nid, theirs: types::session::ClusterId, ours: types::session::ClusterId },
    /// The peer is on this host, and this process belongs to a user who may not connect.
    #[error("{nid} takes connections from its own host only from root and from the user that it runs as")]
    OtherUser { nid: Nid },
    /// No such target is served there.
    #[error("{nid} does not serve {target}")]
    NoTarget { nid: Nid, target: TargetName },
    /// The peer sent what no peer may send.
    #[error("{nid} sent a bad message: {reason}")]
    BadMessage { nid: Nid, reason: String },
    /// The target refused the session.
    #[error("{target} refuses the connection: {errno}")]
    Refused { target: TargetName, errno: Errno },
    /// The target forgot this client (it restarted without the session, or evicted it).
    #[error("{target} evicted this client")]
    Evicted { target: TargetName },
    /// No answer came in time.
    #[error("{target} did not answer for {seconds} s")]
    Timeout { target: TargetName, seconds: u64 },
    /// The request reached the target when another client might have had the lock that it was sent
    /// under: nothing was done.
    #[error("a request reached {target} too late")]
    Late { target: TargetName },
    /// The target knows this client's name, but as that of another process.
    #[error("{target} has a session of another process under the name of this client")]
    OtherProcess { target: TargetName },
    /// The address cannot be listened at.
    #[error("cannot listen at {addr}: {reason}")]
    Listen { addr: std::net::SocketAddr, reason: String },
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
            RpcError::OtherProcess { .. } | RpcError::OtherUser { .. } => Errno::EACCES,
            RpcError::Evicted { .. } => Errno::EIO,
            RpcError::Timeout { .. } | RpcError::Late { .. } => Errno::ETIMEDOUT,
            RpcError::Listen { .. } => Errno::EADDRINUSE,
            RpcError::Shutdown => Errno::ESHUTDOWN,
            RpcError::Errno(errno) => *errno,
        }
    }
}
