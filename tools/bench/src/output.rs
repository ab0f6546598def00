//! Standard output.

use crate::failure::BenchError;
use std::io::{ErrorKind, Write};

/// Prints to standard output.
///
/// # Errors
/// The reader is gone.
pub fn print(text: &str) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(BenchError::PipeClosed),
        Err(e) => Err(BenchError::Failed(format!("cannot write to standard output: {e}"))),
    }
}
