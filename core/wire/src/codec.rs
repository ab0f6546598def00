//! Requests and replies to bytes and back.
//!
//! A body is a fixed head and then the operations (or results), each an 8-byte header and its own
//! bytes, padded to 8. Data of reads and writes is not in the body: it goes behind it as bulk, in
//! the order of the operations, as the very `Bytes` it came in. Decoders trust nothing: counts are
//! checked against the bytes that are left before memory is taken for them, and what is not
//! understood is an error, never skipped.

mod client;
pub(crate) mod cursor;
pub mod dir_scan;
pub(crate) mod error;
pub(crate) mod locks;
mod mds_reply;
mod mgs;
pub(crate) mod operation;
mod ost_reply;
mod pieces;
pub(crate) mod raw;
pub(crate) mod records;
#[cfg(test)]
pub(crate) mod samples;
mod session;
mod squash;
#[cfg(test)]
mod strategies;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use error::DecodeError;

use crate::message::{Gap, Grant, Op, OpReply, Reply, Request};
use crate::opcode::{self, MdsOp, OstOp, answer};
use bytes::Bytes;
pub use cursor::Encoded;
use cursor::{Bulk, Reader, Writer, bits};
pub use pieces::{PIECE_ENTRIES, ReplyPieces};
use raw::{OpHeader, RawEntry, RawGap, RawLock, RawReply, RawRequest};
use types::credentials::Credentials;
use types::errno::Errno;
use types::job::{JOB_ID_BYTES_MAX, JobId};
use types::limits::{GRANTS_PER_REPLY_MAX, GROUPS_MAX, OPS_PER_REQUEST_MAX, RECORD_KEY_BYTES_MAX};
use types::lock::InodeBits;
use types::names::NameRange;
use types::session::{Transno, Xid};
use zerocopy::little_endian::{U16, U32};

/// To bytes. Of more than GROUPS_MAX supplementary groups the first ones travel.
pub fn encode_request(request: &Request) -> Encoded {
    let mut w = Writer::new(size_of::<RawRequest>() + 64 * request.ops.len());
    let Credentials { uid, gid, groups } = &request.credentials;
    let groups = &groups[..groups.len().min(GROUPS_MAX)];
    w.put(&RawRequest {
        xid: request.xid.0.into(),
        xid_known: request.xid_known.0.into(),
        replay: request.replay.0.into(),
        flags: u32::from(bits([request.resent, !request.job.is_none()])).into(),
        ops: cursor::len32(request.ops.len()),
        target: request.target.into(),
        groups: cursor::len32(groups.len()),
        uid: (*uid).into(),
        gid: (*gid).into(),
        locks: request.locks.bits().into(),
        slot: u32::from(request.slot).into(),
    });
    for group in groups {
        w.put(&U32::new(*group));
    }
    w.pad();
    if !request.job.is_none() {
        w.put(&request.job.to_bytes());
    }
    for op in &request.ops {
        match op {
            Op::Mgs(op) => mgs::encode(op, &mut w),
            Op::Mds(op) => op.encode(&mut w),
            Op::Ost(op) => op.encode(&mut w),
            Op::Client(op) => client::encode(op, &mut w),
            Op::Connect(hello) => session::encode_connect(hello, &mut w),
            Op::Replay(changes) => session::encode_replay(changes, &mut w),
            Op::Tree(after) => w.op(opcode::TREE, 0, |w| w.bytes(after)),
            Op::Disconnect | Op::Ping | Op::Replayed | Op::Restored => {
                w.op(op.row().number, 0, |_| ())
            }
        }
    }
    w.finish()
}

/// From bytes.
///
/// # Errors
/// Anything that [`encode_request`] would not have written.
pub fn decode_request(body: Bytes, bulk: Bytes) -> Result<Request, DecodeError> {
    let (mut r, mut bulk) = (Reader::new(&body), Bulk::new(bulk));
    let head: &RawRequest = r.get()?;
    let flags = u16::try_from(head.flags.get()).map_err(|_| DecodeError::Field {
        field: "request flags",
        value: head.flags.get().into(),
    })?;
    let [resent, has_job] = cursor::unpack("request flags", flags)?;
    let group_count = cursor::count(head.groups, "groups", GROUPS_MAX)?;
    let groups = r.slice_of::<U32>(group_count)?.iter().map(|g| g.get()).collect();
    r.skip_pad()?;
    let job = if has_job { decode_job(*r.get()?)? } else { JobId::NONE };
    let op_count = cursor::count(head.ops, "operations", OPS_PER_REQUEST_MAX)?;
    r.expect(op_count, size_of::<OpHeader>())?;
    let mut ops = Vec::with_capacity(op_count);
    for _ in 0..op_count {
        let (header, mut body) = r.op()?;
        ops.push(decode_op(header, &mut body, &mut bulk)?);
        body.finish("operation")?;
    }
    r.finish("request")?;
    bulk.finish()?;
    Ok(Request {
        target: head.target.decode()?,
        xid: Xid(head.xid.get()),
        xid_known: Xid(head.xid_known.get()),
        resent,
        replay: Transno(head.replay.get()),
        locks: InodeBits::from_bits_retain(head.locks.get()),
        slot: u16::try_from(head.slot.get()).map_err(|_| DecodeError::Field {
            field: "reply slot",
            value: head.slot.get().into(),
        })?,
        credentials: Credentials { uid: head.uid.get(), gid: head.gid.get(), groups },
        job,
        ops,
    })
}

