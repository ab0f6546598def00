//! Redo: a change of an MDT as bytes that make it again. A reply carries it, its client keeps it,
//! and a replay brings it back.
//!
//! Redo is physical: it holds the records as the change left them, whatever the operation was. So
//! redoing it needs neither clock nor randomness, and gives the same FIDs, times, layouts and
//! versions. Directories are excepted: what names that come and go change of them is a
//! [`Delta`], which is added to whatever is there. So changes of other clients in the same
//! directory need not come before.
//!
//! What the change found stands in front: if any of it is different now, an earlier change is
//! missing, and the redo must not be applied.
//!
//! | at | size | field    | meaning                                               |
//! |----|------|----------|-------------------------------------------------------|
//! |  0 |    4 | crc      | crc32c of the rest                                    |
//! |  4 |    1 | version  | 3                                                     |
//! |  5 |    3 | zero     | must be 0                                             |
//! |  8 |    4 | found    | inodes that it changed, directories that it read      |
//! | 12 |    4 | parts    | what follows the inodes                               |
//! | 16 |      | inodes   | FID 16 (big endian), base version 8; 0 = there was none |
//! |    |      | parts    | key length 2, kind 2, value length 4 (all ones = none), key, value |
//!
//! | kind | key       | value       | meaning                                               |
//! |------|-----------|-------------|-------------------------------------------------------|
//! |    0 | any       | record      | the record is put; none: deleted                      |
//! |    1 | inode     | record      | a directory: the record is put, but `nlink`, `mtime`, `ctime`, `changed` (here zeros) stay |
//! |    2 | inode     | delta, 32   | a directory: [`Delta`]: nlink 4, bits 4 (1 mtime, 2 ctime, 4 changed), mtime 12, ctime 12 |
//! |    3 | entry     | FID 16      | found: the name led there; none: there was no such name |
//! |    4 | entry without a name | none | found: the directory had no names                  |
//! |    5 | chunk     | 12 bytes    | bytes of a file: at in the chunk 4, at in the data 4, length 4 |
//! |    6 | none      | data        | what kind 5 names; the last part, at most once             |
//!
//! **Bytes of files** that a write brought need not stand in its redo: its author has them. So
//! kind 5 says which of them go where, and [`with_data`] adds them when another client gets the
//! redo, or when the author has brought them back.
//!
//! Version 1 had kind 0 only, and so versions of directories instead of names. Version 2 had no
//! kind 5 and 6.

