//! Operations over several MDTs (docs/dne.md): what each MDT that takes part keeps of one of them,
//! and what an MDT keeps of each other one.
//!
//! A bundle is a list of steps. Each step belongs to the MDT of its FID, the reply to the
//! coordinator; each MDT does those that are its own, and keeps all.

mod rest;

use crate::damaged::{Damaged, known, seal, unseal};
use crate::inode;
use rest::{Rest, field, good_name};
use types::attr::FileType;
use types::bundle::Place;
use types::fid::Fid;
use types::limits::BUNDLE_BYTES_MAX;
use types::name::Name;
use types::session::ClientUuid;
use types::target::TargetIndex;
use types::time::Timestamp;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the record of a bundle. 1: first version.
pub const VERSION: u8 = 1;
/// Version of the record of another MDT. 1: first version.
pub const PEER_VERSION: u8 = 1;
const RECORD: &str = "bundle";
const PEER: &str = "other MDT";

const APPLIED: u8 = 1;
const STOPPED: u8 = 2;

const MAKE: u16 = 1;
const REMOVE: u16 = 2;
const ENTER: u16 = 3;
const LEAVE: u16 = 4;
const REPLY: u16 = 5;
const DROP: u16 = 6;
const LINK: u16 = 7;
const MOVE: u16 = 8;
const CHANGE: u16 = 9;
const RESTRIPE: u16 = 10;
const GIVE: u16 = 11;
const TAKE: u16 = 12;
const HOME: u16 = 13;
const OBJECTS: u16 = 14;
const DISCARD: u16 = 15;

const ATIME: u32 = 1;
const MTIME: u32 = 2;

