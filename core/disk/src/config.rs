//! Records of the MGS: file systems, their targets, their parameters. Few and rarely written, so
//! their bodies are postcard.
//!
//! | size | field   | meaning                                                  |
//! |------|---------|----------------------------------------------------------|
//! |    4 | crc     | crc32c of all that follows, little endian                |
//! |    1 | version | 1                                                        |
//! |    n | body    | postcard of the struct below, nothing behind it          |
//!
//! Keys are text: `config/f/FSNAME`, `config/t/TARGET`, `config/p/FSNAME/PARAMETER`,
//! `config/o/FSNAME/POOL`, `config/r/TARGET` (a file system name has no `/`), `config/n` for what
//! is said of all nodemaps, `config/n/NODEMAP`, `config/s` for what is said of all parameters of
//! scopes, `config/s/SCOPE PARAMETER` (a scope has no space). A change writes its record and the
//! new version of the file system, of the nodemaps, or of the scopes, in one transaction, so a
//! reader finds both or neither.

use crate::checksum::crc32c;
use idmap::nodemap::NodemapName;
use idmap::scope::Scope;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use types::target::{FsName, TargetName};

/// Format version of this build. 1: first version.
pub const VERSION: u8 = 1;
/// Smallest key of a configuration record.
pub const KEYS_START: &[u8] = b"config/";
/// Larger than every key of a configuration record.
pub const KEYS_END: &[u8] = b"config0";
/// Longest name of a persistent parameter, bytes (a key has 511).
pub const PARAM_NAME_BYTES_MAX: usize = 255;
const HEADER_BYTES: usize = 4 + 1;

/// A file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FsRecord {
    /// Configuration version: grows with every change, from 1.
    pub version: u64,
}

/// A target that once registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetRecord {
    /// UUID of its store.
    pub store: u128,
    /// Number of times that it registered.
    pub boot: u64,
    /// In service when last heard of.
    pub up: bool,
    /// NIDs it is served at, best first.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub nids: Vec<String>,
}

/// A persistent parameter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ParamRecord {
    /// Configuration version in which it was first set: parameters apply in this order.
    pub order: u64,
    /// Value.
    pub value: String,
}

/// A pool of OSTs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PoolRecord {
    /// Indexes of its OSTs, ascending, each once.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub osts: Vec<u16>,
}

/// A target that was removed for good. Its name is never given to another store: layouts may still
/// name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemovedRecord {
    /// UUID of its store.
    pub store: u128,
}

/// What is said of all nodemaps. The record of each is an [`idmap::nodemap::Nodemap`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodemapsRecord {
    /// Number of changes so far.
    pub version: u64,
    /// They hold.
    pub active: bool,
}

/// What is said of all parameters that are kept for a scope. The record of each is a
/// [`ParamRecord`] in the order of their changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScopesRecord {
    /// Number of changes so far.
    pub version: u64,
}

/// What a key names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigKey {
    /// An [`FsRecord`].
    Fs(FsName),
    /// A [`TargetRecord`].
    Target(TargetName),
    /// A [`ParamRecord`].
    Param(FsName, String),
    /// A [`PoolRecord`].
    Pool(FsName, String),
    /// A [`RemovedRecord`].
    Removed(TargetName),
    /// A [`NodemapsRecord`].
    Nodemaps,
    /// A nodemap.
    Nodemap(NodemapName),
    /// A [`ScopesRecord`].
    Scopes,
    /// A [`ParamRecord`] of a scope.
    Scoped(Scope, String),
}

/// The bytes are no such record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadConfig {
    /// Too short for the header.
    #[error("configuration record of {0} bytes is cut off")]
    Short(usize),
    /// Bits were flipped.
    #[error(
        "configuration record has checksum {found:08x}, its bytes say {computed:08x}: it is damaged"
    )]
    Checksum {
        /// The checksum in the record.
        found: u32,
        /// The checksum of what was read.
        computed: u32,
    },
    /// From a newer program.
    #[error(
        "configuration record has version {0}, this program knows up to {VERSION}: update this program"
    )]
    Version(u8),
    /// Good checksum, impossible contents.
    #[error("configuration record has an impossible body")]
    Body,
    /// The key has no known form.
    #[error("configuration key {0:?} names nothing")]
    Key(String),
}

