//! Links of the documentation to files and headings of this tree: each leads somewhere.
//!
//! Anchors are made of headings as GitHub and mdBook make them: lower case, spaces as hyphens,
//! other marks dropped.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The anchors of a page, and its links.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    anchors: Vec<String>,
    links: Vec<String>,
}

fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let same = page.anchors.iter().filter(|other| **other == anchor).count();
                page.anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    page
}

fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

/// `a/../b` as `b`. Links never leave the tree, so nothing is asked of the disk.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// One sentence in `found` for each link of `pages` (path in the tree and text) that leads nowhere
/// below `root`.
pub fn check(root: &Path, pages: &[(PathBuf, String)], found: &mut Vec<String>) {
    let read: BTreeMap<&Path, Page> =
        pages.iter().map(|(path, text)| (path.as_path(), read(text))).collect();
    for (path, page) in &read {
        for link in
            page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.to_path_buf(),
                file => plain(&path.parent().unwrap_or(Path::new("")).join(file)),
            };
            let shown = path.display();
            if !root.join(&target).exists() {
                found.push(format!("{shown}: the link {link} leads to no file"));
            } else if !anchor.is_empty()
                && read
                    .get(target.as_path())
                    .is_some_and(|page| !page.anchors.iter().any(|own| own == anchor))
            {
                found.push(format!("{shown}: the link {link} leads to no heading"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_anchors() {
        let page = read("# A `b`: c?\n\n## Same\n\n## Same\n\n[x](y.md#z) `[no](link)`\n");
        assert_eq!(page.anchors, ["a-b-c", "same", "same-1"]);
        assert_eq!(page.links, ["y.md#z"]);
    }

    #[test]
    fn links_to_nowhere_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let pages = [
            (
                "docs/a.md".into(),
                "[1](b.md#two) [2](b.md#no) [3](../Cargo.toml) [4](c.md) [5](#no) [6](https://x/y)"
                    .into(),
            ),
            ("docs/b.md".into(), "# Two\n".into()),
        ];
        let mut found = Vec::new();
        check(root, &pages, &mut found);
        assert_eq!(
            found,
            [
                "docs/a.md: the link b.md#two leads to no file",
                "docs/a.md: the link b.md#no leads to no file",
                "docs/a.md: the link c.md leads to no file",
                "docs/a.md: the link #no leads to no file",
            ]
        );
    }

    #[test]
    fn headings_that_are_not_there_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let pages = [(
            "Cargo.toml".into(),
            "# One\n[1](#one) [2](#two) [3](src/../Cargo.toml#three)".into(),
        )];
        let mut found = Vec::new();
        check(root, &pages, &mut found);
        assert_eq!(
            found,
            [
                "Cargo.toml: the link #two leads to no heading",
                "Cargo.toml: the link src/../Cargo.toml#three leads to no heading",
            ]
        );
    }
}
