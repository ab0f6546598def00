//! One struct per operation of an object target.

use crate::codec::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{Operation, number64};
use crate::codec::raw::{RawFence, RawObject, RawPunch, punch_kind};
#[cfg(test)]
use crate::codec::testing::*;
use crate::mds::tickets::{put_tickets, tickets};
use crate::ost::punch::PunchKind;
use bytes::Bytes;
use types::fid::Fid;
use types::limits::{FENCED_MAX, OBJECTS_PER_OP_MAX, TARGETS_MAX};
use types::object::{ObjectId, ObjectOffset};
use types::object_ticket::ObjectTicket;
use types::session::ClientUuid;
use types::target::TargetIndex;
use zerocopy::little_endian::{U32, U64, U128};

const FLAGS: &str = "OST operation flags";

fn no_flags(flags: u16) -> Result<(), DecodeError> {
    unpack::<0>(FLAGS, flags).map(|[]| ())
}

fn put_object(object: ObjectId, w: &mut Writer) {
    w.put(&RawObject::from(object));
}

fn object(r: &mut Reader<'_>) -> Result<ObjectId, DecodeError> {
    r.get::<RawObject>().map(ObjectId::from)
}

fn put_place(object: ObjectId, offset: ObjectOffset, w: &mut Writer) {
    put_object(object, w);
    w.put(&U64::new(offset.0));
}

fn place(r: &mut Reader<'_>) -> Result<(ObjectId, ObjectOffset), DecodeError> {
    Ok((object(r)?, ObjectOffset(number64(r)?)))
}

fn put_objects(objects: &[ObjectId], w: &mut Writer) {
    w.put(&len32(objects.len()));
    objects.iter().for_each(|o| put_object(*o, w));
}

fn objects(r: &mut Reader<'_>) -> Result<Vec<ObjectId>, DecodeError> {
    let n = count(*r.get()?, "objects", OBJECTS_PER_OP_MAX)?;
    Ok(r.slice_of::<RawObject>(n)?.iter().map(ObjectId::from).collect())
}

/// Clients behind their number.
pub(crate) fn put_clients(clients: &[ClientUuid], w: &mut Writer) {
    w.put(&len32(clients.len()));
    clients.iter().for_each(|client| w.put(&U128::new(client.0)));
}

/// As [`put_clients`] wrote them, at most [`FENCED_MAX`].
pub(crate) fn clients(r: &mut Reader<'_>) -> Result<Vec<ClientUuid>, DecodeError> {
    let n = count(*r.get()?, "clients", FENCED_MAX)?;
    Ok(r.slice_of::<U128>(n)?.iter().map(|client| ClientUuid(client.get())).collect())
}

/// Bytes at `offset`; shorter (even empty) where the object ends. An object that was never written
/// reads empty. Answers `Data`.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectRead {
    /// The object.
    pub object: ObjectId,
    /// First byte.
    pub offset: ObjectOffset,
    /// Bytes.
    pub len: u32,
}

impl Operation for ObjectRead {
    fn fid(&self) -> Fid {
        self.object.fid
    }

    fn reply_bytes(&self) -> usize {
        self.len as usize
    }

    fn put(&self, w: &mut Writer) {
        put_place(self.object, self.offset, w);
        w.put(&U32::new(self.len));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<ObjectRead, DecodeError> {
        no_flags(flags)?;
        let (object, offset) = place(r)?;
        Ok(ObjectRead { object, offset, len: r.get::<U32>()?.get() })
    }

    #[cfg(test)]
    fn sample() -> ObjectRead {
        ObjectRead { object: OBJECT, offset: ObjectOffset(65536), len: 1 << 20 }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<ObjectRead> {
        (any_object(), any_offset(), any::<u32>())
            .prop_map(|(object, offset, len)| ObjectRead { object, offset, len })
            .boxed()
    }
}

/// Store `data`; the object is made if need be. Answers `Changed`.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectWrite {
    /// The object.
    pub object: ObjectId,
    /// First byte.
    pub offset: ObjectOffset,
    /// The bytes.
    pub data: Bytes,
    /// They are durable before the reply.
    pub sync: bool,
}

impl Operation for ObjectWrite {
    fn fid(&self) -> Fid {
        self.object.fid
    }

    fn flags(&self) -> u16 {
        bits([self.sync])
    }

    fn put(&self, w: &mut Writer) {
        put_place(self.object, self.offset, w);
        w.bulk(&self.data);
    }

    fn get(flags: u16, r: &mut Reader<'_>, bulk: &mut Bulk) -> Result<ObjectWrite, DecodeError> {
        let [sync] = unpack(FLAGS, flags)?;
        let (object, offset) = place(r)?;
        Ok(ObjectWrite { object, offset, data: r.bulk(bulk)?, sync })
    }

