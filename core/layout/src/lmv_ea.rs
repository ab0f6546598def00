//! Lustre's binary form of the stripes of a directory (`lustre.lmv`, `trusted.lmv`) and of the
//! default for those that are made in it (`lustre.dmv`, `trusted.dmv`). Little endian.
//!
//! | at | size | stripes             |    | at | size | default                                    |
//! |----|------|---------------------|----|----|------|--------------------------------------------|
//! |  0 |    4 | magic 0x0CD20CD0    |    |  0 |    4 | magic 0x0CD30CD0                           |
//! |  4 |    4 | stripes             |    |  4 |    4 | stripes                                    |
//! |  8 |    4 | MDT of the first    |    |  8 |    4 | MDT of the first, all ones = any           |
//! | 12 |    4 | hash                |    | 12 |    4 | hash, 0 = default                          |
//! | 16 |    4 | version             |    | 16 |    4 | type, 0                                    |
//! | 20 |   20 | zero                |    | 20 |    1 | levels that inherit: 0 all, 255 none       |
//! | 40 |   16 | zero (pool)         |    | 21 |    1 | levels by turns: 0 none, 255 all           |
//! | 56 | 16*n | FIDs (seq, oid, ver) |   | 22 |    1 | 1: an MDT asks by itself, else zero        |
//! |    |      |                     |    | 23 |    9 | zero                                       |
//! |    |      |                     |    | 32 |   16 | zero (pool)                                |

use crate::dir_stripes::DirStripes;
use types::dir_stripes::{BadDirStripes, DirDefault, DirHash, Levels};
use types::fid::Fid;
use types::limits::DIR_STRIPES_MAX;
use types::target::TargetIndex;

/// Of stripes.
pub const LMV_MAGIC_V1: u32 = 0x0CD2_0CD0;
/// Of a default.
pub const LMV_USER_MAGIC: u32 = 0x0CD3_0CD0;

const HEAD_BYTES: usize = 56;
const DEFAULT_BYTES: usize = 48;
const BY_ITSELF_AT: usize = 22;
const FID_BYTES: usize = 16;
/// The hash itself; the other bits say what a directory goes through.
const HASH_MASK: u32 = 0xffff;
/// Names move to fewer stripes.
pub const HASH_FLAG_MERGE: u32 = 0x0400_0000;
/// Names move to more stripes, or by another hash.
pub const HASH_FLAG_SPLIT: u32 = 0x0800_0000;
/// Names move.
pub const HASH_FLAG_MIGRATION: u32 = 0x8000_0000;
const ALL_INHERIT: u8 = 0;
const NONE_INHERIT: u8 = 255;
const NONE_BY_TURNS: u8 = 0;
const ALL_BY_TURNS: u8 = 255;

fn word(bytes: &[u8], at: usize) -> Result<u32, BadDirStripes> {
    let word = bytes.get(at..).and_then(|word| word.first_chunk());
    word.map(|word| u32::from_le_bytes(*word)).ok_or(BadDirStripes("too short"))
}

/// Stripes as Lustre writes them; `None`: all names are in the directory itself, and none moves.
pub fn encode(stripes: &DirStripes) -> Option<Vec<u8>> {
    let flags = match stripes.moving() {
        None if stripes.count() == 1 => return None,
        None => 0,
        Some(moving) if moving.leaves => HASH_FLAG_MIGRATION,
        Some(moving) if moving.count > stripes.count() => HASH_FLAG_MIGRATION | HASH_FLAG_MERGE,
        Some(_) => HASH_FLAG_MIGRATION | HASH_FLAG_SPLIT,
    };
    let fids = stripes.in_use();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + FID_BYTES * fids.len());
    let head = [
        LMV_MAGIC_V1,
        fids.len() as u32,
        stripes.master().mdt().into(),
        stripes.hash() as u32 | flags,
        stripes.generation(),
    ];
    head.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes.resize(HEAD_BYTES, 0);
    for Fid { seq, oid, ver } in fids {
        bytes.extend_from_slice(&seq.to_le_bytes());
        bytes.extend_from_slice(&oid.to_le_bytes());
        bytes.extend_from_slice(&ver.to_le_bytes());
    }
    Some(bytes)
}

