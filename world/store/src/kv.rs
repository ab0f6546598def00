//! What a shared log asks of the store of keys under it: linearizable transactions and leases.
//!
//! etcd is one; [`crate::memory_kv`] is its twin for tests and simulation. Calls block, and each is
//! one attempt: a caller that gets [`KvError::NoAnswer`] does not know whether it was done.

use std::time::Duration;

/// Number of a lease; 0: none.
pub type LeaseId = u64;

/// A condition of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compare {
    /// There is no such key.
    Absent(String),
    /// The key has exactly this value.
    Is(String, Vec<u8>),
}

/// A change of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Sets a key; it goes with the lease, if there is one.
    Put {
        /// The key.
        key: String,
        /// Its new value.
        value: Vec<u8>,
        /// The lease that it goes with; 0: none.
        lease: LeaseId,
    },
    /// Removes the keys from the first (inclusive) to the second (exclusive).
    DeleteRange(String, String),
}

/// If all conditions hold, all changes are made; if not, some keys are read. One step for all
/// others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Txn {
    /// The conditions.
    pub compare: Vec<Compare>,
    /// The changes.
    pub then: Vec<Change>,
    /// Keys to read if a condition does not hold.
    pub otherwise: Vec<String>,
}

/// What became of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All changes are durable.
    Done,
    /// A condition did not hold. The values of the keys in `otherwise` at that moment.
    Refused(Vec<Option<Vec<u8>>>),
}

/// The store of keys did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// No member answered in time. It may have been done all the same.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// It was refused (no right to, no space left, ...), and not done.
    #[error("refused: {0}")]
    Refused(String),
    /// It was refused, and not done: there is no space left.
    #[error("full: {0}")]
    Full(String),
    /// The answer cannot be understood.
    #[error("the answer is none: {0}")]
    Answer(String),
}

/// Keys with values, in order; all calls are linearizable.
pub trait Kv: Send + Sync {
    /// One transaction. Blocks.
    ///
    /// # Errors
    /// [`KvError`].
    fn txn(&self, txn: &Txn) -> Result<Outcome, KvError>;

    /// Values of some keys, all of one moment. Blocks.
    ///
    /// # Errors
    /// [`KvError`].
    fn get(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, KvError>;

    /// Keys and values from `start` (inclusive) to `end` (exclusive), at most `limit`, in order.
    /// Blocks.
    ///
    /// # Errors
    /// [`KvError`].
    fn range(&self, start: &str, end: &str, limit: u32) -> Result<Vec<(String, Vec<u8>)>, KvError>;

    /// Begins a lease that lasts `time` (whole seconds) from now on. Blocks.
    ///
    /// # Errors
    /// [`KvError`].
    fn grant(&self, time: Duration) -> Result<LeaseId, KvError>;

    /// The lease lasts its whole time from now on; `false`: it has ended. Blocks.
    ///
    /// # Errors
    /// [`KvError`].
    fn keep_alive(&self, lease: LeaseId) -> Result<bool, KvError>;

    /// Ends a lease, and removes its keys. Blocks.
    ///
    /// # Errors
    /// [`KvError`].
    fn revoke(&self, lease: LeaseId) -> Result<(), KvError>;
}
