//! Everything that can be wrong, described for people.

use disk::key::{self, Tag};
use std::fmt;
use types::fid::Fid;
use types::object::ObjectId;
use types::target::TargetIndex;

/// The reason why an object belongs to no file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stray {
    /// There is no such inode, and no log record that removes the object.
    NoFile,
    /// The layout of the file does not have the object, or has it on another OST.
    NotInLayout,
}

/// One thing that is wrong. `version` of an inode: the transno of its last change when it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A record cannot be read.
    Damaged {
        /// Key of the record.
        key: Vec<u8>,
        /// Why it cannot be read.
        reason: String,
    },
    /// A name leads to an inode that does not exist.
    Dangling {
        /// The directory.
        dir: Fid,
        /// The name.
        name: Vec<u8>,
        /// The inode.
        fid: Fid,
    },
    /// A name in a directory that does not exist, or is none.
    StrayName {
        /// The directory.
        dir: Fid,
        /// The name.
        name: Vec<u8>,
        /// The inode.
        fid: Fid,
    },
    /// A name records another type than its inode has.
    WrongType {
        /// The directory.
        dir: Fid,
        /// The name.
        name: Vec<u8>,
        /// The inode.
        fid: Fid,
    },
    /// A directory has a name too many.
    SecondName {
        /// The inode.
        fid: Fid,
        /// The directory.
        dir: Fid,
        /// The name.
        name: Vec<u8>,
        /// Its version.
        version: u64,
    },
    /// The link count is not the number of names (directories: 2 + sub-directories).
    WrongNlink {
        /// The inode.
        fid: Fid,
        /// What the record says.
        recorded: u32,
        /// What was counted.
        counted: u32,
        /// Its version.
        version: u64,
    },
    /// A directory's recorded parent is not the directory that has its name.
    WrongParent {
        /// The inode.
        fid: Fid,
        /// The parent in the record.
        recorded: Fid,
        /// The directory that has its name.
        found: Fid,
        /// Its version.
        version: u64,
    },
    /// An inode without a name.
    Nameless {
        /// The inode.
        fid: Fid,
        /// Its version.
        version: u64,
    },
    /// An inode that lost its last name, is not marked as an orphan, and so would stay for ever.
    Forgotten {
        /// The inode.
        fid: Fid,
        /// Its version.
        version: u64,
    },
    /// A directory whose parents do not lead to the root.
    Detached {
        /// The inode.
        fid: Fid,
        /// The directory.
        dir: Fid,
        /// The name.
        name: Vec<u8>,
        /// Its version.
        version: u64,
    },
    /// A stripe of a directory is missing, or is not the same directory's.
    LostStripe {
        /// The directory.
        fid: Fid,
        /// Its stripe.
        stripe: Fid,
        /// Version of the directory.
        version: u64,
    },
    /// A stripe of a directory that is not there, or does not have it.
    StrayStripe {
        /// The stripe.
        fid: Fid,
        /// The directory.
        master: Fid,
        /// Its version.
        version: u64,
    },
    /// A stripe of a directory has another mode or owner than the directory itself.
    UnlikeStripe {
        /// The stripe.
        fid: Fid,
        /// The directory.
        master: Fid,
        /// Its version.
        version: u64,
    },
    /// A name is in a stripe in which it is not looked for.
    MisplacedName {
        /// The stripe.
        dir: Fid,
        /// The name.
        name: Vec<u8>,
        /// The stripe that should have it.
        place: Fid,
        /// Version of the directory.
        version: u64,
    },
    /// A mark of an inode that does not exist, an orphan's mark at a file that has names, or the
    /// mark of a directory whose names do not move between stripes.
    StrayMark {
        /// Key of the record.
        key: Vec<u8>,
    },
    /// An extended attribute of an inode that does not exist.
    StrayXattr {
        /// The inode.
        fid: Fid,
        /// The name.
        name: Vec<u8>,
    },
    /// Bytes on the MDT that belong to no file; `file` would have them.
    StrayChunk {
        /// Inode that the record names.
        named: Fid,
        /// Number of the chunk.
        n: u32,
        /// The file that would have it.
        file: Fid,
    },
    /// An inode has extended attributes, but its flag is not set.
    HiddenXattrs {
        /// The inode.
        fid: Fid,
        /// Its version.
        version: u64,
    },
    /// The destroy log names objects of a living file.
    DestroysLiving {
        /// Key of the record.
        key: Vec<u8>,
        /// The inode.
        fid: Fid,
    },
    /// FIDs are in use that the counter would hand out again.
    Counter {
        /// Index of the MDT.
        mdt: u16,
        /// What the record says.
        recorded: u64,
        /// The least that is right.
        needed: u64,
    },
    /// An object that belongs to no file; `file` would have it.
    OrphanObject {
        /// The OST.
        ost: TargetIndex,
        /// The object.
        object: ObjectId,
        /// The file that would have it.
        file: Fid,
        /// Why it belongs to none.
        why: Stray,
        /// Its size, bytes.
        bytes: u64,
    },
    /// A file had data in an object that does not exist.
    LostObject {
        /// The inode.
        fid: Fid,
        /// The OST.
        ost: TargetIndex,
        /// The object.
        object: ObjectId,
        /// Blocks of 512 bytes that the record counts.
        counted: u64,
        /// Its version.
        version: u64,
    },
    /// Objects reach beyond the recorded size of a file that no client writes.
    ShortSize {
        /// The inode.
        fid: Fid,
        /// What the record says.
        recorded: u64,
        /// Where the objects end, bytes.
        objects: u64,
        /// Its version.
        version: u64,
    },
    /// The recorded space of a file is far from that of its objects; units of 512 bytes.
    WrongBlocks {
        /// The inode.
        fid: Fid,
        /// What the record says.
        recorded: u64,
        /// What was counted.
        counted: u64,
        /// Its version.
        version: u64,
    },
}

