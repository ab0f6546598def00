//! `sheen bench`: crate `bench` does the work; here are its exit codes.

use crate::outcome::{Exit, Failure, Outcome};
use ::bench::About;
use ::bench::cli::Bench;
use ::bench::failure::BenchError;

/// Runs one item.
pub fn run(bench: &Bench) -> Outcome {
    let about = About { version: env!("CARGO_PKG_VERSION"), commit: env!("SHEEN_COMMIT") };
    match ::bench::run(bench, about) {
        Ok(()) => Ok(Exit::Done),
        Err(BenchError::Usage(sentence)) => Err(Failure::Usage(sentence)),
        Err(BenchError::PipeClosed) => Err(Failure::PipeClosed),
        Err(error) => Err(Failure::failed(error)),
    }
}
