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

use std::sync::OnceLock;
use types::dir_stripes::{BadDirStripes, DirDefault, DirHash, Levels};
use types::fid::Fid;
use types::limits::DIR_STRIPES_MAX;
use types::name::Name;
use types::target::TargetIndex;

/// Version of the record of stripes. 1: first version, of stripes that never changed. 2: they
/// change: generation, count, and what moves.
pub const VERSION: u8 = 2;
/// Version of the record of a default. 1: first version.
pub const DEFAULT_VERSION: u8 = 1;
/// The highest generation: a reply has 30 bits for it.
pub const GENERATION_MAX: u32 = (1 << 30) - 1;

/// The extended attribute whose value is the record: clients of the file system ask for it.
pub const RECORD_XATTR: &[u8] = b"sheen.stripes";

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
    /// The last name that has passed; `None`: none has.
    pub cursor: Option<Name>,
}

/// The stripes of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirStripes {
    hash: DirHash,
    /// The first so many have names, or will have when names do not move any more.
    count: u16,
    generation: u32,
    moving: Option<Moving>,
    fids: Vec<Fid>,
}

impl DirStripes {
    /// With these stripes, the directory itself first.
    ///
    /// # Errors
    /// Fewer than 2 or more than [`DIR_STRIPES_MAX`]; two of them on one MDT.
    pub fn new(hash: DirHash, fids: Vec<Fid>) -> Result<DirStripes, BadDirStripes> {
        let count = fids.len() as u16; // checked below
        DirStripes { hash, count, generation: 1, moving: None, fids }.checked()
    }

    /// A directory without stripes begins to get some: `more` of them beside itself.
    ///
    /// # Errors
    /// As [`DirStripes::new`].
    pub fn split(fid: Fid, hash: DirHash, more: Vec<Fid>) -> Result<DirStripes, BadDirStripes> {
        let moving = Some(Moving { hash, count: 1, cursor: None });
        let fids: Vec<Fid> = [fid].into_iter().chain(more).collect();
        let count = fids.len() as u16; // checked below
        DirStripes { hash, count, generation: 1, moving, fids }.checked()
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
        let moving = Some(Moving { hash: self.hash, count: self.count, cursor: None });
        let fids = self.fids.iter().copied().chain(more).collect();
        DirStripes { hash, count, generation: self.after(), moving, fids }.checked()
    }

    /// All names up to this one have passed; `None`: all names.
    pub fn passed(&self, cursor: Option<Name>) -> DirStripes {
        let moving = match (&self.moving, cursor) {
            (Some(moving), Some(cursor)) => Some(Moving { cursor: Some(cursor), ..moving.clone() }),
            _ => None,
        };
        DirStripes { generation: self.after(), moving, ..self.clone() }
    }

    fn after(&self) -> u32 {
        (self.generation + 1).min(GENERATION_MAX)
    }

