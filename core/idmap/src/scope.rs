//! Scopes of persistent parameters: for which processes a value is kept, and which of several
//! values counts. Decides; performs nothing.
//!
//! From the widest to the narrowest: all (no scope), a nodemap, a range of NIDs, a host. Of two
//! ranges of NIDs the one with fewer addresses is narrower; of two that are equally narrow the one
//! that was set later counts. Bound: [`SCOPED_MAX`].

use crate::nids::{BadRanges, NidRange};
use crate::nodemap::{BadNodemapName, NodemapName, as_text};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use types::nid::Nid;

/// Parameters that are kept for a scope, of one cluster.
pub const SCOPED_MAX: usize = 4096;
/// Longest text of a scope, bytes.
pub const SCOPE_BYTES_MAX: usize = 200;
/// Longest name of a host, bytes.
pub const HOST_BYTES_MAX: usize = 64;

/// Name of a host, as `uname -n` says it: 1 to 64 letters, digits, `.`, `-` or `_`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostName(String);

/// The processes for which a value is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those of the clients in a nodemap, while nodemaps are active.
    Nodemap(NodemapName),
    /// Those that the MGS sees at such a NID.
    Nids(NidRange),
    /// Those on a host of this name.
    Host(HostName),
}

/// The text is no scope.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadScope {
    /// A nodemap.
    #[error(transparent)]
    Nodemap(#[from] BadNodemapName),
    /// A range of NIDs.
    #[error(transparent)]
    Nids(#[from] BadRanges),
    /// A host.
    #[error(
        "{0:?} is no name of a host; use 1 to {HOST_BYTES_MAX} letters, digits, '.', '-' or '_'"
    )]
    Host(String),
    /// Neither.
    #[error("{0:?} is no scope; use nodemap:NAME, nid:RANGE or host:NAME")]
    Kind(String),
    /// Too long.
    #[error("a scope has at most {SCOPE_BYTES_MAX} bytes")]
    Long,
}

impl HostName {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<HostName, BadScope> {
        let fits = (1..=HOST_BYTES_MAX).contains(&text.len());
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        match fits && text.bytes().all(good) {
            true => Ok(HostName(text.to_owned())),
            false => Err(BadScope::Host(text.chars().take(80).collect())),
        }
    }
}

impl FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Scope, BadScope> {
        if text.len() > SCOPE_BYTES_MAX {
            return Err(BadScope::Long);
        }
        match text.split_once(':') {
            Some(("nodemap", name)) => Ok(Scope::Nodemap(name.parse()?)),
            // A range with spaces would be two.
            Some(("nid", range)) => Ok(Scope::Nids(range.parse()?)),
            Some(("host", name)) => Ok(Scope::Host(name.parse()?)),
            _ => Err(BadScope::Kind(text.chars().take(80).collect())),
        }
    }
}

/// As it is read again.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Nodemap(name) => write!(f, "nodemap:{name}"),
            Scope::Nids(range) => write!(f, "nid:{range}"),
            Scope::Host(host) => write!(f, "host:{}", host.0),
        }
    }
}

as_text!(Scope);

/// What the MGS knows of a process that asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// Where it is seen.
    pub nid: Nid,
    /// Its nodemap; `None`: nodemaps are not active, or it is a server.
    pub nodemap: Option<&'a NodemapName>,
    /// Its host, as it says.
    pub host: &'a str,
}

impl Scope {
    /// True if the process is in it.
    pub fn has(&self, asker: &Asker<'_>) -> bool {
        match self {
            Scope::Nodemap(name) => asker.nodemap == Some(name),
            Scope::Nids(range) => range.covers(asker.nid),
            Scope::Host(host) => host.0 == asker.host,
        }
    }

    /// Grows with narrowness.
    fn narrowness(&self) -> (u8, u128) {
        match self {
            Scope::Nodemap(_) => (0, 0),
            Scope::Nids(range) => (1, u128::MAX - range.addresses()),
            Scope::Host(_) => (2, 0),
        }
    }
}

/// A parameter that is kept for a scope.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScopedParam {
    /// For which processes.
    pub scope: Scope,
    /// Its name, or a pattern.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// All parameters that are kept for a scope.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scoped {
    /// Number of changes so far.
    pub version: u64,
    params: BTreeMap<(String, String), Kept>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Kept {
    order: u64,
    param: ScopedParam,
}

/// There are too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at most {SCOPED_MAX} parameters are kept for scopes")]
pub struct Full;

impl Scoped {
    /// Keeps a value, or with `None` forgets it. Returns the number of the change in which the
    /// parameter was first set; `None`: nothing is different.
    ///
    /// # Errors
    /// [`Full`]; nothing changed then.
    pub fn set(
        &mut self,
        scope: &Scope,
        name: &str,
        value: Option<&str>,
    ) -> Result<Option<u64>, Full> {
        let key = (scope.to_string(), name.to_owned());
        let old = self.params.get(&key);
        if old.map(|kept| &kept.param.value[..]) == value {
            return Ok(None);
        }
        let order = old.map_or(self.version + 1, |kept| kept.order);
        match value {
            None => {
                self.params.remove(&key);
            }
            Some(_) if old.is_none() && self.params.len() >= SCOPED_MAX => return Err(Full),
            Some(value) => {
                let (name, value) = (name.to_owned(), value.to_owned());
                let param = ScopedParam { scope: scope.clone(), name, value };
                self.params.insert(key, Kept { order, param });
            }
        }
        self.version += 1;
        Ok(Some(order))
    }

