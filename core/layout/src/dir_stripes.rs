//! A directory over several MDTs: its stripes, and the stripe of each name.
//!
//! Each stripe is an inode of its own, on another MDT, with the names that belong to it. The first
//! one is the directory itself, the *master*; the others are *shards*. Each of them keeps this
//! record.
//!
//! When a directory is split or merged, its names move in their order. The *cursor* is the last one
//! that has passed: names up to it are where the new count and hash put them, those behind it where
//! the old ones do. So each name has one place at any time. A shard that a merge has emptied stays
//! in the record, and the next split takes it again.
//!
//! A directory that goes to other MDTs gets other inodes: the new stripes come first in the record,
//! the new master at their head, and names move from the old ones behind them. The last change of
//! the record leaves the old ones out.

use std::sync::OnceLock;
use types::dir_stripes::{BadDirStripes, DirDefault, DirHash, Levels};
use types::fid::Fid;
use types::limits::DIR_STRIPES_MAX;
use types::name::Name;
use types::target::TargetIndex;

/// Version of the record of stripes. 1: first version, of stripes that never changed. 2: they
/// change: generation, count, and what moves. 3: names may move to other inodes, and one stripe may
/// be all.
pub const VERSION: u8 = 3;
/// Version of the record of a default. 1: first version.
pub const DEFAULT_VERSION: u8 = 1;
/// The highest generation: a reply has 30 bits for it.
pub const GENERATION_MAX: u32 = (1 << 30) - 1;

/// The extended attribute whose value is the record: clients of the file system ask for it.
pub const RECORD_XATTR: &[u8] = b"sheen.stripes";

/// The extended attribute that takes a directory to other MDTs when it is set, to a
/// [`types::dir_stripes::DirSpec`].
pub const MDTS_XATTR: &[u8] = b"sheen.mdts";

/// Groups of names, which `crush` deals out to the stripes.
const GROUPS: usize = 4096;
/// Characters that mktemp(3) and rsync(1) put behind the name and a dot.
const SUFFIX_BYTES: usize = 6;
/// Bytes in front of the FIDs.
const HEAD_BYTES: usize = 16;

/// Names move from one placement to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moving {
    /// How names behind the cursor tell their stripes.
    pub hash: DirHash,
    /// Among so many.
    pub count: u16,
    /// Which are those behind the new ones: the directory goes to other inodes.
    pub leaves: bool,
    /// The last name that has passed; `None`: none has.
    pub cursor: Option<Name>,
}

impl Moving {
    /// True if this name has not passed.
    fn is_before(&self, name: &[u8]) -> bool {
        self.cursor.as_ref().is_none_or(|cursor| cursor.as_bytes() < name)
    }
}

/// The stripes of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirStripes {
    hash: DirHash,
    /// The first so many have names, or will have when names do not move any more.
    count: u16,
    generation: u32,
    /// It was split, or merged, by itself.
    by_itself: bool,
    moving: Option<Moving>,
    fids: Vec<Fid>,
}

impl DirStripes {
    /// With these stripes, the directory itself first.
    ///
    /// # Errors
    /// None or more than [`DIR_STRIPES_MAX`]; two of them on one MDT.
    pub fn new(hash: DirHash, fids: Vec<Fid>) -> Result<DirStripes, BadDirStripes> {
        let count = fids.len() as u16; // checked below
        DirStripes { hash, count, generation: 1, by_itself: false, moving: None, fids }.checked()
    }

    /// A directory without stripes begins to get some: `more` of them beside itself.
    ///
    /// # Errors
    /// As [`DirStripes::new`].
    pub fn split(fid: Fid, hash: DirHash, more: Vec<Fid>) -> Result<DirStripes, BadDirStripes> {
        let moving = Some(Moving { hash, count: 1, leaves: false, cursor: None });
        let fids: Vec<Fid> = [fid].into_iter().chain(more).collect();
        let count = fids.len() as u16; // checked below
        DirStripes { hash, count, generation: 1, by_itself: false, moving, fids }.checked()
    }