    fn checked(self) -> Result<DirStripes, BadDirStripes> {
        if !(2..=DIR_STRIPES_MAX).contains(&self.fids.len()) {
            return Err(BadDirStripes("number of stripes"));
        }
        let mut mdts: Vec<u16> = self.fids.iter().map(|fid| fid.mdt()).collect();
        mdts.sort_unstable();
        if mdts.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(BadDirStripes("an MDT twice"));
        }
        let counts = [Some(self.count), self.moving.as_ref().map(|moving| moving.count)];
        if !counts.iter().flatten().all(|n| (1..=self.fids.len()).contains(&usize::from(*n))) {
            return Err(BadDirStripes("stripes in use"));
        }
        if !(1..=GENERATION_MAX).contains(&self.generation) {
            return Err(BadDirStripes("generation"));
        }
        Ok(self)
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
        let old = self.moving.as_ref().map_or(0, |moving| moving.count);
        &self.fids[..usize::from(self.count.max(old))]
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
            Some(Moving { hash, count, cursor })
                if cursor.as_ref().is_none_or(|cursor| cursor.as_bytes() < name) =>
            {
                self.fids[place(*hash, usize::from(*count), name)]
            }
            _ => self.place_then(name),
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
    /// | 10 |    1 | 1 if names move; else all up to the FIDs is 0 |
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
        let (moves, hash, count) =
            self.moving.as_ref().map_or((0, 0, 0), |m| (1, m.hash as u8, m.count));
        bytes.extend_from_slice(&[moves, hash]);
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
            VERSION => {
                let (head, rest) = rest.split_first_chunk::<12>().ok_or(short)?;
                let [g0, g1, g2, g3, c0, c1, moves, old, o0, o1, l0, l1] = *head;
                let (generation, count) =
                    (u32::from_le_bytes([g0, g1, g2, g3]), u16::from_le_bytes([c0, c1]));
                let len = usize::from(u16::from_le_bytes([l0, l1]));
                let (raw, cursor) = rest.split_at_checked(16 * n).ok_or(BadDirStripes("length"))?;
                if cursor.len() != len {
                    return Err(BadDirStripes("length"));
                }
                let moving = match moves {
                    0 if [old, o0, o1, l0, l1] == [0; 5] => None,
                    1 => Some(Moving {
                        hash: DirHash::of(old).ok_or(BadDirStripes("hash"))?,
                        count: u16::from_le_bytes([o0, o1]),
                        cursor: match cursor {
                            [] => None,
                            name => Some(Name::new(name).map_err(|_| BadDirStripes("cursor"))?),
                        },
                    }),
                    _ => return Err(BadDirStripes("what moves")),
                };
                DirStripes { hash, count, generation, moving, fids: fids(raw)? }.checked()
            }
            _ => Err(BadDirStripes("version")),
        }
    }

    /// The generation in a record of which nothing else matters.
    pub fn generation_in(bytes: &[u8]) -> u32 {
        match (bytes.first(), bytes.get(4..8).and_then(<[u8]>::first_chunk)) {
            (Some(&VERSION), Some(raw)) => u32::from_le_bytes(*raw).clamp(1, GENERATION_MAX),
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
mod tests {
    use super::*;

    fn stripes(hash: DirHash, count: u16) -> DirStripes {
        let fid = |mdt: u16| Fid {
            seq: Fid::SEQ_NORMAL + u64::from(mdt) * Fid::SEQ_WIDTH,
            oid: 7,
            ver: 0,
        };
        DirStripes::new(hash, (0..count).map(fid).collect()).unwrap()
    }

    /// The fullest stripe to the mean.
    fn fullest(hash: DirHash, count: u16, names: u32) -> f64 {
        let stripes = stripes(hash, count);
        let mut taken = vec![0u32; count.into()];
        for n in 0..names {
            let at = stripes.place(format!("file.mdtest.{}.{}", n % 168, n / 168).as_bytes());
            taken[usize::from(at.mdt())] += 1;
        }
        f64::from(*taken.iter().max().unwrap()) * f64::from(count) / f64::from(names)
    }

    #[test]
    fn names_are_spread_evenly() {
        for (count, most) in [(2, 1.01), (4, 1.02), (16, 1.03), (38, 1.05), (128, 1.15)] {
            for hash in [DirHash::Crush, DirHash::Fnv1a64] {
                let fullest = fullest(hash, count, 200_000);
                println!("{hash} {count}: {fullest:.3}");
                assert!(fullest < most, "{hash} over {count}: {fullest}");
            }
        }
    }

    #[test]
    fn groups_are_dealt_out_evenly_and_stay_where_they_are() {
        for count in [2, 4, 16, 37] {
            let (few, more) = (deal(count), deal(count + 1));
            let mut taken = vec![0usize; count];
            few.iter().for_each(|stripe| taken[usize::from(*stripe)] += 1);
            assert!(taken.iter().all(|n| *n <= GROUPS.div_ceil(count)));
            let moved = few.iter().zip(more.iter()).filter(|(a, b)| a != b).count();
            assert!(moved < 2 * GROUPS / (count + 1), "{moved} groups move from {count}");
        }
    }

    /// Names that exist are found where they are only if this never changes.
    #[test]
    fn the_place_of_a_name_never_changes() {
        let at = |hash, count, name: &[u8]| place(hash, count, name);
        let names: [&[u8]; 4] = [b"a", b"file.1", b".profile", "caf\u{e9}".as_bytes()];
        let all = |hash, count| names.map(|name| at(hash, count, name));
        assert_eq!(all(DirHash::AllChar, 4), [1, 3, 3, 2]);
        assert_eq!(fnv_1a_64(b"a"), 0xaf63_dc4c_8601_ec8c, "as published");
        assert_eq!(all(DirHash::Fnv1a64, 4), FNV);
        assert_eq!(all(DirHash::Crush, 4), CRUSH_4);
        assert_eq!(all(DirHash::Crush, 38), CRUSH_38);
        let sum =
            |count| table(count).iter().zip(1u64..).map(|(s, n)| u64::from(*s) * n).sum::<u64>();
        assert_eq!([2, 4, 16, 38, 128].map(sum), SUMS);
    }
    const FNV: [usize; 4] = [0, 2, 2, 1];
    const CRUSH_4: [usize; 4] = [0, 2, 2, 3];
    const CRUSH_38: [usize; 4] = [4, 18, 9, 29];
    const SUMS: [u64; 5] = [4_180_182, 12_576_981, 62_575_021, 155_188_090, 532_223_777];

    #[test]
    fn a_temporary_name_is_with_its_lasting_one() {
        for (name, stem) in [(".a.Xy3z45", "a"), (".core.c.aB3dEf", "core.c")] {
            assert_eq!(lasting(name.as_bytes()), stem.as_bytes());
        }
        for name in [
            "a.Xy3z45",
            ".Xy3z45",
            "..Xy3z45",
            ".a.123456",
            ".a.backup",
            ".a.BACKUP",
            ".a.Xy3z4",
            ".a.Xy3z4_",
        ] {
            assert_eq!(lasting(name.as_bytes()), name.as_bytes(), "{name}");
        }
    }

    #[test]
    fn stripes_are_read_again() {
        let four = stripes(DirHash::Crush, 4);
        let bytes = four.encode();
        assert_eq!(DirStripes::decode(&bytes), Ok(four.clone()));
        (0..bytes.len()).for_each(|len| assert!(DirStripes::decode(&bytes[..len]).is_err()));
        let flip = |at: usize, byte: u8| {
            let mut bad = bytes.clone();
            bad[at] = byte;
            DirStripes::decode(&bad).unwrap_err().0
        };
        assert_eq!([flip(0, 3), flip(1, 4), flip(2, 3)], ["version", "hash", "length"]);
        assert_eq!([flip(8, 5), flip(8, 0)], ["stripes in use"; 2]);
        assert_eq!([flip(4, 0), flip(7, 64)], ["generation"; 2]);
        assert_eq!([flip(10, 2), flip(12, 1), flip(14, 1)], ["what moves", "what moves", "length"]);
        let mut first = vec![1, DirHash::Crush as u8, 4, 0];
        four.all().iter().for_each(|fid| first.extend_from_slice(&fid.to_be_bytes()));
        assert_eq!(DirStripes::decode(&first), Ok(four.clone()), "of the first version");
        let twice = vec![four.master(), four.master()];
        assert_eq!(DirStripes::new(DirHash::Crush, twice), Err(BadDirStripes("an MDT twice")));
        assert!(DirStripes::new(DirHash::Crush, vec![four.master()]).is_err());
    }

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn each_name_has_one_place_while_names_move() {
        let four = stripes(DirHash::Crush, 4);
        let all: Vec<Name> = (0..500).map(|n| name(&format!("file.{n:03}"))).collect();
        let one = DirStripes::split(four.master(), DirHash::Crush, four.shards().to_vec()).unwrap();
        let two = four.restriped(DirHash::Fnv1a64, 2, Vec::new()).unwrap();
        assert_eq!((one.generation(), two.generation()), (1, 2));
        assert_eq!([one.in_use().len(), two.in_use().len()], [4; 2]);
        for (begun, before) in [(one, None), (two, Some(&four))] {
            let old = |name: &Name| match before {
                None => four.master(),
                Some(before) => before.place(name.as_bytes()),
            };
            assert!(all.iter().all(|name| begun.place(name.as_bytes()) == old(name)));
            let half = begun.passed(Some(all[249].clone()));
            assert_eq!(DirStripes::decode(&half.encode()), Ok(half.clone()));
            assert_eq!(DirStripes::generation_in(&half.encode()), begun.generation() + 1);
            let end = half.passed(None);
            assert_eq!(DirStripes::decode(&end.encode()), Ok(end.clone()));
            assert!(end.moving().is_none() && end.generation() == begun.generation() + 2);
            for (n, name) in all.iter().enumerate() {
                let then = begun.place_then(name.as_bytes());
                let at = if n < 250 { then } else { old(name) };
                assert_eq!((half.place(name.as_bytes()), end.place(name.as_bytes())), (at, then));
            }
            assert!(all.iter().any(|name| old(name) != end.place(name.as_bytes())));
            assert!(half.restriped(DirHash::Crush, 1, Vec::new()).is_err(), "names move");
        }
    }

    #[test]
    fn a_merged_directory_keeps_its_stripes() {
        let four = stripes(DirHash::Crush, 4);
        let one = four.restriped(DirHash::Crush, 1, Vec::new()).unwrap().passed(None);
        assert_eq!((one.all(), one.in_use()), (four.all(), &four.all()[..1]));
        assert!((0..100).all(|n| one.place(format!("{n}").as_bytes()) == four.master()));
        assert!(one.restriped(DirHash::Crush, 5, Vec::new()).is_err());
        let again = one.restriped(DirHash::Crush, 3, Vec::new()).unwrap().passed(None);
        assert_eq!((again.in_use(), again.generation()), (&four.all()[..3], 5));
    }

    #[test]
    fn a_default_is_read_again() {
        let default = DirDefault {
            count: 4,
            hash: DirHash::Fnv1a64,
            mdt: Some(TargetIndex(2)),
            inherit: Levels::All,
            by_turns: Levels::Some(3),
        };
        let none = DirDefault { mdt: None, by_turns: Levels::None, ..default };
        for default in [default, none] {
            let bytes = encode_default(&default);
            assert_eq!(decode_default(&bytes), Ok(default));
            (0..bytes.len()).for_each(|len| assert!(decode_default(&bytes[..len]).is_err()));
            for (at, byte) in [(0, 2), (1, 0), (3, 9), (5, 0x20), (6, 251)] {
                let mut bad = bytes;
                bad[at] = byte;
                assert!(decode_default(&bad).is_err(), "byte {at}");
            }
        }
    }
}
