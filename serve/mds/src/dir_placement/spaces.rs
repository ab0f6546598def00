//! What an MDT knows of the space of all MDTs.

use env::clock::Monotonic;
use layout::placement::{OstSpace, Rotor};
use parking_lot::Mutex;
use std::sync::Arc;

/// The known space of all MDTs, ordered by index, and the turns.
#[derive(Default)]
pub(crate) struct MdtSpaces {
    /// When it was asked for, and the answers.
    pub(super) known: Mutex<Option<(Monotonic, Arc<Vec<OstSpace>>)>>,
    pub(super) rotor: Mutex<Rotor>,
}

impl MdtSpaces {
    /// Nothing is known; turns begin at random.
    pub(crate) fn new(seed: u64) -> MdtSpaces {
        MdtSpaces { known: Mutex::default(), rotor: Mutex::new(Rotor(seed)) }
    }

    /// The next one that wants to know asks all MDTs.
    pub(crate) fn forget(&self) {
        *self.known.lock() = None;
    }
}
