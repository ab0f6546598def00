//! `sheen bench`: the program `sheen-bench` does the work. It is not a part of `sheen`, for it is
//! as large as a server.

use crate::terminal::outcome::{Failure, Outcome};
use bench_args::Bench;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The program.
const PROGRAM: &str = "sheen-bench";

/// Becomes `sheen-bench` with the words behind `bench`, which were parsed already.
pub fn run(_: &Bench) -> Outcome {
    let cannot = |what: &str, error| Failure::Failed(format!("cannot {what}: {error}"));
    let own = std::env::current_exe().map_err(|error| cannot("find this program", error))?;
    let beside = own.with_file_name(PROGRAM);
    // Without a slash the search path counts.
    let program = if beside.is_file() { beside } else { PathBuf::from(PROGRAM) };
    let words = std::env::args_os().skip_while(|word| word != "bench").skip(1);
    let error = Command::new(&program).args(words).env("SHEEN_PROGRAM", &own).exec();
    Err(Failure::Failed(match error.kind() {
        std::io::ErrorKind::NotFound => format!(
            "the benchmarks are a program of their own, {PROGRAM}, which is neither beside {} nor on the search path: \
             build it with ./run bench",
            own.display()
        ),
        _ => format!("cannot start {}: {error}", program.display()),
    }))
}
