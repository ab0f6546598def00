//! Directories over several MDTs: what a program asks for, and what a directory keeps for those
//! that are made in it.

use crate::limits::{DIR_STRIPES_MAX, TARGETS_MAX};
use crate::target::TargetIndex;
use std::fmt;
use std::str::FromStr;

/// How the name of an entry tells its stripe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum DirHash {
    /// The sum of its bytes. For tests: names of one kind meet on few stripes.
    AllChar = 1,
    /// FNV-1a of its bytes.
    Fnv1a64 = 2,
    /// One of 4,096 groups, which are dealt out evenly. A name and its temporary names
    /// (`.NAME.Xy3z45`) are in one group.
    #[default]
    Crush = 3,
}

impl DirHash {
    /// All of them.
    pub const ALL: [DirHash; 3] = [DirHash::AllChar, DirHash::Fnv1a64, DirHash::Crush];

    /// The hash with this number.
    pub fn of(number: u8) -> Option<DirHash> {
        DirHash::ALL.into_iter().find(|hash| *hash as u8 == number)
    }

    /// Its word in `lfs`.
    pub const fn word(self) -> &'static str {
        match self {
            DirHash::AllChar => "all_char",
            DirHash::Fnv1a64 => "fnv_1a_64",
            DirHash::Crush => "crush",
        }
    }
}

impl fmt::Display for DirHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// There is no such hash.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no such hash of names: '{0}'; there are all_char, fnv_1a_64 and crush")]
pub struct UnknownHash(String);

impl FromStr for DirHash {
    type Err = UnknownHash;

    fn from_str(word: &str) -> Result<DirHash, UnknownHash> {
        let hash = DirHash::ALL.into_iter().find(|hash| hash.word() == word);
        hash.ok_or_else(|| UnknownHash(word.to_owned()))
    }
}

/// The bytes are no such record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no stripes of a directory: {0}")]
pub struct BadDirStripes(pub &'static str);

/// Where a new directory goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DirSpec {
    /// Stripes; 0 and 1: it is on one MDT as a whole.
    pub count: u16,
    /// How names tell their stripes.
    pub hash: DirHash,
    /// The MDTs of the first stripes. The others are chosen by turns and by space.
    pub mdts: Vec<TargetIndex>,
    /// The MDT of the first stripe is chosen so, too, if `mdts` does not tell it; else it is that
    /// of the directory's name.
    pub any: bool,
}

/// Bytes of the longest [`DirSpec`].
pub const SPEC_BYTES_MAX: usize = SPEC_HEAD_BYTES + 2 * DIR_STRIPES_MAX;
const SPEC_HEAD_BYTES: usize = 6;

impl DirSpec {
    /// Stripes, at least 1.
    pub fn stripes(&self) -> usize {
        usize::from(self.count).max(1)
    }

    /// count u16, hash u8, 1 if any MDT may be the first u8, number of MDTs u16, MDTs u16 each;
    /// little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SPEC_HEAD_BYTES + 2 * self.mdts.len());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&[self.hash as u8, self.any.into()]);
        bytes.extend_from_slice(&(self.mdts.len() as u16).to_le_bytes()); // at most DIR_STRIPES_MAX
        self.mdts.iter().for_each(|mdt| bytes.extend_from_slice(&mdt.0.to_le_bytes()));
        bytes
    }

    /// # Errors
    /// Too short or too long; more than [`DIR_STRIPES_MAX`] stripes; more MDTs than stripes, or one
    /// of them twice; a hash or an MDT that cannot be.
    pub fn decode(bytes: &[u8]) -> Result<DirSpec, BadDirStripes> {
        let (head, rest) =
            bytes.split_first_chunk::<SPEC_HEAD_BYTES>().ok_or(BadDirStripes("too short"))?;
        let [c0, c1, hash, any, n0, n1] = *head;
        let (count, n) = (u16::from_le_bytes([c0, c1]), usize::from(u16::from_le_bytes([n0, n1])));
        let hash = DirHash::of(hash).ok_or(BadDirStripes("hash"))?;
        if any > 1 {
            return Err(BadDirStripes("flags"));
        }
        if rest.len() != 2 * n {
            return Err(BadDirStripes("length"));
        }
        let mdts =
            rest.chunks_exact(2).map(|raw| TargetIndex(u16::from_le_bytes([raw[0], raw[1]])));
        let spec = DirSpec { count, hash, mdts: mdts.collect(), any: any == 1 };
        spec.check()?;
        Ok(spec)
    }

    /// # Errors
    /// As [`DirSpec::decode`].
    pub fn check(&self) -> Result<(), BadDirStripes> {
        if self.stripes() > DIR_STRIPES_MAX {
            return Err(BadDirStripes("too many stripes"));
        }
        if self.mdts.len() > self.stripes() {
            return Err(BadDirStripes("more MDTs than stripes"));
        }
        if self.mdts.iter().any(|mdt| usize::from(mdt.0) >= TARGETS_MAX) {
            return Err(BadDirStripes("index of an MDT"));
        }
        let twice = |at: usize| self.mdts[..at].contains(&self.mdts[at]);
        if (0..self.mdts.len()).any(twice) {
            return Err(BadDirStripes("an MDT twice"));
        }
        Ok(())
    }
}