    #[cfg(test)]
    fn sample() -> ObjectWrite {
        let data = Bytes::from_static(b"the data itself");
        ObjectWrite { object: OBJECT, offset: ObjectOffset(65536), data, sync: true }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<ObjectWrite> {
        (any_object(), any_offset(), any_bytes(300), any::<bool>())
            .prop_map(|(object, offset, data, sync)| ObjectWrite { object, offset, data, sync })
            .boxed()
    }
}

/// Change the allocation of a range. Answers `Changed`.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectPunch {
    /// The object.
    pub object: ObjectId,
    /// First byte.
    pub start: ObjectOffset,
    /// Byte behind the last.
    pub end: ObjectOffset,
    /// How.
    pub kind: PunchKind,
}

impl Operation for ObjectPunch {
    fn fid(&self) -> Fid {
        self.object.fid
    }

    fn put(&self, w: &mut Writer) {
        let (start, end) = (self.start.0.into(), self.end.0.into());
        w.put(&RawPunch {
            object: self.object.into(),
            start,
            end,
            kind: self.kind as u8,
            zero: [0; 7],
        });
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<ObjectPunch, DecodeError> {
        no_flags(flags)?;
        let raw: &RawPunch = r.get()?;
        let kind = punch_kind(raw.kind)?;
        let (start, end) = (ObjectOffset(raw.start.get()), ObjectOffset(raw.end.get()));
        Ok(ObjectPunch { object: (&raw.object).into(), start, end, kind })
    }

    #[cfg(test)]
    fn sample() -> ObjectPunch {
        let (start, end) = (ObjectOffset(65536), ObjectOffset(u64::MAX));
        ObjectPunch { object: OBJECT, start, end, kind: PunchKind::Zero }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<ObjectPunch> {
        (any_object(), any_offset(), any_offset(), any_punch_kind())
            .prop_map(|(object, start, end, kind)| ObjectPunch { object, start, end, kind })
            .boxed()
    }
}

/// Size and blocks. Answers `Attr`.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectGetattr {
    /// The object.
    pub object: ObjectId,
}

impl Operation for ObjectGetattr {
    fn fid(&self) -> Fid {
        self.object.fid
    }