impl Finding {
    /// Kind of the finding: one word that never changes, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Finding::Damaged { .. } => "damaged",
            Finding::Dangling { .. } => "dangling",
            Finding::StrayName { .. } => "stray-name",
            Finding::WrongType { .. } => "wrong-type",
            Finding::SecondName { .. } => "second-name",
            Finding::WrongNlink { .. } => "wrong-nlink",
            Finding::WrongParent { .. } => "wrong-parent",
            Finding::Nameless { .. } => "nameless",
            Finding::Forgotten { .. } => "forgotten",
            Finding::Detached { .. } => "detached",
            Finding::LostStripe { .. } => "lost-stripe",
            Finding::StrayStripe { .. } => "stray-stripe",
            Finding::UnlikeStripe { .. } => "unlike-stripe",
            Finding::MisplacedName { .. } => "misplaced-name",
            Finding::StrayMark { .. } => "stray-mark",
            Finding::StrayXattr { .. } => "stray-xattr",
            Finding::StrayChunk { .. } => "stray-chunk",
            Finding::HiddenXattrs { .. } => "hidden-xattrs",
            Finding::DestroysLiving { .. } => "destroys-living",
            Finding::Counter { .. } => "counter",
            Finding::OrphanObject { .. } => "orphan-object",
            Finding::LostObject { .. } => "lost-object",
            Finding::ShortSize { .. } => "short-size",
            Finding::WrongBlocks { .. } => "wrong-blocks",
        }
    }

    /// The inode it is about, if it is about one.
    pub fn fid(&self) -> Option<Fid> {
        match self {
            Finding::Damaged { key, .. } | Finding::StrayMark { key } => {
                key::owner_of(key).filter(|_| !matches!(key[0], b'D' | b'U' | b'V'))
            }
            Finding::Dangling { fid, .. }
            | Finding::StrayName { fid, .. }
            | Finding::WrongType { fid, .. }
            | Finding::SecondName { fid, .. }
            | Finding::WrongNlink { fid, .. }
            | Finding::WrongParent { fid, .. }
            | Finding::Nameless { fid, .. }
            | Finding::Forgotten { fid, .. }
            | Finding::Detached { fid, .. }
            | Finding::LostStripe { fid, .. }
            | Finding::StrayStripe { fid, .. }
            | Finding::UnlikeStripe { fid, .. }
            | Finding::MisplacedName { dir: fid, .. }
            | Finding::StrayXattr { fid, .. }
            | Finding::StrayChunk { named: fid, .. }
            | Finding::HiddenXattrs { fid, .. }
            | Finding::DestroysLiving { fid, .. }
            | Finding::LostObject { fid, .. }
            | Finding::ShortSize { fid, .. }
            | Finding::WrongBlocks { fid, .. } => Some(*fid),
            Finding::OrphanObject { object, .. } => Some(object.fid),
            Finding::Counter { .. } => None,
        }
    }

    /// Index of the MDT whose records decide. It decides about objects too.
    pub fn mdt(&self) -> u16 {
        match self {
            Finding::Counter { mdt, .. } => *mdt,
            Finding::Dangling { dir, .. }
            | Finding::StrayName { dir, .. }
            | Finding::WrongType { dir, .. } => dir.mdt(),
            other => other.fid().map_or(0, Fid::mdt),
        }
    }

    /// What a repair does, for people. `None` if there is no repair.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Finding::Damaged { key, .. } => match key.first() {
                // Without this record the owner of the objects is unknown, or the record is data
                // itself, or another MDT counts on it: nothing is removed.
                Some(tag)
                    if [Tag::Inode, Tag::ObjectsAt, Tag::Chunk, Tag::Bundle, Tag::Peer]
                        .map(|tag| tag as u8)
                        .contains(tag) =>
                {
                    return None;
                }
                Some(tag) if *tag == Tag::Writer as u8 => {
                    "marked anew: its size is settled at the next start"
                }
                Some(tag) if *tag == Tag::State as u8 => "counted anew",
                _ => "record removed",
            },
            Finding::Dangling { .. } | Finding::StrayName { .. } | Finding::SecondName { .. } => {
                "name removed"
            }
            Finding::WrongType { .. } => "name corrected",
            Finding::WrongNlink { .. } => "link count corrected",
            Finding::WrongParent { .. } => "parent corrected",
            Finding::Nameless { .. } => "named in /lost+found",
            Finding::Forgotten { .. } => {
                "marked as an orphan: it goes at the next start of its MDT"
            }
            Finding::Detached { .. } => "moved to /lost+found",
            Finding::LostStripe { .. }
            | Finding::StrayStripe { .. }
            | Finding::UnlikeStripe { .. }
            | Finding::MisplacedName { .. } => return None,
            Finding::StrayMark { .. } => "mark removed",
            Finding::StrayXattr { .. } => "attribute removed",
            Finding::StrayChunk { .. } => "data removed",
            Finding::HiddenXattrs { .. } => "flag set",
            Finding::DestroysLiving { .. } => "log record removed",
            Finding::Counter { .. } => "counter raised",
            Finding::OrphanObject { .. } => "object removed",
            Finding::LostObject { .. } => "space corrected; its bytes read as zeros",
            Finding::ShortSize { .. } => "size raised to the end of the objects",
            Finding::WrongBlocks { .. } => "space corrected",
        })
    }

    /// What an administrator can do where there is no repair.
    pub fn advice(&self) -> &'static str {
        match self {
            Finding::Damaged { key, .. } if key.first() == Some(&(Tag::Chunk as u8)) => {
                "reading it fails; to have zeros there: --repair --clear"
            }
            Finding::LostStripe { .. } => "its other names can be used; copy them elsewhere",
            Finding::StrayStripe { .. } => "nothing leads to its names: ask for support",
            Finding::UnlikeStripe { .. } => "chmod or chown of the directory sets all stripes",
            Finding::MisplacedName { .. } => "no program finds the name: ask for support",
            Finding::Damaged { .. } => "remove it with its names and objects: --repair --clear",
            _ => "run it again with --repair",
        }
    }
}