/// How many levels of directories inherit a default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Levels {
    /// None.
    #[default]
    None,
    /// So many, 1 to [`Levels::MAX`], the directory that has the default included.
    Some(u8),
    /// All.
    All,
}

impl Levels {
    /// Most levels that can be counted.
    pub const MAX: u8 = 250;

    /// What a directory below has; `None` if nothing.
    pub fn below(self) -> Option<Levels> {
        match self {
            Levels::None | Levels::Some(0..=1) => None,
            Levels::Some(n) => Some(Levels::Some(n - 1)),
            Levels::All => Some(Levels::All),
        }
    }

    /// As `lfs` counts: -1 all, 0 none.
    pub fn number(self) -> i32 {
        match self {
            Levels::None => 0,
            Levels::Some(n) => n.into(),
            Levels::All => -1,
        }
    }

    /// Levels of such a number.
    pub fn of_number(number: i32) -> Option<Levels> {
        match u8::try_from(number) {
            Err(_) if number == -1 => Some(Levels::All),
            Ok(0) => Some(Levels::None),
            Ok(n) if n <= Levels::MAX => Some(Levels::Some(n)),
            _ => None,
        }
    }
}

/// What a directory keeps for those that are made in it by mkdir(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DirDefault {
    /// Stripes; 0 and 1: one MDT.
    pub count: u16,
    /// How names tell their stripes.
    pub hash: DirHash,
    /// The MDT of the first stripe; `None`: by turns and by space.
    pub mdt: Option<TargetIndex>,
    /// How many levels inherit it.
    pub inherit: Levels,
    /// On how many levels MDTs are taken by turns. On others the MDT of the directory above stays
    /// as long as it is not much fuller than others. Matters without `mdt`.
    pub by_turns: Levels,
}

impl DirDefault {
    /// What a directory that is made below keeps.
    pub fn below(self) -> Option<DirDefault> {
        let inherit = self.inherit.below()?;
        Some(DirDefault { inherit, by_turns: self.by_turns.below().unwrap_or_default(), ..self })
    }

    /// # Errors
    /// More than [`DIR_STRIPES_MAX`] stripes; an MDT that cannot be.
    pub fn check(&self) -> Result<(), BadDirStripes> {
        if usize::from(self.count) > DIR_STRIPES_MAX {
            return Err(BadDirStripes("too many stripes"));
        }
        if self.mdt.is_some_and(|mdt| usize::from(mdt.0) >= TARGETS_MAX) {
            return Err(BadDirStripes("index of an MDT"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mdts(all: &[u16]) -> Vec<TargetIndex> {
        all.iter().copied().map(TargetIndex).collect()
    }

    #[test]
    fn what_is_asked_for_is_read_again() {
        for spec in [
            DirSpec::default(),
            DirSpec { count: 4, hash: DirHash::AllChar, mdts: mdts(&[3, 1]), any: false },
            DirSpec { count: 2, hash: DirHash::Fnv1a64, mdts: Vec::new(), any: true },
        ] {
            let bytes = spec.encode();
            assert_eq!(DirSpec::decode(&bytes), Ok(spec));
            (0..bytes.len()).for_each(|len| assert!(DirSpec::decode(&bytes[..len]).is_err()));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let bad = |spec: DirSpec| DirSpec::decode(&spec.encode()).unwrap_err().0;
        let of = |count, all: &[u16]| DirSpec { count, mdts: mdts(all), ..DirSpec::default() };
        assert_eq!(bad(of(DIR_STRIPES_MAX as u16 + 1, &[])), "too many stripes");
        assert_eq!(bad(of(2, &[1, 2, 3])), "more MDTs than stripes");
        assert_eq!(bad(of(3, &[1, 2, 1])), "an MDT twice");
        assert_eq!(bad(of(3, &[TARGETS_MAX as u16])), "index of an MDT");
        let mut bytes = DirSpec::default().encode();
        bytes[2] = 9;
        assert_eq!(DirSpec::decode(&bytes), Err(BadDirStripes("hash")));
        assert_eq!("md5".parse::<DirHash>(), Err(UnknownHash("md5".to_owned())));
        DirHash::ALL.into_iter().for_each(|hash| assert_eq!(hash.word().parse(), Ok(hash)));
    }

    #[test]
    fn a_default_reaches_so_many_levels() {
        let top = DirDefault {
            inherit: Levels::Some(3),
            by_turns: Levels::Some(2),
            ..DirDefault::default()
        };
        let second = top.below().unwrap();
        assert_eq!((second.inherit, second.by_turns), (Levels::Some(2), Levels::Some(1)));
        let third = second.below().unwrap();
        assert_eq!((third.inherit, third.by_turns), (Levels::Some(1), Levels::None));
        assert_eq!(third.below(), None);
        let all = DirDefault { inherit: Levels::All, ..top };
        assert_eq!(all.below().unwrap().inherit, Levels::All);
        for levels in [Levels::None, Levels::Some(1), Levels::Some(250), Levels::All] {
            assert_eq!(Levels::of_number(levels.number()), Some(levels));
        }
        assert_eq!([-2, 251, 1000].map(Levels::of_number), [None; 3]);
    }
}
