//! What samples and strategies of operations are made of.

use crate::ost::punch::PunchKind;
use bytes::Bytes;
use layout::layout::{Component, EOF, Layout, Pattern, PoolName};
pub(crate) use proptest::collection::vec;
pub(crate) use proptest::option::of;
pub(crate) use proptest::prelude::*;
use std::sync::Arc;
use types::attr::{FileType, SetAttr, SetTime, WrittenAt};
use types::fid::Fid;
use types::lock::{Flock, FlockFlavor, FlockKind, InodeBits, LeaseMode};
use types::name::Name;
use types::object::{ObjectId, ObjectOffset};
use types::object_ticket::{ObjectTicket, Rights};
use types::ranges::{ByteRange, Needs};
use types::target::TargetIndex;
use types::time::Timestamp;

pub const FID: Fid = Fid { seq: 0x2_0000_0400, oid: 7, ver: 0 };
pub const DIR: Fid = Fid { seq: 0x2_0000_0400, oid: 1, ver: 0 };
pub const OBJECT: ObjectId = ObjectId { fid: FID, instance: 3, stripe: 2 };

pub fn ticket() -> ObjectTicket {
    let (fid, rights, epoch, expires) = (FID, Rights::ALL, 500_000, 1_800_001_200);
    ObjectTicket { fid, rights, epoch, expires, mac: 0x0123_4567_89ab_cdef << 60 }
}

pub fn any_ticket() -> impl Strategy<Value = ObjectTicket> {
    (any_fid(), 0..=Rights::ALL.bits(), any::<(u32, u64, u128)>()).prop_map(
        |(fid, rights, (epoch, expires, mac))| {
            let rights = Rights::from_bits(rights).unwrap();
            ObjectTicket { fid, rights, epoch, expires, mac }
        },
    )
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub fn flock() -> Flock {
    let (flavor, kind) = (FlockFlavor::Bsd, FlockKind::Write);
    Flock { flavor, kind, owner: 0xdead_beef, pid: 4711, start: 10, end: u64::MAX }
}

pub fn layout() -> Arc<Layout> {
    let component = Component {
        id: 1,
        start: 0,
        end: EOF,
        pattern: Pattern::Raid0,
        stripe_size: 1 << 20,
        stripe_count: 2,
        overstriped: false,
        pool: Some(PoolName("flash".into())),
        stripes: vec![TargetIndex(4), TargetIndex(0)],
        wanted: Vec::new(),
    };
    Arc::new(Layout { generation: 5, components: vec![component], ..Layout::default() })
}

pub fn any_fid() -> impl Strategy<Value = Fid> {
    any::<(u64, u32, u32)>().prop_map(|(seq, oid, ver)| Fid { seq, oid, ver })
}

pub fn any_written_at() -> impl Strategy<Value = WrittenAt> {
    prop_oneof![Just(WrittenAt::Now), Just(WrittenAt::Told), any_time().prop_map(WrittenAt::At)]
}

pub fn any_locks() -> impl Strategy<Value = Vec<(Fid, InodeBits)>> {
    vec((any_fid(), any::<u32>().prop_map(InodeBits::from_bits_retain)), 0..20)
}

pub fn any_range() -> impl Strategy<Value = ByteRange> {
    any::<(u64, u64)>().prop_map(|(start, end)| ByteRange::new(start, end))
}

pub fn any_needs() -> impl Strategy<Value = Needs> {
    (any_range(), any::<bool>()).prop_map(|(range, again)| Needs { range, again })
}

pub fn any_name() -> impl Strategy<Value = Name> {
    vec(any::<u8>(), 1..=255).prop_map(|mut bytes| {
        bytes.iter_mut().filter(|b| matches!(**b, 0 | b'/')).for_each(|b| *b = b'_');
        Name::new(&bytes).unwrap_or_else(|_| name("dots"))
    })
}

pub fn any_place() -> impl Strategy<Value = (Fid, Name)> {
    (any_fid(), any_name())
}

pub fn any_bytes(max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..=max).prop_map(Bytes::from)
}

pub fn any_time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..1_000_000_000u32).prop_map(|(sec, nsec)| Timestamp { sec, nsec })
}

pub fn any_file_type() -> impl Strategy<Value = FileType> {
    (1..=12u8).prop_filter_map("some numbers name no type", FileType::from_dtype)
}

pub fn any_flock() -> impl Strategy<Value = Flock> {
    let flavor =
        prop_oneof![Just(FlockFlavor::Posix), Just(FlockFlavor::Bsd), Just(FlockFlavor::Group)];
    let kind = prop_oneof![Just(FlockKind::Read), Just(FlockKind::Write), Just(FlockKind::Unlock)];
    (flavor, kind, any::<(u64, u32, u64, u64)>()).prop_map(
        |(flavor, kind, (owner, pid, start, end))| Flock { flavor, kind, owner, pid, start, end },
    )
}

pub fn any_lease() -> impl Strategy<Value = LeaseMode> {
    prop_oneof![Just(LeaseMode::Read), Just(LeaseMode::Write)]
}

pub fn any_set_attr() -> impl Strategy<Value = SetAttr> {
    let time = || of(prop_oneof![Just(SetTime::Now), any_time().prop_map(SetTime::At)]);
    (any::<(Option<u32>, Option<u32>, Option<u32>, Option<u64>, bool)>(), time(), time()).prop_map(
        |((mode, uid, gid, size, kill_suidgid), atime, mtime)| SetAttr {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
            kill_suidgid,
        },
    )
}

pub fn any_object() -> impl Strategy<Value = ObjectId> {
    (any_fid(), any::<(u32, u32)>()).prop_map(|(fid, (instance, stripe))| ObjectId {
        fid,
        instance,
        stripe,
    })
}

pub fn any_offset() -> impl Strategy<Value = ObjectOffset> {
    any::<u64>().prop_map(ObjectOffset)
}

pub fn any_punch_kind() -> impl Strategy<Value = PunchKind> {
    prop::sample::select(vec![
        PunchKind::Truncate,
        PunchKind::Hole,
        PunchKind::Zero,
        PunchKind::Allocate,
    ])
}

pub fn any_layout() -> impl Strategy<Value = Arc<Layout>> {
    let plain = |(generation, osts): (u32, Vec<u16>)| {
        let mut layout = (*layout()).clone();
        layout.generation = generation;
        layout.components[0].stripe_count = osts.len() as u16;
        layout.components[0].stripes = osts.into_iter().map(TargetIndex).collect();
        Arc::new(layout)
    };
    (any::<u32>(), vec(any::<u16>(), 1..9)).prop_map(plain)
}
