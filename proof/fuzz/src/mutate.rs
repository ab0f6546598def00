//! Seeded damage. The same seed always gives the same inputs.

/// SplitMix64: small, fast, good enough to damage bytes.
pub struct Random(u64);

impl Random {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0..n; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.number() % n as u64) as usize }
    }

    /// So many random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.number() as u8).collect()
    }
}

/// Numbers that lengths and counts are often wrong at.
const EDGES: [u64; 12] =
    [0, 1, 2, 7, 8, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0xffff_ffff_ffff_ffff];

/// A new input: random bytes, or one of `seeds` damaged 1 to 4 times.
pub fn input(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    if seeds.is_empty() || random.below(16) == 0 {
        let len = random.below(300);
        return random.bytes(len);
    }
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        damage(random, &mut bytes, seeds);
    }
    bytes
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = random.below(bytes.len());
    match random.below(8) {
        0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        2 if !bytes.is_empty() => bytes[at] = random.number() as u8,
        3 => {
            let width = 1 << random.below(4);
            let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
            bytes.iter_mut().skip(at).zip(&edge[..width]).for_each(|(b, e)| *b = *e);
        }
        4 => bytes.truncate(at),
        5 => {
            let len = random.below(40);
            bytes.splice(at..at, random.bytes(len));
        }
        6 => {
            let end = (at + random.below(64)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        _ => {
            let other = &seeds[random.below(seeds.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len())..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let seeds = [vec![1, 2, 3, 4, 5, 6, 7, 8], Vec::new()];
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..500).map(|_| input(&mut random, &seeds)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(3), inputs(3));
        assert_ne!(inputs(3), inputs(4));
        assert!(inputs(3).iter().all(|i| i.len() < 1000));
    }
}
