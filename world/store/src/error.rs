//! Errors of a store. The errno of each is chosen in one exhaustive match.

use disk::damaged::Damaged;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::errno::Errno;

/// A store could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A write or sync failed earlier: memory and disk may differ. Only closing and opening again
    /// clears it.
    #[error("the store stopped after an earlier error: {cause}")]
    Poisoned {
        /// The error that stopped it.
        cause: Arc<str>,
    },
    /// Another owner took the target over.
    #[error("another server owns this target now (fence {current}, ours {ours})")]
    Fenced {
        /// Our epoch.
        ours: u64,
        /// The newest epoch.
        current: u64,
    },
    /// The log did not say whether it has a group: it is asked again.
    #[error("{log} does not answer: {reason}")]
    NoAnswer {
        /// Name of the log.
        log: Arc<str>,
        /// Why not.
        reason: Arc<str>,
    },
    /// The log was made for another cluster.
    #[error(
        "{log} is the log of another cluster: it is that of {theirs}, and this host is of {ours}; clusters that share an etcd need a name each, so make this target with --log=etcd://HOST,HOST,HOST/NAME"
    )]
    OtherCluster {
        /// Name of the log.
        log: Arc<str>,
        /// Its cluster, or where its MGS is.
        theirs: Arc<str>,
        /// The same of this host.
        ours: Arc<str>,
    },
    /// Another process owns the target.
    #[error("the target is owned by {owner}")]
    Owned {
        /// Host and NIDs of the owner.
        owner: Arc<str>,
    },
    /// The tree lacks entries that the log no longer has.
    #[error("{log} no longer has entry {missing}, which the tree of this host lacks")]
    Behind {
        /// Name of the log.
        log: Arc<str>,
        /// Number of the entry.
        missing: u64,
    },
    /// The tree is being copied from another host.
    #[error("{} is an unfinished copy", tree.display())]
    Unfinished {
        /// Folder of the tree.
        tree: PathBuf,
    },
    /// The store or its volume is full. Nothing was changed.
    #[error(
        "no space left: {used} of {capacity} bytes used, {reserved} of them reserved for deleting"
    )]
    NoSpace {
        /// Bytes used.
        used: u64,
        /// Bytes that could be used, with the reserve.
        capacity: u64,
        /// Bytes of `capacity` that only releasing operations may use.
        reserved: u64,
    },
    /// The disk has no room for what is durable in the log already.
    #[error(
        "the disk of {} is full: free space there; what was told as durable is in the log, and new \
         changes are refused until there is room",
        dir.display()
    )]
    DiskFull {
        /// Folder of the target.
        dir: PathBuf,
    },
    /// Bytes on the disk differ from what was written.
    #[error("{} is damaged at byte {offset}: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Byte position in it.
        offset: u64,
        /// Description of the damage.
        reason: String,
    },
    /// The operating system refused.
    #[error("{action} {}: {errno}", path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        errno: Errno,
    },
    /// LMDB refused for a reason of its own (not an error of the operating system).
    #[error("{action} {}: {reason}", path.display())]
    Tree {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The tree's folder.
        path: PathBuf,
        /// LMDB's words.
        reason: String,
    },
    /// A device will not do for a volume, or is not the one that it was.
    #[error("{}: {fault}", device.display())]
    Device {
        /// The device, or big file.
        device: PathBuf,
        /// Why not.
        fault: DeviceFault,
    },
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
}

/// Why a device will not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceFault {
    /// There is no such file, and it is not said how large it shall be.
    #[error("there is no such device; for a file that is to be made, give --device-size")]
    Missing,
    /// Too small.
    #[error("has {}; a volume needs at least {}", plain(*.bytes), plain(*.least))]
    TooSmall {
        /// Its size, bytes.
        bytes: u64,
        /// The least size, bytes.
        least: u64,
    },
    /// Too large.
    #[error("has {}; a volume can have at most {}: give --device-size", plain(*.bytes), plain(*.most))]
    TooLarge {
        /// Its size, bytes.
        bytes: u64,
        /// The largest size, bytes.
        most: u64,
    },
    /// Smaller than what is asked for.
    #[error("has only {}, not {}", plain(*.bytes), plain(*.wanted))]
    Smaller {
        /// Its size, bytes.
        bytes: u64,
        /// The size that was asked for, or that the volume has, bytes.
        wanted: u64,
    },
    /// Something is on it.
    #[error("holds {0}; use --reformat to destroy that")]
    Holds(String),
    /// It is mounted, or another process has it.
    #[error("is in use")]
    InUse,
    /// No volume is on it.
    #[error("holds no volume")]
    NoVolume,
    /// The head of the volume is damaged.
    #[error("the head of the volume is damaged: {0}")]
    Head(Damaged),
    /// It belongs to another target.
    #[error("holds the volume {found:032x} of another target")]
    Another {
        /// UUID of the volume.
        found: u128,
    },
    /// Its records cannot be right.
    #[error("records name too many units twice: they are not those of this volume")]
    Records,
}

/// A size in the largest unit that keeps it plain.
fn plain(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    while unit + 1 < UNITS.len() && bytes >> (10 * (unit + 1)) != 0 {
        unit += 1;
    }
    let tenths = (u128::from(bytes) * 10) >> (10 * unit);
    match tenths % 10 {
        0 => format!("{} {}", tenths / 10, UNITS[unit]),
        part => format!("{}.{part} {}", tenths / 10, UNITS[unit]),
    }
}

impl StoreError {
    /// The errno that a program sees.
    pub fn errno(&self) -> Errno {
        match self {
            StoreError::Poisoned { .. } => Errno::EIO,
            StoreError::Fenced { .. } => Errno::ESTALE,
            StoreError::NoAnswer { .. } => Errno::ETIMEDOUT,
            StoreError::OtherCluster { .. } => Errno::EINVAL,
            StoreError::Owned { .. } => Errno::EBUSY,
            StoreError::Behind { .. } | StoreError::Unfinished { .. } => Errno::EIO,
            StoreError::NoSpace { .. } | StoreError::DiskFull { .. } => Errno::ENOSPC,
            StoreError::Damaged { .. } => Errno::EIO,
            StoreError::Io { errno, .. } => *errno,
            StoreError::Tree { .. } => Errno::EIO,
            StoreError::Device { fault, .. } => match fault {
                DeviceFault::Missing | DeviceFault::NoVolume => Errno::ENOENT,
                DeviceFault::TooSmall { .. }
                | DeviceFault::TooLarge { .. }
                | DeviceFault::Smaller { .. }
                | DeviceFault::Another { .. } => Errno::EINVAL,
                DeviceFault::Holds(_) => Errno::EEXIST,
                DeviceFault::InUse => Errno::EBUSY,
                DeviceFault::Head(_) | DeviceFault::Records => Errno::EIO,
            },
            StoreError::Closed => Errno::ESHUTDOWN,
        }
    }

    /// For `map_err`: names what was tried on which file.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
        let path = path.to_owned();
        move |error| StoreError::Io { action, path, errno: Errno::from(&error) }
    }
}

impl From<StoreError> for Errno {
    fn from(error: StoreError) -> Errno {
        error.errno()
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn sizes_are_told_in_plain_units() {
        let sizes = [(0, "0 bytes"), (1023, "1023 bytes"), (64 << 20, "64 MiB")];
        sizes.iter().for_each(|(bytes, text)| assert_eq!(plain(*bytes), *text));
        assert_eq!(plain((64 << 40) + (1 << 39)), "64.5 TiB");
        assert_eq!(plain(u64::MAX), "16777215.9 TiB");
    }
}