/// Stripes as programs see them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// How names tell their stripes.
    pub hash: DirHash,
    /// Names move.
    pub migrating: bool,
    /// The stripes that have names, the directory itself first; at least one.
    pub fids: Vec<Fid>,
}

/// Reads them.
///
/// # Errors
/// Another magic or length, no such hash, no stripe.
pub fn decode(bytes: &[u8]) -> Result<Shown, BadDirStripes> {
    if word(bytes, 0)? != LMV_MAGIC_V1 {
        return Err(BadDirStripes("magic"));
    }
    let (count, flags) = (word(bytes, 4)?, word(bytes, 12)?);
    let hash = u8::try_from(flags & HASH_MASK).ok().and_then(DirHash::of);
    let hash = hash.ok_or(BadDirStripes("hash"))?;
    let rest = bytes.get(HEAD_BYTES..).ok_or(BadDirStripes("too short"))?;
    let (fids, rest) = rest.as_chunks::<FID_BYTES>();
    if !rest.is_empty() || fids.is_empty() || fids.len() != count as usize {
        return Err(BadDirStripes("length"));
    }
    let fid = |raw: &[u8; FID_BYTES]| {
        let [s0, s1, s2, s3, s4, s5, s6, s7, o0, o1, o2, o3, v0, v1, v2, v3] = *raw;
        Fid {
            seq: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            oid: u32::from_le_bytes([o0, o1, o2, o3]),
            ver: u32::from_le_bytes([v0, v1, v2, v3]),
        }
    };
    let migrating = flags & HASH_FLAG_MIGRATION != 0;
    Ok(Shown { hash, migrating, fids: fids.iter().map(fid).collect() })
}

/// A default says no hash.
pub fn leave_hash(default: &mut [u8]) {
    if let Some(hash) = default.get_mut(12..16) {
        hash.fill(0);
    }
}

/// No administrator asks for what a default says, but an MDT by itself.
pub fn by_itself(default: &mut [u8]) {
    if let Some(by_itself) = default.get_mut(BY_ITSELF_AT) {
        *by_itself = 1;
    }
}

/// True if an MDT asks by itself.
pub fn is_by_itself(bytes: &[u8]) -> bool {
    bytes.get(BY_ITSELF_AT) == Some(&1)
}

/// True if a default says which hash, and not just any.
pub fn names_hash(bytes: &[u8]) -> bool {
    word(bytes, 12).is_ok_and(|hash| hash & HASH_MASK != 0)
}

/// A default as Lustre writes it.
pub fn encode_default(default: &DirDefault) -> Vec<u8> {
    let DirDefault { count, hash, mdt, inherit, by_turns } = *default;
    let mdt = mdt.map_or(u32::MAX, |mdt| mdt.0.into());
    let head = [LMV_USER_MAGIC, count.into(), mdt, hash as u32, 0];
    let mut bytes = Vec::with_capacity(DEFAULT_BYTES);
    head.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    let levels = |levels: Levels, none: u8, all: u8| match levels {
        Levels::None => none,
        Levels::Some(n) => n,
        Levels::All => all,
    };
    bytes.push(levels(inherit, NONE_INHERIT, ALL_INHERIT));
    bytes.push(levels(by_turns, NONE_BY_TURNS, ALL_BY_TURNS));
    bytes.resize(DEFAULT_BYTES, 0);
    bytes
}

