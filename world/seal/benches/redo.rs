//! What sealing redo costs: `cargo bench -p seal`.

use seal::kept::{KEY_BYTES, Sealer};
use std::hint::black_box;
use std::iter::empty;
use std::time::Instant;
use types::session::Transno;
use types::target::{FsName, TargetName};

/// Changes of each size.
const ROUNDS: u64 = 200_000;

fn main() {
    let sealer = Sealer::new(TargetName::mdt(FsName::default(), 0), 1, &[7; KEY_BYTES]);
    // The redo of a mkdir has 769 bytes.
    for bytes in [256, 512, 769, 1024, 4096, 16384] {
        let redo = vec![3; bytes];
        let begun = Instant::now();
        for n in 0..ROUNDS {
            black_box(sealer.seal(Transno(n), black_box(&redo), empty()));
        }
        println!("{bytes} bytes: {:.0} ns", begun.elapsed().as_nanos() as f64 / ROUNDS as f64);
    }
}