/// | at | size | field    | meaning                                                  |
/// |----|------|----------|----------------------------------------------------------|
/// |  0 |    4 | crc      | crc32c of the rest                                       |
/// |  4 |    1 | version  | 1                                                        |
/// |  5 |    1 | kind     | 1: applied; 2: stopped, then nothing follows             |
/// |  6 |    2 | others   | MDTs beside the coordinator                              |
/// |  8 |    4 | steps    | their number                                             |
/// | 12 |      | others   | each: index 2, 1 if it prepares (else 0) 1, zero 1       |
/// |    |      | steps    | each: kind 2, zero 2, length 4, the step                 |
///
/// Times are 12 bytes (seconds 8, nanoseconds 4), FIDs 16 (big endian).
///
/// | kind | step   | bytes                                                                     |
/// |------|--------|---------------------------------------------------------------------------|
/// |    1 | make   | FID, length 4, inode record, then xattrs: length 4, name, length 4, value  |
/// |    2 | remove | FID, time                                                                  |
/// |    3 | enter  | FID of the directory, FID, time, type 1, name                              |
/// |    4 | leave  | FID of the directory, time, type 1, name                                   |
/// |    5 | reply  | client 16, slot 2, record of the reply                                     |
/// |    6 | drop   | FID, FID of the directory, time, type 1, name                              |
/// |    7 | link   | FID, FID of the directory, time, type 1, name                              |
/// |    8 | move   | FID, FID of the old directory, FID of the new one, time, length 4, the old |
/// |      |        | name, type 1, the new name                                                 |
/// |    9 | change | FID, times that are set 4 (1 atime, 2 mtime), length 4, inode record, then  |
/// |      |        | xattrs: length 4, name, 1 if it is set (0: removed) 1, length 4, value      |
/// |   10 | restripe | FID, change of the link count 4, record of the stripes                   |
/// |   11 | give   | FID of the stripe, type 1, name                                            |
/// |   12 | take   | FID of the stripe, FID, type 1, name                                       |
/// |   13 | home   | FID, FID of the directory before, FID of the directory, type 1, name       |
/// |   14 | objects | FID, FID after which they are named, then bytes on the MDT: number 4,     |
/// |      |        | length 4, bytes                                                            |
/// |   15 | discard | FID                                                                       |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHead {
    crc: U32,
    version: u8,
    kind: u8,
    others: U16,
    steps: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawOther {
    mdt: U16,
    prepares: u8,
    zero: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawStep {
    kind: U16,
    zero: U16,
    len: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTime {
    sec: I64,
    nsec: U32,
}

/// | at | size | field    | meaning                                                        |
/// |----|------|----------|----------------------------------------------------------------|
/// |  0 |    4 | crc      | crc32c of the rest                                             |
/// |  4 |    1 | version  | 1                                                              |
/// |  5 |    1 | flags    | 1: something may be under way with it                          |
/// |  6 |    2 | zero     | must be 0                                                      |
/// |  8 |    8 | boot     | all bundles that it coordinates before this boot and number    |
/// | 16 |    8 | number   | are finished                                                   |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPeer {
    crc: U32,
    version: u8,
    flags: u8,
    zero: U16,
    boot: U64,
    number: U64,
}

const _: () =
    assert!(size_of::<RawHead>() == 12 && size_of::<RawOther>() == 4 && size_of::<RawStep>() == 8);
const _: () = assert!(size_of::<RawPeer>() == 24 && size_of::<RawTime>() == 12);

/// What one MDT does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// An inode that never was is made, with extended attributes (name, value).
    Make {
        /// The inode.
        fid: Fid,
        /// Its record. The MDT that makes it puts its own version there.
        record: Vec<u8>,
        /// Extended attributes.
        xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    },
    /// An empty directory has lost its name.
    Remove {
        /// The directory.
        fid: Fid,
        /// When.
        time: Timestamp,
    },
    /// A name that was not there leads to this inode.
    Enter {
        /// Directory of the name.
        dir: Fid,
        /// The name.
        name: Name,
        /// Where it leads.
        fid: Fid,
        /// What is there.
        file_type: FileType,
        /// When.
        time: Timestamp,
    },
    /// A name goes.
    Leave {
        /// Directory of the name.
        dir: Fid,
        /// The name.
        name: Name,
        /// What was there.
        file_type: FileType,
        /// When.
        time: Timestamp,
    },
    /// An inode that is no directory has lost this name.
    Drop {
        /// The inode.
        fid: Fid,
        /// Directory of the name.
        dir: Fid,
        /// The name.
        name: Name,
        /// Its type.
        file_type: FileType,
        /// When.
        time: Timestamp,
    },
    /// An inode that is no directory has got this name, too.
    Link {
        /// The inode.
        fid: Fid,
        /// Directory of the name.
        dir: Fid,
        /// The name.
        name: Name,
        /// Its type.
        file_type: FileType,
        /// When.
        time: Timestamp,
    },
    /// An inode has another name instead of one that it had.
    Move {
        /// The inode.
        fid: Fid,
        /// Directory of the old name, and the name.
        from: (Fid, Name),
        /// Directory of the new name, and the name.
        to: (Fid, Name),
        /// Its type.
        file_type: FileType,
        /// When.
        time: Timestamp,
    },
    /// A directory that is striped has changed, but not by its names. Each stripe changes alike.
    Change {
        /// The stripe.
        fid: Fid,
        /// Its access time is set.
        atime: bool,
        /// Its time of modification is set.
        mtime: bool,
        /// A record with the mode, owner, flags, items, time of change and the times that are set.
        /// All else stays.
        record: Vec<u8>,
        /// Extended attributes that are set or removed.
        xattrs: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    },
    /// The stripes of a directory change, or names pass from one to another.
    Restripe {
        /// The stripe.
        fid: Fid,
        /// Sub-directories that come (negative: go) with names.
        nlink: i32,
        /// The new record of the stripes (`layout::dir_stripes`).
        record: Vec<u8>,
    },
    /// A name goes to another stripe of its directory.
    Give {
        /// The stripe.
        dir: Fid,
        /// The name.
        name: Name,
        /// What is there.
        file_type: FileType,
    },
    /// A name comes from another stripe of its directory.
    Take {
        /// The stripe.
        dir: Fid,
        /// The name.
        name: Name,
        /// Where it leads.
        fid: Fid,
        /// What is there.
        file_type: FileType,
    },
    /// The directory of a name goes to another inode, and so the inode of the name records that one
    /// as its directory. Times stay as they are.
    Home {
        /// The inode.
        fid: Fid,
        /// The inode of the directory before.
        from: Fid,
        /// Its inode now.
        to: Fid,
        /// The name.
        name: Name,
        /// The type of the inode.
        file_type: FileType,
    },
    /// An inode that is made has the objects of one that is discarded.
    Objects {
        /// The inode.
        fid: Fid,
        /// The file after which they are named.
        named: Fid,
        /// Bytes on the MDT: numbers of chunks, and their bytes.
        chunks: Vec<(u32, Vec<u8>)>,
    },
    /// An inode is another MDT's now, under another FID, with its names and objects.
    Discard {
        /// The inode that was.
        fid: Fid,
    },
    /// The reply to the client that asked for it is kept.
    Reply {
        /// The client.
        client: ClientUuid,
        /// Slot of its request.
        slot: u16,
        /// The record of the reply ([`crate::session`]).
        record: Vec<u8>,
    },
}

