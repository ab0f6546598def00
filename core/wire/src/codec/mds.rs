//! Operations of a metadata target.

use super::client::{locks, put_locks};
use super::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use super::error::DecodeError;
use super::ost::punch_kind;
use super::raw::{
    self, RawCreate, RawFid, RawFlock, RawGetLayout, RawLock, RawPunchFile, RawReaddir, RawSetAttr, RawStore, RawSwap,
    RawTmpfile, RawWrote, set_attr_flags,
};
use super::records::{KEY_BYTES, put_records, records};
use crate::mds::{CreateKind, LeaseAct, MdsOp, OpenFlags, RenameFlags, SetxattrFlags};
use crate::opcode;
use bytes::Bytes;
use types::attr::{FileType, WrittenAt};
use types::fid::Fid;
use types::limits::{
    READDIR_ENTRIES_MAX, RECORD_KEY_BYTES_MAX, RECORDS_PER_MEND_MAX, SYMLINK_BYTES_MAX, XATTR_NAME_BYTES_MAX,
    XATTR_VALUE_BYTES_MAX,
};
use types::name::Name;
use types::ranges::{ByteRange, Needs};
use types::session::OpenHandle;
use types::time::Timestamp;
use zerocopy::little_endian::{I64, U32, U64};

fn put_fid(fid: Fid, w: &mut Writer) {
    w.put(&RawFid::from(fid));
}

fn put_entry(parent: Fid, name: &Name, w: &mut Writer) {
    put_fid(parent, w);
    w.name(name);
}

fn put_xattr(fid: Fid, name: &Bytes, w: &mut Writer) {
    put_fid(fid, w);
    w.bytes(name);
}

/// Only an inode.
fn put_plain(number: u16, fid: Fid, w: &mut Writer) {
    w.op(number, 0, |w| put_fid(fid, w));
}

