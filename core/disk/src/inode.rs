//! Inode record: attributes in a fixed part, rarely needed items after it.
//!
//! `stat` decodes the fixed part only, without allocating. The tail is a list of items, each tag
//! u16, length u32, bytes.

use crate::damaged::{Damaged, known, seal, unseal};
use types::attr::{Attr, FileType};
use types::fid::Fid;
use types::time::Timestamp;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the record. 1: without `base`, which was then the same as `changed`. 2: now.
pub const VERSION: u8 = 2;
const RECORD: &str = "inode";

/// Fixed part. 132 bytes; 124 in version 1, which ends before `base`.
///
/// |  at | size | field     | meaning                                              |
/// |-----|------|-----------|------------------------------------------------------|
/// |   0 |    4 | crc       | crc32c of the rest of the record, tail included      |
/// |   4 |    1 | version   | 2                                                    |
/// |   5 |    3 | zero      | must be 0, so that it can get meaning                |
/// |   8 |    4 | mode      | type and permission bits                             |
/// |  12 |    4 | uid       | owner                                                |
/// |  16 |    4 | gid       | group                                                |
/// |  20 |    4 | nlink     | names; directories: 2 + sub-directories              |
/// |  24 |    4 | rdev      | device number                                        |
/// |  28 |    4 | flags     | `namespace::inode::InodeFlags`                       |
/// |  32 |    8 | size      | bytes                                                |
/// |  40 |    8 | blocks    | of 512 bytes                                         |
/// |  48 |   32 | seconds   | atime, mtime, ctime, btime                           |
/// |  80 |   16 | nanos     | atime, mtime, ctime, btime                           |
/// |  96 |    8 | changed   | transno of the last change                           |
/// | 104 |   16 | parent    | directories: FID of the directory above, big endian  |
/// | 120 |    4 | tail_len  | bytes of the tail                                    |
/// | 124 |    8 | base      | transno of the last change but for [`Delta`]s        |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    crc: U32,
    version: u8,
    zero: [u8; 3],
    mode: U32,
    uid: U32,
    gid: U32,
    nlink: U32,
    rdev: U32,
    flags: U32,
    size: U64,
    blocks: U64,
    seconds: [I64; 4],
    nanos: [U32; 4],
    changed: U64,
    parent: [u8; 16],
    tail_len: U32,
}

const _: () = assert!(size_of::<Fixed>() == 124);

/// What version 2 has behind it.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Base(U64);

/// What names that come and go change of their directory. It is told apart from all else in the
/// record: so changes of one directory need not know each other, and each can be made again without
/// the others. In the order of their transnos they give the same record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delta {
    /// Sub-directories that came, less those that went.
    pub nlink: i32,
    /// The time of the last change of its names, if it is set. It is set and not the later of two:
    /// the clock of the MDT may run backward, and utimensat(2) may have set a time to come.
    pub mtime: Option<Timestamp>,
    /// The time of the last change, if it is set.
    pub ctime: Option<Timestamp>,
    /// It counts as a change of the inode: `changed` becomes the transno.
    pub changed: bool,
}

impl Delta {
    /// The difference of two states of a directory: what a delta of the change `transno` must hold.
    pub fn between(old: &Attr, new: &Attr, transno: u64) -> Delta {
        let changed = new.version == transno;
        Delta {
            nlink: new.nlink.wrapping_sub(old.nlink).cast_signed(),
            mtime: (new.mtime != old.mtime).then_some(new.mtime),
            ctime: (changed || new.ctime != old.ctime).then_some(new.ctime),
            changed,
        }
    }

    /// Names change at `now`, and `nlink` sub-directories come.
    pub fn of_names(nlink: i32, now: Timestamp) -> Delta {
        Delta { nlink, mtime: Some(now), ctime: Some(now), changed: true }
    }

    /// Makes the change `transno`.
    pub fn apply(&self, attr: &mut Attr, transno: u64) {
        attr.nlink = attr.nlink.saturating_add_signed(self.nlink);
        attr.mtime = self.mtime.unwrap_or(attr.mtime);
        attr.ctime = self.ctime.unwrap_or(attr.ctime);
        if self.changed {
            attr.version = transno;
        }
    }
}

/// The decoded inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InodeRecord<'a> {
    /// Attributes.
    pub attr: Attr,
    /// Directory above, of directories.
    pub parent: Fid,
    /// Flag bits.
    pub flags: u32,
    /// Transno of the last change that was more than a [`Delta`]. Of what is no directory:
    /// `attr.version`.
    pub base: u64,
    /// Items.
    pub tail: &'a [u8],
}