/// Reads it.
///
/// # Errors
/// Another magic or length, no such hash, values that cannot be; a pool.
pub fn decode_default(bytes: &[u8]) -> Result<DirDefault, BadDirStripes> {
    if word(bytes, 0)? != LMV_USER_MAGIC {
        return Err(BadDirStripes("magic"));
    }
    if bytes.len() != DEFAULT_BYTES {
        return Err(BadDirStripes("length"));
    }
    if bytes[32..].iter().any(|byte| *byte != 0) {
        return Err(BadDirStripes("pools of MDTs do not exist"));
    }
    let hash = match word(bytes, 12)? & HASH_MASK {
        0 => DirHash::default(),
        hash => u8::try_from(hash).ok().and_then(DirHash::of).ok_or(BadDirStripes("hash"))?,
    };
    let levels = |raw: u8, none: u8, all: u8| match raw {
        raw if raw == none => Ok(Levels::None),
        raw if raw == all => Ok(Levels::All),
        n if n <= Levels::MAX => Ok(Levels::Some(n)),
        _ => Err(BadDirStripes("levels")),
    };
    let mdt = match word(bytes, 8)? {
        u32::MAX => None,
        mdt => Some(TargetIndex(u16::try_from(mdt).map_err(|_| BadDirStripes("index of an MDT"))?)),
    };
    // -1: all MDTs.
    let count = match word(bytes, 4)? {
        u32::MAX => DIR_STRIPES_MAX as u32,
        count => count,
    };
    let default = DirDefault {
        count: u16::try_from(count).map_err(|_| BadDirStripes("too many stripes"))?,
        hash,
        mdt,
        inherit: levels(bytes[20], NONE_INHERIT, ALL_INHERIT)?,
        by_turns: levels(bytes[21], NONE_BY_TURNS, ALL_BY_TURNS)?,
    };
    default.check()?;
    Ok(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_have_the_form_of_lustre() {
        let fid = |mdt: u64| Fid { seq: Fid::SEQ_NORMAL + mdt * Fid::SEQ_WIDTH, oid: 5, ver: 0 };
        let stripes = DirStripes::new(DirHash::Crush, vec![fid(1), fid(0)]).unwrap();
        let bytes = encode(&stripes).unwrap();
        assert_eq!(bytes.len(), 56 + 2 * 16);
        assert_eq!(bytes[..16], [0xd0, 0x0c, 0xd2, 0x0c, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(bytes[56..72], [0, 4, 0, 0x40, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        let (hash, fids) = (stripes.hash(), stripes.all().to_vec());
        assert_eq!(decode(&bytes), Ok(Shown { hash, migrating: false, fids: fids.clone() }));
        let merging = stripes.restriped(hash, 1, Vec::new()).unwrap();
        let raw = encode(&merging).unwrap();
        assert_eq!(raw[12..20], [3, 0, 0, 0x84, 2, 0, 0, 0]);
        assert_eq!(decode(&raw), Ok(Shown { hash, migrating: true, fids }));
        assert_eq!(encode(&merging.passed(None)), None);
        (0..bytes.len()).for_each(|len| assert!(decode(&bytes[..len]).is_err(), "{len} bytes"));
        let mut bad = bytes;
        bad[12] = 7;
        assert_eq!(decode(&bad), Err(BadDirStripes("hash")));
    }

    #[test]
    fn a_default_has_the_form_of_lustre() {
        let default = DirDefault {
            count: 2,
            hash: DirHash::Fnv1a64,
            mdt: None,
            inherit: Levels::Some(3),
            by_turns: Levels::All,
        };
        let bytes = encode_default(&default);
        let head = [
            0xd0, 0x0c, 0xd3, 0x0c, 2, 0, 0, 0, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0, 0, 0, 3, 255,
        ];
        assert_eq!((bytes.len(), &bytes[..22]), (48, &head[..]));
        assert_eq!(decode_default(&bytes), Ok(default));
        let one = DirDefault {
            mdt: Some(TargetIndex(1)),
            inherit: Levels::All,
            by_turns: Levels::None,
            ..default
        };
        assert_eq!(decode_default(&encode_default(&one)), Ok(one));
        (0..bytes.len()).for_each(|len| assert!(decode_default(&bytes[..len]).is_err()));
        let with = |at: usize, byte: u8| {
            let mut bad = bytes.clone();
            bad[at] = byte;
            decode_default(&bad).unwrap_err().0
        };
        assert_eq!([with(0, 0), with(12, 9)], ["magic", "hash"]);
        assert_eq!([with(40, b'p'), with(20, 252)], ["pools of MDTs do not exist", "levels"]);
    }
}