pub(super) fn encode(op: &MdsOp, w: &mut Writer) {
    match op {
        MdsOp::Lookup { parent, name } => w.op(opcode::MDS_LOOKUP, 0, |w| put_entry(*parent, name, w)),
        MdsOp::GetParent { fid } => put_plain(opcode::MDS_GET_PARENT, *fid, w),
        MdsOp::Getattr { fid } => put_plain(opcode::MDS_GETATTR, *fid, w),
        MdsOp::GetattrMany { fids } => w.op(opcode::MDS_GETATTR_MANY, 0, |w| {
            w.put(&len32(fids.len()));
            fids.iter().for_each(|fid| put_fid(*fid, w));
        }),
        MdsOp::Setattr { fid, set } => w.op(opcode::MDS_SETATTR, bits(set_attr_flags(set)), |w| {
            put_fid(*fid, w);
            w.put(&RawSetAttr::from(set));
        }),
        MdsOp::Create { parent, name, kind, mode, umask, exclusive } => {
            encode_create(*parent, name, kind, *mode, *umask, *exclusive, w);
        }
        MdsOp::Tmpfile { parent, mode, umask, flags, linkable } => {
            let OpenFlags { read, write, exec, append, lasting } = *flags;
            w.op(opcode::MDS_TMPFILE, bits([read, write, exec, append, lasting, *linkable]), |w| {
                w.put(&RawTmpfile { parent: (*parent).into(), mode: (*mode).into(), umask: (*umask).into() });
            });
        }
        MdsOp::Open { fid, flags: OpenFlags { read, write, exec, append, lasting } } => {
            w.op(opcode::MDS_OPEN, bits([*read, *write, *exec, *append, *lasting]), |w| put_fid(*fid, w));
        }
        MdsOp::Close { fid, handle } => w.op(opcode::MDS_CLOSE, 0, |w| {
            put_fid(*fid, w);
            w.put(&U64::new(handle.0));
        }),
        MdsOp::Accessed { fid, at, strict } => w.op(opcode::MDS_ACCESSED, bits([*strict]), |w| {
            put_fid(*fid, w);
            w.put(&I64::new(at.sec));
            w.put(&U64::new(at.nsec.into()));
        }),
        MdsOp::Unlink { parent, name } => w.op(opcode::MDS_UNLINK, 0, |w| put_entry(*parent, name, w)),
        MdsOp::Rmdir { parent, name } => w.op(opcode::MDS_RMDIR, 0, |w| put_entry(*parent, name, w)),
        MdsOp::Rename { parent, name, new_parent, new_name, flags: RenameFlags { no_replace, exchange } } => {
            w.op(opcode::MDS_RENAME, bits([*no_replace, *exchange]), |w| {
                put_entry(*parent, name, w);
                put_entry(*new_parent, new_name, w);
            });
        }
        MdsOp::Link { fid, new_parent, new_name } => w.op(opcode::MDS_LINK, 0, |w| {
            put_fid(*fid, w);
            put_entry(*new_parent, new_name, w);
        }),
        MdsOp::Readdir { fid, after, limit, bytes_max, with_attr, with_layout } => {
            w.op(opcode::MDS_READDIR, bits([*with_attr, after.is_some(), *with_layout]), |w| {
                let (limit, bytes_max) = ((*limit).into(), (*bytes_max).into());
                w.put(&RawReaddir { fid: (*fid).into(), limit, bytes_max });
                after.iter().for_each(|name| w.name(name));
            });
        }
        MdsOp::Readlink { fid } => put_plain(opcode::MDS_READLINK, *fid, w),
        MdsOp::Getxattr { fid, name } => w.op(opcode::MDS_GETXATTR, 0, |w| put_xattr(*fid, name, w)),
        MdsOp::Listxattr { fid } => put_plain(opcode::MDS_LISTXATTR, *fid, w),
        MdsOp::Setxattr { fid, name, value, flags: SetxattrFlags { create, replace, kill_sgid } } => {
            w.op(opcode::MDS_SETXATTR, bits([*create, *replace, *kill_sgid]), |w| {
                put_xattr(*fid, name, w);
                w.bytes(value);
            });
        }
        MdsOp::Removexattr { fid, name } => w.op(opcode::MDS_REMOVEXATTR, 0, |w| put_xattr(*fid, name, w)),
        MdsOp::GetLayout { fid, write, start, end } => w.op(opcode::MDS_GET_LAYOUT, bits([*write]), |w| {
            w.put(&RawGetLayout { fid: (*fid).into(), start: (*start).into(), end: (*end).into() });
        }),
        MdsOp::SwapLayouts { fid, other, versions: (version, other_version), same } => {
            w.op(opcode::MDS_SWAP_LAYOUTS, bits([*same]), |w| {
                let (version, other_version) = ((*version).into(), (*other_version).into());
                w.put(&RawSwap { fid: (*fid).into(), other: (*other).into(), version, other_version });
            });
        }
        MdsOp::Wrote { fid, end, blocks_delta, at, kill_suidgid } => {
            w.op(opcode::MDS_WROTE, written_flags(*kill_suidgid, *at), |w| {
                let (end, blocks_delta) = ((*end).into(), (*blocks_delta).into());
                let Timestamp { sec, nsec } = time_of(*at);
                let (time, nsec, zero) = (sec.into(), nsec.into(), 0.into());
                w.put(&RawWrote { fid: (*fid).into(), end, blocks_delta, time, nsec, zero });
            });
        }
        MdsOp::Append { fid, len, kill_suidgid } => w.op(opcode::MDS_APPEND, bits([*kill_suidgid]), |w| {
            put_fid(*fid, w);
            w.put(&U64::new(*len));
        }),
        MdsOp::Read { fid, offset, len } => w.op(opcode::MDS_READ, 0, |w| {
            put_fid(*fid, w);
            w.put(&U64::new(*offset));
            w.put(&U32::new(*len));
        }),
        MdsOp::Write { fid, offset, data, at, kill_suidgid } => {
            w.op(opcode::MDS_WRITE, written_flags(*kill_suidgid, *at), |w| {
                let Timestamp { sec, nsec } = time_of(*at);
                let (time, nsec, zero) = (sec.into(), nsec.into(), 0.into());
                w.put(&RawStore { fid: (*fid).into(), offset: (*offset).into(), time, nsec, zero });
                w.bulk(data);
            });
        }
        MdsOp::Punch { fid, start, end, kind, grows, kill_suidgid } => {
            w.op(opcode::MDS_PUNCH, bits([*kill_suidgid, *grows]), |w| {
                let (start, end) = ((*start).into(), (*end).into());
                w.put(&RawPunchFile { fid: (*fid).into(), start, end, kind: *kind as u8, zero: [0; 7] });
            });
        }
        MdsOp::Seek { fid, offset, hole } => w.op(opcode::MDS_SEEK, bits([*hole]), |w| {
            put_fid(*fid, w);
            w.put(&U64::new(*offset));
        }),
        MdsOp::Statfs => w.op(opcode::MDS_STATFS, 0, |_| ()),
        MdsOp::Sync => w.op(opcode::MDS_SYNC, 0, |_| ()),
        MdsOp::FlockTest { fid, lock } => w.op(opcode::MDS_FLOCK_TEST, 0, |w| {
            put_fid(*fid, w);
            w.put(&RawFlock::from(lock));
        }),
        MdsOp::FlockSet { fid, lock, wait } => w.op(opcode::MDS_FLOCK_SET, bits([*wait]), |w| {
            put_fid(*fid, w);
            w.put(&RawFlock::from(lock));
        }),
        MdsOp::FlockCancel { fid, lock } => w.op(opcode::MDS_FLOCK_CANCEL, 0, |w| {
            put_fid(*fid, w);
            w.put(&RawFlock::from(lock));
        }),
        MdsOp::Lock { fid, bits: wanted, needs } => {
            let again = needs.is_some_and(|needs| needs.again);
            w.op(opcode::MDS_LOCK, bits([needs.is_some(), again]), |w| {
                w.put(&RawLock::from((*fid, *wanted)));
                if let Some(Needs { range, .. }) = needs {
                    w.put(&U64::new(range.start));
                    w.put(&U64::new(range.end));
                }
            });
        }
        MdsOp::Unlock { locks } => w.op(opcode::MDS_UNLOCK, 0, |w| put_locks(locks, w)),
        MdsOp::Lease { fid, owner, act } => w.op(opcode::MDS_LEASE, 0, |w| {
            put_fid(*fid, w);
            w.put(&U64::new(*owner));
            w.put(&U32::new(lease_act_number(*act)));
        }),
        MdsOp::Scan { start, end, bytes_max } => w.op(opcode::MDS_SCAN, 0, |w| {
            w.put(&U32::new(*bytes_max));
            w.bytes(start);
            w.bytes(end);
        }),
        MdsOp::Mend { expect, put } => w.op(opcode::MDS_MEND, 0, |w| {
            put_records(expect, w);
            put_records(put, w);
        }),
    }
}

