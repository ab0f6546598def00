//! Operations of an object target and their answers.

use super::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use super::error::DecodeError;
use super::raw::{RawListed, RawObject, RawPunch, RawStatfs, punch_kind};
use crate::opcode::{self, answer};
use crate::ost::{OstOp, OstReply};
use types::limits::{OBJECTS_PER_LIST_MAX, OBJECTS_PER_OP_MAX};
use types::object::{ObjectId, ObjectOffset};
use zerocopy::little_endian::{I64, U32, U64};

fn put_objects(objects: &[ObjectId], w: &mut Writer) {
    w.put(&len32(objects.len()));
    objects.iter().for_each(|o| w.put(&RawObject::from(*o)));
}

fn objects(r: &mut Reader<'_>) -> Result<Vec<ObjectId>, DecodeError> {
    let n = count(*r.get()?, "objects", OBJECTS_PER_OP_MAX)?;
    Ok(r.slice_of::<RawObject>(n)?.iter().map(ObjectId::from).collect())
}

pub(super) fn encode(op: &OstOp, w: &mut Writer) {
    match op {
        OstOp::Read { object, offset, len } => w.op(opcode::OST_READ, 0, |w| {
            w.put(&RawObject::from(*object));
            w.put(&U64::new(offset.0));
            w.put(&U32::new(*len));
        }),
        OstOp::Write { object, offset, data, sync } => w.op(opcode::OST_WRITE, bits([*sync]), |w| {
            w.put(&RawObject::from(*object));
            w.put(&U64::new(offset.0));
            w.bulk(data);
        }),
        OstOp::Punch { object, start, end, kind } => w.op(opcode::OST_PUNCH, 0, |w| {
            let (start, end) = (start.0.into(), end.0.into());
            w.put(&RawPunch { object: (*object).into(), start, end, kind: *kind as u8, zero: [0; 7] });
        }),
        OstOp::Getattr { object } => w.op(opcode::OST_GETATTR, 0, |w| w.put(&RawObject::from(*object))),
        OstOp::Seek { object, offset, hole } => w.op(opcode::OST_SEEK, bits([*hole]), |w| {
            w.put(&RawObject::from(*object));
            w.put(&U64::new(offset.0));
        }),
        OstOp::Destroy { objects } => w.op(opcode::OST_DESTROY, 0, |w| put_objects(objects, w)),
        OstOp::Sync { objects } => w.op(opcode::OST_SYNC, 0, |w| put_objects(objects, w)),
        OstOp::Statfs => w.op(opcode::OST_STATFS, 0, |_| ()),
        OstOp::Grant { spend, back, want } => w.op(opcode::OST_GRANT, 0, |w| {
            [spend, back, want].into_iter().for_each(|bytes| w.put(&U64::new(*bytes)));
        }),
        OstOp::List { after, limit } => w.op(opcode::OST_LIST, bits([after.is_some()]), |w| {
            w.put(&U32::new(*limit));
            after.iter().for_each(|after| w.put(&RawObject::from(*after)));
        }),
    }
}

pub(super) fn decode(number: u16, flags: u16, r: &mut Reader<'_>, bulk: &mut Bulk) -> Result<OstOp, DecodeError> {
    const FLAGS: &str = "OST operation flags";
    let object = |r: &mut Reader<'_>| r.get::<RawObject>().map(ObjectId::from);
    let offset = |r: &mut Reader<'_>| r.get::<U64>().map(|o| ObjectOffset(o.get()));
    if !matches!(number, opcode::OST_WRITE | opcode::OST_SEEK | opcode::OST_LIST) {
        let [] = unpack(FLAGS, flags)?;
    }
    Ok(match number {
        opcode::OST_READ => OstOp::Read { object: object(r)?, offset: offset(r)?, len: r.get::<U32>()?.get() },
        opcode::OST_WRITE => {
            let [sync] = unpack(FLAGS, flags)?;
            OstOp::Write { object: object(r)?, offset: offset(r)?, data: r.bulk(bulk)?, sync }
        }
        opcode::OST_PUNCH => {
            let raw: &RawPunch = r.get()?;
            let kind = punch_kind(raw.kind)?;
            let (start, end) = (ObjectOffset(raw.start.get()), ObjectOffset(raw.end.get()));
            OstOp::Punch { object: (&raw.object).into(), start, end, kind }
        }
        opcode::OST_GETATTR => OstOp::Getattr { object: object(r)? },
        opcode::OST_SEEK => {
            let [hole] = unpack(FLAGS, flags)?;
            OstOp::Seek { object: object(r)?, offset: offset(r)?, hole }
        }
        opcode::OST_DESTROY => OstOp::Destroy { objects: objects(r)? },
        opcode::OST_SYNC => OstOp::Sync { objects: objects(r)? },
        opcode::OST_STATFS => OstOp::Statfs,
        opcode::OST_GRANT => {
            let mut bytes = || r.get::<U64>().map(|n| n.get());
            OstOp::Grant { spend: bytes()?, back: bytes()?, want: bytes()? }
        }
        opcode::OST_LIST => {
            let [goes_on] = unpack(FLAGS, flags)?;
            let limit = r.get::<U32>()?.get();
            OstOp::List { after: if goes_on { Some(object(r)?) } else { None }, limit }
        }
        number => return Err(DecodeError::UnknownOp { number }),
    })
}

