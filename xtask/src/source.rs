//! The sources of a crate as the other checks see them: modules, what each imports, which types
//! each defines.
//!
//! Files of tests are left out: they may look into everything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// One file of a crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Paths below the crate root that the file names, `a::b::Item` as `[a, b, Item]`.
    pub paths: Vec<Vec<String>>,
    /// Structs, enums and traits that the file defines for others; private ones are its own affair.
    pub types: Vec<String>,
}

/// The modules of the crate whose sources lie in `folder`, by path: `[]` is the root.
///
/// # Errors
/// A file cannot be read, or is not Rust.
pub fn modules(folder: &Path, files: &[PathBuf]) -> Result<BTreeMap<Vec<String>, Module>, String> {
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
fn read(text: &str, here: Vec<String>) -> syn::Result<Module> {
    let mut reader = Reader { here, found: Module::default() };
    reader.visit_file(&syn::parse_file(text)?);
    Ok(reader.found)
}

struct Reader {
    here: Vec<String>,
    found: Module,
}

impl Reader {
    /// Notes a path if it begins at the crate root, here, or above.
    fn note(&mut self, segments: &[String]) {
        let (mut from, mut rest) = match segments.split_first() {
            Some((first, rest)) if first == "crate" => (Vec::new(), rest),
            Some((first, _)) if first == "super" => (self.here.clone(), segments),
            Some((first, rest)) if first == "self" => (self.here.clone(), rest),
            _ => return,
        };
        while let Some((first, others)) = rest.split_first()
            && first == "super"
        {
            from.pop();
            rest = others;
        }
        from.extend_from_slice(rest);
        self.found.paths.push(from);
    }

    fn define(&mut self, visible: &syn::Visibility, name: &syn::Ident) {
        if !matches!(visible, syn::Visibility::Inherited) {
            self.found.types.push(name.to_string());
        }
    }

    fn note_tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.note_tree(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Name(name) => self.note_end(&name.ident, before),
            syn::UseTree::Rename(rename) => self.note_end(&rename.ident, before),
            syn::UseTree::Glob(_) => self.note(before),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.note_tree(tree, before))
            }
        }
    }

    fn note_end(&mut self, name: &syn::Ident, before: &mut Vec<String>) {
        before.push(name.to_string());
        self.note(before);
        before.pop();
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
        if inline {
            self.here.push(item.ident.to_string());
        }
        visit::visit_item_mod(self, item);
        if inline {
            self.here.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !for_tests(&item.attrs) {
            self.note_tree(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&segments);
        visit::visit_path(self, path);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.define(&item.vis, &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.define(&item.vis, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.define(&item.vis, &item.ident);
        visit::visit_item_trait(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_from_the_root() {
        let text = "use crate::a::{B, c::D as E};\nuse super::x;\nfn f() { super::super::y(); self::z(); other::w() }\n\
                    #[cfg(test)] use crate::t;\n#[cfg(test)] mod tests { use crate::u; }\nmod m { use super::v; }";
        let module = read(text, vec!["p".into(), "q".into()]).unwrap();
        let paths: Vec<String> = module.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["a::B", "a::c::D", "p::x", "y", "p::q::z", "p::q::v"]);
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
