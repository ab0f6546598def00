//! `sheen scrub`: crate `fsck` does the work; here are its streams and the spinner.

use crate::terminal::outcome::{Exit, Outcome};
use crate::terminal::progress::Progress;
use fsck::scrub::Scrub;
use std::io;

/// Scrubs.
pub fn run(args: &Scrub) -> Outcome {
    let mut out = Vec::new();
    let status = {
        let progress = Progress::start("reading");
        fsck::scrub::run(args, &mut out, &mut io::stderr().lock(), &mut |step| progress.step(step))
    };
    crate::terminal::output::data(&String::from_utf8_lossy(&out))?;
    Ok(Exit::Status(status))
}