impl Step {
    /// The MDT that does it; `None`: the coordinator.
    pub fn mdt(&self) -> Option<TargetIndex> {
        match self {
            Step::Make { fid, .. }
            | Step::Remove { fid, .. }
            | Step::Drop { fid, .. }
            | Step::Link { fid, .. }
            | Step::Move { fid, .. }
            | Step::Change { fid, .. }
            | Step::Home { fid, .. }
            | Step::Objects { fid, .. }
            | Step::Discard { fid }
            | Step::Restripe { fid, .. } => Some(TargetIndex(fid.mdt())),
            Step::Enter { dir, .. }
            | Step::Leave { dir, .. }
            | Step::Give { dir, .. }
            | Step::Take { dir, .. } => Some(TargetIndex(dir.mdt())),
            Step::Reply { .. } => None,
        }
    }
}

/// What an MDT keeps of a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    /// Its own part is applied.
    Applied {
        /// MDTs beside the coordinator, and whether each prepares.
        others: Vec<(TargetIndex, bool)>,
        /// The steps of all.
        steps: Vec<Step>,
    },
    /// It is not taken from its coordinator any more.
    Stopped,
}

/// What an MDT keeps of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Peer {
    /// Something may be under way with it: a restarted MDT waits for it.
    pub under_way: bool,
    /// All bundles before this that the other one coordinates are finished.
    pub below: Place,
}

/// The record of another MDT.
pub fn encode_peer(peer: &Peer) -> Vec<u8> {
    let Peer { under_way, below: Place { boot, number } } = *peer;
    let (crc, version, flags, zero) = (U32::ZERO, PEER_VERSION, u8::from(under_way), U16::ZERO);
    let raw = RawPeer { crc, version, flags, zero, boot: boot.into(), number: number.into() };
    let mut bytes = raw.as_bytes().to_vec();
    seal(&mut bytes);
    bytes
}

/// Reads it.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode_peer(bytes: &[u8]) -> Result<Peer, Damaged> {
    unseal(PEER, bytes)?;
    let raw = RawPeer::ref_from_bytes(bytes)
        .map_err(|_| Damaged::Short { record: PEER, found: bytes.len() })?;
    known(PEER, raw.version, PEER_VERSION)?;
    if raw.flags > 1 {
        return Err(Damaged::Field { record: PEER, field: "flags", found: raw.flags.into() });
    }
    Ok(Peer {
        under_way: raw.flags == 1,
        below: Place { boot: raw.boot.get(), number: raw.number.get() },
    })
}

/// The record of a bundle.
pub fn encode(kept: &Kept) -> Vec<u8> {
    let (kind, others, steps) = match kept {
        Kept::Applied { others, steps } => (APPLIED, &others[..], &steps[..]),
        Kept::Stopped => (STOPPED, &[][..], &[][..]),
    };
    let (crc, version) = (U32::ZERO, VERSION);
    let head = RawHead {
        crc,
        version,
        kind,
        others: (others.len() as u16).into(),
        steps: (steps.len() as u32).into(),
    };
    let mut bytes = head.as_bytes().to_vec();
    for (mdt, prepares) in others {
        let other = RawOther { mdt: mdt.0.into(), prepares: (*prepares).into(), zero: 0 };
        bytes.extend_from_slice(other.as_bytes());
    }
    steps.iter().for_each(|step| put_step(step, &mut bytes));
    seal(&mut bytes);
    bytes
}

