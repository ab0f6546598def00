//! The decision: the ids as which the callers of a client act.

use crate::ids::{self, BadIds};
use crate::nids::{BadRanges, NidRanges};
use types::credentials::{Ids, Squash};
use types::nid::Nid;

/// The word for no range at all, as it is shown.
pub const NONE: &str = "NONE";
/// The same, as Lustre's administrators set it.
pub const CLEAR: &str = "clear";

/// The callers that an MDT squashes. By default: none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// User 0 of a client acts as these; `None`: not squashed.
    pub root: Option<Ids>,
    /// All users of a client act as these, root too unless `root` says more; `None`: not squashed.
    pub all: Option<Ids>,
    /// Clients at these NIDs are spared.
    pub spared: NidRanges,
}

/// Reads a list of NIDs that are spared.
///
/// # Errors
/// [`BadRanges`].
pub fn parse_spared(text: &str) -> Result<NidRanges, BadRanges> {
    match text.trim() {
        NONE | CLEAR => Ok(NidRanges::default()),
        text => text.parse(),
    }
}

/// As [`parse_spared`] reads it.
pub fn spared_text(spared: &NidRanges) -> String {
    if spared.is_empty() { NONE.to_owned() } else { spared.to_string() }
}

/// The value of a parameter is not what it must be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadValue {
    /// Of `root_squash` or `all_squash`.
    #[error(transparent)]
    Ids(#[from] BadIds),
    /// Of `nosquash_nids`.
    #[error(transparent)]
    Ranges(#[from] BadRanges),
}

/// Succeeds unless this is the last level of a parameter that is set in [`Rules`] and the value is
/// none for it.
///
/// # Errors
/// [`BadValue`].
pub fn check_param(name: &str, value: &str) -> Result<(), BadValue> {
    match name {
        "root_squash" | "all_squash" => ids::parse(value).map(drop).map_err(BadValue::from),
        "nosquash_nids" => parse_spared(value).map(drop).map_err(BadValue::from),
        _ => Ok(()),
    }
}

/// True if this is the last level of a parameter that is set in [`Rules`].
pub fn is_of_access(name: &str) -> bool {
    matches!(name, "root_squash" | "all_squash" | "nosquash_nids")
}

impl Rules {
    /// True if no caller is squashed, whatever its NID.
    pub fn are_off(&self) -> bool {
        self.root.is_none() && self.all.is_none()
    }

    /// The ids as which the callers of a client act, by its NID and by whether it is a server of
    /// the cluster. Spared are servers, clients at loopback (on the host of the MDT), and
    /// clients at NIDs that the administrator named.
    pub fn of(&self, nid: Nid, is_server: bool) -> Squash {
        if is_server || nid.is_loopback() || self.spared.covers(nid) {
            return Squash::OFF;
        }
        Squash { root: self.root.or(self.all), others: self.all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Ids = Ids { uid: 99, gid: 98 };
    const GUEST: Ids = Ids { uid: 500, gid: 501 };

    fn nid(text: &str) -> Nid {
        text.parse().unwrap()
    }

    #[test]
    fn clients_are_squashed_and_servers_and_neighbours_are_not() {
        let rules = Rules {
            root: Some(NOBODY),
            all: None,
            spared: parse_spared("10.0.0.[1-2]@tcp").unwrap(),
        };
        let far = rules.of(nid("10.0.0.3:5000@tcp"), false);
        assert_eq!([0, 1000].map(|uid| far.of(uid)), [Some(NOBODY), None]);
        for (nid, is_server) in [
            (nid("10.0.0.3@tcp"), true),
            (nid("10.0.0.2:5000@tcp"), false),
            (nid("0@lo"), false),
            (nid("127.0.0.1:5000@tcp"), false),
            (nid("[::1]:5000@tcp"), false),
        ] {
            assert_eq!(rules.of(nid, is_server), Squash::OFF, "{nid}");
        }
        assert_eq!(Rules::default().of(nid("10.0.0.3@tcp"), false), Squash::OFF);
        assert!(Rules::default().are_off() && !rules.are_off());
    }

    #[test]
    fn all_are_squashed_and_root_as_its_own_word_says() {
        let all = Rules { all: Some(GUEST), ..Rules::default() };
        let both = Rules { root: Some(NOBODY), ..all.clone() };
        let of = |rules: &Rules| [0, 1000].map(|uid| rules.of(nid("10.0.0.3@tcp"), false).of(uid));
        assert_eq!(of(&all), [Some(GUEST); 2]);
        assert_eq!(of(&both), [Some(NOBODY), Some(GUEST)]);
    }

    #[test]
    fn no_ranges_have_a_word() {
        for text in ["NONE", "clear", " clear\n", ""] {
            assert_eq!(spared_text(&parse_spared(text).unwrap()), "NONE");
        }
        assert_eq!(spared_text(&parse_spared(" *@tcp  0@lo ").unwrap()), "*@tcp 0@lo");
    }

    #[test]
    fn values_are_checked_by_the_last_level() {
        assert_eq!(check_param("root_squash", "99:99"), Ok(()));
        assert_eq!(check_param("all_squash", "0:1"), Err(BadValue::Ids(BadIds::Root("user"))));
        assert_eq!(check_param("nosquash_nids", "clear"), Ok(()));
        assert!(check_param("nosquash_nids", "10.0.0.1").is_err());
        assert_eq!(check_param("stripecount", "x"), Ok(()));
    }
}
