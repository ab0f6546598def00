//! Files of one crate that import each other in a circle: they can only be read all at once.
//!
//! [`LARGEST`] holds how large the largest circle of a crate may be. It only ever falls: a crate
//! that does better than its row fails the check too, until the row says so. Without a row a crate
//! may have circles of two files.

use crate::source::Module;
use petgraph::graphmap::DiGraphMap;
use std::collections::BTreeMap;

/// Files in a circle that need no row: a pair reads as one.
const PAIR: usize = 2;
/// Crates with larger circles, and how many files are in the largest.
const LARGEST: [(&str, usize); 4] = [("bench", 3), ("check", 3), ("data", 3), ("node", 3)];

/// Sentences about the crate `name` if its largest circle is larger, or smaller, than its row says.
pub fn check(name: &str, modules: &BTreeMap<Vec<String>, Module>, found: &mut Vec<String>) {
    let allowed = LARGEST.iter().find(|row| row.0 == name).map_or(PAIR, |row| row.1);
    let largest = largest(modules);
    let count = largest.len().max(PAIR);
    if count > allowed {
        let names = largest.join(" ");
        found.push(format!(
            "{name}: {count} files import each other in a circle, at most {allowed}: {names}"
        ));
    }
    if count < allowed {
        found.push(format!(
            "{name}: its largest circle has only {count} files now: say so in xtask/src/circles.rs"
        ));
    }
}

/// The names of the files in the largest circle, sorted; none without one.
fn largest(modules: &BTreeMap<Vec<String>, Module>) -> Vec<String> {
    let paths: Vec<&Vec<String>> = modules.keys().collect();
    let mut graph = DiGraphMap::<usize, ()>::new();
    for (from, (own, module)) in modules.iter().enumerate() {
        // A root names its modules to declare them, and every file may ask it for a name: no arrow
        // goes there.
        for named in &module.paths {
            let home = (1..=named.len())
                .rev()
                .find_map(|end| paths.iter().position(|path| path[..] == named[..end]));
            if let Some(home) = home.filter(|home| paths[*home] != own) {
                graph.add_edge(from, home, ());
            }
        }
    }
    let circles = petgraph::algo::tarjan_scc(&graph);
    let largest = circles
        .into_iter()
        .filter(|circle| circle.len() > 1)
        .max_by_key(Vec::len)
        .unwrap_or_default();
    let mut names: Vec<String> = largest.into_iter().map(|at| paths[at].join("::")).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name: imports...`
    fn modules(lines: &[&str]) -> BTreeMap<Vec<String>, Module> {
        let path = |text: &str| text.trim().split("::").map(str::to_owned).collect::<Vec<_>>();
        let line = |line: &&str| {
            let (name, imports) = line.split_once(": ").unwrap_or((line, ""));
            (
                path(name),
                Module { paths: imports.split_whitespace().map(path).collect(), types: vec![] },
            )
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn a_circle_is_found_through_items() {
        let found = largest(&modules(&["a: b::Item", "b: c::d::Item", "c", "c::d: a::f", "e: a"]));
        assert_eq!(found, ["a", "b", "c::d"]);
    }

    #[test]
    fn a_ladder_is_none() {
        assert_eq!(largest(&modules(&["a: b c", "b: c", "c"])), [""; 0]);
    }

    #[test]
    fn a_pair_passes_and_three_do_not() {
        let mut found = Vec::new();
        check("x", &modules(&["a: b", "b: a"]), &mut found);
        assert_eq!(found, [""; 0]);
        check("x", &modules(&["a: b", "b: c", "c: a"]), &mut found);
        assert_eq!(found, ["x: 3 files import each other in a circle, at most 2: a b c"]);
    }
}
