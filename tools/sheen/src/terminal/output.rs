//! Standard output carries data and nothing else; standard error carries talk.

use crate::terminal::outcome::Failure;
use serde::Serialize;
use std::io::{self, Write};

/// Prints text to standard output.
///
/// # Errors
/// [`Failure::PipeClosed`] if the reader is gone.
pub fn data(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(Failure::PipeClosed),
        Err(e) => Err(Failure::Failed(format!("cannot write to standard output: {e}"))),
    }
}

/// Prints a value as JSON to standard output.
///
/// # Errors
/// As [`data`].
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("plain values with text keys");
    data(&format!("{text}\n"))
}

/// Says something to the person at the terminal.
pub fn talk(text: &str) {
    // Standard error is closed, so the failure cannot be reported.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
