//! Nodemaps: named sets of clients, and the ids as which the users of each act.
//!
//! A client is in the nodemap that names its key, else in the one with its NID in a range, else in
//! `default`. What a nodemap does to a caller is decided by [`Nodemap::caller`]; [`crate::acting`]
//! adds what the parameters of an MDT say.

use crate::ids::BadIds;
use crate::nids::{BadRanges, NidRange};
use crate::property::{MapMode, Property};
use crate::spans::{BadChange, IdMap, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use types::credentials::{Credentials, Ids};
use types::principal::{BadKeyName, KeyName};
use types::project::REALM_FIRST;

/// Longest name of a nodemap, bytes.
pub const NAME_BYTES_MAX: usize = 16;
/// Ranges of one nodemap.
pub const RANGES_MAX: usize = 1024;
/// Longest fileset, bytes.
pub const FILESET_BYTES_MAX: usize = 4095;
/// Name of the nodemap of clients that are in no other.
pub const DEFAULT: &str = "default";
/// The id as which a client sees one of the file system that none of its own is: no caller has it,
/// so none takes another's file for its own.
pub const FOREIGN: u32 = u32::MAX - 1;
/// The ids of squashed users unless others are set.
pub const SQUASH_DEFAULT: Ids = Ids { uid: 65_534, gid: 65_534 };

/// Name of a nodemap: 1 to 16 letters, digits or `_`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct NodemapName(String);

/// The text is no name of a nodemap.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no name of a nodemap; use 1 to {NAME_BYTES_MAX} letters, digits or '_'")]
pub struct BadNodemapName(pub String);

impl FromStr for NodemapName {
    type Err = BadNodemapName;

    fn from_str(text: &str) -> Result<NodemapName, BadNodemapName> {
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if fits && plain {
            Ok(NodemapName(text.to_owned()))
        } else {
            Err(BadNodemapName(text.to_owned()))
        }
    }
}

impl NodemapName {
    /// That of the nodemap of all clients that are in no other.
    pub fn of_default() -> NodemapName {
        NodemapName(DEFAULT.to_owned())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodemapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Serde through the text: what comes from outside is checked like what is typed.
macro_rules! as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use as_text;

as_text!(NodemapName);
as_text!(Members);

/// Clients: a range of NIDs, or keys by name (`node7@key`, `tenant-*@key`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Members {
    /// By NID.
    Nids(NidRange),
    /// By name of the key; `all`: by its beginning.
    Key {
        /// The name, or the beginning of it, which may be empty.
        name: String,
        /// Every key whose name begins so.
        all: bool,
    },
}

/// The text names no clients.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadMembers {
    /// A range of NIDs.
    #[error(transparent)]
    Nids(#[from] BadRanges),
    /// A name of a key.
    #[error("{0}; a * may stand at its end only")]
    Key(#[from] BadKeyName),
    /// Clients on the host of an MDT.
    #[error("0@lo is in no nodemap: what a host with a target does is never mapped")]
    Loopback,
}

impl FromStr for Members {
    type Err = BadMembers;

    fn from_str(text: &str) -> Result<Members, BadMembers> {
        let Some(key) = text.strip_suffix("@key") else {
            let range: NidRange = text.parse()?;
            return if range.is_loopback() {
                Err(BadMembers::Loopback)
            } else {
                Ok(Members::Nids(range))
            };
        };
        let (name, all) = key.strip_suffix('*').map_or((key, false), |start| (start, true));
        match all {
            true if name.is_empty() || KeyName::is_start(name) => {}
            _ => drop(KeyName::of_any(name)?),
        }
        Ok(Members::Key { name: name.to_owned(), all })
    }
}

/// As it is read again.
impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Members::Nids(range) => range.fmt(f),
            Members::Key { name, all } => write!(f, "{name}{}@key", if *all { "*" } else { "" }),
        }
    }
}

impl Members {
    /// True if there may be a client that is in both.
    pub fn overlaps(&self, other: &Members) -> bool {
        match (self, other) {
            (Members::Nids(a), Members::Nids(b)) => a.overlaps(b),
            (Members::Key { name: a, all: a_all }, Members::Key { name: b, all: b_all }) => {
                match (a_all, b_all) {
                    (false, false) => a == b,
                    (true, false) => b.starts_with(a),
                    (false, true) => a.starts_with(b),
                    (true, true) => a.starts_with(b) || b.starts_with(a),
                }
            }
            // A client's key counts before its NID.
            _ => false,
        }
    }