const LEASE_CHECK: u32 = 0;
/// As Lustre's `LL_LEASE_UNLCK`; the modes have their own numbers.
const LEASE_RELEASE: u32 = 4;

const fn lease_act_number(act: LeaseAct) -> u32 {
    match act {
        LeaseAct::Check => LEASE_CHECK,
        LeaseAct::Acquire(mode) => mode as u32,
        LeaseAct::Release => LEASE_RELEASE,
    }
}

fn lease_act(number: u32) -> Result<LeaseAct, DecodeError> {
    match number {
        LEASE_CHECK => Ok(LeaseAct::Check),
        LEASE_RELEASE => Ok(LeaseAct::Release),
        mode => Ok(LeaseAct::Acquire(raw::lease_mode(mode)?)),
    }
}

fn written_flags(kill_suidgid: bool, at: WrittenAt) -> u16 {
    bits([kill_suidgid, matches!(at, WrittenAt::At(_)), at == WrittenAt::Told])
}

fn time_of(at: WrittenAt) -> Timestamp {
    if let WrittenAt::At(time) = at { time } else { Timestamp::default() }
}

/// Whether set-id bits go, and when it was written.
fn written(flags: u16, time: I64, nsec: U32) -> Result<(bool, WrittenAt), DecodeError> {
    let [kill_suidgid, timed, told] = unpack(FLAGS, flags)?;
    let at = match (timed, told) {
        (false, false) => WrittenAt::Now,
        (false, true) => WrittenAt::Told,
        (true, false) => WrittenAt::At(raw::time(time, nsec)?),
        (true, true) => return Err(DecodeError::Field { field: FLAGS, value: flags.into() }),
    };
    Ok((kill_suidgid, at))
}

const FLAGS: &str = "MDS operation flags";