impl ConfigKey {
    /// Encodes to bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ConfigKey::Fs(fsname) => format!("config/f/{fsname}"),
            ConfigKey::Target(name) => format!("config/t/{name}"),
            ConfigKey::Param(fsname, param) => format!("config/p/{fsname}/{param}"),
            ConfigKey::Pool(fsname, pool) => format!("config/o/{fsname}/{pool}"),
            ConfigKey::Removed(name) => format!("config/r/{name}"),
            ConfigKey::Nodemaps => "config/n".to_owned(),
            ConfigKey::Nodemap(name) => format!("config/n/{name}"),
            ConfigKey::Scopes => "config/s".to_owned(),
            ConfigKey::Scoped(scope, param) => format!("config/s/{scope} {param}"),
        }
        .into_bytes()
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`BadConfig::Key`].
    pub fn decode(key: &[u8]) -> Result<ConfigKey, BadConfig> {
        let bad = || BadConfig::Key(String::from_utf8_lossy(key).into_owned());
        let text = std::str::from_utf8(key)
            .ok()
            .and_then(|t| t.strip_prefix("config/"))
            .ok_or_else(bad)?;
        if text == "n" {
            return Ok(ConfigKey::Nodemaps);
        }
        if text == "s" {
            return Ok(ConfigKey::Scopes);
        }
        let (kind, rest) = text.split_once('/').ok_or_else(bad)?;
        match kind {
            "n" => rest.parse().map(ConfigKey::Nodemap).map_err(|_| bad()),
            "f" => rest.parse().map(ConfigKey::Fs).map_err(|_| bad()),
            "t" => rest.parse().map(ConfigKey::Target).map_err(|_| bad()),
            "r" => rest.parse().map(ConfigKey::Removed).map_err(|_| bad()),
            "p" => {
                let (fsname, param) = rest.split_once('/').ok_or_else(bad)?;
                Ok(ConfigKey::Param(fsname.parse().map_err(|_| bad())?, param.to_owned()))
            }
            "s" => {
                let (scope, param) = rest.split_once(' ').ok_or_else(bad)?;
                Ok(ConfigKey::Scoped(scope.parse().map_err(|_| bad())?, param.to_owned()))
            }
            "o" => {
                let (fsname, pool) = rest.split_once('/').ok_or_else(bad)?;
                Ok(ConfigKey::Pool(fsname.parse().map_err(|_| bad())?, pool.to_owned()))
            }
            _ => Err(bad()),
        }
    }
}

/// Encodes one of the records above to bytes.
pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    let bytes = vec![0, 0, 0, 0, VERSION];
    let mut bytes = postcard::to_extend(record, bytes).expect("plain structs always serialize");
    let crc = crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes one of the records above from bytes. The checksum is judged before the version.
