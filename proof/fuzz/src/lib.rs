//! Every decoder of bytes from outside, against bytes that no peer should send.
//!
//! A decoder is one row in [`decoders::ALL`]: how to run it, and good inputs (the golden files) to
//! start from. Inputs are golden ones with seeded damage, or random. For each, the decoder must
//! return without a panic and take at most [`ALLOWED_BASE`] + [`ALLOWED_PER_BYTE`] times the input
//! in memory. A value that it accepts must encode and decode to itself. `FUZZ_ITERATIONS` and
//! `FUZZ_SEED` make campaigns of it:
//! `FUZZ_ITERATIONS=10000000 FUZZ_SEED=7 cargo test --release -p fuzz`.

pub mod decoders;
pub mod meter;
pub mod mutate;

/// Bytes a decoder may hold at once whatever its input.
pub const ALLOWED_BASE: usize = 64 << 10;
/// Bytes a decoder may hold at once per byte of input.
pub const ALLOWED_PER_BYTE: usize = 64;
