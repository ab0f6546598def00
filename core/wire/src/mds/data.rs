//! Operations on data: what was written to objects, and bytes that live on the MDT.

use crate::class::Class;
use crate::codec::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{FLAGS, Operation, fid, fids, number64, plain, put_fid};
use crate::codec::raw::{self, RawPunchFile, RawStore, RawStoreMany, RawWrote, punch_kind};
#[cfg(test)]
use crate::codec::testing::*;
use crate::ost::punch::PunchKind;
use bytes::Bytes;
use types::attr::WrittenAt;
use types::fid::Fid;
use types::limits::DOM_PIECES_MAX;
use types::time::Timestamp;
use zerocopy::little_endian::{I64, U32, U64};

/// Flag of [`Write`].
const KEEPS: u16 = 8;

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

/// Data was written to objects: size = max(size, end), blocks += delta, mtime and ctime as `at`
/// says.
#[derive(Clone, PartialEq, Debug)]
pub struct Wrote {
    /// The inode.
    pub fid: Fid,
    /// Byte behind the last that was written.
    pub end: u64,
    /// By how many 512-byte blocks the objects grew.
    pub blocks_delta: i64,
    /// When it was written: mtime and ctime.
    pub at: WrittenAt,
    /// Set-id bits go.
    pub kill_suidgid: bool,
}

impl Operation for Wrote {
    fids!(fid);

    fn flags(&self) -> u16 {
        written_flags(self.kill_suidgid, self.at)
    }

