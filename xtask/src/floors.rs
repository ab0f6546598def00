//! Which crate may import which: those of its own storey or below. `serve` and `mount` never import
//! each other, there is no circle, and each import comes from a lower floor of [`FLOORS`].
//!
//! Imports of tests count too. The storey of a crate is the top folder it lies in.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Storeys, ground floor first; those of one line stand side by side.
const STOREYS: [&[&str]; 7] =
    [&["core"], &["world"], &["talk"], &["serve", "mount"], &["tools"], &["proof"], &["xtask"]];

/// The floor of each crate, ground floor first. A crate imports from lower floors only, so this
/// table is the order in which the code can be read.
const FLOORS: [&[&str]; 14] = [
    &["types", "mountinfo", "judge", "xtask"],
    &["layout", "namespace", "dlm", "idmap", "replay", "env", "observe", "oracle", "report"],
    &["wire", "disk", "simenv", "ask"],
    &["check", "lnet", "store", "dash", "lfs", "lustreapi", "fuzz"],
    &["rpc", "target", "seal", "takeover"],
    &["stubs", "mgs", "oss", "e2e", "etcd"],
    &["mds", "session"],
    &["data"],
    &["client"],
    &["fuse", "crash"],
    &["node"],
    &["bench-args", "bench-report", "fsck", "lctl", "sim"],
    &["bench", "lnetctl", "scale"],
    &["sheen"],
];

/// One crate of the workspace.
#[derive(Debug, PartialEq, Eq)]
pub struct Crate {
    /// Name of the crate.
    pub name: String,
    /// Top folder it lies in.
    pub storey: String,
    /// Folder of the crate, from the root of the workspace.
    pub folder: PathBuf,
    /// Workspace crates it imports, tests and build script included.
    pub imports: Vec<String>,
}

/// From the answer of `cargo metadata --no-deps`.
///
/// # Errors
/// The answer is not as Cargo documents it.
pub fn read(metadata: &[u8]) -> Result<Vec<Crate>, String> {
    let metadata: Value =
        serde_json::from_slice(metadata).map_err(|e| format!("read cargo metadata: {e}"))?;
    let root = text(&metadata["workspace_root"])?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    packages.iter().map(|package| read_crate(package, Path::new(root))).collect()
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("cargo metadata has {value} where a text should be"))
}

fn read_crate(package: &Value, root: &Path) -> Result<Crate, String> {
    let name = text(&package["name"])?.to_owned();
    let manifest = Path::new(text(&package["manifest_path"])?);
    let folder =
        manifest.strip_prefix(root).ok().and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
    let storey = match folder.components().next() {
        Some(Component::Normal(first)) => first.to_string_lossy().into_owned(),
        _ => return Err(format!("{name} lies outside the workspace: {}", manifest.display())),
    };
    // Only dependencies by path are crates of the workspace.
    let ours =
        package["dependencies"].as_array().into_iter().flatten().filter(|d| d["path"].is_string());
    let imports = ours.map(|d| text(&d["name"]).map(str::to_owned)).collect::<Result<_, _>>()?;
    Ok(Crate { name, storey, folder, imports })
}

fn storey(storey: &str) -> Option<usize> {
    STOREYS.iter().position(|side_by_side| side_by_side.contains(&storey))
}

/// One sentence for each import that is not allowed.
pub fn check(crates: &[Crate]) -> Vec<String> {
    let by_name: BTreeMap<&str, &Crate> = crates.iter().map(|c| (c.name.as_str(), c)).collect();
    let mut found = Vec::new();
    for c in crates {
        let Some(own) = storey(&c.storey) else {
            found.push(format!("{} lies in {}/, which is no storey", c.name, c.storey));
            continue;
        };
        for i in c.imports.iter().filter_map(|name| by_name.get(name.as_str())) {
            match storey(&i.storey) {
                Some(theirs) if theirs > own => found.push(format!(
                    "{}/{} imports {}/{}: an import goes to the own storey or below, never upward",
                    c.storey, c.name, i.storey, i.name
                )),
                Some(theirs) if theirs == own && i.storey != c.storey => found.push(format!(
                    "{}/{} imports {}/{}: these stand side by side and never import each other",
                    c.storey, c.name, i.storey, i.name
                )),
                _ => {}
            }
        }
    }
    found.extend(
        circle(&by_name).map(|way| format!("imports run in a circle: {}", way.join(" -> "))),
    );
    found
}

/// One sentence for each crate without a floor, and for each import that does not come from a lower
/// one.
pub fn check_floors(crates: &[Crate]) -> Vec<String> {
    crates.iter().flat_map(|c| off_floor(c, &FLOORS)).collect()
}

