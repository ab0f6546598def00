//! The two programs that a benchmark starts: itself, and `sheen`.

use crate::failure::BenchError;
use std::path::PathBuf;
use std::process::Command;

/// By which `sheen bench` tells its own path.
pub const SHEEN: &str = "SHEEN_PROGRAM";

/// This program, to be started again: a rank, the empty file system, the other end of a line.
pub fn own() -> Command {
    Command::new("/proc/self/exe")
}

/// Path of `sheen`: the one it gave when it started this program, else beside this program.
///
/// # Errors
/// There is none.
pub fn sheen_path() -> Result<PathBuf, BenchError> {
    if let Some(path) = std::env::var_os(SHEEN) {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(BenchError::of("find this program"))?;
    let path = own.with_file_name("sheen");
    match path.is_file() {
        true => Ok(path),
        false => Err(BenchError::Failed(format!(
            "there is no {}: start the benchmarks by sheen bench",
            path.display()
        ))),
    }
}

/// `sheen`, to be started.
///
/// # Errors
/// There is none.
pub fn sheen() -> Result<Command, BenchError> {
    sheen_path().map(Command::new)
}
