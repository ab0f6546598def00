//! Fields that need a look at each bit, as the types of the client.

use super::request::BadRequest;
use crate::abi::flags::{misc, setattr};
use crate::abi::inbound::*;
use crate::abi::opcode::Opcode;
use crate::abi::{EXT_GROUPS, RECORD_ALIGN};
use types::attr::{SetAttr, SetTime};
use types::lock::{Flock, FlockFlavor, FlockKind};
use types::time::Timestamp;
use zerocopy::FromBytes;

pub(super) fn kills_suidgid(open_flags: u32) -> bool {
    open_flags & crate::abi::flags::open::REQUEST_KILL_SUIDGID != 0
}

pub(super) fn set_attr(asked: &SetattrIn) -> SetAttr {
    let has = |bit: u32| asked.valid & bit != 0;
    let time = |bit: u32, now: u32, sec: u64, nsec: u32| match (has(bit), has(now)) {
        (_, true) => Some(SetTime::Now),
        // Seconds before 1970 travel as two's complement. Nanoseconds out of range cannot come from
        // the kernel.
        (true, false) => {
            Some(SetTime::At(Timestamp { sec: sec as i64, nsec: nsec.min(999_999_999) }))
        }
        (false, false) => None,
    };
    SetAttr {
        mode: has(setattr::MODE).then_some(asked.mode),
        uid: has(setattr::UID).then_some(asked.uid),
        gid: has(setattr::GID).then_some(asked.gid),
        size: has(setattr::SIZE).then_some(asked.size),
        atime: time(setattr::ATIME, setattr::ATIME_NOW, asked.atime, asked.atimensec),
        mtime: time(setattr::MTIME, setattr::MTIME_NOW, asked.mtime, asked.mtimensec),
        kill_suidgid: has(setattr::KILL_SUIDGID),
    }
}

pub(super) fn flock(opcode: Opcode, asked: &LkIn) -> Result<Flock, BadRequest> {
    let kind = match asked.lk.kind as i32 {
        libc::F_RDLCK => FlockKind::Read,
        libc::F_WRLCK => FlockKind::Write,
        libc::F_UNLCK => FlockKind::Unlock,
        _ => {
            return Err(BadRequest::Field {
                opcode,
                field: "lock type",
                value: u64::from(asked.lk.kind),
            });
        }
    };
    let flavor =
        if asked.lk_flags & misc::LK_FLOCK != 0 { FlockFlavor::Bsd } else { FlockFlavor::Posix };
    // The kernel's "to the end" is OFFSET_MAX; the client's is u64::MAX.
    let end = if asked.lk.end >= i64::MAX as u64 { u64::MAX } else { asked.lk.end };
    if asked.lk.start > end {
        return Err(BadRequest::Field { opcode, field: "lock start", value: asked.lk.start });
    }
    Ok(Flock { flavor, kind, owner: asked.owner, pid: asked.lk.pid, start: asked.lk.start, end })
}

/// The first group of a groups extension. Extensions that are damaged or unknown are skipped.
pub(super) fn extra_group(mut extensions: &[u8]) -> Option<u32> {
    while let Ok((ext, rest)) = ExtHeader::read_from_prefix(extensions) {
        let body_len = (ext.size as usize)
            .checked_sub(size_of::<ExtHeader>())
            .filter(|len| *len <= rest.len())?;
        if ext.kind == EXT_GROUPS {
            let (count, groups) = u32::read_from_prefix(&rest[..body_len]).ok()?;
            return (count > 0)
                .then(|| u32::read_from_prefix(groups).ok())
                .flatten()
                .map(|(group, _)| group);
        }
        let padded = body_len.next_multiple_of(RECORD_ALIGN).min(rest.len());
        extensions = &rest[padded..];
    }
    None
}
