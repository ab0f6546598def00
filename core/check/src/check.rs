//! Takes everything once and compares.
//!
//! Order: first the records of [`FIRST`] (inodes and marks) of all MDTs, then those of [`THEN`],
//! then the objects. Every change of a name changes the record of the inode. So if an inode's
//! record is unchanged at the end of the run, all its names were read in the state that belongs to
//! it. This makes a finding certain although the system keeps working (`judge`).

use crate::files::FileSeen;
use crate::finding::{Finding, Stray};
use crate::tree;
use disk::inode::{InodeRecord, ItemTag};
use disk::key::{self, MDT_STATE, Tag};
use disk::{bundle, chunk, destroy_log, dirent, inode, mark, mdt_state, objects_at, xattr};
use layout::dir_stripes::DirStripes;
use namespace::inode::InodeFlags;
use std::collections::{BTreeMap, BTreeSet};
use types::attr::FileType;
use types::fid::Fid;
use types::object::ObjectId;
use types::target::TargetIndex;

/// Inodes that one run can hold, about 400 bytes each.
pub const INODES_MAX: usize = 16 << 20;
/// Findings that are kept; more are counted.
pub const FINDINGS_MAX: usize = 100_000;
/// A sequence counter is raised this far beyond the highest sequence seen: files of later ones may
/// have been removed.
const SEQUENCES_AHEAD: u64 = 1 << 16;
/// Records that are read first.
pub const FIRST: [Tag; 5] = [Tag::Inode, Tag::ObjectsAt, Tag::Orphan, Tag::Writer, Tag::Moving];
/// Records that are read second.
pub const THEN: [Tag; 7] =
    [Tag::Entry, Tag::Xattr, Tag::Chunk, Tag::Destroy, Tag::State, Tag::Bundle, Tag::Peer];

/// What the run saw of one inode.
pub(crate) struct Seen {
    pub(crate) version: u64,
    /// `None`: its record is damaged, so its type is unknown.
    pub(crate) file_type: Option<FileType>,
    pub(crate) nlink: u32,
    pub(crate) parent: Fid,
    pub(crate) flags: InodeFlags,
    /// Mode, owner, group.
    pub(crate) access: [u32; 3],
    /// Directories: the stripes, if there are any.
    pub(crate) stripes: Option<Box<DirStripes>>,
    /// Names that lead here.
    pub(crate) names: u32,
    /// Directories: sub-directories by their names.
    pub(crate) subdirs: u32,
    /// Directories: where its name is, and the name.
    pub(crate) named: Option<Box<(Fid, Vec<u8>)>>,
    pub(crate) orphan: bool,
    pub(crate) writer: bool,
    /// It is marked as one whose names move between its stripes.
    pub(crate) moving: bool,
    pub(crate) xattrs: bool,
    pub(crate) file: Option<Box<FileSeen>>,
}

/// How much a run looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Inodes.
    pub inodes: u64,
    /// Of them, directories.
    pub directories: u64,
    /// Names.
    pub names: u64,
    /// Objects.
    pub objects: u64,
    /// Their space, bytes.
    pub object_bytes: u64,
    /// Removed files whose objects wait to be destroyed.
    pub destroying: u64,
    /// Removed files that a client has open.
    pub orphans: u64,
    /// Findings beyond [`FINDINGS_MAX`].
    pub findings_more: u64,
}

/// More inodes than one run can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany;

/// One run over everything.
#[derive(Default)]
pub struct Check {
    pub(crate) seen: BTreeMap<Fid, Seen>,
    pub(crate) findings: Vec<Finding>,
    /// For each FID that objects are named after: the other file that has them.
    objects_at: BTreeMap<Fid, Fid>,
    /// Files whose objects are being removed.
    destroying: BTreeSet<Fid>,
    /// Names of directories outside of their recorded parent: child, directory, name.
    extra: Vec<(Fid, Fid, Vec<u8>)>,
    /// Per MDT: highest sequence seen, counter.
    counters: BTreeMap<u16, (u64, Option<u64>)>,
    /// OSTs whose objects were all seen.
    osts: BTreeSet<TargetIndex>,
    counts: Counts,
}

