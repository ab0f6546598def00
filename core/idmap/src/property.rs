//! Properties of nodemaps, as `lctl nodemap_modify` names and sets them.

use crate::ids;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which ids an untrusted nodemap maps; the others stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum MapMode {
    /// Users and groups.
    #[default]
    Both,
    /// Users.
    Uid,
    /// Groups.
    Gid,
}

impl fmt::Display for MapMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MapMode::Both => "both",
            MapMode::Uid => "uid",
            MapMode::Gid => "gid",
        })
    }
}

/// One property and its value, as `lctl nodemap_modify` sets them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Property {
    /// Root acts as root.
    Admin(bool),
    /// Ids are the same on both sides.
    Trusted(bool),
    /// Callers that the id maps do not know are refused.
    DenyUnknown(bool),
    /// User as which unknown callers act.
    SquashUid(u32),
    /// Group as which unknown callers act.
    SquashGid(u32),
    /// Which ids are mapped.
    MapMode(MapMode),
    /// Clients change nothing.
    ReadOnly(bool),
    /// What clients change, and what they are refused, is written down.
    Audit(bool),
}

/// The words are no property and its value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadProperty {
    /// A property of Lustre that there is not.
    #[error("the property {0} does not exist here; there are {all}", all = PROPERTIES.join(", "))]
    Absent(String),
    /// Another word.
    #[error("{0:?} is no property; there are {all}", all = PROPERTIES.join(", "))]
    Name(String),
    /// A value.
    #[error("{value:?} is no value of {name}; use {use_}", use_ = values_of(name))]
    Value {
        /// The property.
        name: &'static str,
        /// The value.
        value: String,
    },
}

/// All of them.
const PROPERTIES: [&str; 8] = [
    "admin",
    "trusted",
    "deny_unknown",
    "squash_uid",
    "squash_gid",
    "map_mode",
    "readonly_mount",
    "audit_mode",
];
/// Those of Lustre that do nothing here.
const ABSENT: [&str; 6] = [
    "squash_projid",
    "forbid_encryption",
    "deny_mount",
    "rbac",
    "gssonly_identification",
    "child_raise_privileges",
];

fn values_of(name: &str) -> &'static str {
    match name {
        "squash_uid" | "squash_gid" => "a number from 1 to 4294967294",
        "map_mode" => "both, uid or gid",
        _ => "0 or 1",
    }
}

impl Property {
    /// From its name and its value.
    ///
    /// # Errors
    /// [`BadProperty`].
    pub fn parse(name: &str, value: &str) -> Result<Property, BadProperty> {
        let Some(name) = PROPERTIES.into_iter().find(|known| *known == name) else {
            let absent = ABSENT.contains(&name);
            return Err(if absent {
                BadProperty::Absent(name.to_owned())
            } else {
                BadProperty::Name(name.to_owned())
            });
        };
        let bad = || BadProperty::Value { name, value: value.to_owned() };
        let flag = || match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(bad()),
        };
        let id = || ids::squash_id(value).ok_or_else(bad);
        Ok(match name {
            "admin" => Property::Admin(flag()?),
            "trusted" => Property::Trusted(flag()?),
            "deny_unknown" => Property::DenyUnknown(flag()?),
            "squash_uid" => Property::SquashUid(id()?),
            "squash_gid" => Property::SquashGid(id()?),
            "readonly_mount" => Property::ReadOnly(flag()?),
            "audit_mode" => Property::Audit(flag()?),
            _ => Property::MapMode(match value {
                "both" | "all" => MapMode::Both,
                "uid" | "uid_only" => MapMode::Uid,
                "gid" | "gid_only" => MapMode::Gid,
                _ => return Err(bad()),
            }),
        })
    }
}