const KIND_REGULAR: u8 = 1;
const KIND_DIRECTORY: u8 = 2;
const KIND_SYMLINK: u8 = 3;
const KIND_SPECIAL: u8 = 4;

fn encode_create(parent: Fid, name: &Name, kind: &CreateKind, mode: u32, umask: u32, exclusive: bool, w: &mut Writer) {
    let (number, file_type, rdev) = match kind {
        CreateKind::Regular(_) => (KIND_REGULAR, 0, 0),
        CreateKind::Directory => (KIND_DIRECTORY, 0, 0),
        CreateKind::Symlink(_) => (KIND_SYMLINK, 0, 0),
        CreateKind::Special(file_type, rdev) => (KIND_SPECIAL, *file_type as u8, *rdev),
    };
    let open = if let CreateKind::Regular(open) = kind { *open } else { None };
    let OpenFlags { read, write, exec, append, lasting } = open.unwrap_or_default();
    w.op(opcode::MDS_CREATE, bits([exclusive, open.is_some(), read, write, exec, append, lasting]), |w| {
        w.put(&RawCreate {
            parent: parent.into(),
            mode: mode.into(),
            umask: umask.into(),
            rdev: rdev.into(),
            kind: number,
            file_type,
            zero: 0.into(),
        });
        w.name(name);
        if let CreateKind::Symlink(target) = kind {
            w.bytes(target);
        }
    });
}

fn decode_create(flags: u16, r: &mut Reader<'_>) -> Result<MdsOp, DecodeError> {
    let [exclusive, opened, read, write, exec, append, lasting] = unpack("create flags", flags)?;
    let raw: &RawCreate = r.get()?;
    let name = r.name()?;
    let open = opened.then_some(OpenFlags { read, write, exec, append, lasting });
    if open.is_none() && (read || write || exec || append || lasting) || open.is_some() && raw.kind != KIND_REGULAR {
        return Err(DecodeError::Field { field: "create flags", value: flags.into() });
    }
    let kind = match raw.kind {
        KIND_REGULAR => CreateKind::Regular(open),
        KIND_DIRECTORY => CreateKind::Directory,
        KIND_SYMLINK => CreateKind::Symlink(r.copied("bytes of link target", SYMLINK_BYTES_MAX)?),
        KIND_SPECIAL => match FileType::from_dtype(raw.file_type) {
            Some(t @ (FileType::Fifo | FileType::CharDevice | FileType::BlockDevice | FileType::Socket)) => {
                CreateKind::Special(t, raw.rdev.get())
            }
            _ => return Err(DecodeError::Field { field: "special file type", value: raw.file_type.into() }),
        },
        other => return Err(DecodeError::Field { field: "create kind", value: other.into() }),
    };
    let (mode, umask) = (raw.mode.get(), raw.umask.get());
    Ok(MdsOp::Create { parent: (&raw.parent).into(), name, kind, mode, umask, exclusive })
}

const HAVE_FLAGS: [u16; 17] = [
    opcode::MDS_ACCESSED,
    opcode::MDS_TMPFILE,
    opcode::MDS_SETATTR,
    opcode::MDS_CREATE,
    opcode::MDS_OPEN,
    opcode::MDS_RENAME,
    opcode::MDS_READDIR,
    opcode::MDS_SETXATTR,
    opcode::MDS_GET_LAYOUT,
    opcode::MDS_WROTE,
    opcode::MDS_SWAP_LAYOUTS,
    opcode::MDS_APPEND,
    opcode::MDS_WRITE,
    opcode::MDS_PUNCH,
    opcode::MDS_SEEK,
    opcode::MDS_FLOCK_SET,
    opcode::MDS_LOCK,
];