fn put_step(step: &Step, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; size_of::<RawStep>()]);
    let sized = |bytes: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    let time = |time: &Timestamp, out: &mut Vec<u8>| {
        out.extend_from_slice(RawTime { sec: time.sec.into(), nsec: time.nsec.into() }.as_bytes());
    };
    let kind = match step {
        Step::Make { fid, record, xattrs } => {
            out.extend_from_slice(&fid.to_be_bytes());
            sized(record, out);
            for (name, value) in xattrs {
                sized(name, out);
                sized(value, out);
            }
            MAKE
        }
        Step::Remove { fid, time: at } => {
            out.extend_from_slice(&fid.to_be_bytes());
            time(at, out);
            REMOVE
        }
        Step::Enter { dir, name, fid, file_type, time: at } => {
            out.extend_from_slice(&dir.to_be_bytes());
            out.extend_from_slice(&fid.to_be_bytes());
            time(at, out);
            out.push(*file_type as u8);
            out.extend_from_slice(name.as_bytes());
            ENTER
        }
        Step::Leave { dir, name, file_type, time: at } => {
            out.extend_from_slice(&dir.to_be_bytes());
            time(at, out);
            out.push(*file_type as u8);
            out.extend_from_slice(name.as_bytes());
            LEAVE
        }
        Step::Drop { fid, dir, name, file_type, time: at }
        | Step::Link { fid, dir, name, file_type, time: at } => {
            out.extend_from_slice(&fid.to_be_bytes());
            out.extend_from_slice(&dir.to_be_bytes());
            time(at, out);
            out.push(*file_type as u8);
            out.extend_from_slice(name.as_bytes());
            if matches!(step, Step::Drop { .. }) { DROP } else { LINK }
        }
        Step::Move { fid, from: (old, old_name), to: (new, name), file_type, time: at } => {
            [fid, old, new].into_iter().for_each(|fid| out.extend_from_slice(&fid.to_be_bytes()));
            time(at, out);
            sized(old_name.as_bytes(), out);
            out.push(*file_type as u8);
            out.extend_from_slice(name.as_bytes());
            MOVE
        }
        Step::Change { fid, atime, mtime, record, xattrs } => {
            out.extend_from_slice(&fid.to_be_bytes());
            let times = if *atime { ATIME } else { 0 } | if *mtime { MTIME } else { 0 };
            out.extend_from_slice(&times.to_le_bytes());
            sized(record, out);
            for (name, value) in xattrs {
                sized(name, out);
                out.push(value.is_some().into());
                sized(value.as_deref().unwrap_or_default(), out);
            }
            CHANGE
        }
        Step::Restripe { fid, nlink, record } => {
            out.extend_from_slice(&fid.to_be_bytes());
            out.extend_from_slice(&nlink.to_le_bytes());
            out.extend_from_slice(record);
            RESTRIPE
        }
        Step::Give { dir, name, file_type } => {
            out.extend_from_slice(&dir.to_be_bytes());
            out.push(*file_type as u8);
            out.extend_from_slice(name.as_bytes());
            GIVE
        }
        Step::Take { dir, name, fid, file_type } => {
            out.extend_from_slice(&dir.to_be_bytes());
            out.extend_from_slice(&fid.to_be_bytes());
            out.push(*file_type as u8);
            out.extend_from_slice(name.as_bytes());
            TAKE
        }
        Step::Home { fid, from, to, name, file_type } => {
            [fid, from, to].into_iter().for_each(|fid| out.extend_from_slice(&fid.to_be_bytes()));
            out.push(*file_type as u8);
            out.extend_from_slice(name.as_bytes());
            HOME
        }
        Step::Objects { fid, named, chunks } => {
            [fid, named].into_iter().for_each(|fid| out.extend_from_slice(&fid.to_be_bytes()));
            for (n, bytes) in chunks {
                out.extend_from_slice(&n.to_le_bytes());
                sized(bytes, out);
            }
            OBJECTS
        }
        Step::Discard { fid } => {
            out.extend_from_slice(&fid.to_be_bytes());
            DISCARD
        }
        Step::Reply { client, slot, record } => {
            out.extend_from_slice(&client.0.to_be_bytes());
            out.extend_from_slice(&slot.to_le_bytes());
            out.extend_from_slice(record);
            REPLY
        }
    };
    let len = out.len() - at - size_of::<RawStep>();
    let head = RawStep { kind: kind.into(), zero: U16::ZERO, len: (len as u32).into() };
    out[at..at + size_of::<RawStep>()].copy_from_slice(head.as_bytes());
}

/// Reads it.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<Kept, Damaged> {
    unseal(RECORD, bytes)?;
    if bytes.len() > BUNDLE_BYTES_MAX {
        return Err(field("length", bytes.len() as u64));
    }
    let mut rest = Rest(bytes);
    let head: &RawHead = rest.get()?;
    known(RECORD, head.version, VERSION)?;
    let (others, steps) = (usize::from(head.others.get()), head.steps.get() as usize);
    match head.kind {
        APPLIED => {}
        STOPPED if others == 0 && steps == 0 => {
            return if rest.0.is_empty() { Ok(Kept::Stopped) } else { Err(rest.trailing()) };
        }
        kind => return Err(field("kind", kind.into())),
    }
    // Each takes its head at least: the promised counts are not trusted when memory is taken.
    let mut all = Vec::new();
    for _ in 0..others {
        let raw: &RawOther = rest.get()?;
        if raw.prepares > 1 {
            return Err(field("preparation", raw.prepares.into()));
        }
        all.push((TargetIndex(raw.mdt.get()), raw.prepares == 1));
    }
    let mut list = Vec::new();
    for _ in 0..steps {
        let raw: &RawStep = rest.get()?;
        let body = rest.take(raw.len.get() as usize)?;
        list.push(step(raw.kind.get(), Rest(body))?);
    }
    if !rest.0.is_empty() {
        return Err(rest.trailing());
    }
    Ok(Kept::Applied { others: all, steps: list })
}