    /// True if a key of this name is one of them.
    pub fn has_key(&self, key: &KeyName) -> bool {
        match self {
            Members::Nids(_) => false,
            Members::Key { name, all: false } => key.as_str() == name,
            Members::Key { name, all: true } => key.as_str().starts_with(name),
        }
    }
}

/// Kinds of ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum IdKind {
    /// Users.
    Uid,
    /// Groups.
    Gid,
}

/// The text is no kind of ids.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadIdKind {
    /// Projects are not mapped.
    #[error("project ids are the same on both sides; use uid or gid")]
    Project,
    /// Another word.
    #[error("{0:?} is no kind of ids; use uid or gid")]
    Other(String),
}

impl FromStr for IdKind {
    type Err = BadIdKind;

    fn from_str(text: &str) -> Result<IdKind, BadIdKind> {
        match text {
            "uid" => Ok(IdKind::Uid),
            "gid" => Ok(IdKind::Gid),
            "projid" => Err(BadIdKind::Project),
            _ => Err(BadIdKind::Other(text.to_owned())),
        }
    }
}

impl fmt::Display for IdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IdKind::Uid => "uid",
            IdKind::Gid => "gid",
        })
    }
}

/// A nodemap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Nodemap {
    /// Its clients, in the order in which they came in.
    pub members: Vec<Members>,
    /// Users.
    pub uids: IdMap,
    /// Groups.
    pub gids: IdMap,
    /// Ids are the same on both sides.
    pub trusted: bool,
    /// Root acts as root; else it is squashed.
    pub admin: bool,
    /// Callers that the id maps do not know are refused; else they are squashed.
    pub deny_unknown: bool,
    /// Which ids are mapped.
    pub map_mode: MapMode,
    /// User as which squashed callers act; not 0.
    pub squash_uid: u32,
    /// Group as which squashed callers act; not 0.
    pub squash_gid: u32,
    /// The directory that clients mount as the root of the file system, from its root; empty: that.
    pub fileset: String,
    /// The realm of the fileset: the project of all inodes in it, the only ones that its clients
    /// reach. 0: there is no fileset, or an earlier version set it; then they reach none.
    pub realm: u32,
    /// Clients change nothing.
    pub readonly: bool,
    /// What clients change, and what they are refused, is written down.
    pub audit: bool,
}

/// As it is recorded and sent. `modes` is the number of the map mode, 4 if clients change nothing,
/// 8 if there is an audit: an earlier version knew only the first, and reads no other. `fileset`
/// has the number of the realm behind it, after a NUL: an earlier version finds no such directory.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(deserialize_with = "types::bounded::vec")]
    members: Vec<Members>,
    uids: IdMap,
    gids: IdMap,
    trusted: bool,
    admin: bool,
    deny_unknown: bool,
    modes: u8,
    squash_uid: u32,
    squash_gid: u32,
    fileset: String,
}

const READ_ONLY: u8 = 4;
const AUDIT: u8 = 8;

impl From<Nodemap> for Stored {
    fn from(nodemap: Nodemap) -> Stored {
        let Nodemap { members, uids, gids, trusted, admin, deny_unknown, .. } = nodemap;
        let Nodemap { map_mode, squash_uid, squash_gid, realm, readonly, audit, .. } = nodemap;
        let fileset = match realm {
            0 => nodemap.fileset,
            realm => format!("{}\0{realm}", nodemap.fileset),
        };
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let modes = map_mode as u8 | flag(readonly, READ_ONLY) | flag(audit, AUDIT);
        Stored {
            members,
            uids,
            gids,
            trusted,
            admin,
            deny_unknown,
            modes,
            squash_uid,
            squash_gid,
            fileset,
        }
    }
}

impl TryFrom<Stored> for Nodemap {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Nodemap, String> {
        let Stored { members, uids, gids, trusted, admin, deny_unknown, .. } = stored;
        let Stored { modes, squash_uid, squash_gid, fileset, .. } = stored;
        let map_mode = match modes & !(READ_ONLY | AUDIT) {
            0 => MapMode::Both,
            1 => MapMode::Uid,
            2 => MapMode::Gid,
            _ => return Err(format!("{modes} are no modes of a nodemap")),
        };
        let (readonly, audit) = (modes & READ_ONLY != 0, modes & AUDIT != 0);
        let (fileset, realm) = match fileset.split_once('\0') {
            None => (fileset, 0),
            Some((path, realm)) => {
                let bad = || format!("{realm:?} is no number of a realm");
                let realm = realm.parse().ok().filter(|realm| *realm >= REALM_FIRST);
                (path.to_owned(), realm.ok_or_else(bad)?)
            }
        };
        Ok(Nodemap {
            members,
            uids,
            gids,
            trusted,
            admin,
            deny_unknown,
            map_mode,
            squash_uid,
            squash_gid,
            fileset,
            realm,
            readonly,
            audit,
        })
    }
}