///
/// # Errors
/// [`BadConfig`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadConfig> {
    let (header, body) =
        bytes.split_first_chunk::<HEADER_BYTES>().ok_or(BadConfig::Short(bytes.len()))?;
    let [crc @ .., version] = *header;
    let (found, computed) = (u32::from_le_bytes(crc), crc32c(&bytes[4..]));
    if found != computed {
        return Err(BadConfig::Checksum { found, computed });
    }
    if version != VERSION {
        return Err(BadConfig::Version(version));
    }
    match postcard::take_from_bytes(body) {
        Ok((record, [])) => Ok(record),
        _ => Err(BadConfig::Body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TargetRecord {
        TargetRecord {
            store: 0x1234,
            boot: 3,
            up: true,
            nids: vec!["10.0.0.1@tcp".into(), "0@lo".into()],
        }
    }

    #[test]
    fn bytes_never_change() {
        let hex: String = encode(&sample()).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, include_str!("golden/config_target.hex").trim());
    }

    #[test]
    fn records_and_keys_round_trip() {
        assert_eq!(decode(&encode(&sample())), Ok(sample()));
        assert_eq!(decode(&encode(&FsRecord { version: 9 })), Ok(FsRecord { version: 9 }));
        let param = ParamRecord { order: 4, value: "8".into() };
        assert_eq!(decode(&encode(&param)), Ok(param));
        let pool = PoolRecord { osts: vec![0, 3] };
        assert_eq!(decode(&encode(&pool)), Ok(pool));
        let fs = FsName::default();
        let (param, pool) =
            (ConfigKey::Param(fs, "a/b".into()), ConfigKey::Pool(fs, "flash".into()));
        let removed = RemovedRecord { store: 7 };
        assert_eq!(decode(&encode(&removed)), Ok(removed));
        let removed = ConfigKey::Removed(TargetName::ost(fs, 7));
        let all = NodemapsRecord { version: 3, active: true };
        assert_eq!(decode(&encode(&all)), Ok(all));
        let mut nodemap = idmap::nodemap::Nodemap::default();
        nodemap.add_ids(idmap::nodemap::IdKind::Uid, "1000-1999:5000".parse().unwrap()).unwrap();
        nodemap.members.push("10.0.[1-3].*@tcp".parse().unwrap());
        assert_eq!(decode(&encode(&nodemap)), Ok(nodemap.clone()));
        let hex: String = encode(&nodemap).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, include_str!("golden/config_nodemap.hex").trim());
        let (plain, mut nodemap) = (encode(&nodemap), nodemap);
        nodemap.set(idmap::property::Property::ReadOnly(true)).unwrap();
        nodemap.set(idmap::property::Property::Audit(true)).unwrap();
        assert_eq!(decode(&encode(&nodemap)), Ok(nodemap.clone()));
        assert_eq!(encode(&nodemap).len(), plain.len(), "a record of an earlier version is read");
        let nodemap = ConfigKey::Nodemap("physics".parse().unwrap());
        let scopes = ScopesRecord { version: 9 };
        assert_eq!(decode(&encode(&scopes)), Ok(scopes));
        let scope = "nid:10.1.0.0/16@tcp".parse().unwrap();
        for key in [
            ConfigKey::Scopes,
            ConfigKey::Scoped(scope, "osc.*.max dirty/mb".into()),
            ConfigKey::Fs(fs),
            ConfigKey::Target(TargetName::ost(fs, 7)),
            param,
            pool,
            removed,
            ConfigKey::Nodemaps,
            nodemap,
        ] {
            let bytes = key.encode();
            assert!(KEYS_START < &bytes[..] && &bytes[..] < KEYS_END);
            assert_eq!(ConfigKey::decode(&bytes), Ok(key));
        }
    }

    #[test]
    fn every_bad_record_is_refused() {
        let good = encode(&sample());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(
                matches!(decode::<TargetRecord>(&bad), Err(BadConfig::Checksum { .. })),
                "byte {at}"
            );
            assert!(decode::<TargetRecord>(&good[..at]).is_err(), "cut at {at}");
        }
        let reseal = |mut bytes: Vec<u8>| {
            let crc = crc32c(&bytes[4..]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
            bytes
        };
        let mut newer = good.clone();
        newer[4] = 2;
        assert_eq!(decode::<TargetRecord>(&reseal(newer)), Err(BadConfig::Version(2)));
        let mut longer = good.clone();
        longer.push(0);
        assert_eq!(decode::<TargetRecord>(&reseal(longer)), Err(BadConfig::Body));
        assert_eq!(decode::<TargetRecord>(&reseal(good[..8].to_vec())), Err(BadConfig::Body));
        for key in [
            "",
            "config/",
            "config/x/sheen",
            "config/t/sheen",
            "config/r/sheen",
            "config/p/sheen",
            "config/o/sheen",
            "config/n/",
            "config/n/a-b",
            "config/s/",
            "config/s/host:a",
            "config/s/physics p",
            "config/f/much-too-long",
        ] {
            assert!(matches!(ConfigKey::decode(key.as_bytes()), Err(BadConfig::Key(_))), "{key}");
        }
    }
}
