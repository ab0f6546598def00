//! Starts a `sheen` process in the background and follows its start.
//!
//! The child gets a session of its own (it calls setsid itself), writes to a log file, and reports
//! its start on its standard output. That pipe also shows at once that a child died.

use crate::terminal::outcome::Failure;
use crate::terminal::progress::Progress;
use node::host::announce::{Event, LINE_BYTES_MAX};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts this very program with `args` and waits until it is in service; its NIDs.
///
/// # Errors
/// The child cannot be started, gives a reason for its end, or ends without a word (then the end of
/// its log is shown).
pub fn start(
    args: &[OsString],
    log_path: &Path,
    progress: &Progress,
) -> Result<Vec<String>, Failure> {
    let fail =
        |e: std::io::Error| Failure::Failed(format!("cannot start the background process: {e}"));
    let log = crate::log::open(log_path).map_err(|e| {
        Failure::Failed(format!("cannot write the log {}: {e}", log_path.display()))
    })?;
    let log_from = log.metadata().map_err(fail)?.len();
    let mut child = Command::new("/proc/self/exe")
        .arg0("sheen")
        .args(args)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(fail)?;
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    loop {
        let mut line = String::new();
        let read = (&mut lines).take(LINE_BYTES_MAX as u64).read_line(&mut line).map_err(fail)?;
        if read == 0 {
            return Err(ended(&mut child, log_path, log_from));
        }
        match serde_json::from_str(&line) {
            Ok(Event::Step { what }) => progress.step(&what),
            Ok(Event::Ready { nids }) => return Ok(nids),
            Ok(Event::Failed { reason }) => {
                // It ends by itself; waiting keeps "up" from returning while the child still holds
                // locks.
                child.wait().map_err(fail)?;
                return Err(Failure::Failed(reason));
            }
            Err(e) => {
                return Err(Failure::Failed(format!("the background process says {line:?}: {e}")));
            }
        }
    }
}

fn ended(child: &mut Child, log_path: &Path, log_from: u64) -> Failure {
    let how = match child.wait() {
        Ok(status) => status.to_string(),
        Err(e) => e.to_string(),
    };
    let last =
        last_line(log_path, log_from).map(|l| format!("; its last words: {l}")).unwrap_or_default();
    Failure::Failed(format!(
        "the background process ended ({how}){last}; see {}",
        log_path.display()
    ))
}

/// Last line that the log got since `from`.
fn last_line(path: &Path, from: u64) -> Option<String> {
    const TAIL_BYTES: u64 = 4096;
    let length = fs::metadata(path).ok()?.len();
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(TAIL_BYTES)))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    String::from_utf8_lossy(&tail)
        .lines()
        .rev()
        .map(str::trim)
        .find(|l| !l.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_words_are_of_this_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"old\n").unwrap();
        assert_eq!(last_line(&path, 4), None);
        file.write_all(b"one\ntwo\n\n").unwrap();
        assert_eq!(last_line(&path, 4), Some("two".to_owned()));
    }
}