    /// One of them, from a record.
    pub fn restore(&mut self, param: ScopedParam, order: u64) {
        self.params.insert((param.scope.to_string(), param.name.clone()), Kept { order, param });
    }

    /// Those of which `fits` is true, in the order in which they apply: a later one counts more.
    fn chosen(&self, fits: impl Fn(&Scope) -> bool) -> Vec<ScopedParam> {
        let mut found: Vec<&Kept> =
            self.params.values().filter(|kept| fits(&kept.param.scope)).collect();
        found.sort_by_key(|kept| (kept.param.scope.narrowness(), kept.order));
        found.into_iter().map(|kept| kept.param.clone()).collect()
    }

    /// All of them, in the order in which they apply.
    pub fn all(&self) -> Vec<ScopedParam> {
        self.chosen(|_| true)
    }

    /// Those of a process, in the order in which they apply.
    pub fn of(&self, asker: &Asker<'_>) -> Vec<ScopedParam> {
        self.chosen(|scope| scope.has(asker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> Scope {
        text.parse().unwrap()
    }

    #[test]
    fn scopes_round_trip_and_say_what_is_wrong() {
        for text in [
            "nodemap:physics",
            "nid:10.0.[1-3].*@tcp",
            "nid:10.1.0.0/16@tcp",
            "nid:fd00::/8@tcp",
            "nid:0@lo",
            "host:node-7.example",
        ] {
            assert_eq!(scope(text).to_string(), text);
        }
        for bad in [
            "",
            "physics",
            "nodemap:",
            "nodemap:a-b",
            "nid:",
            "nid:10.0.0.1",
            "nid:*@tcp *@tcp",
            "host:",
            "host:a b",
            "host:a/b",
            "key:x",
        ] {
            assert!(bad.parse::<Scope>().is_err(), "{bad:?}");
        }
        assert_eq!(format!("nid:{}@tcp", "1".repeat(250)).parse::<Scope>(), Err(BadScope::Long));
    }

    #[test]
    fn the_narrower_scope_comes_later() {
        let mut kept = Scoped::default();
        // In the wrong order.
        for (text, value) in [
            ("host:a", "6"),
            ("nid:10.0.0.1@tcp", "5"),
            ("nid:10.0.0.*@tcp", "3"),
            ("nid:10.0.0.0/25@tcp", "4"),
            ("nodemap:physics", "1"),
            ("nid:*@tcp", "2"),
        ] {
            assert!(kept.set(&scope(text), "p", Some(value)).unwrap().is_some());
        }
        let values = |params: Vec<ScopedParam>| {
            params.into_iter().map(|param| param.value).collect::<Vec<_>>().join("")
        };
        assert_eq!(values(kept.all()), "123456");
        let physics: NodemapName = "physics".parse().unwrap();
        let of = |nid: &str, nodemap, host| {
            values(kept.of(&Asker { nid: nid.parse().unwrap(), nodemap, host }))
        };
        assert_eq!(of("10.0.0.1:999@tcp", Some(&physics), "a"), "123456");
        assert_eq!(of("10.0.0.200@tcp", None, "b"), "23");
        assert_eq!(of("10.9.0.1@tcp", Some(&physics), "b"), "12");
        assert_eq!(of("0@lo", None, "a"), "6");
    }

    #[test]
    fn of_two_that_are_equally_narrow_the_later_counts() {
        let mut kept = Scoped::default();
        let (a, b) = (scope("nid:10.0.0.[1-2]@tcp"), scope("nid:10.0.0.[2-3]@tcp"));
        assert_eq!(kept.set(&a, "p", Some("1")), Ok(Some(1)));
        assert_eq!(kept.set(&b, "p", Some("2")), Ok(Some(2)));
        assert_eq!(kept.set(&b, "p", Some("2")), Ok(None));
        // A new value keeps its place.
        assert_eq!(kept.set(&a, "p", Some("3")), Ok(Some(1)));
        let order = |kept: &Scoped| kept.all().into_iter().map(|p| p.value).collect::<Vec<_>>();
        assert_eq!(order(&kept), ["3", "2"]);
        assert_eq!(kept.set(&a, "absent", None), Ok(None));
        assert_eq!(kept.set(&a, "p", None), Ok(Some(1)));
        assert_eq!((order(&kept), kept.version), (vec!["2".to_owned()], 4));
    }

    #[test]
    fn they_are_bounded() {
        let mut kept = Scoped::default();
        let scope = scope("host:a");
        for n in 0..SCOPED_MAX {
            kept.set(&scope, &n.to_string(), Some("")).unwrap();
        }
        assert_eq!(kept.set(&scope, "more", Some("")), Err(Full));
        assert!(kept.set(&scope, "0", Some("1")).unwrap().is_some());
    }
}
