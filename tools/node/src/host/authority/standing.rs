//! How far the keys of a cluster are: which authorities hold, and which names must get a key before
//! the one before the newest can be taken away, or before theirs ends.

use super::rotation::tag;
use super::{Issued, KeyList};
use seal::authority::Authority;
use seal::fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The authority before is withdrawn so long after the last name has a new key, seconds: processes
/// that share its file read it meanwhile.
pub const SETTLED: i64 = 60;
/// A name is told of as ending if its last good key ends within this time, seconds: 30 days.
pub const ENDING: i64 = 30 * 86_400;

/// The authorities of a cluster, and whose keys are only of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Authorities that hold, the newest first.
    pub holding: Vec<Fingerprint>,
    /// The newest was not always the only one.
    pub was_rotated: bool,
    /// Role and name of good keys of an earlier authority whose owners have none of the newest.
    pub behind: BTreeSet<(String, String)>,
    /// When the last of the good keys of each role and name ends, seconds since 1970.
    ends: BTreeMap<(String, String), i64>,
    /// When the newest key of the newest authority was made, seconds since 1970.
    renewed: Option<i64>,
}

/// The same in numbers, for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysStatus {
    /// Authorities that hold; 2: the one before the newest was not withdrawn yet.
    pub authorities: usize,
    /// Names with a good key, by role; mappings of authorities of sites in an overlap, too.
    pub names: usize,
    /// Those of them with keys of the authority before only.
    pub behind: usize,
    /// The first of these, for people.
    pub names_behind: Vec<String>,
    /// Names whose last good key ends within [`ENDING`].
    pub ending: usize,
}

impl Standing {
    /// By the list of keys at this time. `now`: seconds since 1970.
    pub(super) fn of(authority: &Authority, list: &KeyList, now: i64) -> Standing {
        let tag = tag(authority);
        let is_good = |key: &&Issued| key.revoked.is_none() && key.expires > now;
        let owner = |key: &Issued| (key.role.clone(), key.name.clone());
        let mut ends = BTreeMap::new();
        for key in list.keys.iter().filter(is_good) {
            let last = ends.entry(owner(key)).or_insert(key.expires);
            *last = key.expires.max(*last);
        }
        let (ours, theirs): (Vec<_>, Vec<_>) =
            list.keys.iter().filter(is_good).partition(|key| key.authority == tag);
        let have: BTreeSet<_> = ours.iter().map(|key| owner(key)).collect();
        Standing {
            holding: authority.fingerprints(),
            was_rotated: tag.is_some(),
            behind: theirs.into_iter().map(owner).filter(|who| !have.contains(who)).collect(),
            ends,
            renewed: ours.iter().map(|key| key.issued).max(),
        }
    }

    /// True if the authority before holds, too.
    pub fn is_in_overlap(&self) -> bool {
        self.holding.len() > 1
    }

    /// True if the authority before may be withdrawn without a loss. `now`: seconds since 1970.
    pub fn is_over(&self, now: i64) -> bool {
        let is_settled = self.renewed.is_some_and(|last| now.saturating_sub(last) >= SETTLED);
        self.is_in_overlap() && self.behind.is_empty() && is_settled
    }

    /// Names of those that are behind, for people; at most this many.
    pub fn names_behind(&self, most: usize) -> String {
        let names: Vec<&str> = self.behind.iter().take(most).map(|(_, name)| &name[..]).collect();
        let more = self.behind.len().saturating_sub(most);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{}{more}", names.join(", "))
    }

    /// Names that are good, or behind.
    pub fn names(&self) -> usize {
        let others = self.behind.iter().filter(|who| !self.ends.contains_key(*who));
        self.ends.len() + others.count()
    }

    /// Names, with their roles, whose last good key ends within [`ENDING`], and the whole days that
    /// each is good; those that have ended since the list was read are left out. `now`: seconds
    /// since 1970.
    pub fn ending(&self, now: i64) -> impl Iterator<Item = (&(String, String), i64)> {
        let left = self.ends.iter().map(move |(who, ends)| (who, ends.saturating_sub(now)));
        left.filter(|(_, left)| (1..=ENDING).contains(left)).map(|(who, left)| (who, left / 86_400))
    }