    fn put(&self, w: &mut Writer) {
        let (end, blocks_delta) = (self.end.into(), self.blocks_delta.into());
        let Timestamp { sec, nsec } = time_of(self.at);
        let (time, nsec, zero) = (sec.into(), nsec.into(), 0.into());
        w.put(&RawWrote { fid: self.fid.into(), end, blocks_delta, time, nsec, zero });
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Wrote, DecodeError> {
        let raw: &RawWrote = r.get()?;
        let (end, blocks_delta) = (raw.end.get(), raw.blocks_delta.get());
        let (kill_suidgid, at) = written(flags, raw.time, raw.nsec)?;
        Ok(Wrote { fid: (&raw.fid).into(), end, blocks_delta, at, kill_suidgid })
    }

    #[cfg(test)]
    fn sample() -> Wrote {
        Wrote {
            fid: FID,
            end: 8192,
            blocks_delta: -8,
            at: WrittenAt::At(Timestamp { sec: 1_700_000_000, nsec: 5 }),
            kill_suidgid: true,
        }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Wrote> {
        (any_fid(), any::<(u64, i64, bool)>(), any_written_at())
            .prop_map(|(fid, (end, blocks_delta, kill_suidgid), at)| Wrote {
                fid,
                end,
                blocks_delta,
                at,
                kill_suidgid,
            })
            .boxed()
    }
}

/// Bytes of a file that live on the MDT (docs/dom.md), at most DOM_BYTES_MAX; answers `Data`.
/// EREMCHG: by the present layout some of them live elsewhere.
#[derive(Clone, PartialEq, Debug)]
pub struct Read {
    /// The inode.
    pub fid: Fid,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

impl Operation for Read {
    fids!(fid);

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        w.put(&U64::new(self.offset));
        w.put(&U32::new(self.len));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Read, DecodeError> {
        plain(flags)?;
        Ok(Read { fid: fid(r)?, offset: number64(r)?, len: r.get::<U32>()?.get() })
    }

    #[cfg(test)]
    fn sample() -> Read {
        Read { fid: FID, offset: 4096, len: 65536 }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Read> {
        (any_fid(), any::<(u64, u32)>())
            .prop_map(|(fid, (offset, len))| Read { fid, offset, len })
            .boxed()
    }
}

/// Store such bytes, with all that `Wrote` says, in one change; answers `Entry`. EREMCHG as above.
#[derive(Clone, PartialEq, Debug)]
pub struct Write {
    /// The inode.
    pub fid: Fid,
    /// First byte.
    pub offset: u64,
    /// The bytes.
    pub data: Bytes,
    /// When it was written: mtime and ctime.
    pub at: WrittenAt,
    /// Set-id bits go.
    pub kill_suidgid: bool,
    /// Its client keeps the bytes until they are durable: the redo need not have them. One that
    /// sends `Store` does so anyhow.
    pub keeps: bool,
}

impl Operation for Write {
    fids!(fid);

    fn flags(&self) -> u16 {
        written_flags(self.kill_suidgid, self.at) | if self.keeps { KEEPS } else { 0 }
    }

    fn put(&self, w: &mut Writer) {
        let Timestamp { sec, nsec } = time_of(self.at);
        let (time, nsec, zero) = (sec.into(), nsec.into(), 0.into());
        w.put(&RawStore { fid: self.fid.into(), offset: self.offset.into(), time, nsec, zero });
        w.bulk(&self.data);
    }

    fn get(flags: u16, r: &mut Reader<'_>, bulk: &mut Bulk) -> Result<Write, DecodeError> {
        let raw: &RawStore = r.get()?;
        let (kill_suidgid, at) = written(flags & !KEEPS, raw.time, raw.nsec)?;
        Ok(Write {
            fid: (&raw.fid).into(),
            offset: raw.offset.get(),
            data: r.bulk(bulk)?,
            at,
            kill_suidgid,
            keeps: flags & KEEPS != 0,
        })
    }

    #[cfg(test)]
    fn sample() -> Write {
        Write {
            fid: FID,
            offset: 4096,
            data: Bytes::from_static(b"the data itself"),
            at: WrittenAt::At(Timestamp { sec: 1_700_000_000, nsec: 5 }),
            kill_suidgid: true,
            keeps: false,
        }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Write> {
        (any_fid(), any::<(u64, bool, bool)>(), any_bytes(300), any_written_at())
            .prop_map(|(fid, (offset, kill_suidgid, keeps), data, at)| Write {
                fid,
                offset,
                data,
                at,
                kill_suidgid,
                keeps,
            })
            .boxed()
    }
}

/// Store such bytes, of several ranges of one file, that a client kept until now; all that `Wrote`
/// says comes with them, in one change. What a `Grant` before it in the same request paid for is
/// never refused with ENOSPC. Answers `Entry`. EREMCHG as above.
#[derive(Clone, PartialEq, Debug)]
pub struct Store {
    /// The inode.
    pub fid: Fid,
    /// First byte, and the bytes, of each range; 0..=DOM_PIECES_MAX.
    pub pieces: Vec<(u64, Bytes)>,
    /// When they were written: mtime and ctime.
    pub at: WrittenAt,
}

impl Operation for Store {
    fids!(fid);

    fn flags(&self) -> u16 {
        written_flags(false, self.at)
    }

    fn put(&self, w: &mut Writer) {
        let Timestamp { sec, nsec } = time_of(self.at);
        let (time, nsec, count) = (sec.into(), nsec.into(), len32(self.pieces.len()));
        w.put(&RawStoreMany { fid: self.fid.into(), time, nsec, count });
        for (offset, data) in &self.pieces {
            w.put(&U64::new(*offset));
            w.bulk(data);
        }
    }

    fn get(flags: u16, r: &mut Reader<'_>, bulk: &mut Bulk) -> Result<Store, DecodeError> {
        let raw: &RawStoreMany = r.get()?;
        let (false, at) = written(flags, raw.time, raw.nsec)? else {
            return Err(DecodeError::Field { field: FLAGS, value: flags.into() });
        };
        let (fid, n) = ((&raw.fid).into(), count(raw.count, "ranges", DOM_PIECES_MAX)?);
        r.expect(n, size_of::<U64>() + size_of::<U32>())?;
        let mut pieces = Vec::with_capacity(n);
        for _ in 0..n {
            pieces.push((number64(r)?, r.bulk(bulk)?));
        }
        Ok(Store { fid, pieces, at })
    }

    #[cfg(test)]
    fn sample() -> Store {
        Store {
            fid: FID,
            pieces: vec![
                (0, Bytes::from_static(b"the beginning")),
                (4096, Bytes::from_static(b"and more")),
            ],
            at: WrittenAt::At(Timestamp { sec: 1_700_000_000, nsec: 5 }),
        }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Store> {
        let pieces = proptest::collection::vec((any::<u64>(), any_bytes(100)), 0..4);
        (any_fid(), pieces, any_written_at())
            .prop_map(|(fid, pieces, at)| Store { fid, pieces, at })
            .boxed()
    }
}

/// Change the allocation of such bytes (`Truncate` is EINVAL: that is `Setattr`); `grows`: the file
/// is at least `end` long then. Answers `Entry`. EREMCHG as above.
#[derive(Clone, PartialEq, Debug)]
pub struct Punch {
    /// The inode.
    pub fid: Fid,
    /// First byte.
    pub start: u64,
    /// Byte behind the last.
    pub end: u64,
    /// How.
    pub kind: PunchKind,
    /// The file is at least `end` long then.
    pub grows: bool,
    /// Set-id bits go.
    pub kill_suidgid: bool,
}

impl Operation for Punch {
    fids!(fid);

    fn class(&self, row: Class) -> Class {
        match self.kind {
            PunchKind::Hole | PunchKind::Truncate => row.release(),
            PunchKind::Zero | PunchKind::Allocate => row,
        }
    }

    fn flags(&self) -> u16 {
        bits([self.kill_suidgid, self.grows])
    }

    fn put(&self, w: &mut Writer) {
        let (start, end) = (self.start.into(), self.end.into());
        w.put(&RawPunchFile {
            fid: self.fid.into(),
            start,
            end,
            kind: self.kind as u8,
            zero: [0; 7],
        });
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Punch, DecodeError> {
        let [kill_suidgid, grows] = unpack(FLAGS, flags)?;
        let raw: &RawPunchFile = r.get()?;
        let (start, end, kind) = (raw.start.get(), raw.end.get(), punch_kind(raw.kind)?);
        Ok(Punch { fid: (&raw.fid).into(), start, end, kind, grows, kill_suidgid })
    }

    #[cfg(test)]
    fn sample() -> Punch {
        Punch {
            fid: FID,
            start: 4096,
            end: 8192,
            kind: PunchKind::Hole,
            grows: false,
            kill_suidgid: true,
        }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Punch> {
        (any_fid(), any::<((u64, u64), (bool, bool))>(), any_punch_kind())
            .prop_map(|(fid, ((start, end), (grows, kill_suidgid)), kind)| Punch {
                fid,
                start,
                end,
                kind,
                grows,
                kill_suidgid,
            })
            .boxed()
    }
}

/// Next data or hole at or after `offset` among such bytes; answers `Offset`, None behind the last
/// of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Seek {
    /// The inode.
    pub fid: Fid,
    /// Where the search begins.
    pub offset: u64,
    /// Search for a hole rather than data.
    pub hole: bool,
}

impl Operation for Seek {
    fids!(fid);

    fn flags(&self) -> u16 {
        bits([self.hole])
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        w.put(&U64::new(self.offset));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Seek, DecodeError> {
        let [hole] = unpack(FLAGS, flags)?;
        Ok(Seek { fid: fid(r)?, offset: number64(r)?, hole })
    }

    #[cfg(test)]
    fn sample() -> Seek {
        Seek { fid: FID, offset: 4096, hole: true }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Seek> {
        (any_fid(), any::<(u64, bool)>())
            .prop_map(|(fid, (offset, hole))| Seek { fid, offset, hole })
            .boxed()
    }
}
