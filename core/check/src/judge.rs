//! Confirms a finding, and says which records a repair would change.
//!
//! The caller fetches the records that [`Finding::keys`] names, in that order, after everything
//! else was read. The order matters where two records decide: an absent inode never comes back, so
//! it is read before the name that leads to it.

use crate::check::read_stripes;
use crate::files::has_chunk;
use crate::finding::{Finding, Stray};
use crate::lost_found;
use disk::inode::InodeRecord;
use disk::key::{self, MDT_STATE, Tag};
use disk::mark::Mark;
use disk::mdt_state::MdtState;
use disk::{bundle, chunk, destroy_log, dirent, inode, mark, mdt_state, objects_at, xattr};
use namespace::inode::InodeFlags;
use std::collections::BTreeMap;
use types::fid::Fid;
use types::object::ObjectId;
use types::target::TargetIndex;

/// One record as it was seen, or as it shall be: key, and value or `None` if it is absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Key.
    pub key: Vec<u8>,
    /// Value.
    pub value: Option<Vec<u8>>,
}

/// A repair: if all of `expect` still holds, all of `put` in one transaction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mend {
    /// Records as they were seen; the repair is made only if they still are.
    pub expect: Vec<Change>,
    /// Records as they shall be.
    pub put: Vec<Change>,
}

impl Mend {
    pub(crate) fn expect(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.expect.push(Change { key: key.to_vec(), value: value.map(<[u8]>::to_vec) });
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.put.push(Change { key: key.to_vec(), value: value.map(<[u8]>::to_vec) });
    }
}

/// Records as they are now: the existing ones among the requested keys.
#[derive(Clone, Default, Debug)]
pub struct Records(BTreeMap<Vec<u8>, Vec<u8>>);

impl Records {
    /// Notes a record that is there.
    pub fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.0.insert(key, value);
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice)
    }
}

/// Result of a second look at a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The finding does not hold, or no longer does.
    Gone,
    /// The inode changed since it was read: look at everything again.
    Changed,
    /// The finding holds. The records to change, if that repairs it.
    Confirmed(Option<Mend>),
}

impl Finding {
    /// Keys of the records that decide, in the order in which they must be read.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        match self {
            Finding::Damaged { key, .. } => vec![key.clone()],
            Finding::Dangling { dir, name, fid } | Finding::WrongType { dir, name, fid } => {
                vec![key::inode(*fid).to_vec(), key::dirent(*dir, name).to_vec()]
            }
            Finding::StrayName { dir, name, .. } => {
                vec![key::inode(*dir).to_vec(), key::dirent(*dir, name).to_vec()]
            }
            Finding::SecondName { fid, dir, name, .. } => {
                vec![key::inode(*fid).to_vec(), key::dirent(*dir, name).to_vec()]
            }
            Finding::Nameless { fid, .. } => lost_found::keys(*fid),
            Finding::Detached { fid, dir, name, .. } => {
                let mut keys = lost_found::keys(*fid);
                keys.push(key::dirent(*dir, name).to_vec());
                keys.push(key::inode(*dir).to_vec());
                keys
            }
            Finding::MisplacedName { dir, name, .. } => {
                vec![key::dirent(*dir, name).to_vec(), key::inode(*dir).to_vec()]
            }
            Finding::LostStripe { fid, .. }
            | Finding::StrayStripe { fid, .. }
            | Finding::UnlikeStripe { fid, .. }
            | Finding::WrongNlink { fid, .. }
            | Finding::WrongParent { fid, .. }
            | Finding::HiddenXattrs { fid, .. } => {
                vec![key::inode(*fid).to_vec()]
            }
            // The file first: it gets or loses objects in one transaction with the record that says
            // so.
            Finding::OrphanObject { object, file, .. } => {
                vec![key::inode(*file).to_vec(), key::objects_at(object.fid).to_vec()]
            }
            Finding::Forgotten { fid, .. } => {
                vec![key::inode(*fid).to_vec(), key::orphan(*fid).to_vec()]
            }
            Finding::LostObject { fid, .. }
            | Finding::ShortSize { fid, .. }
            | Finding::WrongBlocks { fid, .. } => {
                vec![key::writer(*fid).to_vec(), key::inode(*fid).to_vec()]
            }
            Finding::StrayMark { key } => {
                vec![key::inode(key::fid_of(key).unwrap_or_default()).to_vec(), key.clone()]
            }
            Finding::StrayXattr { fid, name } => {
                vec![key::inode(*fid).to_vec(), key::xattr(*fid, name).to_vec()]
            }
            Finding::StrayChunk { named, n, file } => {
                vec![
                    key::inode(*file).to_vec(),
                    key::objects_at(*named).to_vec(),
                    key::chunk(*named, *n).to_vec(),
                ]
            }
            Finding::DestroysLiving { key, fid } => vec![key::inode(*fid).to_vec(), key.clone()],
            Finding::Counter { .. } => vec![MDT_STATE.to_vec()],
        }
    }
}

