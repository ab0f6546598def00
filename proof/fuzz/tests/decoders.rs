//! Runs every decoder; see the crate's story.

use fuzz::decoders::{ALL, Decoder};
use fuzz::meter::{Counting, peak};
use fuzz::mutate::{Random, input};
use fuzz::{ALLOWED_BASE, ALLOWED_PER_BYTE};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A number from the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}"))
        }
        Err(_) => otherwise,
    }
}

fn hold(decoder: &Decoder, bytes: &[u8], told: &str) -> bool {
    let hex = || bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let outcome = catch_unwind(AssertUnwindSafe(|| (decoder.run)(bytes)));
    let outcome = outcome.unwrap_or_else(|_| panic!("{} panics, {told}: {}", decoder.name, hex()));
    let allowed = ALLOWED_BASE + ALLOWED_PER_BYTE * bytes.len();
    let held = outcome.peak_bytes;
    assert!(held <= allowed, "{} holds {held} bytes of {allowed}, {told}: {}", decoder.name, hex());
    outcome.accepted
}

#[test]
fn golden_inputs_are_accepted() {
    for decoder in ALL {
        for (n, seed) in (decoder.seeds)().iter().enumerate() {
            assert!(hold(decoder, seed, "golden"), "{} refuses golden input {n}", decoder.name);
        }
    }
}

#[test]
fn damaged_inputs_do_no_harm() {
    let (iterations, first) = (setting("FUZZ_ITERATIONS", 300_000), setting("FUZZ_SEED", 1));
    for decoder in ALL {
        let seeds = (decoder.seeds)();
        let (mut random, mut accepted) = (Random::new(first), 0);
        for n in 0..iterations {
            let mut bytes = input(&mut random, &seeds);
            if n % 2 == 0 {
                (decoder.repair)(&mut bytes);
            }
            accepted += u64::from(hold(decoder, &bytes, &format!("seed {first}, iteration {n}")));
        }
        println!("{}: {accepted} of {iterations} inputs accepted", decoder.name);
        // Damage must get past the first checks, and some of it must hit what does not matter.
        assert!(
            iterations < 1000 || (accepted > 0 && accepted < iterations),
            "{}: {accepted} accepted",
            decoder.name
        );
    }
}

#[test]
fn the_meter_counts() {
    let (vec, held) = peak(|| Vec::<u8>::with_capacity(100_000));
    assert!(held >= 100_000, "{held}");
    drop(vec);
    let ((), held) = peak(|| (0..10).for_each(|_| drop(Vec::<u8>::with_capacity(1000))));
    assert!((1000..2000).contains(&held), "{held}: memory given back counts no more");
}
