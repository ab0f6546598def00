//! A number that only grows until it is cleared.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows; it wraps after 2^64.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Zero again. Adds of other threads at this moment may be lost.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// The sum so far. Adds of other threads may be missing, never half done.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
