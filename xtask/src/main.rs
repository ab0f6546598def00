//! Checks of the tree itself: `cargo xtask floors`, `cargo xtask tidy`, `cargo xtask` for both.
//!
//! Findings are printed, one sentence a line, and the exit status is 1.

mod circles;
mod columns;
mod comments;
mod floors;
mod links;
mod names;
mod source;
mod tidy;
mod words;

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

/// The crates of the workspace.
fn crates() -> Result<Vec<floors::Crate>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    let output = command
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output();
    let output = output.map_err(|e| format!("run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    floors::read(&output.stdout)
}

/// Imports between crates, and between the files of each.
fn floors() -> Result<Vec<String>, String> {
    let (root, crates) = (root(), crates()?);
    let mut found = floors::check(&crates);
    found.extend(floors::check_floors(&crates));
    let files = tidy::files(&root, "rs").map_err(|e| format!("list files: {e}"))?;
    for c in &crates {
        let modules = source::modules(&root.join(&c.folder).join("src"), &files)?;
        circles::check(&c.name, &modules, &mut found);
    }
    Ok(found)
}

/// Files, words and links.
fn tidy() -> Result<Vec<String>, String> {
    let (root, mut found) = (root(), Vec::new());
    let texts = |extension: &str| -> Result<Vec<(PathBuf, String)>, String> {
        let files = tidy::files(&root, extension).map_err(|e| format!("list files: {e}"))?;
        let read = |path: PathBuf| {
            let text =
                std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok((path.strip_prefix(&root).unwrap_or(&path).to_owned(), text))
        };
        files.into_iter().map(read).collect()
    };
    let (code, pages) = (texts("rs")?, texts("md")?);
    for (path, text) in &code {
        tidy::check(path, text, &mut found);
    }
    let crates = crates()?;
    let homes: Vec<(&str, &Path)> =
        crates.iter().map(|c| (c.name.as_str(), c.folder.as_path())).collect();
    comments::check(
        code.iter().map(|(path, text)| (path.as_path(), text.as_str())),
        &homes,
        &mut found,
    );
    links::check(&root, &pages, &mut found);
    let names = names::words(&code);
    let paths: Vec<&Path> = code.iter().map(|(path, _)| &**path).collect();
    for (path, text) in &pages {
        columns::check(path, text, &mut found);
        // The list of changes may name things that are gone.
        if !path.ends_with("CHANGELOG.md") {
            names::check(path, text, &paths, &names, &mut found);
        }
    }
    if let Some((_, glossary)) = pages.iter().find(|(path, _)| path.ends_with("docs/GLOSSARY.md")) {
        let others = pages.iter().filter(|(path, _)| !path.ends_with("GLOSSARY.md")).chain(&code);
        let others: Vec<String> = others.map(|(_, text)| text.to_lowercase()).collect();
        words::check_glossary(glossary, &others, &mut found);
    }
    let files = tidy::files(&root, "rs").map_err(|e| format!("list files: {e}"))?;
    for c in &crates {
        let modules = source::modules(&root.join(&c.folder).join("src"), &files)?;
        words::check_types(&c.name, &modules, &mut found);
    }
    Ok(found)
}
