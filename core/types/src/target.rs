//! Targets and their names: `sheen-MDT0000`, `sheen-OST0001`, `MGS`.

use std::fmt;
use std::str::FromStr;

/// Longest file system name (Lustre's limit).
pub const FSNAME_BYTES_MAX: usize = 8;

/// Name of a file system: 1..=8 letters, digits, `_`, `-`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FsName {
    bytes: [u8; FSNAME_BYTES_MAX],
    len: u8,
}

impl FsName {
    /// The name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("checked when made")
    }
}

impl Default for FsName {
    fn default() -> FsName {
        "sheen".parse().expect("a good name")
    }
}

impl fmt::Display for FsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for FsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FsName {
    type Err = BadTargetName;

    fn from_str(s: &str) -> Result<FsName, BadTargetName> {
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if s.is_empty() || s.len() > FSNAME_BYTES_MAX || !s.bytes().all(good) {
            return Err(BadTargetName::FsName(s.to_owned()));
        }
        let mut bytes = [0; FSNAME_BYTES_MAX];
        bytes[..s.len()].copy_from_slice(s.as_bytes());
        Ok(FsName { bytes, len: s.len() as u8 })
    }
}

/// Kind of a target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum TargetKind {
    /// Configuration (MGT).
    Mgt = 1,
    /// Name space.
    Mdt = 2,
    /// Objects.
    Ost = 3,
}

impl TargetKind {
    /// Reverse of `as u8`.
    pub const fn from_u8(n: u8) -> Option<TargetKind> {
        Some(match n {
            1 => TargetKind::Mgt,
            2 => TargetKind::Mdt,
            3 => TargetKind::Ost,
            _ => return None,
        })
    }

    /// `MGS`, `MDT`, `OST`.
    pub const fn word(self) -> &'static str {
        match self {
            TargetKind::Mgt => "MGS",
            TargetKind::Mdt => "MDT",
            TargetKind::Ost => "OST",
        }
    }
}

/// Number of a target among the targets of its kind, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TargetIndex(pub u16);

impl fmt::Debug for TargetIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

/// Name of a target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetName {
    /// File system.
    pub fsname: FsName,
    /// Kind of the target.
    pub kind: TargetKind,
    /// Index among the targets of its kind; 0 for the MGS.
    pub index: TargetIndex,
}

impl TargetName {
    /// The MGS.
    pub fn mgs() -> TargetName {
        TargetName {
            fsname: FsName { bytes: *b"MGS\0\0\0\0\0", len: 3 },
            kind: TargetKind::Mgt,
            index: TargetIndex(0),
        }
    }

    /// MDT `index` of `fsname`.
    pub fn mdt(fsname: FsName, index: u16) -> TargetName {
        TargetName { fsname, kind: TargetKind::Mdt, index: TargetIndex(index) }
    }

    /// OST `index` of `fsname`.
    pub fn ost(fsname: FsName, index: u16) -> TargetName {
        TargetName { fsname, kind: TargetKind::Ost, index: TargetIndex(index) }
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TargetKind::Mgt => f.write_str("MGS"),
            kind => write!(f, "{}-{}{:04x}", self.fsname, kind.word(), self.index.0),
        }
    }
}

impl fmt::Debug for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text names no file system or target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTargetName {
    /// The name does not consist of 1 to 8 allowed characters.
    #[error("{0:?} is no file system name; use 1 to 8 letters, digits, '_' or '-'")]
    FsName(String),
    /// The name is not of the form FSNAME-MDTxxxx, FSNAME-OSTxxxx or MGS.
    #[error("{0:?} is no target name; a target is called like sheen-MDT0000, sheen-OST000a or MGS")]
    Target(String),
}

impl FromStr for TargetName {
    type Err = BadTargetName;

    fn from_str(s: &str) -> Result<TargetName, BadTargetName> {
        if s == "MGS" {
            return Ok(TargetName::mgs());
        }
        let bad = || BadTargetName::Target(s.to_owned());
        let (fsname, device) = s.rsplit_once('-').ok_or_else(bad)?;
        let kind = match device.get(..3) {
            Some("MDT") => TargetKind::Mdt,
            Some("OST") => TargetKind::Ost,
            _ => return Err(bad()),
        };
        let digits = &device[3..];
        if digits.len() != 4 {
            return Err(bad());
        }
        let index = u16::from_str_radix(digits, 16).map_err(|_| bad())?;
        Ok(TargetName { fsname: fsname.parse()?, kind, index: TargetIndex(index) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for text in ["MGS", "sheen-MDT0000", "a-b-OST00ff"] {
            assert_eq!(text.parse::<TargetName>().unwrap().to_string(), text);
        }
        for bad in ["sheen", "sheen-MDT0", "sheen-ABC0000", "waytoolongname-MDT0000", "-MDT0000"] {
            assert!(bad.parse::<TargetName>().is_err(), "{bad}");
        }
    }
}
