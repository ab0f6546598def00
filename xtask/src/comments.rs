//! Comments of Rust files: at most [`COLUMNS_MAX`] wide, and they name the actor (client, MDT,
//! kernel, holder, caller) where one of [`VAGUE`] would leave the reader to guess.
//!
//! [`LEFT`] holds how many lines of a crate do not comply yet. It only ever falls: a crate that
//! does better than its row fails the check too, until the row says so.

use crate::columns::COLUMNS_MAX;
use crate::tidy::has_word;
use std::collections::BTreeMap;
use std::path::Path;

/// Words that stand for an actor without naming it.
const VAGUE: [&str; 5] = ["who", "whoever", "whom", "nobody", "somebody"];
/// Crates with lines that do not comply yet: lines that are too wide, lines with a vague word.
const LEFT: [(&str, Count); 0] = [];

/// Comment lines of one crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    wide: usize,
    vague: usize,
}

/// Sentences about the files (path in the tree and text) of the crates: name and folder of each.
pub fn check<'a>(
    files: impl Iterator<Item = (&'a Path, &'a str)>,
    crates: &[(&str, &Path)],
    found: &mut Vec<String>,
) {
    let mut all: BTreeMap<&str, (Count, Vec<String>)> = BTreeMap::new();
    for (path, text) in files {
        let Some((name, _)) = crates.iter().find(|(_, folder)| path.starts_with(folder)) else {
            continue;
        };
        let (count, places) = all.entry(name).or_default();
        judge(path, text, count, places);
    }
    for (name, (count, places)) in all {
        let allowed = LEFT.iter().find(|row| row.0 == name).map_or(Count::default(), |row| row.1);
        compare(name, count, allowed, places, found);
    }
}

/// Sentences about one crate. The lines of a crate without a row are listed one by one.
fn compare(name: &str, count: Count, allowed: Count, places: Vec<String>, found: &mut Vec<String>) {
    if allowed == Count::default() {
        found.extend(places);
        return;
    }
    for (kind, now, most) in
        [("wide", count.wide, allowed.wide), ("vague", count.vague, allowed.vague)]
    {
        if now > most {
            found.push(format!("{name}: {now} comment lines are {kind}, at most {most}"));
        }
        if now < most {
            found.push(format!(
                "{name}: only {now} comment lines are {kind} now: say so in xtask/src/comments.rs"
            ));
        }
    }
}

/// Counts the lines of one file, with one sentence in `places` for each.
fn judge(path: &Path, text: &str, count: &mut Count, places: &mut Vec<String>) {
    let mut in_block = false;
    let mut before = None;
    for (at, line, comment) in comments(text) {
        let place = format!("{}:{}", path.display(), at + 1);
        // A block of code ends with the comment that it stands in.
        in_block &= before.is_some_and(|before| before + 1 == at);
        before = Some(at);
        let prose = comment.trim_start_matches(['/', '!']).trim_start();
        if prose.starts_with("```") {
            in_block = !in_block;
        }
        let columns = line.chars().count();
        // Rows of tables, code and single words (a link) cannot be split.
        let whole = in_block || prose.starts_with('|') || prose.split_whitespace().count() < 2;
        if columns > COLUMNS_MAX && !whole {
            count.wide += 1;
            places.push(format!("{place}: a comment of {columns} columns, at most {COLUMNS_MAX}"));
        }
        // What stands between backquotes is a name.
        let words = prose.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
        if let Some(vague) = VAGUE.iter().find(|vague| has_word(&words, vague)) {
            count.vague += 1;
            places.push(format!(
                "{place}: a comment says `{vague}`; name the client, MDT, kernel, caller ..."
            ));
        }
    }
}

/// The line comments of a file: number of the line from 0, the line, and the part from `//` on.
fn comments(text: &str) -> Vec<(usize, &str, &str)> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &text[at..];
        at += match bytes[at] {
            b'/' if rest.starts_with("//") => {
                let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
                let line = text[start..].lines().next().unwrap_or_default();
                found.push((text[..at].matches('\n').count(), line, &line[at - start..]));
                line.len() - (at - start)
            }
            b'/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            b'r' if !ends_in_word(&text[..at]) => raw_string(rest).unwrap_or(1),
            b'"' => quoted(rest, b'"'),
            b'\'' if is_character(rest) => quoted(rest, b'\''),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    found
}

