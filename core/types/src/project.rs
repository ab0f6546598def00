//! Projects: a number that an inode has, and that a directory may hand on to what is made in it
//! (docs/semantics.md, "Projects").

use crate::about::BadLine;
use std::fmt;
use std::str::FromStr;

/// The first number that is a realm's, the tree of a fileset (docs/security.md, "Realms"). Those
/// below are for administrators to choose.
pub const REALM_FIRST: u32 = 1 << 31;

/// The project of an inode. As text: its number, and ` P` behind it if a directory hands it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Project {
    /// Its number; 0: none.
    pub id: u32,
    /// Of a directory: what is made in it is of the same project.
    pub inherit: bool,
}

impl fmt::Display for Project {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.id, if self.inherit { " P" } else { "" })
    }
}

impl FromStr for Project {
    type Err = BadLine;

    fn from_str(text: &str) -> Result<Project, BadLine> {
        let (id, inherit) = match text.strip_suffix(" P") {
            Some(id) => (id, true),
            None => (text, false),
        };
        let digits = id.bytes().all(|byte| byte.is_ascii_digit());
        let id = id.parse().ok().filter(|_| digits).ok_or_else(|| BadLine(text.to_owned()))?;
        Ok(Project { id, inherit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_a_line() {
        for (text, id, inherit) in [("0", 0, false), ("70000 P", 70_000, true)] {
            let project = Project { id, inherit };
            assert_eq!((text.parse(), project.to_string().as_str()), (Ok(project), text));
        }
        for bad in ["", " P", "+1", "-1", "1 p", "1  P", "4294967296", "1 P P"] {
            assert!(bad.parse::<Project>().is_err(), "{bad:?}");
        }
    }
}