use crate::damaged::{Damaged, known, seal, unseal};
use crate::inode::{self, Delta};
use crate::key::{self, Tag};
use types::fid::Fid;
use types::limits::DOM_CHUNK_BYTES;
use types::time::Timestamp;
use zerocopy::little_endian::{I32, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the bytes. 1: records only. 2: deltas, and names that were found. 3: bytes of files
/// that are named.
pub const VERSION: u8 = 3;
const RECORD: &str = "redo";
const NONE: u32 = u32::MAX;

const RECORD_KIND: u16 = 0;
const BASE_KIND: u16 = 1;
const DELTA_KIND: u16 = 2;
const NAME_KIND: u16 = 3;
const EMPTY_KIND: u16 = 4;
const BYTES_KIND: u16 = 5;
const DATA_KIND: u16 = 6;

const MTIME: u32 = 1;
const CTIME: u32 = 2;
const CHANGED: u32 = 4;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHead {
    crc: U32,
    version: u8,
    zero: [u8; 3],
    found: U32,
    parts: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawFound {
    fid: [u8; 16],
    base: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPart {
    key: U16,
    kind: U16,
    value: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSource {
    at: U32,
    from: U32,
    len: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTime {
    sec: I64,
    nsec: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDelta {
    nlink: I32,
    bits: U32,
    mtime: RawTime,
    ctime: RawTime,
}

const _: () =
    assert!(size_of::<RawHead>() == 16 && size_of::<RawFound>() == 24 && size_of::<RawPart>() == 8);
const _: () = assert!(size_of::<RawDelta>() == 32 && size_of::<RawSource>() == 12);

/// What a transaction found of the state that it read.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// Inodes, and their base versions; 0: there was none.
    pub inodes: Vec<(Fid, u64)>,
    /// Names, as keys of their entries, and where they led; `None`: there was no such name.
    pub names: Vec<(Box<[u8]>, Option<Fid>)>,
    /// Directories that had no names.
    pub empty: Vec<Fid>,
}

impl Found {
    /// Nothing was found.
    pub fn clear(&mut self) {
        let Found { inodes, names, empty } = self;
        inodes.clear();
        names.clear();
        empty.clear();
    }
}

/// Bytes of a chunk that are some of the data of a write. The chunk grows if it is shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// First byte in the chunk.
    pub at: u32,
    /// First byte in the data of the write.
    pub from: u32,
    /// Bytes, 1 to `DOM_CHUNK_BYTES`.
    pub len: u32,
}

/// Room for the parts of most changes, bytes: their log does not grow step by step.
const USUAL_BYTES: usize = 1024;

/// What a transaction changes, in order.
#[derive(Default, Debug)]
pub struct Log {
    bytes: Vec<u8>,
    count: u32,
    names_data: bool,
}

impl Log {
    /// A record is put, or with `None` deleted.
    ///
    /// # Panics
    /// A key beyond 64 KiB or a value beyond 4 GiB, which is a bug of the caller: stores take
    /// neither.
    pub fn note(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.part(RECORD_KIND, key, value);
    }

    /// The record of a directory is put, but for what a [`Delta`] changes: `base` is what
    /// [`inode::base`] makes of it.
    ///
    /// # Panics
    /// As [`Log::note`].
    pub fn note_base(&mut self, fid: Fid, base: &[u8]) {
        self.part(BASE_KIND, &key::inode(fid), Some(base));
    }

    /// This is added to the record of a directory.
    pub fn note_delta(&mut self, fid: Fid, delta: &Delta) {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        let time = |time: Option<Timestamp>| {
            let Timestamp { sec, nsec } = time.unwrap_or_default();
            RawTime { sec: sec.into(), nsec: nsec.into() }
        };
        let bits = bit(delta.mtime.is_some(), MTIME)
            | bit(delta.ctime.is_some(), CTIME)
            | bit(delta.changed, CHANGED);
        let raw = RawDelta {
            nlink: delta.nlink.into(),
            bits: bits.into(),
            mtime: time(delta.mtime),
            ctime: time(delta.ctime),
        };
        self.part(DELTA_KIND, &key::inode(fid), Some(raw.as_bytes()));
    }

    /// A chunk is put: as it was, but for these bytes of the data of the write.
    ///
    /// # Panics
    /// As [`Log::note`].
    pub fn note_bytes(&mut self, key: &[u8], sources: &[Source]) {
        for Source { at, from, len } in sources {
            let raw = RawSource { at: (*at).into(), from: (*from).into(), len: (*len).into() };
            self.part(BYTES_KIND, key, Some(raw.as_bytes()));
            self.names_data = true;
        }
    }

    /// True if it names bytes of the data of a write.
    pub fn names_data(&self) -> bool {
        self.names_data
    }

    fn part(&mut self, kind: u16, key: &[u8], value: Option<&[u8]>) {
        let len =
            value.map_or(NONE, |value| u32::try_from(value.len()).expect("values are below 4 GiB"));
        let key_len = u16::try_from(key.len()).expect("keys are below 64 KiB");
        if self.count == 0 {
            self.bytes.reserve(USUAL_BYTES);
        }
        self.bytes.extend_from_slice(
            RawPart { key: key_len.into(), kind: kind.into(), value: len.into() }.as_bytes(),
        );
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.count += 1;
    }

    /// The whole, with what was found.
    pub fn encode(mut self, found: &Found) -> Vec<u8> {
        let Found { inodes, names, empty } = found;
        for (key, to) in names {
            self.part(NAME_KIND, key, to.map(Fid::to_be_bytes).as_ref().map(|fid| &fid[..]));
        }
        for dir in empty {
            self.part(EMPTY_KIND, &key::dirent(*dir, b""), None);
        }
        let head = RawHead {
            crc: U32::ZERO,
            version: VERSION,
            zero: [0; 3],
            found: (inodes.len() as u32).into(),
            parts: self.count.into(),
        };
        let mut bytes = Vec::with_capacity(
            size_of::<RawHead>() + inodes.len() * size_of::<RawFound>() + self.bytes.len(),
        );
        bytes.extend_from_slice(head.as_bytes());
        for (fid, base) in inodes {
            bytes.extend_from_slice(
                RawFound { fid: fid.to_be_bytes(), base: (*base).into() }.as_bytes(),
            );
        }
        bytes.extend_from_slice(&self.bytes);
        seal(&mut bytes);
        bytes
    }
}

/// Redo, with the data that it names behind it. What is no redo stays so.
///
/// # Panics
/// Data beyond 4 GiB, which no message holds.
pub fn with_data<'a>(redo: &[u8], data: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let len = data.clone().map(<[u8]>::len).sum::<usize>();
    let mut bytes = Vec::with_capacity(redo.len() + size_of::<RawPart>() + len);
    bytes.extend_from_slice(redo);
    let Some(parts) = bytes.get_mut(12..size_of::<RawHead>()) else { return bytes };
    let count = <[u8; 4]>::try_from(&*parts).map_or(0, u32::from_le_bytes);
    parts.copy_from_slice(&count.saturating_add(1).to_le_bytes());
    let len = u32::try_from(len).expect("messages are below 4 GiB");
    let part = RawPart { key: 0.into(), kind: DATA_KIND.into(), value: len.into() };
    bytes.extend_from_slice(part.as_bytes());
    data.for_each(|data| bytes.extend_from_slice(data));
    seal(&mut bytes);
    bytes
}

/// One part of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change<'a> {
    /// A record is put, or with `None` deleted.
    Record(&'a [u8], Option<&'a [u8]>),
    /// The record of a directory, which can be read, is put, but for what a [`Delta`] changes: of
    /// that it holds zeros.
    Base(Fid, &'a [u8]),
    /// This is added to the record of a directory.
    Delta(Fid, Delta),
    /// These bytes are put into the chunk with this key, from `at` on. A chunk that is shorter
    /// grows, with zeros before them; one that is not there has no bytes.
    Bytes {
        /// Key of the chunk.
        key: &'a [u8],
        /// First byte in the chunk.
        at: usize,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// Bytes that were read.
#[derive(Debug, PartialEq, Eq)]
pub struct Redo<'a> {
    /// What must be so before it is applied.
    pub found: Found,
    /// What it changes, in order.
    pub changes: Vec<Change<'a>>,
}

/// Reads.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<Redo<'_>, Damaged> {
    let short = || Damaged::Short { record: RECORD, found: bytes.len() };
    let field = |field, found| Damaged::Field { record: RECORD, field, found };
    unseal(RECORD, bytes)?;
    let (head, rest) = RawHead::ref_from_prefix(bytes).map_err(|_| short())?;
    known(RECORD, head.version, VERSION)?;
    let (inodes, mut rest) =
        <[RawFound]>::ref_from_prefix_with_elems(rest, head.found.get() as usize)
            .map_err(|_| short())?;
    let inodes = inodes.iter().map(|raw| (Fid::from_be_bytes(raw.fid), raw.base.get())).collect();
    let mut found = Found { inodes, ..Found::default() };
    let count = head.parts.get() as usize;
    // Each takes its head at least: the promised count is not trusted when memory is taken.
    if count > rest.len() / size_of::<RawPart>() {
        return Err(short());
    }
    let mut changes = Vec::new();
    // Places among the changes, and what comes there: data stands last.
    let (mut named, mut data) = (Vec::new(), None);
    for _ in 0..count {
        let (raw, after) = RawPart::ref_from_prefix(rest).map_err(|_| short())?;
        let (key, after) = after.split_at_checked(raw.key.get().into()).ok_or_else(short)?;
        let (value, after) = match raw.value.get() {
            NONE => (None, after),
            len => after
                .split_at_checked(len as usize)
                .map(|(value, after)| (Some(value), after))
                .ok_or_else(short)?,
        };
        let kind = raw.kind.get();
        let unfit = || field("kind of a part", kind.into());
        if key.is_empty() != (kind == DATA_KIND) {
            return Err(field("key length", key.len() as u64));
        }
        if data.is_some() {
            return Err(unfit());
        }
        let of_inode = || key::inode_of(key).ok_or_else(unfit);
        match (kind, value) {
            (RECORD_KIND, value) => changes.push(Change::Record(key, value)),
            (BASE_KIND, Some(record)) => {
                let fid = of_inode()?;
                inode::decode(fid, record)?;
                changes.push(Change::Base(fid, record));
            }
            (DELTA_KIND, Some(delta)) => {
                changes.push(Change::Delta(of_inode()?, read_delta(delta)?))
            }
            (NAME_KIND, to) => {
                key::entry_of(key).ok_or_else(unfit)?;
                let fid = |to: &[u8]| {
                    <[u8; 16]>::try_from(to).map(Fid::from_be_bytes).map_err(|_| unfit())
                };
                found.names.push((key.into(), to.map(fid).transpose()?));
            }
            (EMPTY_KIND, None) => match key::entry_of(key) {
                Some((dir, b"")) => found.empty.push(dir),
                _ => return Err(unfit()),
            },
            (BYTES_KIND, Some(source)) => {
                let is_chunk = key.first() == Some(&(Tag::Chunk as u8));
                key::chunk_of(key).filter(|_| is_chunk).ok_or_else(unfit)?;
                let source = read_source(source)?;
                named.push((changes.len(), source));
                changes.push(Change::Bytes { key, at: source.at as usize, bytes: &[] });
            }
            (DATA_KIND, Some(all)) => data = Some(all),
            _ => return Err(unfit()),
        }
        rest = after;
    }
    for (place, Source { from, len, .. }) in named {
        let all = data.ok_or_else(|| field("data that is named", from.into()))?;
        let of = all.get(from as usize..).and_then(|behind| behind.get(..len as usize));
        if let (Some(Change::Bytes { bytes, .. }), Some(of)) = (changes.get_mut(place), of) {
            *bytes = of;
        } else {
            return Err(field(
                "end of what is named of the data",
                u64::from(from) + u64::from(len),
            ));
        }
    }
    match rest.len() {
        0 => Ok(Redo { found, changes }),
        more => Err(field("bytes behind the last part", more as u64)),
    }
}

fn read_source(bytes: &[u8]) -> Result<Source, Damaged> {
    let field = |field, found| Damaged::Field { record: RECORD, field, found };
    let raw = RawSource::ref_from_bytes(bytes)
        .map_err(|_| field("length of a source", bytes.len() as u64))?;
    let source = Source { at: raw.at.get(), from: raw.from.get(), len: raw.len.get() };
    let end = u64::from(source.at) + u64::from(source.len);
    if source.len == 0 || end > DOM_CHUNK_BYTES as u64 {
        return Err(field("end in a chunk", end));
    }
    Ok(source)
}

fn read_delta(bytes: &[u8]) -> Result<Delta, Damaged> {
    let field = |field, found| Damaged::Field { record: RECORD, field, found };
    let raw = RawDelta::ref_from_bytes(bytes)
        .map_err(|_| field("length of a delta", bytes.len() as u64))?;
    let bits = raw.bits.get();
    if bits > MTIME | CTIME | CHANGED {
        return Err(field("bits of a delta", bits.into()));
    }
    let time = |bit: u32, raw: &RawTime| match raw.nsec.get() {
        _ if bits & bit == 0 => Ok(None),
        nsec if nsec < 1_000_000_000 => Ok(Some(Timestamp { sec: raw.sec.get(), nsec })),
        nsec => Err(field("nanos", nsec.into())),
    };
    Ok(Delta {
        nlink: raw.nlink.get(),
        mtime: time(MTIME, &raw.mtime)?,
        ctime: time(CTIME, &raw.ctime)?,
        changed: bits & CHANGED != 0,
    })
}

#[cfg(test)]
#[path = "redo_tests.rs"]
mod tests;