    fn put(&self, w: &mut Writer) {
        put_object(self.object, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<ObjectGetattr, DecodeError> {
        no_flags(flags)?;
        Ok(ObjectGetattr { object: object(r)? })
    }

    #[cfg(test)]
    fn sample() -> ObjectGetattr {
        ObjectGetattr { object: OBJECT }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<ObjectGetattr> {
        any_object().prop_map(|object| ObjectGetattr { object }).boxed()
    }
}

/// Next data or hole at or after `offset`. Answers `Offset`, None beyond the end.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectSeek {
    /// The object.
    pub object: ObjectId,
    /// Where the search begins.
    pub offset: ObjectOffset,
    /// Search for a hole rather than data.
    pub hole: bool,
}

impl Operation for ObjectSeek {
    fn fid(&self) -> Fid {
        self.object.fid
    }

    fn flags(&self) -> u16 {
        bits([self.hole])
    }

    fn put(&self, w: &mut Writer) {
        put_place(self.object, self.offset, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<ObjectSeek, DecodeError> {
        let [hole] = unpack(FLAGS, flags)?;
        let (object, offset) = place(r)?;
        Ok(ObjectSeek { object, offset, hole })
    }

    #[cfg(test)]
    fn sample() -> ObjectSeek {
        ObjectSeek { object: OBJECT, offset: ObjectOffset(65536), hole: true }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<ObjectSeek> {
        (any_object(), any_offset(), any::<bool>())
            .prop_map(|(object, offset, hole)| ObjectSeek { object, offset, hole })
            .boxed()
    }
}

/// Remove these; absent ones are no error. Durable when it answers.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectDestroy {
    /// The objects, at most OBJECTS_PER_OP_MAX.
    pub objects: Vec<ObjectId>,
}

impl Operation for ObjectDestroy {
    fn put(&self, w: &mut Writer) {
        put_objects(&self.objects, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<ObjectDestroy, DecodeError> {
        no_flags(flags)?;
        Ok(ObjectDestroy { objects: objects(r)? })
    }

    #[cfg(test)]
    fn sample() -> ObjectDestroy {
        ObjectDestroy { objects: vec![OBJECT, OBJECT] }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<ObjectDestroy> {
        vec(any_object(), 0..20).prop_map(|objects| ObjectDestroy { objects }).boxed()
    }
}

/// These objects (empty = all) are durable when it answers.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectSync {
    /// The objects, at most OBJECTS_PER_OP_MAX.
    pub objects: Vec<ObjectId>,
}

impl Operation for ObjectSync {
    fn put(&self, w: &mut Writer) {
        put_objects(&self.objects, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<ObjectSync, DecodeError> {
        no_flags(flags)?;
        Ok(ObjectSync { objects: objects(r)? })
    }

    #[cfg(test)]
    fn sample() -> ObjectSync {
        ObjectSync { objects: vec![OBJECT] }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<ObjectSync> {
        vec(any_object(), 0..20).prop_map(|objects| ObjectSync { objects }).boxed()
    }
}

/// Granted space (docs/locks/protocol.md, "Data"). The writes behind this in the same request are
/// paid from the client's grant, up to `spend`; what they leave of it is free for all. Answers
/// `Granted`.
#[derive(Clone, PartialEq, Debug)]
pub struct GrantSpace {
    /// Bytes of the client's grant that the writes may take.
    pub spend: u64,
    /// Bytes that are given back.
    pub back: u64,
    /// Bytes that are asked for, at most.
    pub want: u64,
}

impl Operation for GrantSpace {
    fn put(&self, w: &mut Writer) {
        [self.spend, self.back, self.want].into_iter().for_each(|bytes| w.put(&U64::new(bytes)));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<GrantSpace, DecodeError> {
        no_flags(flags)?;
        Ok(GrantSpace { spend: number64(r)?, back: number64(r)?, want: number64(r)? })
    }

    #[cfg(test)]
    fn sample() -> GrantSpace {
        GrantSpace { spend: 4096, back: 0, want: 64 << 20 }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<GrantSpace> {
        any::<[u64; 3]>().prop_map(|[spend, back, want]| GrantSpace { spend, back, want }).boxed()
    }
}

/// These are the clients that an MDT has evicted and that have not come back: the OST does nothing
/// for them. Replaces what the MDT said before; an older message changes nothing. Answers `Fenced`.
#[derive(Clone, PartialEq, Debug)]
pub struct FenceClients {
    /// The MDT.
    pub mdt: TargetIndex,
    /// Its boot number.
    pub boot: u64,
    /// Number of the message in this life of the MDT; 0: it only asks.
    pub number: u64,
    /// The clients.
    pub clients: Vec<ClientUuid>,
}

impl Operation for FenceClients {
    fn put(&self, w: &mut Writer) {
        let index = u32::from(self.mdt.0).into();
        w.put(&RawFence { boot: self.boot.into(), number: self.number.into(), mdt: index });
        put_clients(&self.clients, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<FenceClients, DecodeError> {
        no_flags(flags)?;
        let raw: &RawFence = r.get()?;
        let (boot, number, index) = (raw.boot.get(), raw.number.get(), raw.mdt.get());
        let mdt = u16::try_from(index).ok().filter(|mdt| usize::from(*mdt) < TARGETS_MAX);
        let wrong = DecodeError::Field { field: "index of an MDT", value: index.into() };
        let mdt = TargetIndex(mdt.ok_or(wrong)?);
        Ok(FenceClients { mdt, boot, number, clients: clients(r)? })
    }

    #[cfg(test)]
    fn sample() -> FenceClients {
        let clients = vec![ClientUuid(0x5678), ClientUuid(0x9abc)];
        FenceClients { mdt: TargetIndex(1), boot: 9, number: 3, clients }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<FenceClients> {
        let clients = vec(any::<u128>().prop_map(ClientUuid), 0..9);
        (0..TARGETS_MAX as u16, any::<[u64; 2]>(), clients)
            .prop_map(|(mdt, [boot, number], clients)| FenceClients {
                mdt: TargetIndex(mdt),
                boot,
                number,
                clients,
            })
            .boxed()
    }
}

/// Tickets for the objects of files, of which the session's client had not shown all
/// (docs/security.md, "Object tickets"). In front of operations on these objects, or alone. Answers
/// `Done`; EKEYREJECTED, of the whole request: one of them is not good.
#[derive(Clone, PartialEq, Debug)]
pub struct ShowTickets {
    /// The tickets, at most TICKETS_PER_OP_MAX.
    pub tickets: Vec<ObjectTicket>,
}

impl Operation for ShowTickets {
    fn put(&self, w: &mut Writer) {
        put_tickets(&self.tickets, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<ShowTickets, DecodeError> {
        no_flags(flags)?;
        Ok(ShowTickets { tickets: tickets(r)? })
    }

    #[cfg(test)]
    fn sample() -> ShowTickets {
        ShowTickets { tickets: vec![ticket()] }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<ShowTickets> {
        vec(any_ticket(), 0..9).prop_map(|tickets| ShowTickets { tickets }).boxed()
    }
}

/// Objects in an order of the OST's own; for checkers. Answers `Objects`.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectList {
    /// The object before the first; None: from the first of all.
    pub after: Option<ObjectId>,
    /// Objects, at most.
    pub limit: u32,
}

impl Operation for ObjectList {
    fn flags(&self) -> u16 {
        bits([self.after.is_some()])
    }

    fn put(&self, w: &mut Writer) {
        w.put(&U32::new(self.limit));
        self.after.iter().for_each(|after| put_object(*after, w));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<ObjectList, DecodeError> {
        let [goes_on] = unpack(FLAGS, flags)?;
        let limit = r.get::<U32>()?.get();
        Ok(ObjectList { after: if goes_on { Some(object(r)?) } else { None }, limit })
    }

    #[cfg(test)]
    fn sample() -> ObjectList {
        ObjectList { after: Some(OBJECT), limit: 100 }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<ObjectList> {
        (of(any_object()), any::<u32>())
            .prop_map(|(after, limit)| ObjectList { after, limit })
            .boxed()
    }
}