impl Default for Nodemap {
    fn default() -> Nodemap {
        Nodemap {
            members: Vec::new(),
            uids: IdMap::default(),
            gids: IdMap::default(),
            trusted: false,
            admin: false,
            deny_unknown: false,
            map_mode: MapMode::default(),
            squash_uid: SQUASH_DEFAULT.uid,
            squash_gid: SQUASH_DEFAULT.gid,
            fileset: String::new(),
            realm: 0,
            readonly: false,
            audit: false,
        }
    }
}

/// What becomes of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// It acts as itself, and its kernel knows its ids.
    Itself,
    /// It acts as the one that the id maps name.
    Mapped,
    /// It acts as the ids of squashed users, without supplementary groups.
    Squashed,
    /// It is refused.
    Denied,
}

impl Nodemap {
    /// True if its clients may not do everything: OSTs ask for tickets (docs/security.md, "Object
    /// tickets").
    pub fn is_restricted(&self) -> bool {
        !self.trusted || !self.admin || self.readonly || !self.fileset.is_empty()
    }

    /// The ids of squashed callers.
    pub fn squash(&self) -> Ids {
        Ids { uid: self.squash_uid, gid: self.squash_gid }
    }

    /// What of it decides how ids are shown: the rest as it is by default.
    pub(crate) fn of_ids(self) -> Nodemap {
        let Nodemap { uids, gids, admin, map_mode, squash_uid, squash_gid, .. } = self;
        let fresh = Nodemap::default();
        Nodemap { uids, gids, admin, map_mode, squash_uid, squash_gid, ..fresh }
    }

    fn maps_kind(&self, kind: IdKind) -> bool {
        let mode = match kind {
            IdKind::Uid => MapMode::Uid,
            IdKind::Gid => MapMode::Gid,
        };
        !self.trusted && (self.map_mode == mode || self.map_mode == MapMode::Both)
    }

    /// The map of a kind.
    pub fn map(&self, kind: IdKind) -> &IdMap {
        match kind {
            IdKind::Uid => &self.uids,
            IdKind::Gid => &self.gids,
        }
    }

    fn squash_id(&self, kind: IdKind) -> u32 {
        match kind {
            IdKind::Uid => self.squash_uid,
            IdKind::Gid => self.squash_gid,
        }
    }

    /// The file system's id that the client's is; `None`: the nodemap does not know it.
    pub fn known(&self, kind: IdKind, client: u32) -> Option<u32> {
        if client == 0 && self.admin {
            return Some(0);
        }
        if !self.maps_kind(kind) {
            return Some(client);
        }
        self.map(kind).to_fs(client)
    }

    /// As [`Nodemap::known`]; of an unknown id, the one of squashed callers.
    pub fn to_fs(&self, kind: IdKind, client: u32) -> u32 {
        self.known(kind, client).unwrap_or(self.squash_id(kind))
    }

    /// The client's id as which one of the file system is shown; `None`: none of the client's is,
    /// nor is it that of squashed callers.
    pub fn shown(&self, kind: IdKind, fs: u32) -> Option<u32> {
        if fs == 0 && self.admin || fs == self.squash_id(kind) || !self.maps_kind(kind) {
            return Some(fs);
        }
        self.map(kind).to_client(fs)
    }

    /// As [`Nodemap::shown`]; one that is none of the client's is [`FOREIGN`].
    pub fn to_client(&self, kind: IdKind, fs: u32) -> u32 {
        self.shown(kind, fs).unwrap_or(FOREIGN)
    }

    /// The id of the file system that is shown as this one; `None`: none is.
    pub fn named(&self, kind: IdKind, client: u32) -> Option<u32> {
        let squash = self.squash_id(kind);
        self.known(kind, client).or((client == squash).then_some(squash))
    }

