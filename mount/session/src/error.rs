//! Errors of the client, and the errno that a program sees for each.

use rpc::error::RpcError;
use types::dir_path::DirPath;
use types::errno::Errno;
use types::fid::Fid;
use types::target::{BadTargetName, TargetName};

/// An operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// A target did not answer, or its operation failed.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The client itself decided.
    #[error("{0}")]
    Errno(#[from] Errno),
    /// The number leads to no inode: the kernel gave it back, or the mount is another one.
    #[error("node {0} is unknown")]
    UnknownNode(u64),
    /// The number leads to no open file or directory.
    #[error("handle {0} is not open")]
    UnknownHandle(u64),
    /// The file went while its MDT was down.
    #[error("{0} is open here, but its server lost it")]
    StaleHandle(Fid),
    /// The configuration has no such target.
    #[error("{0} is not in the configuration of this file system")]
    UnknownTarget(TargetName),
    /// The layout says something this version cannot do.
    #[error("layout of {fid}: {reason}")]
    Layout {
        /// The file.
        fid: Fid,
        /// What this version cannot do.
        reason: &'static str,
    },
    /// Beyond the largest file, or beyond the last component of the file's layout.
    #[error(
        "byte {0} is beyond the largest file, or beyond the last component of the file's layout"
    )]
    TooFar(u64),
    /// The MGS knows no MDT of this file system.
    #[error(
        "the MGS at {mgs:?} knows no file system {fsname:?} with an MDT0000; is it spelled right and are its servers up?"
    )]
    NoFileSystem {
        /// Name of the file system.
        fsname: String,
        /// NIDs of the MGS.
        mgs: Vec<types::nid::Nid>,
    },
    /// There is no such directory to mount.
    #[error("{fsname}{path} cannot be mounted: {}", not_mounted(*.errno))]
    NoDirectory {
        /// Name of the file system.
        fsname: String,
        /// The directory, below the fileset of the client's nodemap if it has one.
        path: DirPath,
        /// The reason.
        errno: Errno,
    },
    /// The MGS sent a configuration that makes no sense.
    #[error("configuration from the MGS: {0}")]
    BadConfig(String),
}

fn not_mounted(errno: Errno) -> String {
    match errno {
        Errno::ENODEV => "the nodemap of this host has a fileset that is no directory there; \
                          lctl nodemap_info on a server shows it"
            .to_owned(),
        Errno::EAGAIN => "the fileset of this host's nodemap is not ready yet; \
                          lctl get_param mdt.*.realms on the host of MDT0000 shows how far it is"
            .to_owned(),
        Errno::ENOENT => "there is no such directory".to_owned(),
        Errno::ENOTDIR => "it is no directory".to_owned(),
        Errno::EPROTO => "its servers are of an earlier version: update them first".to_owned(),
        errno => errno.to_string(),
    }
}

impl From<BadTargetName> for ClientError {
    fn from(error: BadTargetName) -> ClientError {
        ClientError::BadConfig(error.to_string())
    }
}

impl ClientError {
    /// The errno that a program sees.
    pub fn errno(&self) -> Errno {
        match self {
            ClientError::Rpc(error) => error.errno(),
            ClientError::Errno(errno) => *errno,
            ClientError::UnknownNode(_) => Errno::ESTALE,
            ClientError::UnknownHandle(_) => Errno::EBADF,
            ClientError::StaleHandle(_) => Errno::ESTALE,
            ClientError::UnknownTarget(_) => Errno::EIO,
            ClientError::Layout { .. } => Errno::EIO,
            ClientError::TooFar(_) => Errno::EFBIG,
            ClientError::NoFileSystem { .. } => Errno::ENODEV,
            ClientError::NoDirectory { errno, .. } => *errno,
            ClientError::BadConfig(_) => Errno::EPROTO,
        }
    }
}
