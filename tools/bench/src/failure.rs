//! Why a benchmark ended early.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Output;

/// One sentence each: what, why and, if that helps, what next.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Ctrl-C, SIGTERM or SIGHUP.
    #[error("interrupted; what the benchmark made is removed")]
    Interrupted,
    /// The request could not be done.
    #[error("{0}")]
    Failed(String),
    /// The page of HTML could not be made.
    #[error(transparent)]
    Page(#[from] bench_report::error::PageError),
    /// The reader of standard output has read enough.
    #[error("the reader closed the pipe")]
    PipeClosed,
}

impl BenchError {
    /// "cannot DO PATH: why", to be called with the error: `map_err(BenchError::at("read", path))`.
    pub fn at<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> BenchError + use<'a> {
        move |error| BenchError::Failed(format!("cannot {what} {}: {error}", path.display()))
    }

    /// A program failed: "cannot DO: what it said". If the signal that interrupts a benchmark ended
    /// the program first, the benchmark was interrupted.
    pub fn of_program(what: &str, output: &Output) -> BenchError {
        if output
            .status
            .signal()
            .is_some_and(|signal| [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].contains(&signal))
        {
            return BenchError::Interrupted;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        BenchError::Failed(format!("cannot {what}: {}", said.trim().replace('\n', "; ")))
    }

    /// "cannot DO: why".
    pub fn of<'a, E: std::fmt::Display>(
        what: &'a str,
    ) -> impl FnOnce(E) -> BenchError + use<'a, E> {
        move |error| BenchError::Failed(format!("cannot {what}: {error}"))
    }
}