    /// Makes a caller the one that it acts as.
    pub fn caller(&self, caller: &mut Credentials) -> Caller {
        let is_root = caller.uid == 0;
        let known = match is_root && !self.admin {
            true => None,
            false => self.known(IdKind::Uid, caller.uid),
        };
        let Some(uid) = known else {
            if self.deny_unknown {
                return Caller::Denied;
            }
            *caller = self.squash().into();
            return Caller::Squashed;
        };
        if self.trusted {
            // A client sends the ids as which its root acts; the kernel has checked root's.
            let squashed = !self.admin && caller.uid == self.squash_uid;
            return if squashed { Caller::Squashed } else { Caller::Itself };
        }
        caller.uid = uid;
        caller.gid = self.to_fs(IdKind::Gid, caller.gid);
        // A group that the nodemap does not know gives no rights.
        caller.groups.retain(|group| match self.known(IdKind::Gid, *group) {
            Some(gid) => {
                *group = gid;
                true
            }
            None => false,
        });
        Caller::Mapped
    }

    /// Sets a property.
    ///
    /// # Errors
    /// [`BadIds`]: a squashed user cannot be root; [`Reserved`]: the id maps name it.
    pub fn set(&mut self, property: Property) -> Result<(), BadSet> {
        match property {
            Property::Admin(on) => self.admin = on,
            Property::Trusted(on) => self.trusted = on,
            Property::DenyUnknown(on) => self.deny_unknown = on,
            Property::MapMode(mode) => self.map_mode = mode,
            Property::ReadOnly(on) => self.readonly = on,
            Property::Audit(on) => self.audit = on,
            Property::SquashUid(uid) => {
                free(IdKind::Uid, &self.uids, uid)?;
                self.squash_uid = uid;
            }
            Property::SquashGid(gid) => {
                free(IdKind::Gid, &self.gids, gid)?;
                self.squash_gid = gid;
            }
        }
        Ok(())
    }

    /// Adds ids to a map.
    ///
    /// # Errors
    /// [`BadSet`].
    pub fn add_ids(&mut self, kind: IdKind, span: Span) -> Result<(), BadSet> {
        for id in [self.squash_id(kind), FOREIGN] {
            if span.has_client(id) || span.has_fs(id) {
                return Err(BadSet::Reserved { kind, id });
            }
        }
        if span.has_client(0) || span.has_fs(0) {
            return Err(BadSet::Root(kind));
        }
        let map = self.map(kind).with(span)?;
        *self.map_mut(kind) = map;
        Ok(())
    }

    /// Takes ids out of a map.
    ///
    /// # Errors
    /// [`BadSet`].
    pub fn del_ids(&mut self, kind: IdKind, span: Span) -> Result<(), BadSet> {
        let map = self.map(kind).without(span)?;
        *self.map_mut(kind) = map;
        Ok(())
    }

    fn map_mut(&mut self, kind: IdKind) -> &mut IdMap {
        match kind {
            IdKind::Uid => &mut self.uids,
            IdKind::Gid => &mut self.gids,
        }
    }

    /// Sets the fileset, with this realm; empty: none.
    ///
    /// # Errors
    /// [`BadSet::Fileset`].
    pub fn set_fileset(&mut self, path: &str, realm: u32) -> Result<(), BadSet> {
        let parts = || path.split('/').skip(1);
        let good = path.is_empty()
            || path.len() <= FILESET_BYTES_MAX
                && path.starts_with('/')
                && parts().all(|part| !matches!(part, "" | "." | "..") && part.len() <= 255);
        if !good {
            return Err(BadSet::Fileset(path.chars().take(80).collect()));
        }
        path.clone_into(&mut self.fileset);
        self.realm = if path.is_empty() { 0 } else { realm };
        Ok(())
    }
}

fn free(kind: IdKind, map: &IdMap, id: u32) -> Result<(), BadSet> {
    if id == 0 {
        return Err(BadSet::Ids(BadIds::Root(match kind {
            IdKind::Uid => "user",
            IdKind::Gid => "group",
        })));
    }
    let named = map.to_fs(id).is_some() || map.to_client(id).is_some() || id == FOREIGN;
    if named { Err(BadSet::Reserved { kind, id }) } else { Ok(()) }
}

/// A nodemap cannot be changed so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadSet {
    /// A squashed caller would be root.
    #[error(transparent)]
    Ids(#[from] BadIds),
    /// The id has a meaning of its own.
    #[error(
        "{kind} {id}: an id map cannot name the id of squashed callers, on either side; nor can either be {FOREIGN}"
    )]
    Reserved {
        /// Kind of the id.
        kind: IdKind,
        /// The id.
        id: u32,
    },
    /// Root.
    #[error("an id map cannot name {0} 0, on either side: the property admin says what root may")]
    Root(IdKind),
    /// An id map.
    #[error(transparent)]
    Map(#[from] BadChange),
    /// A fileset.
    #[error("{0:?} is no fileset; write /DIRECTORY/..., without . and .., or nothing for none")]
    Fileset(String),
}