    /// In numbers, with at most so many names. `now`: seconds since 1970.
    pub fn status(&self, most: usize, now: i64) -> KeysStatus {
        KeysStatus {
            authorities: self.holding.len(),
            names: self.names(),
            behind: self.behind.len(),
            names_behind: self.behind.iter().take(most).map(|(_, name)| name.clone()).collect(),
            ending: self.ending(now).count(),
        }
    }

    /// As YAML, with at most so many names in each list. `now`: seconds since 1970.
    pub fn yaml(&self, most: usize, now: i64) -> String {
        let KeysStatus { authorities, names, behind, ending, .. } = self.status(0, now);
        let mut text = format!(
            "authorities: {authorities}\nnames: {names}\nbehind: {behind}\nending: {ending}\n"
        );
        let lists = [
            ("names_behind", self.behind.iter().map(|who| (who, None)).take(most).collect()),
            (
                "names_ending",
                self.ending(now)
                    .map(|(who, days)| (who, Some(days)))
                    .take(most)
                    .collect::<Vec<_>>(),
            ),
        ];
        for (title, names) in lists {
            let none = if names.is_empty() { " []" } else { "" };
            writeln!(text, "{title}:{none}").expect("a string takes all");
            for ((role, name), days) in names {
                let days = days.map_or_else(String::new, |days| format!(", days: {days}"));
                writeln!(text, "- {{ role: {role}, name: {name}{days} }}")
                    .expect("a string takes all");
            }
        }
        text
    }

    /// What is to be said of a key beside how long it is good.
    pub fn of_key(&self, key: &Issued) -> &'static str {
        let newest = self.was_rotated.then(|| self.holding[0].to_string());
        match (key.authority == newest, self.is_in_overlap()) {
            (true, _) => "",
            (false, true) if self.behind.contains(&(key.role.clone(), key.name.clone())) => {
                ", not renewed: of the old authority"
            }
            (false, true) => ", of the old authority; its owner has a newer one",
            (false, false) => ", of an authority that was withdrawn",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::session::ClusterId;

    fn key(role: &str, name: &str, expires: i64) -> Issued {
        let (role, name, key) = (role.to_owned(), name.to_owned(), "0".repeat(64));
        Issued { name, role, key, issued: 0, expires, nids: vec![], revoked: None, authority: None }
    }

    #[test]
    fn names_are_counted_once_by_the_last_of_their_good_keys() {
        const DAY: i64 = 86_400;
        let first = Authority::make(ClusterId(7), 0).unwrap();
        let second = first.rotate(0).unwrap();
        let newer = |key: Issued| Issued { authority: tag(&second), ..key };
        let revoked = |key: Issued| Issued { revoked: Some(5), ..key };
        let keys = vec![
            key("client", "a", 10 * DAY),
            newer(key("client", "a", 50 * DAY)),
            key("client", "b", 40 * DAY),
            key("server", "b", 3 * DAY + 5),
            newer(key("server", "c", 31 * DAY)),
            revoked(key("client", "d", 40 * DAY)),
            key("client", "e", DAY - 1),
        ];
        let list = KeyList { cluster: String::new(), mgs: Vec::new(), keys };
        let standing = Standing::of(&second, &list, DAY);
        let names_behind = vec!["b".to_owned()];
        let status = KeysStatus { authorities: 2, names: 4, behind: 2, names_behind, ending: 2 };
        assert_eq!(standing.status(1, DAY), status);
        let text = "authorities: 2\nnames: 4\nbehind: 2\nending: 2\n\
             names_behind:\n- { role: client, name: b }\n- { role: server, name: b }\n\
             names_ending:\n- { role: server, name: b, days: 2 }\n- { role: server, name: c, days: 30 }\n";
        assert_eq!(standing.yaml(100, DAY), text);
        // Time passes: what ends has no days left.
        let ending = |now| standing.ending(now).map(|(who, _)| &who.1[..]).collect::<Vec<_>>();
        assert_eq!(ending(4 * DAY), ["c"]);
        assert_eq!(ending(11 * DAY), ["b", "c"], "the other b");
        // Once the first authority is withdrawn its keys count as they did.
        let alone = Standing::of(&second.withdraw(), &list, 100 * DAY);
        let none = "names_behind: []\nnames_ending: []\n";
        let head = "authorities: 1\nnames: 0\nbehind: 0\nending: 0\n";
        assert_eq!(alone.yaml(100, 100 * DAY), format!("{head}{none}"));
    }
}