impl Check {
    /// Takes one record of the MDT with this index.
    ///
    /// # Errors
    /// More than [`INODES_MAX`] inodes.
    pub fn record(&mut self, mdt: u16, key: &[u8], value: &[u8]) -> Result<(), TooMany> {
        let damaged = match key.first() {
            Some(b'I') => self.inode(mdt, key, value)?,
            Some(b'O') => self.objects_at(key, value),
            Some(b'P') => self.mark(key, value, |seen| seen.orphan = true),
            Some(b'W') => self.mark(key, value, |seen| seen.writer = true),
            Some(b'M') => self.mark(key, value, |seen| seen.moving = true),
            Some(b'E') => self.entry(key, value),
            Some(b'X') => self.xattr(key, value),
            Some(b'B') => self.chunk(key, value),
            Some(b'D') => self.destroy(key, value),
            Some(b'U') => bundle::decode(value).err().map(|error| error.to_string()),
            Some(b'V') => bundle::decode_peer(value).err().map(|error| error.to_string()),
            _ if key == MDT_STATE => self.state(mdt, value),
            _ => None,
        };
        if let Some(reason) = damaged {
            self.find(Finding::Damaged { key: key.to_vec(), reason });
        }
        Ok(())
    }

    /// Takes one object of an OST: its size in bytes and its 512-byte blocks.
    pub fn object(&mut self, ost: TargetIndex, object: ObjectId, size: u64, blocks: u64) {
        self.counts.objects += 1;
        self.counts.object_bytes += blocks * 512;
        let file = self.file_of(object);
        let stray = |why| Finding::OrphanObject { ost, object, file, why, bytes: size };
        match self.seen.get_mut(&file) {
            None if self.destroying.contains(&object.fid) => {}
            None => self.find(stray(Stray::NoFile)),
            // The record is damaged: what the inode owns is unknown.
            Some(Seen { file_type: None, .. }) => {}
            Some(seen) => {
                let belongs =
                    seen.file.as_mut().is_some_and(|file| file.found(ost, object, size, blocks));
                if !belongs && !self.destroying.contains(&object.fid) {
                    self.find(stray(Stray::NotInLayout));
                }
            }
        }
    }

    /// The file that has an object, if any has. Known once all records were given.
    pub fn file_of(&self, object: ObjectId) -> Fid {
        self.objects_at.get(&object.fid).copied().unwrap_or(object.fid)
    }

    /// All objects of this OST were given to [`Check::object`]. Files with objects on other OSTs
    /// are not judged by theirs.
    pub fn all_objects_of(&mut self, ost: TargetIndex) {
        self.osts.insert(ost);
    }