pub(super) fn encode_reply(reply: &OstReply, w: &mut Writer) {
    match reply {
        OstReply::Done => w.op(answer::OST_DONE, 0, |_| ()),
        OstReply::Data(data) => w.op(answer::OST_DATA, 0, |w| w.bulk(data)),
        OstReply::Changed { blocks_delta } => w.op(answer::OST_CHANGED, 0, |w| w.put(&I64::new(*blocks_delta))),
        OstReply::Attr { size, blocks } => w.op(answer::OST_ATTR, 0, |w| {
            w.put(&U64::new(*size));
            w.put(&U64::new(*blocks));
        }),
        OstReply::Offset(offset) => w.op(answer::OST_OFFSET, bits([offset.is_some()]), |w| {
            w.put(&U64::new(offset.unwrap_or_default().0));
        }),
        OstReply::Statfs(statfs) => w.op(answer::OST_STATFS, 0, |w| w.put(&RawStatfs::from(statfs))),
        OstReply::Granted { more, paid } => w.op(answer::OST_GRANTED, 0, |w| {
            w.put(&U64::new(*more));
            w.put(&U64::new(*paid));
        }),
        OstReply::Objects { objects, more } => w.op(answer::OST_OBJECTS, bits([*more]), |w| {
            w.put(&len32(objects.len()));
            for (object, size, blocks) in objects {
                w.put(&RawListed { object: (*object).into(), size: (*size).into(), blocks: (*blocks).into() });
            }
        }),
    }
}

pub(super) fn decode_reply(
    number: u16,
    flags: u16,
    r: &mut Reader<'_>,
    bulk: &mut Bulk,
) -> Result<OstReply, DecodeError> {
    const FLAGS: &str = "OST answer flags";
    if !matches!(number, answer::OST_OFFSET | answer::OST_OBJECTS) {
        let [] = unpack(FLAGS, flags)?;
    }
    Ok(match number {
        answer::OST_DONE => OstReply::Done,
        answer::OST_DATA => OstReply::Data(r.bulk(bulk)?),
        answer::OST_CHANGED => OstReply::Changed { blocks_delta: r.get::<I64>()?.get() },
        answer::OST_ATTR => OstReply::Attr { size: r.get::<U64>()?.get(), blocks: r.get::<U64>()?.get() },
        answer::OST_OFFSET => {
            let [found] = unpack(FLAGS, flags)?;
            let offset = ObjectOffset(r.get::<U64>()?.get());
            OstReply::Offset(found.then_some(offset))
        }
        answer::OST_STATFS => OstReply::Statfs(r.get::<RawStatfs>()?.into()),
        answer::OST_GRANTED => OstReply::Granted { more: r.get::<U64>()?.get(), paid: r.get::<U64>()?.get() },
        answer::OST_OBJECTS => {
            let [more] = unpack(FLAGS, flags)?;
            let n = count(*r.get()?, "objects", OBJECTS_PER_LIST_MAX)?;
            let listed = r.slice_of::<RawListed>(n)?.iter();
            let objects = listed.map(|raw| ((&raw.object).into(), raw.size.get(), raw.blocks.get())).collect();
            OstReply::Objects { objects, more }
        }
        number => return Err(DecodeError::UnknownReply { number }),
    })
}