/// Writes a record into `out`, which is emptied first.
pub fn encode(record: &InodeRecord<'_>, out: &mut Vec<u8>) {
    let InodeRecord { attr, parent, flags, base, tail } = record;
    let times = [attr.atime, attr.mtime, attr.ctime, attr.btime];
    let fixed = Fixed {
        crc: U32::ZERO,
        version: VERSION,
        zero: [0; 3],
        mode: attr.mode.into(),
        uid: attr.uid.into(),
        gid: attr.gid.into(),
        nlink: attr.nlink.into(),
        rdev: attr.rdev.into(),
        flags: (*flags).into(),
        size: attr.size.into(),
        blocks: attr.blocks.into(),
        seconds: times.map(|t| t.sec.into()),
        nanos: times.map(|t| t.nsec.into()),
        changed: attr.version.into(),
        parent: parent.to_be_bytes(),
        tail_len: (tail.len() as u32).into(),
    };
    out.clear();
    out.extend_from_slice(fixed.as_bytes());
    out.extend_from_slice(Base((*base).into()).as_bytes());
    out.extend_from_slice(tail);
    seal(out);
}

/// Reads the record of `fid`.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(fid: Fid, bytes: &[u8]) -> Result<InodeRecord<'_>, Damaged> {
    unseal(RECORD, bytes)?;
    let short = || Damaged::Short { record: RECORD, found: bytes.len() };
    let (f, tail) = Fixed::ref_from_prefix(bytes).map_err(|_| short())?;
    known(RECORD, f.version, VERSION)?;
    let (base, tail) = match f.version {
        1 => (f.changed.get(), tail),
        _ => Base::ref_from_prefix(tail)
            .map(|(base, tail)| (base.0.get(), tail))
            .map_err(|_| short())?,
    };
    let field = |field, found| Damaged::Field { record: RECORD, field, found };
    if tail.len() != f.tail_len.get() as usize {
        return Err(field("tail_len", f.tail_len.get().into()));
    }
    if FileType::from_mode(f.mode.get()).is_none() {
        return Err(field("mode", f.mode.get().into()));
    }
    if let Some(nanos) = f.nanos.iter().find(|n| n.get() >= 1_000_000_000) {
        return Err(field("nanos", nanos.get().into()));
    }
    let time = |i: usize| Timestamp { sec: f.seconds[i].get(), nsec: f.nanos[i].get() };
    let attr = Attr {
        fid,
        mode: f.mode.get(),
        uid: f.uid.get(),
        gid: f.gid.get(),
        nlink: f.nlink.get(),
        rdev: f.rdev.get(),
        size: f.size.get(),
        blocks: f.blocks.get(),
        atime: time(0),
        mtime: time(1),
        ctime: time(2),
        btime: time(3),
        version: f.changed.get(),
    };
    Ok(InodeRecord { attr, parent: Fid::from_be_bytes(f.parent), flags: f.flags.get(), base, tail })
}

/// The record with another version (transno of the last change, which is no [`Delta`]).
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn with_version(fid: Fid, bytes: &[u8], version: u64) -> Result<Vec<u8>, Damaged> {
    let mut record = decode(fid, bytes)?;
    (record.attr.version, record.base) = (version, version);
    let mut out = Vec::with_capacity(bytes.len());
    encode(&record, &mut out);
    Ok(out)
}

/// The record of a directory after this change.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn with_delta(fid: Fid, bytes: &[u8], delta: &Delta, transno: u64) -> Result<Vec<u8>, Damaged> {
    let mut record = decode(fid, bytes)?;
    delta.apply(&mut record.attr, transno);
    let mut out = Vec::with_capacity(bytes.len());
    encode(&record, &mut out);
    Ok(out)
}

/// The record of a directory, with zeros for what a [`Delta`] changes.
pub fn base(record: &InodeRecord<'_>) -> Vec<u8> {
    let zero = Timestamp::default();
    let attr = Attr { nlink: 0, mtime: zero, ctime: zero, version: 0, ..record.attr };
    let mut bytes = Vec::new();
    encode(&InodeRecord { attr, ..*record }, &mut bytes);
    bytes
}

