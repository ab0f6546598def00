//! Files of one crate that import each other in a circle: they can only be read all at once.
//!
//! An arrow goes from a file to the file that defines what it names, whichever way the name leads
//! there: from the crate root, from a module above, or through a module that the file declares.
//! Names that a file hands on (`pub use`) lead to where they are defined. So a file is not tied to
//! its modules because it declares them or hands their names on; it is if its own code names what
//! they define and they name what it defines. The root counts as any file. Methods are not seen:
//! only the type is named that has them.
//!
//! [`LARGEST`] holds how large the largest circle of a crate may be, three at most. It only ever
//! falls: a crate that does better than its row fails the check too, until the row says so. Without
//! a row a crate may have circles of two files.

use crate::source::{Module, Names};
use petgraph::graphmap::DiGraphMap;
use std::collections::{BTreeMap, BTreeSet};

/// Files in a circle that need no row: a pair reads as one.
const PAIR: usize = 2;
/// Crates with larger circles, and how many files are in the largest.
const LARGEST: [(&str, usize); 6] =
    [("check", 3), ("data", 3), ("dlm", 3), ("fuzz", 3), ("node", 3), ("rpc", 3)];
/// Names that stand for another name, one behind the other.
const ALIASES_MAX: usize = 16;

/// Sentences about the crate `name` if its largest circle is larger, or smaller, than its row says.
pub fn check(name: &str, modules: &BTreeMap<Vec<String>, Module>, found: &mut Vec<String>) {
    let allowed = LARGEST.iter().find(|row| row.0 == name).map_or(PAIR, |row| row.1);
    let largest = largest(modules);
    let count = largest.len().max(PAIR);
    if count > allowed {
        let name_of =
            |file: &String| if file.is_empty() { "(root)".to_owned() } else { file.clone() };
        let names = largest.iter().map(name_of).collect::<Vec<_>>().join(" ");
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
fn largest(modules: &BTreeMap<Names, Module>) -> Vec<String> {
    let paths: Vec<&Names> = modules.keys().collect();
    let finder = Finder::new(modules);
    let mut graph = DiGraphMap::<usize, ()>::new();
    for (from, (own, module)) in modules.iter().enumerate() {
        for named in &module.paths {
            let home = finder.home(named).filter(|home| home != own);
            if let Some(home) = home.and_then(|home| paths.iter().position(|path| **path == home)) {
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

/// Where a name is defined.
struct Home {
    file: Names,
    /// Else a macro may define it, or another crate.
    is_known: bool,
}

/// Finds where names are defined.
struct Finder<'a> {
    modules: &'a BTreeMap<Names, Module>,
    defined: BTreeSet<&'a [String]>,
    aliases: BTreeMap<&'a [String], &'a Names>,
    globs: BTreeMap<&'a [String], Vec<&'a Names>>,
}

impl<'a> Finder<'a> {
    fn new(modules: &'a BTreeMap<Names, Module>) -> Finder<'a> {
        let mut globs = BTreeMap::<_, Vec<_>>::new();
        for (at, from) in modules.values().flat_map(|module| &module.globs) {
            globs.entry(&**at).or_default().push(from);
        }
        let aliases = modules.values().flat_map(|module| &module.aliases);
        Finder {
            modules,
            defined: modules.values().flat_map(|module| &module.defined).map(|n| &**n).collect(),
            aliases: aliases.map(|(name, target)| (&**name, target)).collect(),
            globs,
        }
    }

    /// The file that defines it; `None`: it is a module, which is only a part of a name.
    fn home(&self, path: &[String]) -> Option<Names> {
        Some(self.follow(path, ALIASES_MAX)?.file)
    }

    fn follow(&self, path: &[String], left: usize) -> Option<Home> {
        let is_module = |end: &usize| {
            let path = &path[..*end];
            path.is_empty() || self.modules.contains_key(path) || self.is_inline(path)
        };
        let end = (0..=path.len()).take_while(is_module).last().unwrap_or_default();
        let (module, rest) = path.split_at(end);
        let (first, others) = rest.split_first()?;
        let file = self.file(module);
        let name = &path[..=end];
        if self.defined.contains(name) {
            return Some(Home { file, is_known: true });
        }
        let guess = Home { file, is_known: false };
        let Some(left) = left.checked_sub(1) else { return Some(guess) };
        if let Some(target) = self.aliases.get(name) {
            let target: Names = target.iter().chain(others).cloned().collect();
            return self.follow(&target, left);
        }
        let mut all_of = self.globs.get(module).into_iter().flatten().filter_map(|from| {
            let target: Names = from.iter().chain([first]).chain(others).cloned().collect();
            self.follow(&target, left).filter(|home| home.is_known)
        });
        Some(all_of.next().unwrap_or(guess))
    }

    /// A module inside a file: what it defines has longer names.
    fn is_inline(&self, path: &[String]) -> bool {
        self.defined.contains(path)
            && self.defined.range(path..).nth(1).is_some_and(|next| next.starts_with(path))
    }

    fn file(&self, inside: &[String]) -> Names {
        let ends = (0..=inside.len()).rev();
        let mut files = ends.map(|end| &inside[..end]);
        files.find(|file| self.modules.contains_key(*file)).unwrap_or_default().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read;

    /// Each a module and its text; the root is ``.
    fn modules(files: &[(&str, &str)]) -> BTreeMap<Names, Module> {
        let file = |(path, text): &(&str, &str)| {
            let path = path.split("::").filter(|name| !name.is_empty());
            let path: Names = path.map(str::to_owned).collect();
            (path.clone(), read(text, path).unwrap())
        };
        files.iter().map(file).collect()
    }

    fn circle(files: &[(&str, &str)]) -> String {
        largest(&modules(files)).join(" ")
    }

    #[test]
    fn a_circle_is_found_through_items() {
        let files = [
            ("", "mod a; mod b; mod c; mod e;"),
            ("a", "use crate::b::Item; pub fn f() {}"),
            ("b", "use crate::c::d::Item; pub struct Item;"),
            ("c", "pub mod d;"),
            ("c::d", "use crate::a; pub struct Item; fn g() { a::f() }"),
            ("e", "use crate::a::f;"),
        ];
        assert_eq!(circle(&files), "a b c::d");
    }

    #[test]
    fn a_ladder_is_none() {
        let files = [
            ("a", "use crate::b::B; use crate::c::C;"),
            ("b", "use crate::c::C; pub struct B;"),
            ("c", "pub struct C;"),
        ];
        assert_eq!(circle(&files), "");
    }

    #[test]
    fn a_file_and_the_modules_that_it_declares_can_be_a_circle() {
        let low = ("p::low", "use super::{Thing, high::High};");
        let high = ("p::high", "use super::low; pub struct High; fn f() { low::g() }");
        let parent = "mod low; mod high; pub struct Thing; use low::g; fn f() { high::f() }";
        assert_eq!(circle(&[("p", parent), low, high]), "p p::high p::low");
        let parent = "mod low; mod high; pub struct Thing; fn f() { self::low::g() }";
        assert_eq!(circle(&[("p", parent), low, ("p::high", "pub struct High;")]), "p p::low");
        // It only declares them.
        let parent = "mod low; mod high; pub struct Thing;";
        assert_eq!(circle(&[("p", parent), low, high]), "p::high p::low");
    }

    #[test]
    fn a_name_that_is_handed_on_leads_to_where_it_is_defined() {
        let files = [
            ("p", "mod low; mod high; mod all; pub use low::Low; pub use all::*;"),
            ("p::low", "use super::Each; pub struct Low; "),
            ("p::high", "use super::Low; pub fn f() {}"),
            ("p::all", "use super::high::f; pub struct Each;"),
        ];
        assert_eq!(circle(&files), "p::all p::high p::low");
    }

    #[test]
    fn the_root_counts_as_any_file() {
        let files = [("", "mod a; pub struct Root; use a::A;"), ("a", "use crate::Root;")];
        assert_eq!(largest(&modules(&files)), ["", "a"]);
    }

    #[test]
    fn aliases_of_each_other_end() {
        let files = [("a", "pub use crate::b::X;"), ("b", "pub use crate::a::X; fn f(x: X) {}")];
        assert_eq!(circle(&files), "");
    }

    #[test]
    fn a_pair_passes_and_three_do_not() {
        let pair = [("a", "use crate::b::f;"), ("b", "use crate::a::f;")];
        let three =
            [("a", "use crate::b::f;"), ("b", "use crate::c::f;"), ("c", "use crate::a::f;")];
        let mut found = Vec::new();
        check("x", &modules(&pair), &mut found);
        assert_eq!(found, [""; 0]);
        check("x", &modules(&three), &mut found);
        assert_eq!(found, ["x: 3 files import each other in a circle, at most 2: a b c"]);
    }
}
