//! Why a benchmark ended early.

use std::io;
use std::path::Path;

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

    /// "cannot DO: why".
    pub fn of<'a, E: std::fmt::Display>(what: &'a str) -> impl FnOnce(E) -> BenchError + use<'a, E> {
        move |error| BenchError::Failed(format!("cannot {what}: {error}"))
    }
}
