//! Why an MDT does not start.

use store::error::StoreError;
use types::target::TargetName;

/// An MDT cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The target has no name.
    #[error("the metadata target has no name yet: register it at the MGS first")]
    Unnamed,
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record is not what was written.
    #[error("metadata target {target}: {damage}")]
    Damaged {
        /// The target.
        target: TargetName,
        /// What is wrong.
        damage: disk::damaged::Damaged,
    },
    /// The range of FIDs of this MDT is used up.
    #[error("metadata target {target} has used up its FID sequences")]
    FidsUsedUp {
        /// The target.
        target: TargetName,
    },
}