/// A job is told only where there is one.
fn decode_job(bytes: [u8; JOB_ID_BYTES_MAX + 1]) -> Result<JobId, DecodeError> {
    JobId::from_bytes(bytes).filter(|job| !job.is_none()).ok_or(DecodeError::Text { field: "job" })
}

fn decode_op(header: OpHeader, r: &mut Reader<'_>, bulk: &mut Bulk) -> Result<Op, DecodeError> {
    let (number, flags) = (header.number.get(), header.flags.get());
    let row = opcode::row(number).ok_or(DecodeError::UnknownOp { number })?;
    let plain = |op: Op| cursor::unpack::<0>(row.name, flags).map(|[]| op);
    Ok(match number >> 8 {
        0 => match number {
            opcode::CONNECT => Op::Connect(session::decode_connect(flags, r)?),
            opcode::DISCONNECT => plain(Op::Disconnect)?,
            opcode::PING => plain(Op::Ping)?,
            opcode::REPLAY => Op::Replay(session::decode_replay(flags, r)?),
            opcode::REPLAYED => plain(Op::Replayed)?,
            opcode::RESTORED => plain(Op::Restored)?,
            opcode::TREE => {
                let [] = cursor::unpack(row.name, flags)?;
                Op::Tree(r.copied("key", RECORD_KEY_BYTES_MAX)?)
            }
            number => return Err(DecodeError::UnknownOp { number }),
        },
        1 => Op::Mgs(mgs::decode(number, flags, r)?),
        2 => Op::Mds(MdsOp::decode(number, flags, r, bulk)?),
        3 => Op::Ost(OstOp::decode(number, flags, r, bulk)?),
        _ => Op::Client(client::decode(number, flags, r)?),
    })
}

/// To bytes.
pub fn encode_reply(reply: &Reply) -> Encoded {
    let mut w = reply_head(reply);
    reply.results.iter().for_each(|result| put_result(result, &mut w));
    reply_tail(reply, w)
}

/// What stands before the results.
fn reply_head(reply: &Reply) -> Writer {
    let mut w = Writer::new(
        size_of::<RawReply>()
            + 128 * reply.results.len()
            + reply.touched.len() * size_of::<RawEntry>()
            + reply.redo.iter().map(session::redo_bytes).sum::<usize>(),
    );
    w.put(&RawReply {
        xid: reply.xid.0.into(),
        transno: reply.transno.0.into(),
        last_committed: reply.last_committed.0.into(),
        results: cursor::len32(reply.results.len()),
        grants: cursor::len32(reply.grants.len()),
        touched: cursor::len32(reply.touched.len()),
        redo: cursor::len32(reply.redo.len()),
        gaps: u32::from(reply.gap.is_some()).into(),
        zero: U32::ZERO,
    });
    w
}

fn put_result(result: &Result<OpReply, Errno>, w: &mut Writer) {
    match result {
        // A failed operation: number 0, errno in the place of the flags. An unknown errno becomes
        // EIO.
        Err(errno) => w.op(0, errno16(*errno), |_| ()),
        Ok(OpReply::Mgs(reply)) => mgs::encode_reply(reply, w),
        Ok(OpReply::Mds(reply)) => mds_reply::encode(reply, w),
        Ok(OpReply::Ost(reply)) => ost_reply::encode_reply(reply, w),
        Ok(OpReply::Connect(reply)) => session::encode_connected(reply, w),
        Ok(OpReply::Client(reply)) => client::encode_reply(reply, w),
        Ok(OpReply::Done) => w.op(answer::DONE, 0, |_| ()),
        Ok(OpReply::Tree(page)) => session::encode_page(page, w),
    }
}