/// A changed inode record.
pub(crate) fn inode_change(
    fid: Fid,
    bytes: &[u8],
    change: impl FnOnce(&mut InodeRecord<'_>),
) -> Option<Change> {
    let mut record = inode::decode(fid, bytes).ok()?;
    change(&mut record);
    let mut out = Vec::new();
    inode::encode(&record, &mut out);
    Some(Change { key: key::inode(fid).to_vec(), value: Some(out) })
}

/// Judges a finding by the records of [`Finding::keys`]. For an object the caller still has to ask
/// its OST.
pub fn judge(finding: &Finding, records: &Records) -> Verdict {
    match finding {
        Finding::Damaged { key, .. } => damaged(key, records),
        Finding::Dangling { dir, name, fid } => match records.get(&key::inode(*fid)) {
            Some(_) => Verdict::Gone,
            None => remove_name(records, *dir, name, *fid, &key::inode(*fid), None),
        },
        Finding::StrayName { dir, name, fid } => {
            let above = records.get(&key::inode(*dir));
            match above.map(|record| inode::decode(*dir, record)) {
                Some(Err(_)) => Verdict::Gone,
                Some(Ok(record)) if record.attr.is_dir() => Verdict::Gone,
                _ => remove_name(records, *dir, name, *fid, &key::inode(*dir), above),
            }
        }
        Finding::WrongType { dir, name, fid } => wrong_type(records, *dir, name, *fid),
        Finding::SecondName { fid, dir, name, version } => {
            same(records, *fid, *version, |record, _| {
                match remove_name(records, *dir, name, *fid, &key::inode(*fid), Some(record)) {
                    Verdict::Confirmed(mend) => mend,
                    Verdict::Gone | Verdict::Changed => None,
                }
            })
        }
        Finding::LostStripe { fid, version, .. }
        | Finding::StrayStripe { fid, version, .. }
        | Finding::UnlikeStripe { fid, version, .. } => same(records, *fid, *version, |_, _| None),
        Finding::MisplacedName { dir, name, version, .. } => {
            match records.get(&key::dirent(*dir, name)) {
                Some(_) => same(records, *dir, *version, |_, _| None),
                None => Verdict::Gone,
            }
        }
        Finding::WrongNlink { fid, counted, version, .. } => {
            change(records, *fid, *version, |record| record.attr.nlink = *counted)
        }
        Finding::WrongParent { fid, found, version, .. } => {
            change(records, *fid, *version, |record| record.parent = *found)
        }
        Finding::HiddenXattrs { fid, version } => change(records, *fid, *version, |record| {
            record.flags |= InodeFlags::HAS_XATTR.bits();
        }),
        Finding::Nameless { fid, version } => same(records, *fid, *version, |_, _| {
            let mut mend = Mend::default();
            lost_found::name_there(records, *fid, &mut mend).map(|()| mend)
        }),
        Finding::Detached { fid, dir, name, version } => {
            same(records, *fid, *version, |_, _| detached(records, *fid, *dir, name))
        }
        Finding::Forgotten { fid, version } => same(records, *fid, *version, |record, _| {
            let mut mend = Mend::default();
            mend.expect(&key::inode(*fid), Some(record));
            mend.expect(&key::orphan(*fid), None);
            mend.put(&key::orphan(*fid), Some(&mark::encode(Mark::default())));
            Some(mend)
        }),
        Finding::StrayMark { key } => stray_mark(key, records),
        Finding::StrayXattr { fid, name } => {
            let (owner, key) = (key::inode(*fid), key::xattr(*fid, name));
            match (records.get(&owner), records.get(&key)) {
                (None, Some(value)) => Verdict::Confirmed(Some(remove(&key, value, &owner, None))),
                _ => Verdict::Gone,
            }
        }
        Finding::StrayChunk { named, n, file } => stray_chunk(*named, *n, *file, records),
        Finding::DestroysLiving { key, fid } => {
            let owner = key::inode(*fid);
            match (records.get(&owner), records.get(key)) {
                (Some(inode), Some(value)) => {
                    Verdict::Confirmed(Some(remove(key, value, &owner, Some(inode))))
                }
                _ => Verdict::Gone,
            }
        }
        Finding::Counter { needed, .. } => counter(records, Some(*needed)),
        Finding::OrphanObject { ost, object, file, why, .. } => {
            orphan_object(*ost, *object, *file, *why, records)
        }
        Finding::LostObject { fid, counted, version, .. }
        | Finding::WrongBlocks { fid, counted, version, .. } => {
            unless_written(records, *fid, |records| {
                change(records, *fid, *version, |record| record.attr.blocks = *counted)
            })
        }
        Finding::ShortSize { fid, objects, version, .. } => {
            unless_written(records, *fid, |records| {
                change(records, *fid, *version, |record| record.attr.size = *objects)
            })
        }
    }
}

fn orphan_object(
    ost: TargetIndex,
    object: ObjectId,
    file: Fid,
    why: Stray,
    records: &Records,
) -> Verdict {
    let at = records.get(&key::objects_at(object.fid)).map_or(Ok(object.fid), objects_at::decode);
    if at != Ok(file) {
        // The object went to another file meanwhile.
        return Verdict::Changed;
    }
    match (why, records.get(&key::inode(file))) {
        // The record that names the file goes with the last file that had the object.
        (_, None) if file != object.fid => Verdict::Changed,
        (_, None) => Verdict::Confirmed(None),
        (Stray::NoFile, Some(_)) => Verdict::Gone,
        (Stray::NotInLayout, Some(bytes)) => {
            let layout =
                inode::decode(file, bytes).ok().map(|record| crate::check::read_layout(&record));
            match layout {
                // The object may have come back between the two looks.
                Some(Ok(Some(layout))) if layout.names(file) != object.fid => Verdict::Changed,
                Some(Ok(layout))
                    if !layout.iter().any(|l| l.objects(file).any(|o| o == (ost, object))) =>
                {
                    Verdict::Confirmed(None)
                }
                _ => Verdict::Gone,
            }
        }
    }
}

fn stray_chunk(named: Fid, n: u32, file: Fid, records: &Records) -> Verdict {
    let (owner, at, key) = (key::inode(file), key::objects_at(named), key::chunk(named, n));
    let Some(value) = records.get(&key) else { return Verdict::Gone };
    if records.get(&at).map_or(Ok(named), objects_at::decode) != Ok(file) {
        // The object went to another file meanwhile.
        return Verdict::Changed;
    }
    let inode = records.get(&owner);
    if let Some(bytes) = inode {
        let layout =
            inode::decode(file, bytes).ok().map(|record| crate::check::read_layout(&record));
        match layout {
            Some(Ok(layout))
                if layout.as_ref().is_some_and(|l| has_chunk(l, l.names(file), named, n)) =>
            {
                return Verdict::Gone;
            }
            Some(Ok(_)) => {}
            // The record is damaged: what the inode owns is unknown.
            _ => return Verdict::Gone,
        }
    }
    let mut mend = remove(&key, value, &owner, inode);
    mend.expect(&at, records.get(&at));
    Verdict::Confirmed(Some(mend))
}

fn unless_written(records: &Records, fid: Fid, f: impl FnOnce(&Records) -> Verdict) -> Verdict {
    if records.get(&key::writer(fid)).is_some() { Verdict::Changed } else { f(records) }
}

/// Confirms the finding with `mend`'s records if the inode did not change since.
fn same(
    records: &Records,
    fid: Fid,
    version: u64,
    mend: impl FnOnce(&[u8], &InodeRecord<'_>) -> Option<Mend>,
) -> Verdict {
    let Some(bytes) = records.get(&key::inode(fid)) else { return Verdict::Gone };
    match inode::decode(fid, bytes) {
        Ok(record) if record.attr.version == version => Verdict::Confirmed(mend(bytes, &record)),
        _ => Verdict::Changed,
    }
}

fn change(
    records: &Records,
    fid: Fid,
    version: u64,
    change: impl FnOnce(&mut InodeRecord<'_>),
) -> Verdict {
    same(records, fid, version, |bytes, _| {
        let mut mend = Mend::default();
        mend.expect(&key::inode(fid), Some(bytes));
        mend.put.push(inode_change(fid, bytes, change)?);
        Some(mend)
    })
}

/// Removes a record, if it and the inode that decided are as they were.
fn remove(key: &[u8], value: &[u8], owner: &[u8], inode: Option<&[u8]>) -> Mend {
    let mut mend = Mend::default();
    mend.expect(owner, inode);
    mend.expect(key, Some(value));
    mend.put(key, None);
    mend
}

fn remove_name(
    records: &Records,
    dir: Fid,
    name: &[u8],
    fid: Fid,
    owner: &[u8],
    inode: Option<&[u8]>,
) -> Verdict {
    let key = key::dirent(dir, name);
    match records.get(&key) {
        Some(value) if dirent::decode(value).is_ok_and(|(found, _)| found == fid) => {
            Verdict::Confirmed(Some(remove(&key, value, owner, inode)))
        }
        _ => Verdict::Gone,
    }
}

fn wrong_type(records: &Records, dir: Fid, name: &[u8], fid: Fid) -> Verdict {
    let (owner, key) = (key::inode(fid), key::dirent(dir, name));
    let (Some(record), Some(value)) = (records.get(&owner), records.get(&key)) else {
        return Verdict::Gone;
    };
    match (inode::decode(fid, record), dirent::decode(value)) {
        (Ok(inode), Ok((found, file_type)))
            if found == fid && file_type != inode.attr.file_type() =>
        {
            let mut mend = Mend::default();
            mend.expect(&owner, Some(record));
            mend.expect(&key, Some(value));
            mend.put(&key, Some(&dirent::encode(fid, inode.attr.file_type())));
            Verdict::Confirmed(Some(mend))
        }
        _ => Verdict::Gone,
    }
}

fn detached(records: &Records, fid: Fid, dir: Fid, name: &[u8]) -> Option<Mend> {
    let (key, above) = (key::dirent(dir, name), key::inode(dir));
    let (value, above_record) = (records.get(&key)?, records.get(&above)?);
    let mut mend = Mend::default();
    mend.expect(&key, Some(value));
    mend.expect(&above, Some(above_record));
    mend.put(&key, None);
    // Itself, if it is its own parent: then its record is changed once, below.
    if dir != fid {
        mend.put.push(inode_change(dir, above_record, |record| {
            record.attr.nlink = record.attr.nlink.max(3) - 1
        })?);
    }
    lost_found::name_there(records, fid, &mut mend)?;
    Some(mend)
}

fn stray_mark(key: &[u8], records: &Records) -> Verdict {
    let fid = key::fid_of(key).unwrap_or_default();
    let owner = key::inode(fid);
    let (inode, Some(value)) = (records.get(&owner), records.get(key)) else {
        return Verdict::Gone;
    };
    let wrong = |bytes: &[u8]| match (key[0], inode::decode(fid, bytes)) {
        (tag, Ok(record)) if tag == Tag::Orphan as u8 => record.attr.nlink > 0,
        (tag, Ok(record)) if tag == Tag::Moving as u8 => !names_move(fid, &record),
        _ => false,
    };
    match inode {
        Some(bytes) if !wrong(bytes) => Verdict::Gone,
        inode => Verdict::Confirmed(Some(remove(key, value, &owner, inode))),
    }
}

/// True if names of this directory move between its stripes, of which it is the first.
fn names_move(fid: Fid, record: &InodeRecord<'_>) -> bool {
    let stripes = read_stripes(record).ok().flatten();
    stripes.is_some_and(|stripes| stripes.master() == fid && stripes.moving().is_some())
}

/// Raises the counter of sequences. Without `needed`, the largest sequence that a range was ever
/// taken for is unknown, because a damaged record does not tell; the next run finds it.
fn counter(records: &Records, needed: Option<u64>) -> Verdict {
    let found = records.get(MDT_STATE);
    let recorded = found.and_then(|bytes| mdt_state::decode(bytes).ok());
    if recorded.is_some_and(|state| needed.is_none_or(|needed| state.seq_next >= needed)) {
        return Verdict::Gone;
    }
    let mut mend = Mend::default();
    mend.expect(MDT_STATE, found);
    mend.put(
        MDT_STATE,
        needed.map(|seq_next| mdt_state::encode(&MdtState { seq_next })).as_ref().map(|b| &b[..]),
    );
    Verdict::Confirmed(Some(mend))
}

fn damaged(key: &[u8], records: &Records) -> Verdict {
    let Some(value) = records.get(key) else { return Verdict::Gone };
    let fid = key::owner_of(key).unwrap_or_default();
    let good = match key.first() {
        Some(b'I') => {
            inode::decode(fid, value).is_ok_and(|record| crate::check::items_of(&record).is_ok())
        }
        Some(b'E') => dirent::decode(value).is_ok(),
        Some(b'O') => objects_at::decode(value).is_ok(),
        Some(b'P' | b'W') => mark::decode(value).is_ok(),
        Some(b'B') => chunk::decode(value).is_ok(),
        Some(b'X') => xattr::decode(value).is_ok(),
        Some(b'D') => destroy_log::decode(value).is_ok(),
        Some(b'U') => bundle::decode(value).is_ok(),
        Some(b'V') => bundle::decode_peer(value).is_ok(),
        _ => mdt_state::decode(value).is_ok(),
    };
    let mut mend = Mend::default();
    mend.expect(key, Some(value));
    match key.first() {
        _ if good => return Verdict::Gone,
        Some(b'B' | b'I' | b'O' | b'U' | b'V') => return Verdict::Confirmed(None),
        Some(b'S') => return counter(records, None),
        Some(b'W') => mend.put(key, Some(&mark::encode(Mark::default()))),
        _ => mend.put(key, None),
    }
    Verdict::Confirmed(Some(mend))
}

/// Removes a damaged inode record and the names that lead to it, or damaged data, for `--clear`.
/// Names follow as dangling ones; where data was the file reads as zeros.
pub fn clear(key: &[u8], records: &Records) -> Option<Mend> {
    let may_go =
        |key: &[u8]| [Tag::Inode, Tag::Chunk].iter().any(|tag| key.first() == Some(&(*tag as u8)));
    let value = records.get(key).filter(|_| may_go(key))?;
    let mut mend = Mend::default();
    mend.expect(key, Some(value));
    mend.put(key, None);
    Some(mend)
}