pub(super) fn decode(number: u16, flags: u16, r: &mut Reader<'_>, bulk: &mut Bulk) -> Result<MdsOp, DecodeError> {
    if !HAVE_FLAGS.contains(&number) {
        let [] = unpack(FLAGS, flags)?;
    }
    let fid = |r: &mut Reader<'_>| r.get::<RawFid>().map(Fid::from);
    let number64 = |r: &mut Reader<'_>| r.get::<U64>().map(|n| n.get());
    let flock = |r: &mut Reader<'_>| r.get::<RawFlock>()?.decode();
    let xattr_name = |r: &mut Reader<'_>| r.copied("bytes of xattr name", XATTR_NAME_BYTES_MAX);
    Ok(match number {
        opcode::MDS_LOOKUP => MdsOp::Lookup { parent: fid(r)?, name: r.name()? },
        opcode::MDS_GET_PARENT => MdsOp::GetParent { fid: fid(r)? },
        opcode::MDS_GETATTR => MdsOp::Getattr { fid: fid(r)? },
        opcode::MDS_GETATTR_MANY => {
            let n = count(*r.get()?, "inodes", READDIR_ENTRIES_MAX)?;
            MdsOp::GetattrMany { fids: r.slice_of::<RawFid>(n)?.iter().map(Fid::from).collect() }
        }
        opcode::MDS_SETATTR => {
            MdsOp::Setattr { fid: fid(r)?, set: r.get::<RawSetAttr>()?.decode(unpack(FLAGS, flags)?)? }
        }
        opcode::MDS_CREATE => decode_create(flags, r)?,
        opcode::MDS_OPEN => {
            let [read, write, exec, append, lasting] = unpack(FLAGS, flags)?;
            MdsOp::Open { fid: fid(r)?, flags: OpenFlags { read, write, exec, append, lasting } }
        }
        opcode::MDS_TMPFILE => {
            let [read, write, exec, append, lasting, linkable] = unpack(FLAGS, flags)?;
            let raw: &RawTmpfile = r.get()?;
            let flags = OpenFlags { read, write, exec, append, lasting };
            let (mode, umask) = (raw.mode.get(), raw.umask.get());
            MdsOp::Tmpfile { parent: (&raw.parent).into(), mode, umask, flags, linkable }
        }
        opcode::MDS_CLOSE => MdsOp::Close { fid: fid(r)?, handle: OpenHandle(number64(r)?) },
        opcode::MDS_UNLINK => MdsOp::Unlink { parent: fid(r)?, name: r.name()? },
        opcode::MDS_RMDIR => MdsOp::Rmdir { parent: fid(r)?, name: r.name()? },
        opcode::MDS_RENAME => {
            let [no_replace, exchange] = unpack(FLAGS, flags)?;
            let (parent, name, new_parent, new_name) = (fid(r)?, r.name()?, fid(r)?, r.name()?);
            MdsOp::Rename { parent, name, new_parent, new_name, flags: RenameFlags { no_replace, exchange } }
        }
        opcode::MDS_LINK => MdsOp::Link { fid: fid(r)?, new_parent: fid(r)?, new_name: r.name()? },
        opcode::MDS_READDIR => {
            let [with_attr, goes_on, with_layout] = unpack(FLAGS, flags)?;
            let raw: &RawReaddir = r.get()?;
            let after = if goes_on { Some(r.name()?) } else { None };
            let (limit, bytes_max) = (raw.limit.get(), raw.bytes_max.get());
            MdsOp::Readdir { fid: (&raw.fid).into(), after, limit, bytes_max, with_attr, with_layout }
        }
        opcode::MDS_READLINK => MdsOp::Readlink { fid: fid(r)? },
        opcode::MDS_GETXATTR => MdsOp::Getxattr { fid: fid(r)?, name: xattr_name(r)? },
        opcode::MDS_LISTXATTR => MdsOp::Listxattr { fid: fid(r)? },
        opcode::MDS_SETXATTR => {
            let [create, replace, kill_sgid] = unpack(FLAGS, flags)?;
            let (fid, name) = (fid(r)?, xattr_name(r)?);
            let value = r.copied("bytes of xattr value", XATTR_VALUE_BYTES_MAX)?;
            MdsOp::Setxattr { fid, name, value, flags: SetxattrFlags { create, replace, kill_sgid } }
        }
        opcode::MDS_REMOVEXATTR => MdsOp::Removexattr { fid: fid(r)?, name: xattr_name(r)? },
        opcode::MDS_GET_LAYOUT => {
            let [write] = unpack(FLAGS, flags)?;
            let raw: &RawGetLayout = r.get()?;
            MdsOp::GetLayout { fid: (&raw.fid).into(), write, start: raw.start.get(), end: raw.end.get() }
        }
        opcode::MDS_SWAP_LAYOUTS => {
            let [same] = unpack(FLAGS, flags)?;
            let raw: &RawSwap = r.get()?;
            let versions = (raw.version.get(), raw.other_version.get());
            MdsOp::SwapLayouts { fid: (&raw.fid).into(), other: (&raw.other).into(), versions, same }
        }
        opcode::MDS_WROTE => {
            let raw: &RawWrote = r.get()?;
            let (end, blocks_delta) = (raw.end.get(), raw.blocks_delta.get());
            let (kill_suidgid, at) = written(flags, raw.time, raw.nsec)?;
            MdsOp::Wrote { fid: (&raw.fid).into(), end, blocks_delta, at, kill_suidgid }
        }
        opcode::MDS_APPEND => {
            let [kill_suidgid] = unpack(FLAGS, flags)?;
            MdsOp::Append { fid: fid(r)?, len: number64(r)?, kill_suidgid }
        }
        opcode::MDS_READ => MdsOp::Read { fid: fid(r)?, offset: number64(r)?, len: r.get::<U32>()?.get() },
        opcode::MDS_WRITE => {
            let raw: &RawStore = r.get()?;
            let (kill_suidgid, at) = written(flags, raw.time, raw.nsec)?;
            MdsOp::Write { fid: (&raw.fid).into(), offset: raw.offset.get(), data: r.bulk(bulk)?, at, kill_suidgid }
        }
        opcode::MDS_PUNCH => {
            let [kill_suidgid, grows] = unpack(FLAGS, flags)?;
            let raw: &RawPunchFile = r.get()?;
            let (start, end, kind) = (raw.start.get(), raw.end.get(), punch_kind(raw.kind)?);
            MdsOp::Punch { fid: (&raw.fid).into(), start, end, kind, grows, kill_suidgid }
        }
        opcode::MDS_SEEK => {
            let [hole] = unpack(FLAGS, flags)?;
            MdsOp::Seek { fid: fid(r)?, offset: number64(r)?, hole }
        }
        opcode::MDS_ACCESSED => {
            let [strict] = unpack(FLAGS, flags)?;
            let (fid, sec) = (fid(r)?, *r.get::<I64>()?);
            let nsec = u32::try_from(number64(r)?).unwrap_or(u32::MAX);
            MdsOp::Accessed { fid, at: raw::time(sec, U32::new(nsec))?, strict }
        }
        opcode::MDS_STATFS => MdsOp::Statfs,
        opcode::MDS_SYNC => MdsOp::Sync,
        opcode::MDS_FLOCK_TEST => MdsOp::FlockTest { fid: fid(r)?, lock: flock(r)? },
        opcode::MDS_FLOCK_SET => {
            let [wait] = unpack(FLAGS, flags)?;
            MdsOp::FlockSet { fid: fid(r)?, lock: flock(r)?, wait }
        }
        opcode::MDS_FLOCK_CANCEL => MdsOp::FlockCancel { fid: fid(r)?, lock: flock(r)? },
        opcode::MDS_LOCK => {
            let [of_bytes, again] = unpack(FLAGS, flags)?;
            let (fid, bits) = r.get::<RawLock>()?.into();
            let needs = match of_bytes {
                true => Some(Needs { range: ByteRange::new(number64(r)?, number64(r)?), again }),
                false if again => return Err(DecodeError::Field { field: FLAGS, value: flags.into() }),
                false => None,
            };
            MdsOp::Lock { fid, bits, needs }
        }
        opcode::MDS_UNLOCK => MdsOp::Unlock { locks: locks(r)? },
        opcode::MDS_LEASE => MdsOp::Lease { fid: fid(r)?, owner: number64(r)?, act: lease_act(r.get::<U32>()?.get())? },
        opcode::MDS_SCAN => {
            let bytes_max = r.get::<U32>()?.get();
            let start = r.copied(KEY_BYTES, RECORD_KEY_BYTES_MAX)?;
            MdsOp::Scan { start, end: r.copied(KEY_BYTES, RECORD_KEY_BYTES_MAX)?, bytes_max }
        }
        opcode::MDS_MEND => {
            let expect = records(r, RECORDS_PER_MEND_MAX)?;
            MdsOp::Mend { expect, put: records(r, RECORDS_PER_MEND_MAX)? }
        }
        number => return Err(DecodeError::UnknownOp { number }),
    })
}