/// What stands behind them.
fn reply_tail(reply: &Reply, mut w: Writer) -> Encoded {
    for Grant { fid, bits } in &reply.grants {
        w.put(&RawLock::from((*fid, *bits)));
    }
    w.pad();
    for entry in &reply.touched {
        w.put(&RawEntry::from(entry));
    }
    reply.redo.iter().for_each(|redo| session::encode_redo(redo, &mut w));
    if let Some(Gap { dir, names }) = &reply.gap {
        let (start, end) = (names.start(), names.end());
        let len = |bound: &[u8]| U16::new(bound.len() as u16); // at most 256
        w.put(&RawGap { fid: (*dir).into(), start: len(start), end: len(end) });
        w.raw(start);
        w.raw(end);
        w.pad();
    }
    w.finish()
}

fn errno16(errno: Errno) -> u16 {
    u16::try_from(errno.0).ok().filter(|n| *n > 0).unwrap_or(Errno::EIO.0 as u16)
}

/// From bytes.
///
/// # Errors
/// Anything that [`encode_reply`] would not have written.
pub fn decode_reply(body: Bytes, bulk: Bytes) -> Result<Reply, DecodeError> {
    let (mut r, mut bulk) = (Reader::new(&body), Bulk::new(bulk));
    let head: &RawReply = r.get()?;
    let count = cursor::count(head.results, "results", OPS_PER_REQUEST_MAX)?;
    r.expect(count, size_of::<OpHeader>())?;
    let mut results = Vec::with_capacity(count);
    for _ in 0..count {
        let (header, mut body) = r.op()?;
        results.push(decode_result(header, &mut body, &mut bulk)?);
        body.finish("result")?;
    }
    let count = cursor::count(head.grants, "grants", GRANTS_PER_REPLY_MAX)?;
    let grants = r.slice_of::<RawLock>(count)?.iter().map(|raw| {
        let (fid, bits) = raw.into();
        Grant { fid, bits }
    });
    let grants = grants.collect();
    r.skip_pad()?;
    let count = cursor::count(head.touched, "inodes", GRANTS_PER_REPLY_MAX)?;
    let touched =
        r.slice_of::<RawEntry>(count)?.iter().map(RawEntry::decode).collect::<Result<_, _>>()?;
    let redo = session::decode_redo(head.redo, &mut r)?;
    let gap = match cursor::count(head.gaps, "gaps", 1)? {
        0 => None,
        _ => Some(decode_gap(&mut r)?),
    };
    r.finish("reply")?;
    bulk.finish()?;
    Ok(Reply {
        xid: Xid(head.xid.get()),
        transno: Transno(head.transno.get()),
        last_committed: Transno(head.last_committed.get()),
        results,
        grants,
        touched,
        redo,
        gap,
    })
}

fn decode_gap(r: &mut Reader<'_>) -> Result<Gap, DecodeError> {
    let raw: &RawGap = r.get()?;
    let (start, end) = (r.take(raw.start.get().into())?, r.take(raw.end.get().into())?);
    let names = NameRange::new(start, end)
        .ok_or(DecodeError::Field { field: "gap", value: start.len() as u64 })?;
    r.skip_pad()?;
    Ok(Gap { dir: (&raw.fid).into(), names })
}

fn decode_result(
    header: OpHeader,
    r: &mut Reader<'_>,
    bulk: &mut Bulk,
) -> Result<Result<OpReply, Errno>, DecodeError> {
    let (number, flags) = (header.number.get(), header.flags.get());
    if number == 0 {
        return match flags {
            0 => Err(DecodeError::Field { field: "errno", value: 0 }),
            errno => Ok(Err(Errno(errno.into()))),
        };
    }
    let plain = |reply: OpReply| cursor::unpack::<0>("result flags", flags).map(|[]| reply);
    let reply = match number >> 8 {
        0 if number == answer::DONE => plain(OpReply::Done)?,
        0 if number == answer::CONNECT => OpReply::Connect(session::decode_connected(flags, r)?),
        0 if number == answer::TREE => OpReply::Tree(session::decode_page(flags, r, bulk)?),
        1 => OpReply::Mgs(mgs::decode_reply(number, flags, r)?),
        2 => OpReply::Mds(mds_reply::decode(number, flags, r, bulk)?),
        3 => OpReply::Ost(ost_reply::decode_reply(number, flags, r, bulk)?),
        4 => OpReply::Client(client::decode_reply(number, flags, r)?),
        _ => return Err(DecodeError::UnknownReply { number }),
    };
    Ok(Ok(reply))
}
