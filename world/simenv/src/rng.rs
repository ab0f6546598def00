//! Seeded randomness: SplitMix64. Each part of the world draws from a stream of its own, so one
//! more draw in one part does not change what the others do.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream called `name` of a seed.
    pub fn new(seed: u64, name: &str) -> Rng {
        let state =
            name.bytes().fold(mix(seed ^ 0x5eed), |state, byte| mix(state ^ u64::from(byte)));
        Rng { state }
    }

    /// Next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[from, to]`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        if from >= to { from } else { from + self.below(to - from + 1) }
    }

    /// `true` in `per_mille` of 1000 cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of the items; the slice must not be empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, name| {
            let mut rng = Rng::new(seed, name);
            (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, "net"), draw(1, "net"));
        assert_ne!(draw(1, "net"), draw(2, "net"));
        assert_ne!(draw(1, "net"), draw(1, "disk"));
    }

    #[test]
    fn numbers_stay_in_their_bounds() {
        let mut rng = Rng::new(7, "bounds");
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[rng.below(5) as usize] += 1;
            assert!((3..=9).contains(&rng.between(3, 9)));
        }
        assert!(seen.iter().all(|n| *n > 100), "{seen:?}");
        assert_eq!(rng.between(4, 4), 4);
        assert!((0..1000).filter(|_| rng.chance(100)).count().abs_diff(100) < 60);
    }
}