    /// Names begin to move to the places that this count and hash give them. `more`: new stripes,
    /// if there are fewer than that.
    ///
    /// # Errors
    /// As [`DirStripes::new`]; names move already; the count is 0 or more than there are then.
    pub fn restriped(
        &self,
        hash: DirHash,
        count: u16,
        more: Vec<Fid>,
    ) -> Result<DirStripes, BadDirStripes> {
        if self.moving.is_some() {
            return Err(BadDirStripes("names move already"));
        }
        let (old, count_now) = (self.hash, self.count);
        let moving = Some(Moving { hash: old, count: count_now, leaves: false, cursor: None });
        let fids = self.fids.iter().copied().chain(more).collect();
        let generation = self.after();
        DirStripes { hash, count, generation, by_itself: false, moving, fids }.checked()
    }

    /// The directory `fid`, which has the stripes `old` if it has any, begins to go to these
    /// inodes, the new master first.
    ///
    /// # Errors
    /// As [`DirStripes::new`]; names move already; `old` is of another directory.
    pub fn going(
        fid: Fid,
        old: Option<&DirStripes>,
        hash: DirHash,
        to: Vec<Fid>,
    ) -> Result<DirStripes, BadDirStripes> {
        let count = to.len().min(DIR_STRIPES_MAX + 1) as u16; // checked below
        let (old_hash, old_count, before, generation) = match old {
            None => (hash, 1, vec![fid], 1),
            Some(old) if old.moving.is_some() => return Err(BadDirStripes("names move already")),
            Some(old) if old.master() != fid => return Err(BadDirStripes("another directory")),
            Some(old) => (old.hash, old.count, old.fids.clone(), old.after()),
        };
        let moving = Some(Moving { hash: old_hash, count: old_count, leaves: true, cursor: None });
        let fids = to.into_iter().chain(before).collect();
        DirStripes { hash, count, generation, by_itself: false, moving, fids }.checked()
    }

    /// All names up to this one have passed; `None`: all names.
    pub fn passed(&self, cursor: Option<Name>) -> DirStripes {
        let moving = match (&self.moving, cursor) {
            (Some(moving), Some(cursor)) => Some(Moving { cursor: Some(cursor), ..moving.clone() }),
            _ => None,
        };
        let stay = if moving.is_none() { self.old_from() } else { self.fids.len() };
        let fids = self.fids[..stay].to_vec();
        DirStripes { generation: self.after(), moving, fids, ..self.clone() }
    }

    /// Where the stripes begin that the directory leaves; behind all, if it leaves none.
    fn old_from(&self) -> usize {
        match &self.moving {
            Some(Moving { leaves: true, .. }) => usize::from(self.count).min(self.fids.len()),
            _ => self.fids.len(),
        }
    }

    /// The stripes that go when all names have passed, the old master first.
    pub fn leaves(&self) -> &[Fid] {
        &self.fids[self.old_from()..]
    }

    fn after(&self) -> u32 {
        (self.generation + 1).min(GENERATION_MAX)
    }

