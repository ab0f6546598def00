//! Callbacks.

use super::cursor::{Reader, Writer, count, len32, unpack};
use super::error::DecodeError;
use super::raw::RawFid;
use crate::client::ClientOp;
use crate::opcode;
use types::limits::REVOKES_PER_CALLBACK_MAX;
use types::lock::InodeBits;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLock {
    fid: RawFid,
    bits: U32,
}

const _: () = assert!(size_of::<RawLock>() == 20);

pub(super) fn encode(op: &ClientOp, w: &mut Writer) {
    match op {
        ClientOp::Revoke { locks } => w.op(opcode::CLIENT_REVOKE, 0, |w| {
            w.put(&len32(locks.len()));
            for (fid, bits) in locks {
                w.put(&RawLock { fid: (*fid).into(), bits: bits.0.into() });
            }
        }),
    }
}

pub(super) fn decode(number: u16, flags: u16, r: &mut Reader<'_>) -> Result<ClientOp, DecodeError> {
    let [] = unpack("callback flags", flags)?;
    match number {
        opcode::CLIENT_REVOKE => {
            let n = count(*r.get()?, "locks", REVOKES_PER_CALLBACK_MAX)?;
            let locks = r.slice_of::<RawLock>(n)?.iter();
            Ok(ClientOp::Revoke { locks: locks.map(|l| ((&l.fid).into(), InodeBits(l.bits.get()))).collect() })
        }
        number => Err(DecodeError::UnknownOp { number }),
    }
}
