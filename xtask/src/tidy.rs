//! What no Rust file of the tree may have: unfinished work, tests that are switched off, unsafe without a reason,
//! letters that look like others, more lines than a person reads; and every crate tells its story first.

use std::io;
use std::path::{Path, PathBuf};

/// Lines of one file, at most.
const LINES_MAX: usize = 1000;
/// Lines above an `unsafe` among which its reason must be.
const REASON_LINES: usize = 8;
/// Comments that mark unfinished work. In halves, as the next ones, so that this file does not find itself.
const NOTES: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
/// Code that marks unfinished work, or a test that is switched off.
const CODE: [&str; 3] = [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("#[ig", "nore")];

/// All `.rs` files below `root`, but those below hidden folders and `target`.
///
/// # Errors
/// A folder cannot be read.
pub fn rust_files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name();
            if kind.is_dir() && name != "target" && !name.as_encoded_bytes().starts_with(b".") {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// One sentence in `found` for each thing that should not be.
pub fn check(path: &Path, text: &str, found: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    let shown = path.display();
    if lines.len() > LINES_MAX {
        found.push(format!("{shown}: {} lines, at most {LINES_MAX}: look for the second concept", lines.len()));
    }
    if path.ends_with("src/lib.rs") && !text.starts_with("//!") {
        found.push(format!("{shown}:1: the crate does not begin with its story (//!)"));
    }
    for (at, line) in lines.iter().enumerate() {
        let place = format!("{shown}:{}", at + 1);
        let comment = line.find("//").map_or("", |start| &line[start..]);
        let notes = NOTES.iter().filter(|m| has_word(comment, m));
        for marker in notes.chain(CODE.iter().filter(|m| has_word(line, m))) {
            found.push(format!("{place}: {marker}"));
        }
        if let Some(letter) = line.chars().find(|c| !c.is_ascii()) {
            found.push(format!("{place}: {} is no ASCII letter; write an escape", letter.escape_unicode()));
        }
        let reasons = &lines[at.saturating_sub(REASON_LINES)..=at];
        if opens_unsafe(line) && !reasons.iter().any(|l| l.contains("SAFETY:")) {
            found.push(format!("{place}: unsafe without a SAFETY: comment"));
        }
    }
}

/// Is `word` in the line, not as a part of a longer one?
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(part) && (word.ends_with('!') || !line[at + word.len()..].starts_with(part))
    })
}

fn opens_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    [concat!("unsafe", " {"), concat!("unsafe", " impl")]
        .iter()
        .any(|open| has_word(code, open.trim_end_matches(" {")) && code.contains(open))
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
        let text = "//! Story.\n// SAFETY: nobody else has it.\nunsafe { f() }\nf(\"sheen-MARK\"); // as MARK0\n";
        assert_eq!(found("core/a/src/lib.rs", &text.replace("MARK", NOTES[1])), [""; 0]);
    }

    #[test]
    fn unfinished_work_is_found() {
        for marker in NOTES.into_iter().chain(CODE) {
            let text = format!("fn f() {{}}\n    // {marker}\n");
            assert_eq!(found("a.rs", &text), [format!("a.rs:2: {marker}")], "{marker}");
        }
        assert_eq!(found("a.rs", &format!("{}()", CODE[0])).len(), 1);
        assert_eq!(found("a.rs", &format!("{} = \"slow\"]", CODE[2])).len(), 1);
        assert_eq!(found("a.rs", &format!("my_{}()", CODE[0])), [""; 0]);
    }

    #[test]
    fn unsafe_needs_its_reason_near() {
        let open = concat!("unsafe", " { f() }");
        assert_eq!(found("a.rs", open), ["a.rs:1: unsafe without a SAFETY: comment"]);
        assert_eq!(found("a.rs", &format!("// SAFETY: ok\n{open}")), [""; 0]);
        let far = format!("// SAFETY: ok\n{}{open}", "x;\n".repeat(REASON_LINES));
        assert_eq!(found("a.rs", &far).len(), 1);
        assert_eq!(found("a.rs", concat!("unsafe", " impl Send for X {}")).len(), 1);
        assert_eq!(found("a.rs", &format!("// as in {open}")), [""; 0]);
    }

    #[test]
    fn foreign_letters_long_files_and_missing_stories_are_found() {
        assert_eq!(found("a.rs", "let \u{430} = 1;"), ["a.rs:1: \\u{430} is no ASCII letter; write an escape"]);
        assert!(found("a.rs", &"\n".repeat(LINES_MAX + 1))[0].contains("1001 lines"));
        assert_eq!(
            found("x/src/lib.rs", "pub mod a;\n"),
            ["x/src/lib.rs:1: the crate does not begin with its story (//!)"]
        );
    }

    #[test]
    fn this_very_tree_is_walked() {
        let files = rust_files(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(files.iter().any(|f| f.ends_with("src/tidy.rs")));
    }
}