    /// All findings, and how much was looked at.
    pub fn finish(mut self) -> (Vec<Finding>, Counts) {
        for (mdt, (highest, counter)) in std::mem::take(&mut self.counters) {
            let recorded = counter.unwrap_or(0);
            if highest >= recorded && highest >= Fid::SEQ_NORMAL {
                self.find(Finding::Counter { mdt, recorded, needed: highest + SEQUENCES_AHEAD });
            }
        }
        let extra = std::mem::take(&mut self.extra);
        let mut found = Vec::new();
        tree::judge(&mut self.seen, extra, &mut found);
        let osts = &self.osts;
        for (fid, seen) in &self.seen {
            // Not judged while a client writes it: the MDT's size may be behind.
            if let Some(file) = seen.file.as_ref().filter(|_| !seen.writer) {
                file.judge(*fid, seen, |ost| osts.contains(&ost), &mut found);
            }
        }
        found.into_iter().for_each(|finding| self.find(finding));
        (self.findings, self.counts)
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.counts.findings_more += 1;
        }
    }

    fn inode(&mut self, mdt: u16, key: &[u8], value: &[u8]) -> Result<Option<String>, TooMany> {
        let Some(fid) = key::fid_of(key) else { return Ok(Some("its key is none".to_owned())) };
        if self.seen.len() >= INODES_MAX {
            return Err(TooMany);
        }
        self.counts.inodes += 1;
        if fid.seq >= Fid::SEQ_NORMAL {
            let highest = &mut self.counters.entry(mdt).or_default().0;
            *highest = fid.seq.max(*highest);
        }
        let mut seen = Seen {
            version: 0,
            file_type: None,
            nlink: 0,
            parent: Fid::NONE,
            flags: InodeFlags::empty(),
            access: [0; 3],
            stripes: None,
            names: 0,
            subdirs: 0,
            named: None,
            orphan: false,
            writer: false,
            moving: false,
            xattrs: false,
            file: None,
        };
        let damaged = match inode::decode(fid, value) {
            Err(error) => Some(error.to_string()),
            Ok(record) => match items_of(&record) {
                Err(reason) => Some(reason),
                Ok((layout, stripes)) => {
                    let file_type = record.attr.file_type();
                    self.counts.directories += u64::from(file_type == FileType::Directory);
                    seen.version = record.attr.version;
                    seen.file_type = Some(file_type);
                    seen.nlink = record.attr.nlink;
                    seen.parent = record.parent;
                    seen.flags = InodeFlags::from_bits_retain(record.flags);
                    seen.access = [record.attr.mode, record.attr.uid, record.attr.gid];
                    seen.stripes = stripes.map(Box::new);
                    seen.file = layout.map(|layout| Box::new(FileSeen::new(layout, &record.attr)));
                    None
                }
            },
        };
        self.seen.insert(fid, seen);
        Ok(damaged)
    }

    fn objects_at(&mut self, key: &[u8], value: &[u8]) -> Option<String> {
        let Some(owner) = key::fid_of(key) else { return Some("its key is none".to_owned()) };
        match objects_at::decode(value) {
            Ok(file) => {
                self.objects_at.insert(owner, file);
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }

    fn mark(&mut self, key: &[u8], value: &[u8], note: impl FnOnce(&mut Seen)) -> Option<String> {
        if let Err(error) = mark::decode(value) {
            return Some(error.to_string());
        }
        let Some(fid) = key::fid_of(key) else { return Some("its key is none".to_owned()) };
        self.counts.orphans += u64::from(key[0] == b'P');
        match self.seen.get_mut(&fid) {
            Some(seen) => note(seen),
            None => self.find(Finding::StrayMark { key: key.to_vec() }),
        }
        None
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Option<String> {
        let (Some(dir), Some(name)) =
            (key::owner_of(key), key::name_of(key).filter(|name| !name.is_empty()))
        else {
            return Some("its key is none".to_owned());
        };
        let (fid, file_type) = match dirent::decode(value) {
            Ok(entry) => entry,
            Err(error) => return Some(error.to_string()),
        };
        self.counts.names += 1;
        let name = || name.to_vec();
        match self.seen.get(&dir).map(|seen| seen.file_type) {
            Some(Some(FileType::Directory) | None) => {}
            None | Some(Some(_)) => {
                self.find(Finding::StrayName { dir, name: name(), fid });
                return None;
            }
        }
        let above = self.seen.get(&dir);
        let version = above.map_or(0, |seen| seen.version);
        let stripes = above.and_then(|seen| seen.stripes.as_ref());
        let home = stripes.map_or(dir, |stripes| stripes.home(&name()));
        if let Some(place) = stripes.map(|stripes| stripes.place(&name())).filter(|at| *at != dir) {
            self.find(Finding::MisplacedName { dir, name: name(), place, version });
        }
        let Some(child) = self.seen.get_mut(&fid) else {
            self.find(Finding::Dangling { dir, name: name(), fid });
            return None;
        };
        child.names += 1;
        let is = child.file_type.unwrap_or(file_type);
        if is == FileType::Directory {
            let this = Box::new((dir, name()));
            match child.named.take() {
                None => child.named = Some(this),
                // The name where its parent is counts.
                Some(first) if first.0 != child.parent && home == child.parent => {
                    child.named = Some(this);
                    self.extra.push((fid, first.0, first.1));
                }
                first => {
                    child.named = first;
                    self.extra.push((fid, this.0, this.1));
                }
            }
            if let Some(above) = self.seen.get_mut(&dir) {
                above.subdirs += 1;
            }
        }
        if is != file_type {
            self.find(Finding::WrongType { dir, name: name(), fid });
        }
        None
    }

    fn xattr(&mut self, key: &[u8], value: &[u8]) -> Option<String> {
        if let Err(error) = xattr::decode(value) {
            return Some(error.to_string());
        }
        let Some(fid) = key::owner_of(key) else { return Some("its key is none".to_owned()) };
        match self.seen.get_mut(&fid) {
            Some(seen) => seen.xattrs = true,
            None => {
                let name = key::name_of(key).unwrap_or_default().to_vec();
                self.find(Finding::StrayXattr { fid, name });
            }
        }
        None
    }

    fn chunk(&mut self, key: &[u8], value: &[u8]) -> Option<String> {
        let (Some(named), Some(n)) = (key::owner_of(key), key::chunk_of(key)) else {
            return Some("its key is none".to_owned());
        };
        let file = self.objects_at.get(&named).copied().unwrap_or(named);
        let bytes = value.len().saturating_sub(chunk::HEAD_BYTES);
        match self.seen.get_mut(&file) {
            // The record is damaged: what the inode owns is unknown.
            Some(Seen { file_type: None, .. }) => {}
            seen => {
                let of_file = seen.and_then(|seen| seen.file.as_mut());
                if !of_file.is_some_and(|seen| seen.found_chunk(named, n, bytes)) {
                    self.find(Finding::StrayChunk { named, n, file });
                }
            }
        }
        chunk::decode(value).err().map(|error| error.to_string())
    }

    fn destroy(&mut self, key: &[u8], value: &[u8]) -> Option<String> {
        let objects = match destroy_log::decode(value) {
            Ok(objects) => objects,
            Err(error) => return Some(error.to_string()),
        };
        self.counts.destroying += 1;
        let living = |(ost, object): &(TargetIndex, ObjectId)| {
            let file = self.seen.get(&self.file_of(*object)).and_then(|seen| seen.file.as_ref());
            file.is_some_and(|file| file.has(*ost, *object))
        };
        match objects.iter().find(|object| living(object)) {
            Some((_, object)) => {
                self.find(Finding::DestroysLiving {
                    key: key.to_vec(),
                    fid: self.file_of(*object),
                });
            }
            None => self.destroying.extend(objects.iter().map(|(_, object)| object.fid)),
        }
        None
    }

    fn state(&mut self, mdt: u16, value: &[u8]) -> Option<String> {
        match mdt_state::decode(value) {
            Ok(state) => {
                self.counters.entry(mdt).or_default().1 = Some(state.seq_next);
                None
            }
            Err(error) => {
                // It is reported as damage, so not as a wrong counter too.
                self.counters.entry(mdt).or_default().1 = Some(u64::MAX);
                Some(error.to_string())
            }
        }
    }
}

/// The layout of a regular file.
pub(crate) fn read_layout(
    record: &InodeRecord<'_>,
) -> Result<Option<layout::layout::Layout>, String> {
    let item = inode::item(record.tail, ItemTag::Layout).map_err(|error| error.to_string())?;
    item.filter(|_| record.attr.file_type() == FileType::Regular)
        .map(|bytes| layout::codec::decode(bytes).map_err(|error| format!("its layout: {error}")))
        .transpose()
}

/// Layout and stripes; an error if any item of the record, or what its flags say of it, is wrong.
pub(crate) fn items_of(
    record: &InodeRecord<'_>,
) -> Result<(Option<layout::layout::Layout>, Option<DirStripes>), String> {
    check_project(record)?;
    Ok((read_layout(record)?, read_stripes(record)?))
}

/// Succeeds if its flags say whether it has a project.
fn check_project(record: &InodeRecord<'_>) -> Result<(), String> {
    let project = inode::project(record.tail).map_err(|error| error.to_string())?;
    match InodeFlags::from_bits_retain(record.flags).contains(InodeFlags::HAS_PROJECT) {
        says if says == (project != 0) => Ok(()),
        _ => Err("its flags do not say whether it has a project".to_owned()),
    }
}

/// The stripes of a directory.
pub(crate) fn read_stripes(record: &InodeRecord<'_>) -> Result<Option<DirStripes>, String> {
    if !InodeFlags::from_bits_retain(record.flags).contains(InodeFlags::STRIPED) {
        return Ok(None);
    }
    let bytes = inode::item(record.tail, ItemTag::Stripes).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or("it does not say which its stripes are")?;
    DirStripes::decode(bytes).map(Some).map_err(|error| error.to_string())
}
