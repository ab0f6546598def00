//! The sources of a crate as the other checks see them: modules, what each names, which types each
//! defines.
//!
//! Files of tests are left out: they may look into everything. What a file calls as a method, or
//! takes from a glob import, is not seen.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Names from the crate root on: `a::b::Item` is `[a, b, Item]`.
pub type Names = Vec<String>;

/// One file of a crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// What the file names of its crate: by a path from the root, from itself, from above, or by
    /// a module or name that stands in the file. A glob import ends in `*`.
    pub paths: Vec<Names>,
    /// Structs, enums and traits that the file defines for others; private ones are its own affair.
    pub types: Vec<String>,
    /// What it defines, modules inside it included.
    pub defined: BTreeSet<Names>,
    /// Names that it takes from elsewhere, for itself or for others, and what they stand for.
    pub aliases: BTreeMap<Names, Names>,
    /// Modules with all names of another one, and that one.
    pub globs: Vec<(Names, Names)>,
}

/// The modules of the crate whose sources lie in `folder`, by path: `[]` is the root.
///
/// # Errors
/// A file cannot be read, or is not Rust.
pub fn modules(folder: &Path, files: &[PathBuf]) -> Result<BTreeMap<Names, Module>, String> {
    let mut modules = BTreeMap::new();
    for file in files.iter().filter(|file| file.starts_with(folder)) {
        let inside =
            file.strip_prefix(folder).expect("it was filtered for that").with_extension("");
        let mut path: Vec<String> =
            inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let name = path.last().cloned().unwrap_or_default();
        if name == "tests" || name.ends_with("_tests") || name == "model" {
            continue;
        }
        if name == "mod" || (path.len() == 1 && (name == "lib" || name == "main")) {
            path.pop();
        }
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        modules.insert(
            path.clone(),
            read(&text, path).map_err(|error| format!("{}: {error}", file.display()))?,
        );
    }
    Ok(modules)
}

/// Reads one file, which is the module `here`.
///
/// # Errors
/// It is not Rust.
pub fn read(text: &str, here: Names) -> syn::Result<Module> {
    let file = syn::parse_file(text)?;
    let declared = BTreeSet::new();
    let mut reader = Reader { here, pass: Pass::Items, declared, found: Module::default() };
    // What a path begins with may stand behind it.
    for pass in [Pass::Items, Pass::Uses, Pass::Paths] {
        reader.pass = pass;
        reader.visit_file(&file);
    }
    Ok(reader.found)
}

/// What is read from the file this time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Items,
    Uses,
    Paths,
}

struct Reader {
    here: Names,
    pass: Pass,
    /// Modules that the file declares.
    declared: BTreeSet<Names>,
    found: Module,
}

impl Reader {
    fn inside(&self, name: &str) -> Names {
        self.here.iter().cloned().chain([name.to_owned()]).collect()
    }

    /// A path from the root; `None`: it begins with what does not stand in the file.
    fn absolute(&self, segments: &[String]) -> Option<Names> {
        let (first, others) = segments.split_first()?;
        let (mut from, mut rest) = match first.as_str() {
            "crate" => (Names::new(), others),
            "super" => (self.here.clone(), segments),
            "self" => (self.here.clone(), others),
            first => {
                let name = self.inside(first);
                if !self.declared.contains(&name) && !self.found.aliases.contains_key(&name) {
                    return None;
                }
                (self.here.clone(), segments)
            }
        };
        while let Some((first, others)) = rest.split_first()
            && first == "super"
        {
            from.pop();
            rest = others;
        }
        from.extend_from_slice(rest);
        Some(from)
    }

    fn note(&mut self, segments: &[String]) {
        if self.pass == Pass::Paths
            && let Some(path) = self.absolute(segments)
        {
            self.found.paths.push(path);
        }
    }

    fn define(&mut self, name: &syn::Ident) {
        if self.pass == Pass::Items {
            let name = self.inside(&name.to_string());
            self.found.defined.insert(name);
        }
    }

    fn define_type(&mut self, visible: &syn::Visibility, name: &syn::Ident) {
        self.define(name);
        if self.pass == Pass::Items && !matches!(visible, syn::Visibility::Inherited) {
            self.found.types.push(name.to_string());
        }
    }

    /// Each name that a `use` brings, below the path `before`: what it stands for, and its name
    /// here (`*`: all names).
    fn each_use(tree: &syn::UseTree, before: &mut Names, each: &mut dyn FnMut(&[String], String)) {
        let mut end = |name: &syn::Ident, here: &syn::Ident| {
            // `a::{self, B}`
            if name == "self" {
                let module = before.last().cloned().unwrap_or_default();
                return each(before, if here == "self" { module } else { here.to_string() });
            }
            before.push(name.to_string());
            each(before, here.to_string());
            before.pop();
        };
        match tree {
            syn::UseTree::Name(name) => end(&name.ident, &name.ident),
            syn::UseTree::Rename(rename) => end(&rename.ident, &rename.rename),
            syn::UseTree::Glob(_) => each(before, "*".to_owned()),
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                Self::each_use(&path.tree, before, each);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| Self::each_use(tree, before, each))
            }
        }
    }

    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut path = Names::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 => path.push(ident.to_string()),
                TokenTree::Ident(ident) => {
                    self.note(&std::mem::take(&mut path));
                    path.push(ident.to_string());
                }
                other => {
                    self.note(&std::mem::take(&mut path));
                    if let TokenTree::Group(group) = other {
                        self.note_tokens(group.stream());
                    }
                }
            }
            colons = 0;
        }
        self.note(&path);
    }
}