    fn checked(self) -> Result<DirStripes, BadDirStripes> {
        let (new, old) = self.fids.split_at(self.old_from());
        for (part, least) in [(new, 1), (old, 0)] {
            if !(least..=DIR_STRIPES_MAX).contains(&part.len()) {
                return Err(BadDirStripes("number of stripes"));
            }
            let mut mdts: Vec<u16> = part.iter().map(|fid| fid.mdt()).collect();
            mdts.sort_unstable();
            if mdts.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(BadDirStripes("an MDT twice"));
            }
        }
        if old.iter().any(|fid| new.contains(fid)) {
            return Err(BadDirStripes("a stripe twice"));
        }
        let has = |part: &[Fid], count: u16| (1..=part.len()).contains(&usize::from(count));
        let old_count = self
            .moving
            .as_ref()
            .map(|moving| has(if moving.leaves { old } else { new }, moving.count));
        if !has(new, self.count) || old_count == Some(false) {
            return Err(BadDirStripes("stripes in use"));
        }
        if !(1..=GENERATION_MAX).contains(&self.generation) {
            return Err(BadDirStripes("generation"));
        }
        Ok(self)
    }

    /// No administrator has chosen these stripes.
    pub fn by_itself(self) -> DirStripes {
        DirStripes { by_itself: true, ..self }
    }

    /// True if the directory was split, or merged, by itself.
    pub fn is_by_itself(&self) -> bool {
        self.by_itself
    }

    /// The directory itself.
    pub fn master(&self) -> Fid {
        self.fids[0]
    }

    /// All stripes, the directory itself first; also those that have no names.
    pub fn all(&self) -> &[Fid] {
        &self.fids
    }

    /// All but the directory itself.
    pub fn shards(&self) -> &[Fid] {
        &self.fids[1..]
    }

    /// The stripes that may have names.
    pub fn in_use(&self) -> &[Fid] {
        let used = match &self.moving {
            None => self.count,
            Some(moving) if moving.leaves => self.count + moving.count, // each <= DIR_STRIPES_MAX
            Some(moving) => self.count.max(moving.count),
        };
        &self.fids[..usize::from(used)]
    }

    /// How many have names when none moves.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// How names tell their stripes when none moves.
    pub fn hash(&self) -> DirHash {
        self.hash
    }

    /// Grows with each change of the record.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// What moves.
    pub fn moving(&self) -> Option<&Moving> {
        self.moving.as_ref()
    }

    /// The stripe of a name.
    pub fn place(&self, name: &[u8]) -> Fid {
        match &self.moving {
            Some(moving) if moving.is_before(name) => {
                let from = if moving.leaves { self.old_from() } else { 0 };
                self.fids[from + place(moving.hash, usize::from(moving.count), name)]
            }
            _ => self.place_then(name),
        }
    }

    /// The directory that the inode of a name records as the one above it, and as that of its name:
    /// the master, or the old one as long as the name has not passed.
    pub fn home(&self, name: &[u8]) -> Fid {
        match &self.moving {
            Some(moving) if moving.leaves && moving.is_before(name) => self.fids[self.old_from()],
            _ => self.master(),
        }
    }

    /// The stripe of a name when none moves.
    pub fn place_then(&self, name: &[u8]) -> Fid {
        self.fids[place(self.hash, usize::from(self.count), name)]
    }

    /// | at | size | |
    /// |----|------|--|
    /// |  0 |    1 | version |
    /// |  1 |    1 | hash |
    /// |  2 |    2 | number of FIDs |
    /// |  4 |    4 | generation |
    /// |  8 |    2 | count |
    /// | 10 |    1 | 1: names move; 2: to other inodes; 0: then all up to the FIDs is 0. 128 more: it |
    /// |    |      | was split by itself                                                               |
    /// | 11 |    1 | old hash |
    /// | 12 |    2 | old count |
    /// | 14 |    2 | length of the cursor; 0: no name has passed |
    /// | 16 | 16*n | FIDs, big endian |
    /// |    |      | cursor |
    ///
    /// Numbers are little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 16 * self.fids.len());
        bytes.extend_from_slice(&[VERSION, self.hash as u8]);
        bytes.extend_from_slice(&(self.fids.len() as u16).to_le_bytes()); // at most DIR_STRIPES_MAX
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        let cursor = self.moving.as_ref().and_then(|moving| moving.cursor.as_ref());
        let cursor = cursor.map_or(&[][..], Name::as_bytes);
        let (moves, hash, count) = self
            .moving
            .as_ref()
            .map_or((0, 0, 0), |m| (1 + u8::from(m.leaves), m.hash as u8, m.count));
        bytes.extend_from_slice(&[moves | u8::from(self.by_itself) << 7, hash]);
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&(cursor.len() as u16).to_le_bytes()); // a name
        self.fids.iter().for_each(|fid| bytes.extend_from_slice(&fid.to_be_bytes()));
        bytes.extend_from_slice(cursor);
        bytes
    }

    /// # Errors
    /// As [`DirStripes::new`]; another version, hash or length.
    pub fn decode(bytes: &[u8]) -> Result<DirStripes, BadDirStripes> {
        let short = BadDirStripes("too short");
        let (&[version, hash, n0, n1], rest) = bytes.split_first_chunk().ok_or(short)?;
        let hash = DirHash::of(hash).ok_or(BadDirStripes("hash"))?;
        let n = usize::from(u16::from_le_bytes([n0, n1]));
        let fids = |raw: &[u8]| match raw.as_chunks::<16>() {
            (fids, []) if fids.len() == n => {
                Ok(fids.iter().map(|fid| Fid::from_be_bytes(*fid)).collect())
            }
            _ => Err(BadDirStripes("length")),
        };
        match version {
            1 => DirStripes::new(hash, fids(rest)?),
            2 | VERSION => {
                let (head, rest) = rest.split_first_chunk::<12>().ok_or(short)?;
                let [g0, g1, g2, g3, c0, c1, moves, old, o0, o1, l0, l1] = *head;
                let (generation, count) =
                    (u32::from_le_bytes([g0, g1, g2, g3]), u16::from_le_bytes([c0, c1]));
                let len = usize::from(u16::from_le_bytes([l0, l1]));
                let (raw, cursor) = rest.split_at_checked(16 * n).ok_or(BadDirStripes("length"))?;
                if cursor.len() != len {
                    return Err(BadDirStripes("length"));
                }
                let by_itself = moves & 128 != 0;
                let moving = match moves & 127 {
                    0 if [old, o0, o1, l0, l1] == [0; 5] => None,
                    1 | 2 => Some(Moving {
                        hash: DirHash::of(old).ok_or(BadDirStripes("hash"))?,
                        count: u16::from_le_bytes([o0, o1]),
                        leaves: moves & 127 == 2,
                        cursor: match cursor {
                            [] => None,
                            name => Some(Name::new(name).map_err(|_| BadDirStripes("cursor"))?),
                        },
                    }),
                    _ => return Err(BadDirStripes("what moves")),
                };
                let fids = fids(raw)?;
                DirStripes { hash, count, generation, by_itself, moving, fids }.checked()
            }
            _ => Err(BadDirStripes("version")),
        }
    }

    /// The generation in a record of which nothing else matters.
    pub fn generation_in(bytes: &[u8]) -> u32 {
        match (bytes.first(), bytes.get(4..8).and_then(<[u8]>::first_chunk)) {
            (Some(&(2 | VERSION)), Some(raw)) => u32::from_le_bytes(*raw).clamp(1, GENERATION_MAX),
            _ => 1,
        }
    }
}

