//! Randomness.

/// Random numbers: for ids, for jitter, and for secrets of this process. A peer that is told some
/// of them cannot tell others from them. In the simulation they follow from its seed.
pub trait Random: Send + Sync {
    /// Next 64 bits.
    fn next_u64(&self) -> u64;

    /// Next 128 bits.
    fn next_u128(&self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }
}
