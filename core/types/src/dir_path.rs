//! The path of a directory, as a mount or a fileset names it.

use crate::name::Name;
use std::fmt;
use std::str::FromStr;

/// Longest path, bytes, without what ends it (PATH_MAX less one).
pub const DIR_PATH_BYTES_MAX: usize = 4095;

/// A path from the root of a file system to a directory: names only, no `.`, `..` or links on the
/// way. Empty: the root itself.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct DirPath(Vec<Name>);

/// The text is no such path.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no path of a directory; write /NAME/NAME..., without . and ..")]
pub struct BadDirPath(pub String);

impl DirPath {
    /// The root.
    pub const ROOT: DirPath = DirPath(Vec::new());

    /// From `/a/b` or `a/b`; `/` and nothing are the root. Slashes beside each other are one.
    ///
    /// # Errors
    /// A name on it is none, or it is too long.
    pub fn parse(bytes: &[u8]) -> Result<DirPath, BadDirPath> {
        let bad = || BadDirPath(String::from_utf8_lossy(bytes).chars().take(80).collect());
        if bytes.len() > DIR_PATH_BYTES_MAX {
            return Err(bad());
        }
        let names = bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names.map(Name::new).collect::<Result<_, _>>().map(DirPath).map_err(|_| bad())
    }

    /// The names on the way, from the root on.
    pub fn names(&self) -> &[Name] {
        &self.0
    }

    /// True if this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// This path, and then `below`.
    #[must_use]
    pub fn join(&self, below: &DirPath) -> DirPath {
        DirPath(self.0.iter().chain(&below.0).cloned().collect())
    }

    /// `/a/b`; nothing for the root.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|name| [b"/", name.as_bytes()].concat()).collect()
    }
}

impl FromStr for DirPath {
    type Err = BadDirPath;

    fn from_str(s: &str) -> Result<DirPath, BadDirPath> {
        DirPath::parse(s.as_bytes())
    }
}

/// As [`DirPath::to_bytes`]; what is no UTF-8 is replaced.
impl fmt::Display for DirPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_round_trip() {
        for text in ["", "/a", "/a/b c/d\u{e9}"] {
            assert_eq!(text.parse::<DirPath>().unwrap().to_string(), text);
        }
        assert_eq!("a//b/".parse::<DirPath>().unwrap().to_string(), "/a/b");
        assert!("/".parse::<DirPath>().unwrap().is_root());
        let joined = "/a".parse::<DirPath>().unwrap().join(&"/b/c".parse().unwrap());
        assert_eq!(joined.to_string(), "/a/b/c");
        assert_eq!(joined.names().len(), 3);
    }

    #[test]
    fn what_leads_elsewhere_is_no_path() {
        for bad in ["/a/../b", "/./a", ".", "/a\0b"] {
            assert_eq!(bad.parse::<DirPath>(), Err(BadDirPath(bad.to_owned())), "{bad:?}");
        }
        assert!(format!("/{}", "x".repeat(256)).parse::<DirPath>().is_err());
        assert!("/x".repeat(2048).parse::<DirPath>().is_err());
        assert!(DirPath::parse(b"/a\xff").is_ok());
    }
}