fn step(kind: u16, mut rest: Rest<'_>) -> Result<Step, Damaged> {
    let step = match kind {
        MAKE => {
            let (fid, record) = (rest.fid()?, rest.sized()?.to_vec());
            inode::decode(fid, &record)?;
            let mut xattrs = Vec::new();
            while !rest.0.is_empty() {
                xattrs.push((rest.sized()?.to_vec(), rest.sized()?.to_vec()));
            }
            Step::Make { fid, record, xattrs }
        }
        REMOVE => Step::Remove { fid: rest.fid()?, time: rest.time()? },
        ENTER => {
            let (dir, fid, time) = (rest.fid()?, rest.fid()?, rest.time()?);
            let (file_type, name) = rest.name()?;
            Step::Enter { dir, name, fid, file_type, time }
        }
        LEAVE => {
            let (dir, time) = (rest.fid()?, rest.time()?);
            let (file_type, name) = rest.name()?;
            Step::Leave { dir, name, file_type, time }
        }
        DROP | LINK => {
            let (fid, dir, time) = (rest.fid()?, rest.fid()?, rest.time()?);
            let (file_type, name) = rest.name()?;
            match kind {
                DROP => Step::Drop { fid, dir, name, file_type, time },
                _ => Step::Link { fid, dir, name, file_type, time },
            }
        }
        MOVE => {
            let (fid, old, new, time) = (rest.fid()?, rest.fid()?, rest.fid()?, rest.time()?);
            let old_name = good_name(rest.sized()?)?;
            let (file_type, name) = rest.name()?;
            Step::Move { fid, from: (old, old_name), to: (new, name), file_type, time }
        }
        CHANGE => {
            let (fid, times) = (rest.fid()?, u32::from_le_bytes(rest.array()?));
            if times > (ATIME | MTIME) {
                return Err(field("times", times.into()));
            }
            let record = rest.sized()?.to_vec();
            inode::decode(fid, &record)?;
            let mut xattrs = Vec::new();
            while !rest.0.is_empty() {
                let (name, [set]) = (rest.sized()?.to_vec(), rest.array()?);
                let value = rest.sized()?.to_vec();
                match set {
                    0 if value.is_empty() => xattrs.push((name, None)),
                    1 => xattrs.push((name, Some(value))),
                    set => return Err(field("value of an xattr", set.into())),
                }
            }
            let (atime, mtime) = (times & ATIME != 0, times & MTIME != 0);
            Step::Change { fid, atime, mtime, record, xattrs }
        }
        RESTRIPE => {
            let (fid, nlink) = (rest.fid()?, i32::from_le_bytes(rest.array()?));
            let record = std::mem::take(&mut rest.0).to_vec();
            Step::Restripe { fid, nlink, record }
        }
        GIVE => {
            let dir = rest.fid()?;
            let (file_type, name) = rest.name()?;
            Step::Give { dir, name, file_type }
        }
        TAKE => {
            let (dir, fid) = (rest.fid()?, rest.fid()?);
            let (file_type, name) = rest.name()?;
            Step::Take { dir, name, fid, file_type }
        }
        HOME => {
            let (fid, from, to) = (rest.fid()?, rest.fid()?, rest.fid()?);
            let (file_type, name) = rest.name()?;
            Step::Home { fid, from, to, name, file_type }
        }
        OBJECTS => {
            let (fid, named, mut chunks) = (rest.fid()?, rest.fid()?, Vec::new());
            while !rest.0.is_empty() {
                chunks.push((u32::from_le_bytes(rest.array()?), rest.sized()?.to_vec()));
            }
            Step::Objects { fid, named, chunks }
        }
        DISCARD => Step::Discard { fid: rest.fid()? },
        REPLY => {
            let client = ClientUuid(u128::from_be_bytes(rest.array()?));
            let slot = u16::from_le_bytes(rest.array()?);
            let record = std::mem::take(&mut rest.0).to_vec();
            crate::session::decode_reply(&record)?;
            Step::Reply { client, slot, record }
        }
        kind => return Err(field("kind of a step", kind.into())),
    };
    if rest.0.is_empty() { Ok(step) } else { Err(rest.trailing()) }
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;
