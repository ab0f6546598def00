//! What a shared log asks of the store of blobs beside it: whole objects under names.
//!
//! S3 is one; [`crate::memory_blobs`] is its twin for tests and simulation. Calls block, and each
//! is bounded in time. Nothing here decides what is durable or which owner may write: the log names
//! blobs only after they are there, and never changes one that it names (docs/ownership.md).

/// The store of blobs did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// It did not answer in time. It may have been done all the same.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// It was refused: no such bucket, no right to, ...
    #[error("refused: {0}")]
    Refused(String),
}

/// Blobs under names: paths of letters, digits, `-`, `.`, `:` and `/`.
pub trait Blobs: Send + Sync {
    /// Keeps a blob, durably, in place of one of that name. Blocks.
    ///
    /// # Errors
    /// [`BlobError`].
    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), BlobError>;

    /// The blob; `None`: there is none. Blocks.
    ///
    /// # Errors
    /// [`BlobError`]; it is longer than `bytes_max`.
    fn get(&self, name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, BlobError>;

    /// Names of blobs in a folder (without a `/` at its end), in order, from behind `after` on
    /// (empty: from the first): at least one if there is any, and at most some thousand. Blocks.
    ///
    /// # Errors
    /// [`BlobError`].
    fn list(&self, folder: &str, after: &str) -> Result<Vec<String>, BlobError>;

    /// Removes a blob, if there is one of that name. Blocks.
    ///
    /// # Errors
    /// [`BlobError`].
    fn remove(&self, name: &str) -> Result<(), BlobError>;
}
