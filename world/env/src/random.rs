//! Randomness.

/// Random numbers: for ids and jitter, not for secrets.
pub trait Random: Send + Sync {
    /// Next 64 bits.
    fn next_u64(&self) -> u64;

    /// Next 128 bits.
    fn next_u128(&self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }
}
