//! Operations of the MGS: rare, so their bodies are postcard.

use super::cursor::{Reader, Writer, unpack};
use super::error::DecodeError;
use crate::mgs::{MgsOp, MgsReply};
use crate::opcode::answer;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn put(number: u16, value: &impl Serialize, w: &mut Writer) {
    // Writing to memory cannot fail, and no type here has a serialiser of its own that could.
    let bytes = postcard::to_allocvec(value).expect("plain values serialise");
    w.op(number, 0, |w| w.put(bytes.as_slice()));
}

fn get<T: DeserializeOwned>(flags: u16, r: &mut Reader<'_>) -> Result<T, DecodeError> {
    let [] = unpack("MGS flags", flags)?;
    let (value, rest) = postcard::take_from_bytes(r.rest()).map_err(DecodeError::Mgs)?;
    match rest.len() {
        0 => Ok(value),
        bytes => Err(DecodeError::Trailing { what: "MGS message", bytes }),
    }
}

pub(super) fn encode(op: &MgsOp, w: &mut Writer) {
    put(op.row().number, op, w);
}

pub(super) fn decode(number: u16, flags: u16, r: &mut Reader<'_>) -> Result<MgsOp, DecodeError> {
    let op: MgsOp = get(flags, r)?;
    match op.row().number {
        n if n == number => Ok(op),
        n => Err(DecodeError::Field { field: "MGS operation", value: n.into() }),
    }
}

pub(super) fn encode_reply(reply: &MgsReply, w: &mut Writer) {
    put(answer::MGS, reply, w);
}

pub(super) fn decode_reply(
    number: u16,
    flags: u16,
    r: &mut Reader<'_>,
) -> Result<MgsReply, DecodeError> {
    if number != answer::MGS {
        return Err(DecodeError::UnknownReply { number });
    }
    get(flags, r)
}