/// The record `base` of a directory, with what [`Delta`]s have made of the record `bytes`.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn with_base(fid: Fid, bytes: &[u8], base: &[u8]) -> Result<Vec<u8>, Damaged> {
    let (old, mut record) = (decode(fid, bytes)?.attr, decode(fid, base)?);
    let Attr { nlink, mtime, ctime, version, .. } = old;
    record.attr = Attr { nlink, mtime, ctime, version, ..record.attr };
    let mut out = Vec::with_capacity(base.len());
    encode(&record, &mut out);
    Ok(out)
}

/// Kind of an item of the tail. Unknown ones are kept and skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum ItemTag {
    /// Layout of a regular file (`layout::codec`).
    Layout = 1,
    /// Target of a symbolic link, bytes.
    LinkTarget = 2,
    /// Directory: layout that new files in it get.
    DefaultLayout = 3,
    /// Names that lead here (`links`).
    Links = 4,
    /// Stripes of a directory (`layout::dir_stripes`).
    Stripes = 5,
    /// Directory: where directories go that are made in it (`layout::dir_stripes`).
    DefaultStripes = 6,
    /// Project of the inode: its number, little endian, 4 bytes, not 0.
    Project = 7,
}

/// The project in a tail; 0: none.
///
/// # Errors
/// The tail ends in the middle of an item; the item is no project.
pub fn project(tail: &[u8]) -> Result<u32, Damaged> {
    let Some(bytes) = item(tail, ItemTag::Project)? else { return Ok(0) };
    let field = |found| Damaged::Field { record: "project", field: "id", found };
    let id = <[u8; 4]>::try_from(bytes).map_err(|_| field(bytes.len() as u64))?;
    match u32::from_le_bytes(id) {
        0 => Err(field(0)),
        id => Ok(id),
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ItemHead {
    tag: U16,
    len: U32,
}

const _: () = assert!(size_of::<ItemHead>() == 6);

/// Bytes in front of an item's own.
pub const ITEM_HEAD_BYTES: usize = size_of::<ItemHead>();

/// The head of an item of `len` bytes: write it, then the bytes.
pub fn item_head(tag: ItemTag, len: usize) -> [u8; ITEM_HEAD_BYTES] {
    let head = ItemHead { tag: (tag as u16).into(), len: (len as u32).into() };
    zerocopy::transmute!(head)
}

/// Finds an item in a tail.
///
/// # Errors
/// The tail ends in the middle of an item.
pub fn item(tail: &[u8], tag: ItemTag) -> Result<Option<&[u8]>, Damaged> {
    for item in items(tail) {
        let (found, bytes) = item?;
        if found == tag as u16 {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// All items of a tail: tag and bytes.
pub fn items(tail: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), Damaged>> {
    let mut rest = tail;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let parsed = ItemHead::ref_from_prefix(rest).ok().and_then(|(head, behind)| {
            let (bytes, behind) = behind.split_at_checked(head.len.get() as usize)?;
            Some((head.tag.get(), bytes, behind))
        });
        match parsed {
            Some((tag, bytes, behind)) => {
                rest = behind;
                Some(Ok((tag, bytes)))
            }
            None => {
                let found = std::mem::take(&mut rest).len();
                Some(Err(Damaged::Short { record: "inode tail", found }))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FID: Fid = Fid { seq: 0x2_0000_0400, oid: 3, ver: 0 };

    fn attr() -> Attr {
        let time = |n: i64| Timestamp { sec: 1_700_000_000 * n, nsec: 999_999_999 };
        Attr {
            fid: FID,
            mode: 0o100644,
            uid: 1000,
            gid: 100,
            nlink: 1,
            rdev: 0,
            size: 5,
            blocks: 8,
            atime: time(1),
            mtime: time(-1),
            ctime: time(2),
            btime: time(3),
            version: 77,
        }
    }

    fn sample() -> Vec<u8> {
        let mut tail = item_head(ItemTag::LinkTarget, 3).to_vec();
        tail.extend_from_slice(b"a/b");
        let mut out = Vec::new();
        encode(
            &InodeRecord { attr: attr(), parent: Fid::ROOT, flags: 1, base: 70, tail: &tail },
            &mut out,
        );
        out
    }

    #[test]
    fn bytes_never_change() {
        crate::golden::check("inode", &sample());
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = sample();
        let record = decode(FID, &bytes).unwrap();
        assert_eq!(
            (record.attr, record.parent, record.flags, record.base),
            (attr(), Fid::ROOT, 1, 70)
        );
        assert_eq!(item(record.tail, ItemTag::LinkTarget), Ok(Some(&b"a/b"[..])));
        assert_eq!(item(record.tail, ItemTag::Layout), Ok(None));
    }

    #[test]
    fn records_of_version_1_are_read() {
        let new = sample();
        let mut old =
            [&new[..size_of::<Fixed>()], &new[size_of::<Fixed>() + size_of::<Base>()..]].concat();
        old[4] = 1;
        seal(&mut old);
        crate::golden::check("inode-1", &old);
        let (old, new) = (decode(FID, &old).unwrap(), decode(FID, &new).unwrap());
        assert_eq!(old, InodeRecord { base: 77, ..new });
    }

    #[test]
    fn a_delta_is_the_difference_of_two_states() {
        let old = Attr { nlink: 5, ..attr() };
        let new = Attr { nlink: 4, mtime: old.btime, version: 80, ..old };
        let delta = Delta::between(&old, &new, 80);
        assert_eq!(
            delta,
            Delta { nlink: -1, mtime: Some(old.btime), ctime: Some(old.ctime), changed: true }
        );
        let mut made = old;
        delta.apply(&mut made, 80);
        assert_eq!(made, new);
        // A time to come does not stay when a name comes later.
        let ahead = Attr { mtime: Timestamp { sec: 1 << 40, nsec: 0 }, ..old };
        let mut made = ahead;
        Delta::of_names(1, old.atime).apply(&mut made, 81);
        assert_eq!(
            (made.mtime, made.ctime, made.nlink, made.version),
            (old.atime, old.atime, 6, 81)
        );
    }

    #[test]
    fn a_base_and_what_deltas_have_made_are_a_record_again() {
        let with =
            |attr: Attr| InodeRecord { attr, parent: Fid::ROOT, flags: 3, base: 70, tail: &[] };
        let bytes = |record: &InodeRecord<'_>| {
            let mut bytes = Vec::new();
            encode(record, &mut bytes);
            bytes
        };
        let old = with(attr());
        let new = with(Attr {
            mode: 0o100600,
            nlink: 9,
            mtime: attr().btime,
            ctime: attr().btime,
            ..attr()
        });
        let made = with(Attr { mode: 0o100600, ..attr() });
        assert_eq!(with_base(FID, &bytes(&old), &base(&new)).unwrap(), bytes(&made));
        let later = with_delta(FID, &bytes(&made), &Delta::of_names(-1, attr().atime), 80).unwrap();
        let mut expected = made;
        Delta::of_names(-1, attr().atime).apply(&mut expected.attr, 80);
        assert_eq!(later, bytes(&expected));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = sample();
        for at in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(decode(FID, &bad).is_err(), "bit {at}");
        }
        for len in 0..bytes.len() {
            assert!(decode(FID, &bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn values_that_cannot_be_are_named() {
        let damage = |at: usize, value: u8| {
            let mut bytes = sample();
            bytes[at] = value;
            seal(&mut bytes);
            decode(FID, &bytes).map(|_| ())
        };
        assert_eq!(damage(4, 9), Err(Damaged::Version { record: "inode", found: 9, newest: 2 }));
        assert!(matches!(damage(9, 0xf0), Err(Damaged::Field { field: "mode", .. })));
        assert!(matches!(damage(83, 0xff), Err(Damaged::Field { field: "nanos", .. })));
        assert!(matches!(damage(120, 0), Err(Damaged::Field { field: "tail_len", .. })));
    }

    #[test]
    fn a_project_is_a_number_and_not_0() {
        let with = |bytes: &[u8]| [&item_head(ItemTag::Project, bytes.len())[..], bytes].concat();
        let tail = with(&70_000_u32.to_le_bytes());
        let mut bytes = Vec::new();
        let record =
            InodeRecord { attr: attr(), parent: Fid::NONE, flags: 32768, base: 70, tail: &tail };
        encode(&record, &mut bytes);
        crate::golden::check("inode-project", &bytes);
        assert_eq!(project(decode(FID, &bytes).unwrap().tail), Ok(70_000));
        assert_eq!(project(&[]), Ok(0));
        for bad in [&[0; 4][..], &[1; 3], &[1; 5], &[]] {
            assert!(project(&with(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_tail_that_ends_too_early_is_damage() {
        let tail = item_head(ItemTag::Layout, 10);
        assert!(item(&tail, ItemTag::Layout).is_err());
        assert!(item(&tail[..3], ItemTag::Layout).is_err());
    }
}
