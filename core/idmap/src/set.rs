//! All nodemaps of a cluster, and the changes of an administrator. Decides; performs nothing.
//!
//! Invariants: there is `default`, which names no members; no client can be in two nodemaps by its
//! key, or in two by its NID. Bounds: [`NODEMAPS_MAX`], [`nodemap::RANGES_MAX`],
//! `types::limits::ID_SPANS_MAX`.

use crate::nodemap::{self, BadSet, IdKind, Members, Nodemap, NodemapName};
use crate::property::Property;
use crate::spans::Span;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::errno::Errno;
use types::nid::Nid;
use types::principal::KeyName;
use types::project::REALM_FIRST;

/// Nodemaps of one cluster, with `default`.
pub const NODEMAPS_MAX: usize = 256;

/// What an administrator does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NodemapChange {
    /// Nodemaps hold from now on, or no longer.
    Activate(bool),
    /// A new one.
    Add(NodemapName),
    /// One goes; its clients are in others from then on.
    Del(NodemapName),
    /// A property of one.
    Modify(NodemapName, Property),
    /// Clients come into one.
    AddMembers(NodemapName, Members),
    /// Clients go out of one.
    DelMembers(NodemapName, Members),
    /// Ids come into a map.
    AddIds(NodemapName, IdKind, Span),
    /// Ids go out of a map.
    DelIds(NodemapName, IdKind, Span),
    /// The directory that clients mount; empty: the root of the file system.
    SetFileset(NodemapName, String),
}

/// A change is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// There is no nodemap of this name.
    #[error("there is no nodemap {0}")]
    Unknown(NodemapName),
    /// There is one already.
    #[error("there is a nodemap {0} already")]
    Exists(NodemapName),
    /// `default` stays, and has the clients that are in no other.
    #[error(
        "the nodemap default is that of all clients that are in no other: it stays, and has no ranges"
    )]
    Default,
    /// Its clients may be in another one.
    #[error("{range} overlaps {theirs} of the nodemap {name}")]
    Overlap {
        /// The range.
        range: Box<Members>,
        /// That of the other nodemap.
        theirs: Box<Members>,
        /// The other nodemap.
        name: NodemapName,
    },
    /// It does not have these clients.
    #[error("the nodemap {0} has no range {1}")]
    NoRange(NodemapName, Box<Members>),
    /// The nodemap itself refuses it.
    #[error(transparent)]
    Set(#[from] BadSet),
    /// One fileset would be within the other, and an inode is in one realm.
    #[error("the fileset {theirs} of the nodemap {name} is above or below it; filesets are apart")]
    Nested {
        /// That of the other nodemap.
        theirs: String,
        /// The other nodemap.
        name: NodemapName,
    },
    /// A bound is reached.
    #[error("there are {0} already, which is the most")]
    Full(&'static str),
}

impl Refused {
    /// The errno that the caller sees.
    pub fn errno(&self) -> Errno {
        match self {
            Refused::Unknown(_) | Refused::NoRange(..) => Errno::ENOENT,
            Refused::Exists(_) | Refused::Overlap { .. } | Refused::Nested { .. } => Errno::EEXIST,
            Refused::Set(BadSet::Map(crate::spans::BadChange::Absent(_))) => Errno::ENOENT,
            Refused::Set(BadSet::Map(crate::spans::BadChange::Full)) | Refused::Full(_) => {
                Errno::ENOSPC
            }
            Refused::Set(BadSet::Map(_)) => Errno::EEXIST,
            Refused::Default | Refused::Set(_) => Errno::EINVAL,
        }
    }
}

/// All nodemaps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Nodemaps {
    /// Number of changes so far; 0: there was none.
    pub version: u64,
    /// They hold.
    pub active: bool,
    #[serde(deserialize_with = "with_default")]
    maps: BTreeMap<NodemapName, Arc<Nodemap>>,
}

