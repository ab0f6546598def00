//! Checks of the tree itself: `cargo xtask floors`, `cargo xtask tidy`, `cargo xtask` for both.
//!
//! What they find is printed, one sentence a line, and the exit status is 1.

mod floors;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let found = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["floors"] => floors(),
        ["tidy"] => tidy(),
        [] => floors().and_then(|mut all| {
            tidy().map(|more| {
                all.extend(more);
                all
            })
        }),
        _ => Err("usage: cargo xtask [floors|tidy]".to_owned()),
    };
    match found {
        Ok(found) if found.is_empty() => ExitCode::SUCCESS,
        Ok(found) => {
            found.iter().for_each(|sentence| eprintln!("{sentence}"));
            eprintln!("{} found", found.len());
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

fn floors() -> Result<Vec<String>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    let output = command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root()).output();
    let output = output.map_err(|e| format!("run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    floors::read(&output.stdout).map(|crates| floors::check(&crates))
}

fn tidy() -> Result<Vec<String>, String> {
    let root = root();
    let mut found = Vec::new();
    for path in tidy::rust_files(&root).map_err(|e| format!("list files: {e}"))? {
        let shown = path.strip_prefix(&root).unwrap_or(&path).to_owned();
        match std::fs::read_to_string(&path) {
            Ok(text) => tidy::check(&shown, &text, &mut found),
            Err(e) => found.push(format!("{}: {e}", shown.display())),
        }
    }
    Ok(found)
}