fn shown(name: &[u8]) -> impl fmt::Display {
    name.escape_ascii()
}

fn word(tag: u8) -> &'static str {
    match tag {
        b'B' => "data on the MDT",
        b'D' => "destroy log",
        b'E' => "directory entry",
        b'I' => "inode",
        b'O' => "place of objects",
        b'P' => "orphan mark",
        b'S' => "state",
        b'W' => "writer mark",
        b'X' => "extended attribute",
        _ => "unknown",
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Damaged { key, reason } => {
                let (tag, rest) =
                    key.split_first().map_or((0, &[][..]), |(tag, rest)| (*tag, rest));
                match key::owner_of(key) {
                    Some(fid) if tag == b'B' => {
                        write!(
                            f,
                            "{} {fid}, chunk {}: {reason}",
                            word(tag),
                            key::chunk_of(key).unwrap_or(0)
                        )
                    }
                    Some(fid) if tag != b'D' && rest.len() > 16 => {
                        write!(f, "{} {fid}/{}: {reason}", word(tag), shown(&rest[16..]))
                    }
                    Some(fid) if tag != b'D' => write!(f, "{} {fid}: {reason}", word(tag)),
                    _ => write!(f, "{} record {}: {reason}", word(tag), shown(key)),
                }
            }
            Finding::Dangling { dir, name, fid } => {
                write!(f, "name {dir}/{} leads to {fid}, which is not there", shown(name))
            }
            Finding::StrayName { dir, name, fid } => {
                write!(f, "name {dir}/{} (of {fid}) is in no directory: {dir} is none", shown(name))
            }
            Finding::WrongType { dir, name, fid } => {
                write!(
                    f,
                    "name {dir}/{} says that {fid} is of another type than it is",
                    shown(name)
                )
            }
            Finding::SecondName { fid, dir, name, .. } => {
                write!(f, "directory {fid} has a second name, {dir}/{}", shown(name))
            }
            Finding::WrongNlink { fid, recorded, counted, .. } => {
                write!(f, "{fid} has link count {recorded}, counted are {counted}")
            }
            Finding::WrongParent { fid, recorded, found, .. } => {
                write!(f, "directory {fid} has parent {recorded}, its name is in {found}")
            }
            Finding::Nameless { fid, .. } => write!(f, "{fid} has no name"),
            Finding::Forgotten { fid, .. } => {
                write!(f, "{fid} was removed and is still there, without a mark")
            }
            Finding::Detached { fid, .. } => {
                write!(f, "directory {fid} cannot be reached from the root")
            }
            Finding::LostStripe { fid, stripe, .. } => {
                write!(f, "directory {fid} has no stripe {stripe}, where a part of its names is")
            }
            Finding::StrayStripe { fid, master, .. } => {
                write!(f, "{fid} is a stripe of directory {master}, which does not have it")
            }
            Finding::UnlikeStripe { fid, master, .. } => {
                write!(f, "stripe {fid} has another mode or owner than its directory {master}")
            }
            Finding::MisplacedName { dir, name, place, .. } => {
                write!(f, "name {dir}/{} belongs to stripe {place}", shown(name))
            }
            Finding::StrayMark { key } => {
                let (tag, fid) =
                    (key.first().copied().unwrap_or(0), key::fid_of(key).unwrap_or_default());
                write!(f, "{} of {fid}, which is not there or has names", word(tag))
            }
            Finding::StrayXattr { fid, name } => {
                write!(f, "extended attribute {} of {fid}, which is not there", shown(name))
            }
            Finding::StrayChunk { named, n, .. } => {
                write!(f, "chunk {n} of data on the MDT, named after {named}, belongs to no file")
            }
            Finding::HiddenXattrs { fid, .. } => {
                write!(f, "{fid} has extended attributes and does not say so")
            }
            Finding::DestroysLiving { fid, .. } => {
                write!(f, "the destroy log names objects of {fid}, which lives")
            }
            Finding::Counter { mdt, recorded, needed } => {
                write!(
                    f,
                    "MDT{mdt:04x} would hand out FIDs again: next sequence {recorded:#x}, must be {needed:#x}"
                )
            }
            Finding::OrphanObject { ost, object, why, bytes, .. } => {
                let why = match why {
                    Stray::NoFile => "its file is not there",
                    Stray::NotInLayout => "its file has no such object there",
                };
                write!(
                    f,
                    "object {object} of OST{:04x} ({bytes} bytes) belongs to nobody: {why}",
                    ost.0
                )
            }
            Finding::LostObject { fid, ost, object, .. } => {
                write!(f, "{fid} had data in object {object}, which OST{:04x} does not have", ost.0)
            }
            Finding::ShortSize { fid, recorded, objects, .. } => {
                write!(f, "{fid} has {recorded} bytes, its objects reach to {objects}")
            }
            Finding::WrongBlocks { fid, recorded, counted, .. } => {
                write!(f, "{fid} has {recorded} blocks recorded, its objects have {counted}")
            }
        }
    }
}