fn off_floor(c: &Crate, floors: &[&[&str]]) -> Vec<String> {
    let floor = |name: &str| floors.iter().position(|crates| crates.contains(&name));
    let Some(own) = floor(&c.name) else {
        return vec![format!("{} has no floor: give it one in xtask/src/floors.rs", c.name)];
    };
    let imports = c
        .imports
        .iter()
        .filter(|import| **import != c.name && floor(import).is_some_and(|low| low >= own));
    imports
        .map(|import| format!("{} imports {import}, which does not lie on a lower floor", c.name))
        .collect()
}

/// The first circle, its first crate also at the end.
fn circle<'a>(crates: &BTreeMap<&'a str, &'a Crate>) -> Option<Vec<&'a str>> {
    fn visit<'a>(
        name: &'a str,
        crates: &BTreeMap<&'a str, &'a Crate>,
        way: &mut Vec<&'a str>,
        done: &mut Vec<&'a str>,
    ) -> Option<Vec<&'a str>> {
        if let Some(at) = way.iter().position(|n| *n == name) {
            return Some(way[at..].iter().copied().chain([name]).collect());
        }
        if done.contains(&name) {
            return None;
        }
        way.push(name);
        let imports = crates.get(name).into_iter().flat_map(|c| &c.imports);
        let found = imports.into_iter().find_map(|i| visit(i, crates, way, done));
        way.pop();
        done.push(name);
        found
    }
    let mut done = Vec::new();
    crates.keys().find_map(|name| visit(name, crates, &mut Vec::new(), &mut done))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `storey/name: imports...`
    fn house(lines: &[&str]) -> Vec<Crate> {
        let line = |line: &&str| {
            let (place, imports) = line.split_once(':').unwrap();
            let (storey, name) = place.split_once('/').unwrap();
            let imports = imports.split_whitespace().map(str::to_owned).collect();
            Crate { name: name.into(), storey: storey.into(), folder: place.into(), imports }
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn a_good_house_stands() {
        let crates = house(&[
            "core/types:",
            "core/wire: types",
            "serve/mds: wire",
            "mount/client: wire",
            "tools/node: mds client",
        ]);
        assert_eq!(check(&crates), [""; 0]);
    }

    #[test]
    fn upward_is_refused() {
        let found = check(&house(&["core/types: env", "world/env:"]));
        assert_eq!(
            found,
            [
                "core/types imports world/env: an import goes to the own storey or below, never upward"
            ]
        );
    }

    #[test]
    fn servers_and_clients_stay_apart() {
        let found =
            check(&house(&["serve/mds: client", "mount/client:", "mount/fuse: oss", "serve/oss:"]));
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("serve/mds imports mount/client: these stand side by side"));
        assert!(found[1].starts_with("mount/fuse imports serve/oss: these stand side by side"));
    }

    #[test]
    fn a_circle_is_shown_whole() {
        let found = check(&house(&["core/a: b", "core/b: c", "core/c: b"]));
        assert_eq!(found, ["imports run in a circle: b -> c -> b"]);
        assert_eq!(check(&house(&["core/a: a"])), ["imports run in a circle: a -> a"]);
    }

    #[test]
    fn an_import_from_the_own_floor_is_found() {
        let floors: [&[&str]; 2] = [&["a"], &["b", "c"]];
        let crates = house(&["core/a:", "core/b: a c", "core/c: a", "core/d:"]);
        let found: Vec<String> = crates.iter().flat_map(|c| off_floor(c, &floors)).collect();
        let first = "b imports c, which does not lie on a lower floor";
        assert_eq!(found, [first, "d has no floor: give it one in xtask/src/floors.rs"]);
    }

    #[test]
    fn a_stray_folder_is_named() {
        assert_eq!(check(&house(&["misc/x:"])), ["x lies in misc/, which is no storey"]);
    }

    #[test]
    fn metadata_is_read_with_the_imports_of_tests() {
        let metadata = br#"{"workspace_root": "/w", "packages": [
            {"name": "types", "manifest_path": "/w/core/types/Cargo.toml", "dependencies": []},
            {"name": "env", "manifest_path": "/w/world/env/Cargo.toml", "dependencies": [
                {"name": "tokio", "kind": null}, {"name": "types", "kind": "dev", "path": "/w/core/types"}]}]}"#;
        assert_eq!(read(metadata).unwrap(), house(&["core/types:", "world/env: types"]));
        assert!(read(b"{}").is_err());
        assert!(
            read(br#"{"workspace_root": "/w", "packages": [{"name": "a", "manifest_path": "/x/Cargo.toml"}]}"#)
                .is_err()
        );
    }
}
