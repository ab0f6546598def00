//! The glossary and the names of types.
//!
//! A row of the glossary whose word stands nowhere else is stale. A type name that one crate
//! defines twice makes the reader ask which is meant: no crate has such a name.

use crate::source::Module;
use std::collections::BTreeMap;

/// Sentences about the words of `glossary` that no text of `others` has.
pub fn check_glossary(glossary: &str, others: &[String], found: &mut Vec<String>) {
    for word in rows(glossary) {
        let forms = [word.to_lowercase(), word.to_lowercase().replace([' ', '-'], "_")];
        if !others.iter().any(|text| forms.iter().any(|form| text.contains(form.as_str()))) {
            found.push(format!("docs/GLOSSARY.md: nothing says `{word}` any more"));
        }
    }
}

/// The words of the first column; `a, b` are two.
fn rows(glossary: &str) -> Vec<String> {
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let words = rows
        .filter(|cell| !cell.starts_with("---") && *cell != "word")
        .flat_map(|cell| cell.split(", "));
    // `lease (file)`: the bracket tells which lease.
    words.map(|word| word.split(" (").next().unwrap_or(word).trim_matches('`').to_owned()).collect()
}

/// Sentences about names that the crate `name` gives to several types.
pub fn check_types(name: &str, modules: &BTreeMap<Vec<String>, Module>, found: &mut Vec<String>) {
    let mut homes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, module) in modules {
        for defined in &module.types {
            homes.entry(defined).or_default().push(path.join("::"));
        }
    }
    homes.retain(|_, homes| homes.len() > 1);
    if !homes.is_empty() {
        let shown =
            homes.iter().map(|(defined, homes)| format!("{defined} ({})", homes.join(", ")));
        let shown = shown.collect::<Vec<_>>().join("; ");
        found.push(format!("{name}: these names stand for several types: {shown}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = "# Glossary\n\n| word | meaning |\n|---|---|\n| FID | name of an inode |\n| lock owner | .. |\n";

    #[test]
    fn a_stale_row_is_found() {
        let mut found = Vec::new();
        check_glossary(GLOSSARY, &["a fid, its lock_owner".into()], &mut found);
        assert_eq!(found, [""; 0]);
        check_glossary(GLOSSARY, &["a fid".into()], &mut found);
        assert_eq!(found, ["docs/GLOSSARY.md: nothing says `lock owner` any more"]);
    }

    #[test]
    fn a_name_for_two_types_is_found() {
        let module = |types: &[&str]| Module {
            types: types.iter().map(|t| t.to_string()).collect(),
            ..Module::default()
        };
        let modules = BTreeMap::from([
            (vec!["a".to_owned()], module(&["State", "Told"])),
            (vec!["b".to_owned()], module(&["Told"])),
        ]);
        let mut found = Vec::new();
        check_types("x", &modules, &mut found);
        assert_eq!(found, ["x: these names stand for several types: Told (a, b)"]);
    }
}
