//! Why an OST cannot start.

use disk::object::BadOstState;
use store::error::StoreError;

/// The OST cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record is damaged.
    #[error(transparent)]
    State(#[from] BadOstState),
    /// The MGS has not given it a name yet, or it is no OST.
    #[error("{0} holds no OST with a name")]
    NoOst(std::path::PathBuf),
}
