//! Callbacks and their answers.

use super::cursor::{Reader, Writer, bits, count, len32, unpack};
use super::error::DecodeError;
use super::locks::{locks, put_locks};
use super::raw::{RawExtent, RawFid, RawGlimpse};
use super::squash;
use crate::client::{ClientOp, ClientReply};
use crate::opcode::{self, answer};
use types::limits::REVOKES_PER_CALLBACK_MAX;
use types::ranges::ByteRange;

pub(super) fn encode(op: &ClientOp, w: &mut Writer) {
    match op {
        ClientOp::Revoke { locks } => w.op(opcode::CLIENT_REVOKE, 0, |w| put_locks(locks, w)),
        ClientOp::Changing { dir, names } => w.op(opcode::CLIENT_CHANGING, 0, |w| {
            w.put(&RawFid::from(*dir));
            w.put(&len32(names.len()));
            names.iter().for_each(|name| w.name(name));
        }),
        ClientOp::Glimpse { fids, store } => w.op(opcode::CLIENT_GLIMPSE, bits([*store]), |w| {
            w.put(&len32(fids.len()));
            fids.iter().for_each(|fid| w.put(&RawFid::from(*fid)));
        }),
        ClientOp::RevokeExtents { extents } => w.op(opcode::CLIENT_REVOKE_EXTENTS, 0, |w| {
            w.put(&len32(extents.len()));
            for (fid, range) in extents {
                w.put(&RawExtent {
                    fid: (*fid).into(),
                    start: range.start.into(),
                    end: range.end.into(),
                });
            }
        }),
        ClientOp::Squash(news) => {
            w.op(opcode::CLIENT_SQUASH, bits(squash::flags(news)), |w| squash::put(news, w))
        }
    }
}

pub(super) fn decode(number: u16, flags: u16, r: &mut Reader<'_>) -> Result<ClientOp, DecodeError> {
    if number == opcode::CLIENT_SQUASH {
        return squash::get(unpack("squash flags", flags)?, r).map(ClientOp::Squash);
    }
    if number == opcode::CLIENT_GLIMPSE {
        let [store] = unpack("glimpse flags", flags)?;
        let n = count(*r.get()?, "inodes", REVOKES_PER_CALLBACK_MAX)?;
        let fids = r.slice_of::<RawFid>(n)?.iter().map(Into::into).collect();
        return Ok(ClientOp::Glimpse { fids, store });
    }
    let [] = unpack("callback flags", flags)?;
    match number {
        opcode::CLIENT_REVOKE => Ok(ClientOp::Revoke { locks: locks(r)? }),
        opcode::CLIENT_CHANGING => {
            let dir = r.get::<RawFid>()?.into();
            let n = count(*r.get()?, "names", REVOKES_PER_CALLBACK_MAX)?;
            // A name is at least its length and one byte.
            r.expect(n, 3)?;
            let mut names = Vec::with_capacity(n);
            for _ in 0..n {
                names.push(r.name()?);
            }
            Ok(ClientOp::Changing { dir, names })
        }
        opcode::CLIENT_REVOKE_EXTENTS => {
            let n = count(*r.get()?, "extents", REVOKES_PER_CALLBACK_MAX)?;
            let extent = |raw: &RawExtent| {
                ((&raw.fid).into(), ByteRange::new(raw.start.get(), raw.end.get()))
            };
            Ok(ClientOp::RevokeExtents {
                extents: r.slice_of::<RawExtent>(n)?.iter().map(extent).collect(),
            })
        }
        number => Err(DecodeError::UnknownOp { number }),
    }
}

pub(super) fn encode_reply(reply: &ClientReply, w: &mut Writer) {
    match reply {
        ClientReply::Done => w.op(answer::CLIENT_DONE, 0, |_| ()),
        ClientReply::Kept(locks) => w.op(answer::CLIENT_KEPT, 0, |w| put_locks(locks, w)),
        ClientReply::Dropped => w.op(answer::CLIENT_DROPPED, 0, |_| ()),
        ClientReply::Glimpses(glimpses) => w.op(answer::CLIENT_GLIMPSES, 0, |w| {
            w.put(&len32(glimpses.len()));
            glimpses.iter().for_each(|glimpse| w.put(&RawGlimpse::from(*glimpse)));
        }),
    }
}

pub(super) fn decode_reply(
    number: u16,
    flags: u16,
    r: &mut Reader<'_>,
) -> Result<ClientReply, DecodeError> {
    let [] = unpack("callback answer flags", flags)?;
    match number {
        answer::CLIENT_DONE => Ok(ClientReply::Done),
        answer::CLIENT_KEPT => Ok(ClientReply::Kept(locks(r)?)),
        answer::CLIENT_DROPPED => Ok(ClientReply::Dropped),
        answer::CLIENT_GLIMPSES => {
            let n = count(*r.get()?, "glimpses", REVOKES_PER_CALLBACK_MAX)?;
            let glimpses = r.slice_of::<RawGlimpse>(n)?.iter().map(RawGlimpse::decode);
            Ok(ClientReply::Glimpses(glimpses.collect::<Result<_, _>>()?))
        }
        number => Err(DecodeError::UnknownReply { number }),
    }
}