/// The stripe of a name among `count`.
fn place(hash: DirHash, count: usize, name: &[u8]) -> usize {
    match hash {
        DirHash::AllChar => name.iter().map(|byte| usize::from(*byte)).sum::<usize>() % count,
        DirHash::Fnv1a64 => (fnv_1a_64(name) % count as u64) as usize,
        DirHash::Crush => {
            let group = (mix(fnv_1a_64(lasting(name))) % GROUPS as u64) as usize;
            usize::from(table(count)[group])
        }
    }
}

/// FNV-1a.
fn fnv_1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The name that a temporary name is going to have: `.NAME.Xy3z45` is renamed to NAME, and stays on
/// its stripe then. Six letters and digits are taken for temporary if a capital and something else
/// are among them: a number or a word is not.
fn lasting(name: &[u8]) -> &[u8] {
    let Some(inner) = name.strip_prefix(b".") else { return name };
    let Some(at) = inner.len().checked_sub(SUFFIX_BYTES + 1).filter(|at| *at > 0) else {
        return name;
    };
    let (stem, suffix) = inner.split_at(at);
    let [b'.', suffix @ ..] = suffix else { return name };
    let capitals = suffix.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    let random =
        suffix.iter().all(u8::is_ascii_alphanumeric) && (1..SUFFIX_BYTES).contains(&capitals);
    if random { stem } else { name }
}

