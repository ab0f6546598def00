//! A process' random numbers: its own stream of the seed.

use crate::rng::Rng;
use env::random::Random;
use parking_lot::Mutex;

pub(crate) struct SimRandom {
    pub(crate) rng: Mutex<Rng>,
}

impl Random for SimRandom {
    fn next_u64(&self) -> u64 {
        self.rng.lock().next_u64()
    }
}
