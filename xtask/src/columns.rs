//! Lines of the documentation: prose is at most [`COLUMNS_MAX`] wide, so that two versions of it
//! fit side by side.
//!
//! Code blocks, rows of tables and lines of a single word (a link) are excepted: they cannot be
//! split.

use std::path::Path;

/// Columns of a line of prose, at most; also of comments ([`crate::comments`]).
pub const COLUMNS_MAX: usize = 100;

/// One sentence in `found` for each line of the page that is too long.
pub fn check(path: &Path, text: &str, found: &mut Vec<String>) {
    let mut in_code = false;
    for (at, line) in text.lines().enumerate() {
        let prose = line.trim_start();
        if prose.starts_with("```") {
            in_code = !in_code;
        }
        let words = prose.trim_start_matches(['-', '*', ' ']).split_whitespace().count();
        let columns = line.chars().count();
        if !in_code && columns > COLUMNS_MAX && !prose.starts_with('|') && words > 1 {
            found.push(format!(
                "{}:{}: {columns} columns, at most {COLUMNS_MAX}",
                path.display(),
                at + 1
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check(Path::new("docs/a.md"), text, &mut found);
        found
    }

    #[test]
    fn long_prose_is_found() {
        let line = "word ".repeat(20);
        assert_eq!(found(&line), [""; 0], "100 columns");
        assert_eq!(found(&format!("\n{line}x\n")), ["docs/a.md:2: 101 columns, at most 100"]);
        assert_eq!(found(&"\u{e4} ".repeat(50)), [""; 0], "columns are no bytes");
    }

    #[test]
    fn what_cannot_be_split_is_not() {
        let long = "x y ".repeat(30);
        let link = format!("[text](https://example.org/{})", "x".repeat(100));
        assert_eq!(found(&format!("```\n{long}\n```\n| {long} |\n{link}\n- {link}\n")), [""; 0]);
        assert_eq!(found(&format!("```\n{long}\n```\n{long}\n")).len(), 1, "behind a block");
    }
}
