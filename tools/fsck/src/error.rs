//! Why a check could not be made.

use node::config::client_file::BadClientFile;
use node::config::mount_source::MountSource;
use node::config::settings::SettingsError;
use node::host::keys::KeyError;
use node::manage::control::ControlError;
use rpc::error::RpcError;
use seal::error::SealError;
use std::io;
use std::path::PathBuf;
use store::error::StoreError;
use target::error::TargetError;
use types::target::TargetName;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum FsckError {
    /// The argument names nothing.
    #[error(
        "{0} is neither a home of a node, nor a folder of a target, nor a NID such as 10.0.0.1@tcp"
    )]
    NoPlace(String),
    /// A part of a file system.
    #[error("{0} names a directory: a check is of the whole file system")]
    Directory(MountSource),
    /// No server of the cluster is here.
    #[error(
        "{0}: records are shown to servers only; run this as root on a host that serves a target of the cluster"
    )]
    NoServer(String),
    /// What this host says of its networks.
    #[error(transparent)]
    Networks(#[from] BadClientFile),
    /// The key of this host.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key of this host is one, but cannot be used.
    #[error("the key cannot be used: {0}")]
    Seal(#[from] SealError),
    /// The node listens nowhere.
    #[error("the node in {} takes no connections: check it after `sheen down`, or let it listen", .0.display())]
    NotListening(PathBuf),
    /// No metadata target is among the named ones.
    #[error("{0} has no metadata target: name the folder of the MDT, too, or the NID of the MGS")]
    NoMdt(String),
    /// There is no such file system.
    #[error("the MGS knows no file system {0}: name another with NID:/FSNAME")]
    NoFileSystem(String),
    /// The MGS tells what this program does not understand.
    #[error("the MGS names a target that this program cannot reach: {0}")]
    Config(String),
    /// The folder alone does not say what the target has.
    #[error("the log of the target in {} is in etcd: check the cluster at work, by the NIDs of the MGS", .0.display())]
    SharedLog(PathBuf),
    /// Two folders hold the same target.
    #[error("{target} is in {} and in {}: name one of them", .first.display(), .second.display())]
    Twice {
        /// The target.
        target: TargetName,
        /// One directory that holds it.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The folder holds a target without a name.
    #[error("the target in {} was never in service: there is nothing to check", .0.display())]
    Unnamed(PathBuf),
    /// Folders of two file systems.
    #[error(
        "the folders hold targets of two file systems, {0} and {1}: check them one after the other"
    )]
    TwoFileSystems(String, String),
    /// More inodes than fit.
    #[error(
        "more than {} inodes: this version cannot check so many at once",
        check::check::INODES_MAX
    )]
    TooMany,
    /// The running node cannot be asked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The settings of the home cannot be read.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A folder holds no target that can be opened.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A store cannot be read or written.
    #[error("{target}: {source}")]
    Store {
        /// The target.
        target: TargetName,
        /// The reason.
        source: StoreError,
    },
    /// A target does not answer.
    #[error("{target}: {source}")]
    Asked {
        /// The target.
        target: TargetName,
        /// The reason.
        source: Box<RpcError>,
    },
    /// The process has no threads or descriptors.
    #[error("this process cannot work: {0}")]
    Process(#[from] io::Error),
}