/// SplitMix64: one step of a well-mixed sequence.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

type Table = Box<[u8; GROUPS]>;

/// The stripe of each group among `count` stripes. It follows from `count` alone, so each is
/// computed once.
fn table(count: usize) -> &'static [u8; GROUPS] {
    static TABLES: [OnceLock<Table>; DIR_STRIPES_MAX + 1] =
        [const { OnceLock::new() }; DIR_STRIPES_MAX + 1];
    TABLES[count].get_or_init(|| deal(count))
}

/// Deals the groups out: each stripe draws a straw for each group, and the longest one gets it. But
/// no stripe gets more than its share: the groups with the longest straws come first, and each goes
/// to its longest straw among the stripes that have room. So one stripe more moves little more than
/// the names that it gets.
fn deal(count: usize) -> Table {
    let straw = |group: usize, stripe: usize| mix(mix(group as u64) ^ (stripe as u64) << 32);
    let share = GROUPS.div_ceil(count);
    let mut straws: Vec<(u64, usize)> = (0..GROUPS)
        .map(|group| ((0..count).map(|stripe| straw(group, stripe)).max().unwrap_or(0), group))
        .collect();
    straws.sort_unstable_by(|a, b| b.cmp(a));
    let (mut table, mut taken) = (Box::new([0; GROUPS]), vec![0; count]);
    for (_, group) in straws {
        let room = (0..count).filter(|stripe| taken[*stripe] < share);
        // The shares are enough for all groups.
        let stripe = room.max_by_key(|stripe| straw(group, *stripe)).unwrap_or(0);
        taken[stripe] += 1;
        table[group] = stripe as u8; // count <= DIR_STRIPES_MAX < 256
    }
    table
}

const _: () = assert!(DIR_STRIPES_MAX <= 256);

const DEFAULT_BYTES: usize = 8;

/// version u8, hash u8, count u16, MDT u16 (all ones: none), levels that inherit u8, levels by
/// turns u8; little-endian. Levels: 0 none, 255 all.
pub fn encode_default(default: &DirDefault) -> [u8; DEFAULT_BYTES] {
    let DirDefault { count, hash, mdt, inherit, by_turns } = *default;
    let levels = |levels: Levels| match levels {
        Levels::None => 0,
        Levels::Some(n) => n,
        Levels::All => u8::MAX,
    };
    let ([c0, c1], [m0, m1]) =
        (count.to_le_bytes(), mdt.map_or(u16::MAX, |mdt| mdt.0).to_le_bytes());
    [DEFAULT_VERSION, hash as u8, c0, c1, m0, m1, levels(inherit), levels(by_turns)]
}

/// Reads it.
///
/// # Errors
/// Another version, hash or length; values that cannot be.
pub fn decode_default(bytes: &[u8]) -> Result<DirDefault, BadDirStripes> {
    let [version, hash, c0, c1, m0, m1, inherit, by_turns] =
        <[u8; DEFAULT_BYTES]>::try_from(bytes).map_err(|_| BadDirStripes("length"))?;
    if version != DEFAULT_VERSION {
        return Err(BadDirStripes("version"));
    }
    let levels = |raw: u8| match raw {
        0 => Ok(Levels::None),
        u8::MAX => Ok(Levels::All),
        n if n <= Levels::MAX => Ok(Levels::Some(n)),
        _ => Err(BadDirStripes("levels")),
    };
    let mdt = u16::from_le_bytes([m0, m1]);
    let default = DirDefault {
        count: u16::from_le_bytes([c0, c1]),
        hash: DirHash::of(hash).ok_or(BadDirStripes("hash"))?,
        mdt: (mdt != u16::MAX).then_some(TargetIndex(mdt)),
        inherit: levels(inherit)?,
        by_turns: levels(by_turns)?,
    };
    default.check()?;
    Ok(default)
}

#[cfg(test)]
#[path = "dir_stripes_tests.rs"]
mod tests;
