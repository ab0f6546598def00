//! Programs that run for a step, several at once; each with all its children in a process group
//! that ends with the step.

use crate::failure::BenchError;
use crate::stop::Stop;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Interval at which the children are checked for their end. What is measured here takes seconds.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of a program's output that an error shows.
const SAID_BYTES_MAX: u64 = 4096;

struct Running {
    child: Child,
    said: std::fs::File,
    words: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // Gone meanwhile: fine.
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Err(error) = self.child.wait() {
            eprintln!("sheen bench: waiting for a program: {error}");
        }
    }
}

/// Runs all of them at once and waits for all.
///
/// # Errors
/// A child fails (its last words are shown), or the user ended the run; the others are killed.
pub fn run_all(commands: Vec<Command>, stop: &Stop) -> Result<(), BenchError> {
    let mut running = Vec::with_capacity(commands.len());
    for mut command in commands {
        let said = tempfile::tempfile().map_err(BenchError::of("make a temporary file"))?;
        let to = said.try_clone().map_err(BenchError::of("make a temporary file"))?;
        let words = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(to).process_group(0);
        let child =
            command.spawn().map_err(|e| BenchError::Failed(format!("cannot run {words}: {e}")))?;
        running.push(Running { child, said, words });
    }
    while !running.is_empty() {
        stop.check()?;
        let mut at = 0;
        while at < running.len() {
            match running[at].child.try_wait().map_err(BenchError::of("wait for a program"))? {
                None => at += 1,
                Some(status) if status.success() => drop(running.swap_remove(at)),
                Some(status) => {
                    let Running { said, words, .. } = &mut running[at];
                    return Err(BenchError::Failed(format!(
                        "{words} failed ({status}): {}",
                        last_words(said)
                    )));
                }
            }
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn last_words(said: &mut std::fs::File) -> String {
    let mut text = Vec::new();
    let start = said.metadata().map_or(0, |m| m.len()).saturating_sub(SAID_BYTES_MAX);
    let read = said
        .seek(std::io::SeekFrom::Start(start))
        .and_then(|_| said.take(SAID_BYTES_MAX).read_to_end(&mut text));
    match read {
        Ok(_) => {
            String::from_utf8_lossy(&text).lines().rev().take(3).collect::<Vec<_>>().join("; ")
        }
        Err(error) => format!("(its words are lost: {error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn sh(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn who_fails_is_heard_and_the_others_end() {
        let start = Instant::now();
        let told =
            run_all(vec![sh("sleep 100 & wait"), sh("echo why >&2; exit 3")], &Stop::default());
        assert!(told.unwrap_err().to_string().contains("why"));
        assert!(start.elapsed() < Duration::from_secs(50));
        run_all(vec![sh("true"), sh("sleep 0.01")], &Stop::default()).unwrap();
    }

    #[test]
    fn children_of_children_end_at_an_interruption() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let stop = Stop::default();
        let asked = stop.clone();
        let line = format!("sleep 100 & echo $! > {}; wait", pid_file.display());
        let worker = std::thread::spawn(move || run_all(vec![sh(&line)], &asked));
        let pid = loop {
            let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
            if let Ok(pid) = text.trim().parse::<i32>() {
                break pid;
            }
            std::thread::sleep(LOOK);
        };
        stop.ask();
        assert!(matches!(worker.join().unwrap(), Err(BenchError::Interrupted)));
        // A killed child without a parent is reaped by init, or stays a zombie where there is none.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !(state().is_empty() || state().contains(") Z")) {
            assert!(Instant::now() < deadline, "{}", state());
            std::thread::sleep(LOOK);
        }
    }
}