/// What comes from outside has `default`, too.
fn with_default<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<NodemapName, Arc<Nodemap>>, D::Error> {
    let mut maps: BTreeMap<NodemapName, Arc<Nodemap>> = BTreeMap::deserialize(deserializer)?;
    maps.entry(NodemapName::of_default()).or_default();
    Ok(maps)
}

impl Default for Nodemaps {
    fn default() -> Nodemaps {
        let maps = BTreeMap::from([(NodemapName::of_default(), Arc::default())]);
        Nodemaps { version: 0, active: false, maps }
    }
}

impl Nodemaps {
    /// One of them, from a record.
    pub fn restore(&mut self, name: NodemapName, nodemap: Nodemap) {
        self.maps.insert(name, Arc::new(nodemap));
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&NodemapName, &Arc<Nodemap>)> {
        self.maps.iter()
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Arc<Nodemap>> {
        self.maps.get(&name.parse().ok()?)
    }

    /// The nodemap of a client.
    pub fn of(&self, nid: Nid, key: Option<&KeyName>) -> (&NodemapName, &Arc<Nodemap>) {
        let by_key = key.and_then(|key| {
            self.maps.iter().find(|(_, map)| map.members.iter().any(|members| members.has_key(key)))
        });
        let by_nid = || {
            let has =
                |members: &Members| matches!(members, Members::Nids(range) if range.covers(nid));
            self.maps.iter().find(|(_, map)| map.members.iter().any(has))
        };
        let default = || self.maps.get_key_value(&NodemapName::of_default());
        by_key.or_else(by_nid).or_else(default).expect("default is always there")
    }

    /// Changes them; `false`: that holds already. The nodemap that it is about is the one to
    /// record; if it is gone, its record goes.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed then.
    pub fn change(&mut self, change: &NodemapChange) -> Result<bool, Refused> {
        let changed = match change {
            NodemapChange::Activate(on) => std::mem::replace(&mut self.active, *on) != *on,
            NodemapChange::Add(name) => {
                if self.maps.contains_key(name) {
                    return Err(Refused::Exists(name.clone()));
                }
                if self.maps.len() >= NODEMAPS_MAX {
                    return Err(Refused::Full("nodemaps"));
                }
                self.maps.insert(name.clone(), Arc::default());
                true
            }
            NodemapChange::Del(name) if *name == NodemapName::of_default() => {
                return Err(Refused::Default);
            }
            NodemapChange::Del(name) => {
                self.maps.remove(name).ok_or_else(|| Refused::Unknown(name.clone()))?;
                true
            }
            NodemapChange::Modify(name, property) => self.alter(name, |map| map.set(*property))?,
            NodemapChange::AddMembers(name, range) => self.add_members(name, range)?,
            NodemapChange::DelMembers(name, range) => {
                let map = self.maps.get_mut(name).ok_or_else(|| Refused::Unknown(name.clone()))?;
                let at = map.members.iter().position(|known| known == range);
                let at =
                    at.ok_or_else(|| Refused::NoRange(name.clone(), Box::new(range.clone())))?;
                Arc::make_mut(map).members.remove(at);
                true
            }
            NodemapChange::AddIds(name, kind, span) => {
                self.alter(name, |map| map.add_ids(*kind, *span))?
            }
            NodemapChange::DelIds(name, kind, span) => {
                self.alter(name, |map| map.del_ids(*kind, *span))?
            }
            NodemapChange::SetFileset(name, path) => {
                let realm = self.realm_for(name, path)?;
                self.alter(name, |map| map.set_fileset(path, realm))?
            }
        };
        self.version += u64::from(changed);
        Ok(changed)
    }

    /// The realm of a fileset: that of the same one, or a new number. None is used twice, because
    /// inodes may keep it when its fileset is no more.
    fn realm_for(&self, name: &NodemapName, path: &str) -> Result<u32, Refused> {
        let within = |a: &str, b: &str| {
            a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut same = 0;
        let others = self.maps.iter().filter(|(_, map)| !map.fileset.is_empty());
        for (other, map) in others.filter(|_| !path.is_empty()) {
            if map.fileset == *path {
                same = same.max(map.realm);
            } else if other != name && (within(&map.fileset, path) || within(path, &map.fileset)) {
                let theirs = map.fileset.clone();
                return Err(Refused::Nested { theirs, name: other.clone() });
            }
        }
        match same {
            0 => self.next_realm().ok_or(Refused::Full("realms")),
            same => Ok(same),
        }
    }

    /// The number of a realm that the next change makes.
    fn next_realm(&self) -> Option<u32> {
        u32::try_from(self.version + 1).ok().and_then(|n| REALM_FIRST.checked_add(n))
    }

    /// Filesets that an earlier version set get their realms; returns the nodemaps that changed.
    pub fn complete(&mut self) -> Vec<NodemapName> {
        let lacks = |map: &Nodemap| !map.fileset.is_empty() && map.realm == 0;
        let names: Vec<NodemapName> =
            self.maps.iter().filter(|(_, map)| lacks(map)).map(|(name, _)| name.clone()).collect();
        for name in &names {
            let Some(path) = self.maps.get(name).map(|map| map.fileset.clone()) else { continue };
            let same = |map: &&Arc<Nodemap>| map.fileset == path && map.realm != 0;
            let known = self.maps.values().find(same).map(|map| map.realm);
            let realm = known.or(self.next_realm()).unwrap_or(0);
            if let Some(map) = self.maps.get_mut(name) {
                Arc::make_mut(map).realm = realm;
                self.version += 1;
            }
        }
        names
    }

    /// All realms, and the filesets that they are, in the order of their numbers.
    pub fn realms(&self) -> BTreeMap<u32, &str> {
        let with = self.maps.values().filter(|map| map.realm != 0);
        with.map(|map| (map.realm, map.fileset.as_str())).collect()
    }

    fn alter(
        &mut self,
        name: &NodemapName,
        change: impl FnOnce(&mut Nodemap) -> Result<(), BadSet>,
    ) -> Result<bool, Refused> {
        let known = self.maps.get_mut(name).ok_or_else(|| Refused::Unknown(name.clone()))?;
        let mut map = Nodemap::clone(known);
        change(&mut map)?;
        let changed = map != **known;
        *known = Arc::new(map);
        Ok(changed)
    }

    fn add_members(&mut self, name: &NodemapName, range: &Members) -> Result<bool, Refused> {
        if *name == NodemapName::of_default() {
            return Err(Refused::Default);
        }
        let map = self.maps.get(name).ok_or_else(|| Refused::Unknown(name.clone()))?;
        if map.members.contains(range) {
            return Ok(false);
        }
        if map.members.len() >= nodemap::RANGES_MAX {
            return Err(Refused::Full("ranges"));
        }
        for (other, map) in self.maps.iter().filter(|(other, _)| *other != name) {
            if let Some(theirs) = map.members.iter().find(|theirs| theirs.overlaps(range)) {
                return Err(Refused::Overlap {
                    range: Box::new(range.clone()),
                    theirs: Box::new(theirs.clone()),
                    name: other.clone(),
                });
            }
        }
        let map = self.maps.get_mut(name).expect("it was there");
        Arc::make_mut(map).members.push(range.clone());
        Ok(true)
    }
}

impl NodemapChange {
    /// The nodemap that it is about; `None`: all.
    pub fn name(&self) -> Option<&NodemapName> {
        match self {
            NodemapChange::Activate(_) => None,
            NodemapChange::Add(name)
            | NodemapChange::Del(name)
            | NodemapChange::Modify(name, _)
            | NodemapChange::AddMembers(name, _)
            | NodemapChange::DelMembers(name, _)
            | NodemapChange::AddIds(name, ..)
            | NodemapChange::DelIds(name, ..)
            | NodemapChange::SetFileset(name, _) => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodemap::IdKind;
    use NodemapChange::{
        Activate, Add, AddIds, AddMembers, Del, DelIds, DelMembers, Modify, SetFileset,
    };

    fn name(text: &str) -> NodemapName {
        text.parse().unwrap()
    }

    fn members(text: &str) -> Members {
        text.parse().unwrap()
    }

    fn made() -> Nodemaps {
        let mut all = Nodemaps::default();
        for change in [
            Add(name("physics")),
            Add(name("guests")),
            AddMembers(name("physics"), members("10.0.[1-3].*@tcp")),
            AddMembers(name("physics"), members("tenant-a-*@key")),
            AddMembers(name("guests"), members("10.1.0.0/16@tcp")),
            AddMembers(name("guests"), members("node7@key")),
            AddIds(name("physics"), IdKind::Uid, "1000-1999:5000".parse().unwrap()),
            Modify(name("physics"), Property::Admin(true)),
            SetFileset(name("guests"), "/guests/home".to_owned()),
            Activate(true),
        ] {
            assert_eq!(all.change(&change), Ok(true), "{change:?}");
            assert!(!all.clone().change(&change).is_ok_and(|changed| changed), "{change:?} again");
        }
        assert_eq!(all.version, 10);
        all
    }

    #[test]
    fn a_client_is_in_the_nodemap_of_its_key_else_of_its_nid() {
        let all = made();
        let of = |nid: &str, key: Option<&str>| {
            let key = key.map(|key| key.parse().unwrap());
            all.of(nid.parse().unwrap(), key.as_ref()).0.to_string()
        };
        assert_eq!(of("10.0.2.9:4000@tcp", None), "physics");
        assert_eq!(of("10.1.2.9:4000@tcp", None), "guests");
        assert_eq!(of("10.2.2.9:4000@tcp", None), "default");
        assert_eq!(of("10.0.2.9@tcp", Some("node7")), "guests");
        assert_eq!(of("10.1.2.9@tcp", Some("tenant-a-3")), "physics");
        assert_eq!(of("10.1.2.9@tcp", Some("node8")), "guests");
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let mut all = made();
        let before = all.clone();
        let span = |text: &str| text.parse::<Span>().unwrap();
        let uid = IdKind::Uid;
        for (change, errno) in [
            (Add(name("physics")), Errno::EEXIST),
            (Del(name("nothing")), Errno::ENOENT),
            (Del(name("default")), Errno::EINVAL),
            (AddMembers(name("default"), members("*@tcp")), Errno::EINVAL),
            (AddMembers(name("nothing"), members("10.9.0.1@tcp")), Errno::ENOENT),
            (AddMembers(name("guests"), members("10.0.3.[5-6]@tcp")), Errno::EEXIST),
            (AddMembers(name("guests"), members("10.0.0.0/8@tcp")), Errno::EEXIST),
            (AddMembers(name("guests"), members("tenant-*@key")), Errno::EEXIST),
            (AddMembers(name("physics"), members("node*@key")), Errno::EEXIST),
            (DelMembers(name("guests"), members("10.0.3.[5-6]@tcp")), Errno::ENOENT),
            (AddIds(name("physics"), uid, span("5:5005")), Errno::EEXIST),
            (AddIds(name("physics"), uid, span("65530-65539:9000")), Errno::EINVAL),
            (AddIds(name("physics"), uid, span("7:65534")), Errno::EINVAL),
            (AddIds(name("physics"), uid, span("0:7")), Errno::EINVAL),
            (AddIds(name("physics"), uid, span("7:0")), Errno::EINVAL),
            (DelIds(name("physics"), uid, span("999-1001:4999")), Errno::ENOENT),
            (Modify(name("physics"), Property::SquashUid(1500)), Errno::EINVAL),
            (Modify(name("physics"), Property::SquashUid(5500)), Errno::EINVAL),
            (Modify(name("physics"), Property::SquashUid(0)), Errno::EINVAL),
            (SetFileset(name("physics"), "a".to_owned()), Errno::EINVAL),
            (SetFileset(name("physics"), "/a/../b".to_owned()), Errno::EINVAL),
            (SetFileset(name("physics"), "/".to_owned()), Errno::EINVAL),
            (SetFileset(name("physics"), "/guests".to_owned()), Errno::EEXIST),
            (SetFileset(name("physics"), "/guests/home/a".to_owned()), Errno::EEXIST),
        ] {
            let refused = all.change(&change).unwrap_err();
            assert_eq!(refused.errno(), errno, "{change:?}: {refused}");
            assert_eq!(all, before);
        }
        for n in all.maps.len()..NODEMAPS_MAX {
            all.change(&Add(name(&format!("n{n}")))).unwrap();
        }
        assert_eq!(all.change(&Add(name("more"))), Err(Refused::Full("nodemaps")));
        for n in 2..nodemap::RANGES_MAX {
            let range = members(&format!("10.5.{}.{}@tcp", n / 256, n % 256));
            all.change(&AddMembers(name("guests"), range)).unwrap();
        }
        let more = AddMembers(name("guests"), members("10.6.0.1@tcp"));
        assert_eq!(all.change(&more), Err(Refused::Full("ranges")));
    }

    #[test]
    fn each_fileset_is_a_realm_whose_number_is_never_used_again() {
        let mut all = made();
        let mut set = |who: &str, path: &str| {
            all.change(&SetFileset(name(who), path.to_owned())).unwrap();
            all.get(who).unwrap().realm
        };
        let first = set("guests", "/guests/home");
        assert_eq!(first, REALM_FIRST + 9);
        assert_eq!(set("physics", "/guests/home"), first, "the same directory");
        assert_eq!(set("physics", "/guests/homes"), REALM_FIRST + 12);
        assert_eq!(set("guests", ""), 0);
        let again = set("guests", "/guests/home");
        assert_eq!(again, REALM_FIRST + 14);
        assert_eq!(set("guests", "/guests/home"), again);
        let known = BTreeMap::from([(again, "/guests/home"), (again - 2, "/guests/homes")]);
        assert_eq!(all.realms(), known);
        // An earlier version gave none.
        let mut old = all.clone();
        Arc::make_mut(old.maps.get_mut(&name("guests")).unwrap()).realm = 0;
        assert_eq!((old.complete(), old.version), (vec![name("guests")], all.version + 1));
        assert_eq!(old.get("guests").unwrap().realm, REALM_FIRST + 15);
        assert_eq!(old.complete(), []);
    }

    #[test]
    fn words_are_read_as_they_are_shown() {
        for text in [
            "10.0.[1-3].*@tcp",
            "fd00::/8@tcp",
            "node7@key",
            "tenant-*@key",
            "*@key",
            "a+*@key",
            "a+b@key",
        ] {
            assert_eq!(members(text).to_string(), text);
        }
        for text in
            ["", "x", "0@lo", "a b@key", "a*b@key", "@key", "a+@key", "+*@key", "10.0.0.1@gni"]
        {
            assert!(text.parse::<Members>().is_err(), "{text}");
        }
        for text in ["", "a-b", "much_too_long_for_it"] {
            assert!(text.parse::<NodemapName>().is_err(), "{text}");
        }
        for (name, value) in
            [("admin", "2"), ("squash_uid", "0"), ("map_mode", "x"), ("rbac", "all"), ("x", "1")]
        {
            assert!(Property::parse(name, value).is_err(), "{name}={value}");
        }
        assert_eq!(Property::parse("squash_gid", "99"), Ok(Property::SquashGid(99)));
        assert_eq!(
            Property::parse("map_mode", "uid"),
            Ok(Property::MapMode(crate::property::MapMode::Uid))
        );
    }

    #[test]
    fn they_travel_whole() {
        let all = made();
        let bytes = postcard::to_allocvec(&all).unwrap();
        assert_eq!(postcard::from_bytes(&bytes), Ok(all));
        for cut in 0..bytes.len() {
            assert!(postcard::from_bytes::<Nodemaps>(&bytes[..cut]).is_err());
        }
    }
}
