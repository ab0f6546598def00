//! Random numbers: SplitMix64 over a counter, seeded by the kernel. Distinct for 2^64 draws; not
//! for secrets.

use crate::random::Random;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct RealRandom {
    state: AtomicU64,
    key: u64,
}

impl RealRandom {
    pub(super) fn new() -> io::Result<RealRandom> {
        let mut seed = [0u8; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut seed)?;
        let (a, b) = seed.split_at(8);
        let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("8 bytes"));
        Ok(RealRandom { state: AtomicU64::new(word(a)), key: word(b) })
    }
}

impl Random for RealRandom {
    fn next_u64(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(step, Ordering::Relaxed).wrapping_add(step) ^ self.key;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
