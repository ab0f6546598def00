//! How a command ends: exit code and one sentence.

use std::error::Error;
use std::process::ExitCode;

/// Exit codes, the same for every command but `lfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// The answer is no: not found, not up.
    No,
    /// Failed.
    Failed,
    /// Wrong usage.
    Usage,
    /// The exit status of `lfs`: an errno, or 0. All has been said.
    Status(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Failed => 2,
            Exit::Usage => 64,
            Exit::Status(status) => status,
        })
    }
}

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// There was no request, and help was shown.
    #[error("nothing was asked for")]
    UsageShown,
    /// The subject of the question does not exist.
    #[error("{0}")]
    No(String),
    /// The request could not be done. The sentence says what, why and, if that helps, what next.
    #[error("{0}")]
    Failed(String),
    /// Help or version was asked for and printed. Not an error.
    #[error("help was printed")]
    Helped,
    /// The reader of the output has read enough. Not an error.
    #[error("the reader closed the pipe")]
    PipeClosed,
}

impl Failure {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Usage(_) | Failure::UsageShown => Exit::Usage,
            Failure::No(_) => Exit::No,
            Failure::Failed(_) => Exit::Failed,
            Failure::Helped | Failure::PipeClosed => Exit::Done,
        }
    }

    /// From an error whose text is already a whole sentence.
    pub fn failed(error: impl Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// Result of a command.
pub type Outcome = Result<Exit, Failure>;