/// True if a letter, digit or underscore other than the `b` or `c` of a string stands at the end.
fn ends_in_word(text: &str) -> bool {
    let mut ends = text.chars().rev();
    let part = |c: char| c.is_alphanumeric() || c == '_';
    match ends.next() {
        Some('b' | 'c') => ends.next().is_some_and(part),
        last => last.is_some_and(part),
    }
}

/// Length of the raw string that begins here; `None`: none does.
fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|b| *b == b'#').count();
    let open = 1 + hashes;
    let end = format!("\"{}", "#".repeat(hashes));
    rest[open..]
        .starts_with('"')
        .then(|| rest[open + 1..].find(&end).map_or(rest.len(), |at| open + 1 + at + end.len()))
}

/// Length of the string or character that begins here and ends with `end`.
fn quoted(rest: &str, end: u8) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == end => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// True if the quote begins a character, not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    chars.next() == Some('\\') || chars.next() == Some('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> (Count, Vec<String>) {
        let (mut count, mut places) = (Count::default(), Vec::new());
        judge(Path::new("a.rs"), text, &mut count, &mut places);
        (count, places)
    }

    #[test]
    fn wide_comments_are_found() {
        let wide = format!("/// {}", "word ".repeat(20));
        assert_eq!(judged(&wide).1, ["a.rs:1: a comment of 104 columns, at most 100"]);
        assert_eq!(
            judged(&format!("\n    f(); // {}", "word ".repeat(18))).0,
            Count { wide: 1, vague: 0 }
        );
        assert_eq!(
            judged(&format!("let long = f({}0);", "1, ".repeat(40))).0,
            Count::default(),
            "code"
        );
    }

    #[test]
    fn what_cannot_be_split_may_be_wide() {
        let long = "x y ".repeat(30);
        let text = format!(
            "//! | {long} |\n//! [a](https://{})\n//! ```\n//! {long}\n//! ```\n",
            "x".repeat(100)
        );
        assert_eq!(judged(&text).0, Count::default());
        assert_eq!(
            judged(&format!("/// ```\nfn f() {{}}\n/// {long}")).0.wide,
            1,
            "an open block ends with its comment"
        );
    }

    #[test]
    fn vague_words_are_found_in_comments_alone() {
        let text = "/// Nobody waits.\nlet who = \"// nobody\"; // for whom\n// the user `nobody`, whose files\n";
        assert_eq!(judged(text).0, Count { wide: 0, vague: 2 });
        let text = "let a = r#\"\n// who\n\"#;\nlet b = '\"'; let c: &'static str = \"\\\"// who\"; /* who */ let br = b\"//who\";";
        assert_eq!(judged(text).0, Count::default());
        assert_eq!(judged("let r = r; // who").0.vague, 1);
    }

    #[test]
    fn lines_of_a_crate_are_listed() {
        let files =
            [(Path::new("core/a/src/b.rs"), "// who\n"), (Path::new("other/c.rs"), "// who\n")];
        let mut found = Vec::new();
        check(files.into_iter(), &[("a", Path::new("core/a"))], &mut found);
        let said =
            "core/a/src/b.rs:1: a comment says `who`; name the client, MDT, kernel, caller ...";
        assert_eq!(found, [said]);
    }

    #[test]
    fn a_row_only_ever_falls() {
        let compared = |wide, vague| {
            let mut found = Vec::new();
            compare("a", Count { wide, vague }, Count { wide: 3, vague: 2 }, vec![], &mut found);
            found
        };
        assert_eq!(compared(3, 2), [""; 0]);
        assert_eq!(compared(4, 2), ["a: 4 comment lines are wide, at most 3"]);
        assert_eq!(
            compared(3, 1),
            ["a: only 1 comment lines are vague now: say so in xtask/src/comments.rs"]
        );
    }
}
