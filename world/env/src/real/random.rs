//! Random numbers: SipHash-2-4 with 128 bits over a counter, with a key from the kernel. A peer
//! that is told some of them cannot tell others from them.

use crate::random::Random;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct RealRandom {
    key: [u8; 16],
    drawn: AtomicU64,
}

impl RealRandom {
    pub(super) fn new() -> io::Result<RealRandom> {
        let mut key = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
        Ok(RealRandom { key, drawn: AtomicU64::new(0) })
    }
}

impl Random for RealRandom {
    fn next_u64(&self) -> u64 {
        // Its low half is as good as all of it.
        self.next_u128() as u64
    }

    fn next_u128(&self) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(&self.drawn.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        hasher.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that `z ^ (z >> shift)` was made of.
    fn unshifted(z: u64, shift: u32) -> u64 {
        (1..64 / shift + 1).fold(z, |x, _| z ^ (x >> shift))
    }

    /// The factor that undoes this odd one, modulo 2^64.
    fn inverse(odd: u64) -> u64 {
        (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
    }

    /// Numbers that were drawn are told to others: client UUIDs, boots, process ids. Secrets that
    /// were drawn before or after must not follow from them, as they do with SplitMix64, whose
    /// mixing anybody can undo: below it is a counter.
    #[test]
    fn what_was_drawn_does_not_tell_what_is_drawn_next() {
        let random = RealRandom::new().expect("a seed");
        let below = |drawn: u64| {
            let z = unshifted(drawn, 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
            unshifted(unshifted(z, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9)), 30)
        };
        let last_bits: Vec<u64> = (0..64).map(|_| below(random.next_u64()) & 1).collect();
        assert!(
            last_bits.windows(2).any(|two| two[0] == two[1]),
            "the last bit tells the next one"
        );
    }

    #[test]
    fn all_numbers_differ() {
        let (one, other) = (RealRandom::new().expect("a seed"), RealRandom::new().expect("a seed"));
        let drawn = |random: &RealRandom| (0..1000).map(|_| random.next_u128()).collect::<Vec<_>>();
        let all: std::collections::BTreeSet<u128> =
            [drawn(&one), drawn(&other)].concat().into_iter().collect();
        assert_eq!(all.len(), 2000);
    }
}