/// True if the item is compiled for tests only.
fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if for_tests(&item.attrs) {
            return;
        }
        let inline = item.content.is_some();
        self.declared.insert(self.inside(&item.ident.to_string()));
        if inline {
            self.define(&item.ident);
            self.here.push(item.ident.to_string());
        }
        visit::visit_item_mod(self, item);
        if inline {
            self.here.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if for_tests(&item.attrs) {
            return;
        }
        let mut uses = Vec::new();
        Self::each_use(&item.tree, &mut Names::new(), &mut |path, name| {
            uses.push((path.to_vec(), name));
        });
        // A name that is handed on to others is used here only where the file names it again.
        let own = matches!(item.vis, syn::Visibility::Inherited);
        for (mut path, name) in uses {
            let is_glob = name == "*";
            match self.pass {
                Pass::Items => {}
                Pass::Uses => match self.absolute(&path) {
                    Some(target) if is_glob => self.found.globs.push((self.here.clone(), target)),
                    Some(target) => {
                        self.found.aliases.insert(self.inside(&name), target);
                    }
                    // Another crate's.
                    None => {}
                },
                Pass::Paths => {
                    if is_glob {
                        path.push(name);
                    }
                    if own {
                        self.note(&path);
                    }
                }
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Names =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, made: &'ast syn::Macro) {
        self.note_tokens(made.tokens.clone());
        visit::visit_macro(self, made);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.define_type(&item.vis, &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.define_type(&item.vis, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.define_type(&item.vis, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.define(&item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.define(&item.ident);
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.define(&item.ident);
        visit::visit_item_static(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.define(&item.sig.ident);
        visit::visit_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str, here: &str) -> Vec<String> {
        let here = here.split("::").map(str::to_owned).collect();
        let module = read(text, here).unwrap();
        module.paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_those_from_the_root() {
        let text = "use crate::a::{B, c::D as E};\nuse super::x;\nfn f() { super::super::y(); self::z(); other::w() }\n\
                    #[cfg(test)] use crate::t;\n#[cfg(test)] mod tests { use crate::u; }\nmod m { use super::v; }";
        let found = paths(text, "p::q");
        assert_eq!(found, ["a::B", "a::c::D", "p::x", "y", "p::q::z", "p::q::v"]);
    }

    #[test]
    fn a_module_that_the_file_declares_begins_a_path() {
        let text =
            "use low::A;\nfn f(b: high::B) { let low = 1; other::C; g(low) }\nmod low;\nmod high;";
        assert_eq!(paths(text, "p"), ["p::low::A", "p::high::B", "p::low"]);
    }

    #[test]
    fn a_name_that_is_handed_on_counts_where_it_is_used() {
        let declared = "mod low;\npub use low::{A, B};\n";
        assert_eq!(paths(declared, "p"), [""; 0]);
        assert_eq!(paths(&format!("{declared}fn f(a: A) {{}}"), "p"), ["p::A"]);
        let module = read(declared, vec!["p".to_owned()]).unwrap();
        let aliases: Vec<String> = module
            .aliases
            .iter()
            .map(|(name, target)| format!("{} = {}", name.join("::"), target.join("::")))
            .collect();
        assert_eq!(aliases, ["p::A = p::low::A", "p::B = p::low::B"]);
    }

    #[test]
    fn paths_in_macros_count() {
        let text = "fn f() { assert!(matches!(x, crate::a::B { c: D } if self::e(crate::g::<H>())), \"crate::no\") }";
        assert_eq!(paths(text, "p"), ["a::B", "p::e", "g"]);
    }

    #[test]
    fn a_module_that_is_imported_itself_has_its_name() {
        let module = read("use crate::a::{self, b::*};\npub use a::C;", vec![]).unwrap();
        let names = |text: &str| text.split("::").map(str::to_owned).collect::<Names>();
        assert_eq!(module.paths, [names("a"), names("a::b::*")]);
        assert_eq!(module.aliases[&names("a")], names("a"));
        assert_eq!(module.globs, [(vec![], names("a::b"))]);
    }

    #[test]
    fn types_are_listed() {
        let module = read(
            "pub struct A; pub(crate) enum B {} trait C {} type D = u8; fn f() { struct E; }",
            vec![],
        )
        .unwrap();
        assert_eq!(module.types, ["A", "B"]);
    }
}
