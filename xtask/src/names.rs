//! Names of the code in the documentation: a file or path that a page shows as code exists.
//!
//! `locks/gate.rs` must be the end of a file's path, `Import::one` must end with a word of the
//! code. Names of clippy's lints, and `NAME`, which stands for any name, are excepted.

use pulldown_cmark::{Event, Options, Parser};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Every word of the code.
pub fn words(code: &[(PathBuf, String)]) -> HashSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.iter()
        .flat_map(|(_, text)| text.split(move |c| !is_part(c)))
        .filter(|word| !word.is_empty())
        .collect()
}

/// One sentence in `found` for each name in `text` that the code does not have.
pub fn check(
    path: &Path,
    text: &str,
    files: &[&Path],
    words: &HashSet<&str>,
    found: &mut Vec<String>,
) {
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        let Event::Code(name) = event else { continue };
        let is_path = name.chars().all(|c| c.is_ascii_alphanumeric() || "_:/.-".contains(c))
            && !name.contains("NAME");
        if !is_path || name.starts_with("clippy::") {
            continue;
        }
        let known = match (name.ends_with(".rs"), name.rsplit_once("::")) {
            (true, _) => files.iter().any(|file| file.ends_with(&*name)),
            (false, Some((_, last))) => last.is_empty() || words.contains(last),
            (false, None) => true,
        };
        if !known {
            found.push(format!("{}: the code has no `{name}`", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let code = [("mount/client/src/locks/gate.rs".into(), "fn send_it() {}".to_owned())];
        let (files, words): (Vec<&Path>, _) =
            (code.iter().map(|(path, _): &(PathBuf, _)| &**path).collect(), words(&code));
        let mut found = Vec::new();
        check(Path::new("docs/a.md"), text, &files, &words, &mut found);
        found
    }

    #[test]
    fn names_that_are_gone_are_found() {
        assert_eq!(found("`locks/gate.rs` `Gate::send_it`"), [""; 0]);
        assert_eq!(
            found("`gates.rs` `ate.rs` `Gate::send`"),
            ["gates.rs", "ate.rs", "Gate::send"]
                .map(|name| format!("docs/a.md: the code has no `{name}`"))
        );
    }

    #[test]
    fn what_is_no_name_of_the_code_is_left() {
        assert_eq!(
            found("`ops/NAME.rs` `clippy::all` `a b::c` `plain`\n```\nx::y\n```\n"),
            [""; 0]
        );
    }
}
