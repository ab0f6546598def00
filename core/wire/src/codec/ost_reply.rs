//! Answers of an object target.

use super::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use super::error::DecodeError;
use super::raw::{RawListed, RawStatfs};
use crate::opcode::answer;
use crate::ost::operations::{clients, put_clients};
use crate::ost::reply::OstReply;
use types::limits::OBJECTS_PER_LIST_MAX;
use types::object::ObjectOffset;
use zerocopy::little_endian::{I64, U64};

pub(super) fn encode_reply(reply: &OstReply, w: &mut Writer) {
    match reply {
        OstReply::Done => w.op(answer::OST_DONE, 0, |_| ()),
        OstReply::Data(data) => w.op(answer::OST_DATA, 0, |w| w.bulk(data)),
        OstReply::Changed { blocks_delta } => {
            w.op(answer::OST_CHANGED, 0, |w| w.put(&I64::new(*blocks_delta)))
        }
        OstReply::Attr { size, blocks } => w.op(answer::OST_ATTR, 0, |w| {
            w.put(&U64::new(*size));
            w.put(&U64::new(*blocks));
        }),
        OstReply::Offset(offset) => w.op(answer::OST_OFFSET, bits([offset.is_some()]), |w| {
            w.put(&U64::new(offset.unwrap_or_default().0));
        }),
        OstReply::Statfs(statfs) => {
            w.op(answer::OST_STATFS, 0, |w| w.put(&RawStatfs::from(statfs)))
        }
        OstReply::Granted { more, paid } => w.op(answer::OST_GRANTED, 0, |w| {
            w.put(&U64::new(*more));
            w.put(&U64::new(*paid));
        }),
        OstReply::Fenced { boot, clients } => w.op(answer::OST_FENCED, 0, |w| {
            w.put(&U64::new(*boot));
            put_clients(clients, w);
        }),
        OstReply::Objects { objects, more } => w.op(answer::OST_OBJECTS, bits([*more]), |w| {
            w.put(&len32(objects.len()));
            for (object, size, blocks) in objects {
                w.put(&RawListed {
                    object: (*object).into(),
                    size: (*size).into(),
                    blocks: (*blocks).into(),
                });
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
        answer::OST_ATTR => {
            OstReply::Attr { size: r.get::<U64>()?.get(), blocks: r.get::<U64>()?.get() }
        }
        answer::OST_OFFSET => {
            let [found] = unpack(FLAGS, flags)?;
            let offset = ObjectOffset(r.get::<U64>()?.get());
            OstReply::Offset(found.then_some(offset))
        }
        answer::OST_STATFS => OstReply::Statfs(r.get::<RawStatfs>()?.into()),
        answer::OST_GRANTED => {
            OstReply::Granted { more: r.get::<U64>()?.get(), paid: r.get::<U64>()?.get() }
        }
        answer::OST_FENCED => {
            OstReply::Fenced { boot: r.get::<U64>()?.get(), clients: clients(r)? }
        }
        answer::OST_OBJECTS => {
            let [more] = unpack(FLAGS, flags)?;
            let n = count(*r.get()?, "objects", OBJECTS_PER_LIST_MAX)?;
            let listed = r.slice_of::<RawListed>(n)?.iter();
            let objects = listed
                .map(|raw| ((&raw.object).into(), raw.size.get(), raw.blocks.get()))
                .collect();
            OstReply::Objects { objects, more }
        }
        number => return Err(DecodeError::UnknownReply { number }),
    })
}
