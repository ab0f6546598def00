//! Why a node does not start, one clear sentence each.

use crate::config::client_file::BadClientFile;
use crate::config::settings::SettingsError;
use crate::host::descriptors::TooFew;
use crate::host::interfaces::NoAddress;
use crate::host::keys::KeyError;
use client::error::ClientError;
use fuse::mount::MountError;
use rpc::error::RpcError;
use seal::error::SealError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use target::TargetError;
use types::nid::Nid;
use types::principal::Principal;
use types::session::ClusterId;
use types::target::TargetName;

/// A node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Settings.
    #[error(transparent)]
    Settings(Box<SettingsError>),
    /// Threads or sockets of the process itself.
    #[error("cannot start the process' own parts: {0}")]
    Process(#[source] io::Error),
    /// The limit of descriptors.
    #[error(transparent)]
    Descriptors(#[from] TooFew),
    /// The control socket.
    #[error("cannot make the control socket in {}: {source}", .dir.display())]
    Control {
        /// The directory of the target, or of the node.
        dir: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The address is in use, or not of this host.
    #[error(
        "cannot listen at {addr}: {reason}; {}", match .router {
            true => "choose another port with --port PORT, or other addresses with --networks".to_owned(),
            false => format!(
                "choose another address with --listen ADDR:PORT, or any free port with --listen {}",
                SocketAddr::new(.addr.ip(), 0)
            ),
        }
    )]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The reason.
        reason: String,
        /// The process is a router, which has other flags.
        router: bool,
    },
    /// The settings name an address that this host does not have.
    #[error(transparent)]
    Address(#[from] NoAddress),
    /// The HTTP address is in use, or not of this host.
    #[error(
        "cannot show metrics at {addr}: {source}; choose another address with --http ADDR:PORT, any free port with \
         --http {}, or --http none", SocketAddr::new(.addr.ip(), 0)
    )]
    Http {
        /// The address.
        addr: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The key and certificate of HTTPS.
    #[error("cannot use the key and certificate of HTTPS, {}: {source}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is no usable token for HTTP.
    #[error(transparent)]
    Token(dash::access::TokenError),
    /// The key.
    #[error(transparent)]
    Key(Box<KeyError>),
    /// The key is one, but cannot be used.
    #[error("the key cannot be used: {0}")]
    Seal(#[from] SealError),
    /// The key is not that of a server.
    #[error(
        "{} is the key of {principal}, and who serves targets needs that of a server: `sheen auth issue --role server`",
        .path.display()
    )]
    KeyRole {
        /// File of the key.
        path: PathBuf,
        /// Its owner.
        principal: Box<Principal>,
    },
    /// A target.
    #[error(transparent)]
    Target(Box<TargetError>),
    /// Two MGTs.
    #[error("{} and {} are both MGTs; a process serves one", .first.display(), .second.display())]
    TwoMgts {
        /// One MGT.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A target's service.
    #[error("cannot serve {}: {reason}", .dir.display())]
    Serve {
        /// The directory of the target, or of the node.
        dir: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The MGS does not take a target.
    #[error("the MGS does not take {name} ({}): {source}", .dir.display())]
    Register {
        /// The directory of the target, or of the node.
        dir: PathBuf,
        /// Name of the target.
        name: String,
        /// The reason.
        source: Box<RpcError>,
    },
    /// An administrator removed it.
    #[error(
        "the MGS does not take {name} ({}): it was removed from the file system with lctl del_ost or del_mdt, for good; \
         make a new target with mkfs.sheen", .dir.display()
    )]
    Removed {
        /// The directory of the target, or of the node.
        dir: PathBuf,
        /// Name of the target.
        name: String,
    },
    /// The MGS knows another store by this name, or this store by another name.
    #[error(
        "the MGS does not take {name} ({}): it knows another target of that name, or this one by another; \
         mkfs.sheen without --index gets a free number", .dir.display()
    )]
    Impostor {
        /// The directory of the target, or of the node.
        dir: PathBuf,
        /// Name of the target.
        name: String,
    },
    /// The file that says where its log is.
    #[error("{} does not say where the log of the target is: {reason}", .path.display())]
    LogFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A target on a shared log has a number from the beginning.
    #[error("{} has no number: make it with mkfs.sheen --index", .0.display())]
    Unnamed(PathBuf),
    /// The owner does not give its tree.
    #[error("the owner of {name} does not give its tree: {source}")]
    Tree {
        /// Name of the target.
        name: TargetName,
        /// The reason.
        source: Box<RpcError>,
    },
    /// Another process serves it.
    #[error(
        "the MGS does not take {name} ({}): another process serves it and lives; stop that one, or, if this is a copy \
         of its folder, leave it alone", .dir.display()
    )]
    Elsewhere {
        /// The directory of the target, or of the node.
        dir: PathBuf,
        /// Name of the target.
        name: String,
    },
    /// A target that came from elsewhere.
    #[error(
        "{} belongs to another cluster ({theirs}) than this node ({ours}): its MGS is elsewhere, so serve it there",
        .dir.display()
    )]
    OtherCluster {
        /// The directory of the target, or of the node.
        dir: PathBuf,
        /// The cluster that the target belongs to.
        ours: ClusterId,
        /// The cluster of the MGS.
        theirs: ClusterId,
    },
    /// The MGS gave a name that is none.
    #[error("the MGS calls {} {name:?}, which is no target name", .dir.display())]
    BadName {
        /// The directory of the target, or of the node.
        dir: PathBuf,
        /// Name of the target.
        name: String,
    },
    /// The configuration cannot be had.
    #[error("the MGS at {mgs:?} does not tell the configuration: {source}")]
    Config {
        /// NIDs of the MGS.
        mgs: Vec<Nid>,
        /// The reason.
        source: Box<RpcError>,
    },
    /// Mounting: the file system.
    #[error("cannot mount at {}: {source}", .at.display())]
    Client {
        /// The mount point.
        at: PathBuf,
        /// The reason.
        source: Box<ClientError>,
    },
    /// Mounting: this host's own parameters.
    #[error("cannot mount at {}: {source}", .at.display())]
    ClientFile {
        /// The mount point.
        at: PathBuf,
        /// The reason.
        source: Box<BadClientFile>,
    },
    /// Mounting: the kernel.
    #[error("cannot mount at {}: {source}", .at.display())]
    Mount {
        /// The mount point.
        at: PathBuf,
        /// The reason.
        source: Box<MountError>,
    },
    /// A bug: a blocking part panicked.
    #[error("a part of the node panicked while it {0}; see the log")]
    Panicked(&'static str),
    /// A target stopped with an error.
    #[error("{name} could not be stopped in order: {reason}")]
    Stop {
        /// Name of the target.
        name: TargetName,
        /// The reason.
        reason: String,
    },
}

// The large ones are boxed: an error is rare and should not weigh on every result.
impl From<SettingsError> for NodeError {
    fn from(error: SettingsError) -> NodeError {
        NodeError::Settings(Box::new(error))
    }
}

impl From<KeyError> for NodeError {
    fn from(error: KeyError) -> NodeError {
        NodeError::Key(Box::new(error))
    }
}

impl From<TargetError> for NodeError {
    fn from(error: TargetError) -> NodeError {
        NodeError::Target(Box::new(error))
    }
}
