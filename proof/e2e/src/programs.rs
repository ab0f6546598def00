//! Running ordinary programs and comparing what they left behind.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a shell script in `dir`; panics with its whole output if it fails.
pub fn sh(dir: &Path, script: &str) -> String {
    let output = try_sh(dir, script);
    assert!(
        output.status.success(),
        "in {}:\n{script}\n-> {}\nstdout: {}\nstderr: {}",
        dir.display(),
        output.status,
        tail(&output.stdout),
        tail(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a shell script in `dir`.
pub fn try_sh(dir: &Path, script: &str) -> Output {
    Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(dir)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .expect("bash runs")
}

/// The last 40 lines, and the first 10 before them: some programs say what is wrong first, and then
/// how they came there.
fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(40);
    let mut shown = lines[..last.min(10)].to_vec();
    if last > 10 {
        shown.push("...");
    }
    shown.extend(&lines[last..]);
    shown.join("\n")
}

/// Every file below `dir`: path, type, mode, links, size, times of files, link targets, contents
/// (SHA-256), sorted.
pub fn manifest(dir: &Path) -> String {
    sh(
        dir,
        r"find . -mindepth 1 -type d -printf '%p %y %m %U:%G\n' -o -printf '%p %y %m %n %s %U:%G %T@ %l\n' | sort
          find . -type f -print0 | sort -z | xargs -0 -r sha256sum",
    )
}

/// Contents and types only, for trees that were made by two separate runs of one program.
pub fn contents(dir: &Path) -> String {
    sh(
        dir,
        r"find . -mindepth 1 \( -type l -printf '%p l %l\n' \) -o \( -type d -printf '%p d %m\n' \) -o -printf '%p %y %m %s\n' | sort
          find . -type f -print0 | sort -z | xargs -0 -r sha256sum",
    )
}

/// Asserts that two long texts are equal, showing only the first lines that differ.
pub fn assert_same(what: &str, left: &str, right: &str) {
    if left == right {
        return;
    }
    let mut differing = Vec::new();
    let (a, b): (Vec<_>, Vec<_>) = (left.lines().collect(), right.lines().collect());
    for line in a.iter().filter(|line| !b.contains(line)).take(15) {
        differing.push(format!("- {line}"));
    }
    for line in b.iter().filter(|line| !a.contains(line)).take(15) {
        differing.push(format!("+ {line}"));
    }
    panic!("{what} differ:\n{}", differing.join("\n"));
}

/// Writes a file and brings it to the targets: the first error of both.
pub fn write_and_sync(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
