//! What no Rust file of the tree may have: notes of unfinished work, letters that look like others,
//! more lines than a person reads, an excuse for a long list of parameters. Each crate begins with
//! its story. A library of the lower storeys leaves effects to `world/env`. Checks that clippy
//! makes (unsafe without a reason, tests that are switched off) are left to clippy.

use std::io;
use std::path::{Path, PathBuf};

/// Lines of one file, at most.
const LINES_MAX: usize = 1000;
/// Comments that mark unfinished work. In halves, so that this file does not find itself.
const NOTES: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
/// What no function may be excused from: what belongs together is a struct (`clippy.toml`).
const PARAMETERS: &str = concat!("clippy::too_many", "_arguments");
/// Storeys whose libraries ask `world/env` for every effect.
const PURE: [&str; 5] = ["core", "world", "talk", "serve", "mount"];
/// The line by which clippy holds them to it (`clippy.toml`).
const DOOR: &str = "#![cfg_attr(not(test), deny(clippy::disallowed_methods))]";

/// All files below `root` that end in `.extension`, sorted; none below hidden folders and `target`.
///
/// # Errors
/// A folder cannot be read.
pub fn files(root: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name();
            if kind.is_dir() && name != "target" && !name.as_encoded_bytes().starts_with(b".") {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|e| e == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// One sentence in `found` for each thing that is not allowed.
pub fn check(path: &Path, text: &str, found: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    let shown = path.display();
    if lines.len() > LINES_MAX {
        found.push(format!(
            "{shown}: {} lines, at most {LINES_MAX}: look for the second concept",
            lines.len()
        ));
    }
    if path.ends_with("src/lib.rs") && !text.starts_with("//!") {
        found.push(format!("{shown}:1: the crate does not begin with its story (//!)"));
    }
    if path.ends_with("src/lib.rs")
        && PURE.iter().any(|storey| path.starts_with(storey))
        && !text.contains(DOOR)
    {
        found.push(format!(
            "{shown}: the crate does not leave effects to world/env: it lacks {DOOR}"
        ));
    }
    for (at, line) in lines.iter().enumerate() {
        let place = format!("{shown}:{}", at + 1);
        let comment = line.find("//").map_or("", |start| &line[start..]);
        for marker in NOTES.iter().filter(|m| has_word(comment, m)) {
            found.push(format!("{place}: {marker}"));
        }
        if line.contains(PARAMETERS) {
            found.push(format!("{place}: make a struct of parameters that belong together"));
        }
        if let Some(letter) = line.chars().find(|c| !c.is_ascii()) {
            found.push(format!(
                "{place}: {} is no ASCII letter; write an escape",
                letter.escape_unicode()
            ));
        }
    }
}

/// True if the line has `word`, not as a part of a longer word.
pub fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check(Path::new(path), text, &mut found);
        found
    }

    #[test]
    fn a_good_file_has_nothing() {
        let text = format!("//! Story.\n{DOOR}\nf(\"sheen-MARK\"); // as MARK0\n");
        assert_eq!(found("core/a/src/lib.rs", &text.replace("MARK", NOTES[1])), [""; 0]);
    }

    #[test]
    fn unfinished_work_is_found() {
        for marker in NOTES {
            let text = format!("fn f() {{}}\n    // {marker}\n");
            assert_eq!(found("a.rs", &text), [format!("a.rs:2: {marker}")], "{marker}");
        }
    }

    #[test]
    fn a_long_list_of_parameters_has_no_excuse() {
        let text = format!("#[allow({PARAMETERS}, reason = \"why\")]\nfn f() {{}}\n");
        let sentence = "a.rs:1: make a struct of parameters that belong together";
        assert_eq!(found("a.rs", &text), [sentence]);
    }

    #[test]
    fn a_library_that_goes_past_the_door_is_found() {
        assert_eq!(found("serve/a/src/lib.rs", "//! Story.\n").len(), 1);
        assert_eq!(found("tools/a/src/lib.rs", "//! Story.\n"), [""; 0]);
    }

    #[test]
    fn foreign_letters_long_files_and_missing_stories_are_found() {
        assert_eq!(
            found("a.rs", "let \u{430} = 1;"),
            ["a.rs:1: \\u{430} is no ASCII letter; write an escape"]
        );
        assert!(found("a.rs", &"\n".repeat(LINES_MAX + 1))[0].contains("1001 lines"));
        assert_eq!(
            found("x/src/lib.rs", "pub mod a;\n"),
            ["x/src/lib.rs:1: the crate does not begin with its story (//!)"]
        );
    }

    #[test]
    fn this_very_tree_is_walked() {
        let files = files(Path::new(env!("CARGO_MANIFEST_DIR")), "rs").unwrap();
        assert!(files.iter().any(|f| f.ends_with("src/tidy.rs")));
    }
}
