//! The fixed structs of the wire, byte for byte, and the values they stand for. Sizes are in
//! `docs/formats.md`.

use super::error::DecodeError;
use crate::client::{Glimpse, Glimpsed};
use crate::mds::shared::Entry;
use crate::ost::punch::PunchKind;
use types::attr::{Attr, SetAttr, SetTime, Statfs};
use types::bundle::BundleId;
use types::credentials::{Ids, Squash};
use types::fid::Fid;
use types::lock::{Flock, FlockFlavor, FlockKind, InodeBits, LeaseMode};
use types::object::ObjectId;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};
use types::time::Timestamp;
use zerocopy::little_endian::{I64, U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

macro_rules! raw {
    ($($(#[$doc:meta])* $name:ident $size:literal { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
        #[repr(C)]
        pub(crate) struct $name { $(pub $field: $type),* }

        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

raw! {
    /// Before each operation and each result. `bytes` counts neither this header nor the padding
    /// behind.
    OpHeader 8 { number: U16, flags: U16, bytes: U32 }

    /// Name of a target; the file system name is padded with zeros.
    RawTarget 12 { fsname: [u8; 8], kind: u8, zero: u8, index: U16 }

    /// Head of a request; `groups` times u32 follow, padded to 8.
    RawRequest 64 {
        xid: U64, xid_known: U64, replay: U64, flags: U32, ops: U32,
        target: RawTarget, groups: U32, uid: U32, gid: U32, locks: U32, slot: U32,
    }

    /// Head of a reply; the results, then `grants` times [`RawLock`], padded, `touched` times
    /// [`RawEntry`], `redo` times [`RawRedo`] and `gaps` times (0 or 1) [`RawGap`] follow.
    RawReply 48 {
        xid: U64, transno: U64, last_committed: U64, results: U32, grants: U32, touched: U32, redo: U32, gaps: U32, zero: U32,
    }

    /// Names that a directory does not have. Both bounds follow: the first name, and the one behind
    /// the last (none: the range has no upper bound).
    RawGap 20 { fid: RawFid, start: U16, end: U16 }

    /// A change to be kept or done again; its bytes follow, padded to 8. `data_of`: the operation
    /// whose data belongs to it, from 1; 0: none.
    RawRedo 16 { transno: U64, bytes: U32, data_of: U32 }

    /// A lock: granted, revoked, kept or given up.
    RawLock 20 { fid: RawFid, bits: U32 }

    /// Head of a piece of a directory scan, in both directions; what follows it is `len` bytes.
    /// Flag 0 of a question: with layouts.
    RawDirScan 16 { position: U64, len: U32, flags: U32 }

    /// Bytes of a shared file, called back.
    RawExtent 32 { fid: RawFid, start: U64, end: U64 }

    /// What a writer says of a file; flag 0: size and time count, flag 1: it is idle.
    RawGlimpse 24 { size: U64, mtime: I64, mtime_nsec: U32, flags: U32 }

    /// Connect; the description follows.
    RawConnect 80 {
        version_min: U16, version_max: U16, zero: U32, boot: U64, cluster: U128, client: U128, proof: U128, server: U128,
    }

    /// Answer to Connect.
    RawConnected 40 { version: U16, standing: u8, zero: u8, session: U32, boot: U64, last_committed: U64, cluster: U128 }

    /// The ids as which callers act; 0 and 0: their own. Alone, or, with flag 0, behind the answer
    /// to Connect. With the next flag a [`RawKnown`] follows.
    RawSquash 24 { change: U64, root_uid: U32, root_gid: U32, others_uid: U32, others_gid: U32 }

    /// The users that the nodemap knows: as which ids the others act (with one more flag they are
    /// refused), and the number of [`RawUsers`] that follow.
    RawKnown 16 { uid: U32, gid: U32, spans: U32, zero: U32 }

    /// Users with consecutive ids: the first one, and how many follow it.
    RawUsers 8 { first: U32, more: U32 }

    RawFid 16 { seq: U64, oid: U32, ver: U32 }

    RawObject 24 { fid: RawFid, instance: U32, stripe: U32 }

    /// An object in a list.
    RawListed 40 { object: RawObject, size: U64, blocks: U64 }

    /// An inode as a client needs it; flag 0: has xattrs.
    RawEntry 112 {
        fid: RawFid, size: U64, blocks: U64, version: U64,
        atime: I64, mtime: I64, ctime: I64, btime: I64,
        atime_nsec: U32, mtime_nsec: U32, ctime_nsec: U32, btime_nsec: U32,
        mode: U32, uid: U32, gid: U32, nlink: U32, rdev: U32, flags: U32,
    }

    /// One directory entry; the name follows, with flag 0 a [`RawEntry`], with flag 1 a layout.
    RawDirEntry 20 { fid: RawFid, file_type: u8, flags: u8, name_len: U16 }

    /// Attributes to change; which ones, say the flags of the operation.
    RawSetAttr 48 {
        size: U64, atime: I64, mtime: I64, atime_nsec: U32, mtime_nsec: U32,
        mode: U32, uid: U32, gid: U32, zero: U32,
    }

    RawFlock 32 { flavor: u8, kind: u8, zero: U16, pid: U32, owner: U64, start: U64, end: U64 }

    RawStatfs 40 { bytes_total: U64, bytes_free: U64, bytes_available: U64, files_total: U64, files_free: U64 }

    /// Create; the name and, for a symbolic link, its target follow. Kind: 1 regular, 2 directory,
    /// 3 symbolic link, 4 special, then with `file_type` and `rdev`. With flag 7 `mdt` gets the
    /// inode of the directory.
    RawCreate 32 { parent: RawFid, mode: U32, umask: U32, rdev: U32, kind: u8, file_type: u8, mdt: U16 }

    /// Name of an operation over several MDTs.
    RawBundleId 20 { coordinator: U16, zero: U16, boot: U64, number: U64 }

    /// Answer Remote.
    RawRemote 20 { fid: RawFid, file_type: u8, zero: [u8; 3] }

    /// Tmpfile.
    RawTmpfile 24 { parent: RawFid, mode: U32, umask: U32 }

    /// Readdir; with flag 1 the name to go on after follows.
    RawReaddir 24 { fid: RawFid, limit: U32, bytes_max: U32 }

    RawGetLayout 32 { fid: RawFid, start: U64, end: U64 }

    /// SwapLayouts; flag 0: the contents are the same.
    RawSwap 48 { fid: RawFid, other: RawFid, version: U64, other_version: U64 }

    /// Wrote; flag 1: at `time`, flag 2: the times were told before.
    RawWrote 48 { fid: RawFid, end: U64, blocks_delta: I64, time: I64, nsec: U32, zero: U32 }

    /// Write of bytes on the MDT, whose length follows; flags as of Wrote.
    RawStore 40 { fid: RawFid, offset: U64, time: I64, nsec: U32, zero: U32 }

    /// Store of ranges of bytes on the MDT, which follow: offset, length; flags as of Wrote.
    RawStoreMany 32 { fid: RawFid, time: I64, nsec: U32, count: U32 }

    /// Punch of bytes on the MDT; flag 0: set-id bits go, flag 1: the file grows.
    RawPunchFile 40 { fid: RawFid, start: U64, end: U64, kind: u8, zero: [u8; 7] }

    /// What stands before the clients that an MDT has evicted.
    RawFence 20 { boot: U64, number: U64, mdt: U32 }

    /// A ticket for the objects of a file.
    RawTicket 48 { fid: RawFid, mac: U128, expires: U64, epoch: U32, rights: u8, zero: [u8; 3] }

    RawPunch 48 { object: RawObject, start: U64, end: U64, kind: u8, zero: [u8; 7] }
}

impl RawSquash {
    pub(crate) fn new(change: u64, squash: Squash) -> RawSquash {
        let ids = |ids: Option<Ids>| ids.map_or((0, 0), |Ids { uid, gid }| (uid, gid));
        let ((root_uid, root_gid), (others_uid, others_gid)) =
            (ids(squash.root), ids(squash.others));
        RawSquash {
            change: change.into(),
            root_uid: root_uid.into(),
            root_gid: root_gid.into(),
            others_uid: others_uid.into(),
            others_gid: others_gid.into(),
        }
    }

    pub(crate) fn decode(&self) -> Result<(u64, Squash), DecodeError> {
        let ids = |uid: U32, gid: U32| match (uid.get(), gid.get()) {
            (0, 0) => Ok(None),
            (0, other) | (other, 0) => {
                Err(DecodeError::Field { field: "squash", value: other.into() })
            }
            (uid, gid) => Ok(Some(Ids { uid, gid })),
        };
        let squash = Squash {
            root: ids(self.root_uid, self.root_gid)?,
            others: ids(self.others_uid, self.others_gid)?,
        };
        Ok((self.change.get(), squash))
    }
}

impl From<BundleId> for RawBundleId {
    fn from(id: BundleId) -> RawBundleId {
        let BundleId { coordinator, boot, number } = id;
        RawBundleId {
            coordinator: coordinator.0.into(),
            zero: U16::ZERO,
            boot: boot.into(),
            number: number.into(),
        }
    }
}

impl From<&RawBundleId> for BundleId {
    fn from(raw: &RawBundleId) -> BundleId {
        BundleId {
            coordinator: TargetIndex(raw.coordinator.get()),
            boot: raw.boot.get(),
            number: raw.number.get(),
        }
    }
}

impl From<Fid> for RawFid {
    fn from(fid: Fid) -> RawFid {
        RawFid { seq: fid.seq.into(), oid: fid.oid.into(), ver: fid.ver.into() }
    }
}

impl From<&RawFid> for Fid {
    fn from(raw: &RawFid) -> Fid {
        Fid { seq: raw.seq.get(), oid: raw.oid.get(), ver: raw.ver.get() }
    }
}

impl From<(Fid, InodeBits)> for RawLock {
    fn from((fid, bits): (Fid, InodeBits)) -> RawLock {
        RawLock { fid: fid.into(), bits: bits.bits().into() }
    }
}

impl From<&RawLock> for (Fid, InodeBits) {
    fn from(raw: &RawLock) -> (Fid, InodeBits) {
        ((&raw.fid).into(), InodeBits::from_bits_retain(raw.bits.get()))
    }
}

impl From<Glimpsed> for RawGlimpse {
    fn from(glimpsed: Glimpsed) -> RawGlimpse {
        let (Glimpse { size, mtime }, flags) = match glimpsed {
            Glimpsed::Reported => (Glimpse { size: 0, mtime: Timestamp::default() }, 0),
            Glimpsed::Dirty(glimpse) => (glimpse, 1),
            Glimpsed::Idle => (Glimpse { size: 0, mtime: Timestamp::default() }, 2),
        };
        RawGlimpse {
            size: size.into(),
            mtime: mtime.sec.into(),
            mtime_nsec: mtime.nsec.into(),
            flags: flags.into(),
        }
    }
}

impl RawGlimpse {
    pub fn decode(&self) -> Result<Glimpsed, DecodeError> {
        let glimpse = Glimpse { size: self.size.get(), mtime: time(self.mtime, self.mtime_nsec)? };
        match self.flags.get() {
            0 => Ok(Glimpsed::Reported),
            1 => Ok(Glimpsed::Dirty(glimpse)),
            2 => Ok(Glimpsed::Idle),
            other => Err(DecodeError::Field { field: "glimpse flags", value: other.into() }),
        }
    }
}

impl From<ObjectId> for RawObject {
    fn from(object: ObjectId) -> RawObject {
        RawObject {
            fid: object.fid.into(),
            instance: object.instance.into(),
            stripe: object.stripe.into(),
        }
    }
}

impl From<&RawObject> for ObjectId {
    fn from(raw: &RawObject) -> ObjectId {
        ObjectId { fid: (&raw.fid).into(), instance: raw.instance.get(), stripe: raw.stripe.get() }
    }
}

impl From<TargetName> for RawTarget {
    fn from(target: TargetName) -> RawTarget {
        let mut fsname = [0; 8];
        let text = target.fsname.as_str().as_bytes();
        fsname[..text.len()].copy_from_slice(text);
        RawTarget { fsname, kind: target.kind as u8, zero: 0, index: target.index.0.into() }
    }
}

impl RawTarget {
    pub fn decode(&self) -> Result<TargetName, DecodeError> {
        let len = self.fsname.iter().position(|b| *b == 0).unwrap_or(self.fsname.len());
        let fsname = std::str::from_utf8(&self.fsname[..len])
            .ok()
            .and_then(|text| text.parse::<FsName>().ok());
        Ok(TargetName {
            fsname: fsname.ok_or(DecodeError::Text { field: "file system name" })?,
            kind: TargetKind::from_u8(self.kind)
                .ok_or(DecodeError::Field { field: "target kind", value: self.kind.into() })?,
            index: TargetIndex(self.index.get()),
        })
    }
}

pub(crate) fn time(sec: I64, nsec: U32) -> Result<Timestamp, DecodeError> {
    match nsec.get() {
        nsec @ 0..1_000_000_000 => Ok(Timestamp { sec: sec.get(), nsec }),
        nsec => Err(DecodeError::Field { field: "nanoseconds", value: nsec.into() }),
    }
}

impl From<&Entry> for RawEntry {
    fn from(entry: &Entry) -> RawEntry {
        let a = &entry.attr;
        RawEntry {
            fid: a.fid.into(),
            size: a.size.into(),
            blocks: a.blocks.into(),
            version: a.version.into(),
            atime: a.atime.sec.into(),
            mtime: a.mtime.sec.into(),
            ctime: a.ctime.sec.into(),
            btime: a.btime.sec.into(),
            atime_nsec: a.atime.nsec.into(),
            mtime_nsec: a.mtime.nsec.into(),
            ctime_nsec: a.ctime.nsec.into(),
            btime_nsec: a.btime.nsec.into(),
            mode: a.mode.into(),
            uid: a.uid.into(),
            gid: a.gid.into(),
            nlink: a.nlink.into(),
            rdev: a.rdev.into(),
            flags: (u32::from(entry.has_xattr)
                | u32::from(entry.noatime) << 1
                | entry.striped << 2)
                .into(),
        }
    }
}

impl RawEntry {
    pub fn decode(&self) -> Result<Entry, DecodeError> {
        let flags = self.flags.get();
        let (has_xattr, noatime, striped) = (flags & 1 != 0, flags & 2 != 0, flags >> 2);
        let attr = Attr {
            fid: (&self.fid).into(),
            mode: self.mode.get(),
            uid: self.uid.get(),
            gid: self.gid.get(),
            nlink: self.nlink.get(),
            rdev: self.rdev.get(),
            size: self.size.get(),
            blocks: self.blocks.get(),
            atime: time(self.atime, self.atime_nsec)?,
            mtime: time(self.mtime, self.mtime_nsec)?,
            ctime: time(self.ctime, self.ctime_nsec)?,
            btime: time(self.btime, self.btime_nsec)?,
            version: self.version.get(),
        };
        Ok(Entry { attr, has_xattr, noatime, striped })
    }
}

/// Which attributes a [`SetAttr`] changes, as flags of its operation.
pub(crate) fn set_attr_flags(set: &SetAttr) -> [bool; 9] {
    let now = |t: Option<SetTime>| t == Some(SetTime::Now);
    [
        set.mode.is_some(),
        set.uid.is_some(),
        set.gid.is_some(),
        set.size.is_some(),
        set.atime.is_some(),
        now(set.atime),
        set.mtime.is_some(),
        now(set.mtime),
        set.kill_suidgid,
    ]
}

impl From<&SetAttr> for RawSetAttr {
    fn from(set: &SetAttr) -> RawSetAttr {
        let time = |t: Option<SetTime>| match t {
            Some(SetTime::At(t)) => (I64::new(t.sec), U32::new(t.nsec)),
            Some(SetTime::Now) | None => (I64::ZERO, U32::ZERO),
        };
        let ((atime, atime_nsec), (mtime, mtime_nsec)) = (time(set.atime), time(set.mtime));
        RawSetAttr {
            size: set.size.unwrap_or(0).into(),
            atime,
            mtime,
            atime_nsec,
            mtime_nsec,
            mode: set.mode.unwrap_or(0).into(),
            uid: set.uid.unwrap_or(0).into(),
            gid: set.gid.unwrap_or(0).into(),
            zero: 0.into(),
        }
    }
}

impl RawSetAttr {
    pub fn decode(&self, flags: [bool; 9]) -> Result<SetAttr, DecodeError> {
        let [mode, uid, gid, size, atime, atime_now, mtime, mtime_now, kill_suidgid] = flags;
        let set_time = |set, now, sec, nsec| match (set, now) {
            (false, false) => Ok(None),
            (true, true) => Ok(Some(SetTime::Now)),
            (true, false) => time(sec, nsec).map(|t| Some(SetTime::At(t))),
            (false, true) => Err(DecodeError::Field { field: "time flags", value: 2 }),
        };
        Ok(SetAttr {
            mode: mode.then_some(self.mode.get()),
            uid: uid.then_some(self.uid.get()),
            gid: gid.then_some(self.gid.get()),
            size: size.then_some(self.size.get()),
            atime: set_time(atime, atime_now, self.atime, self.atime_nsec)?,
            mtime: set_time(mtime, mtime_now, self.mtime, self.mtime_nsec)?,
            kill_suidgid,
        })
    }
}

/// The mode of a lease.
pub(crate) fn lease_mode(number: u32) -> Result<LeaseMode, DecodeError> {
    let mode = u8::try_from(number).ok().and_then(LeaseMode::from_number);
    mode.ok_or(DecodeError::Field { field: "lease", value: number.into() })
}

impl From<&Flock> for RawFlock {
    fn from(lock: &Flock) -> RawFlock {
        RawFlock {
            flavor: lock.flavor as u8,
            kind: lock.kind as u8,
            zero: 0.into(),
            pid: lock.pid.into(),
            owner: lock.owner.into(),
            start: lock.start.into(),
            end: lock.end.into(),
        }
    }
}

impl RawFlock {
    pub fn decode(&self) -> Result<Flock, DecodeError> {
        let flavor = match self.flavor {
            0 => FlockFlavor::Posix,
            1 => FlockFlavor::Bsd,
            2 => FlockFlavor::Group,
            other => return Err(DecodeError::Field { field: "lock flavour", value: other.into() }),
        };
        let kind = match self.kind {
            0 => FlockKind::Read,
            1 => FlockKind::Write,
            2 => FlockKind::Unlock,
            other => return Err(DecodeError::Field { field: "lock kind", value: other.into() }),
        };
        let (start, end) = (self.start.get(), self.end.get());
        Ok(Flock { flavor, kind, owner: self.owner.get(), pid: self.pid.get(), start, end })
    }
}

impl From<&Statfs> for RawStatfs {
    fn from(s: &Statfs) -> RawStatfs {
        RawStatfs {
            bytes_total: s.bytes_total.into(),
            bytes_free: s.bytes_free.into(),
            bytes_available: s.bytes_available.into(),
            files_total: s.files_total.into(),
            files_free: s.files_free.into(),
        }
    }
}

impl From<&RawStatfs> for Statfs {
    fn from(raw: &RawStatfs) -> Statfs {
        Statfs {
            bytes_total: raw.bytes_total.get(),
            bytes_free: raw.bytes_free.get(),
            bytes_available: raw.bytes_available.get(),
            files_total: raw.files_total.get(),
            files_free: raw.files_free.get(),
        }
    }
}

/// What to do to a range.
pub(crate) fn punch_kind(kind: u8) -> Result<PunchKind, DecodeError> {
    Ok(match kind {
        0 => PunchKind::Truncate,
        1 => PunchKind::Hole,
        2 => PunchKind::Zero,
        3 => PunchKind::Allocate,
        other => return Err(DecodeError::Field { field: "punch kind", value: other.into() }),
    })
}
