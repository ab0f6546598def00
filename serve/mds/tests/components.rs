//! Components that are taken from the end of a file, with their objects and bytes.

mod rig;

use bytes::Bytes;
use layout::layout::{Component, EOF, Layout, Pattern};
use rig::holder::Answer;
use rig::*;
use std::sync::Arc;
use types::attr::WrittenAt;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::OpenHandle;
use wire::mds::{MdsOp, MdsReply, OpenFlags, SetxattrFlags};

const MIB: u64 = 1 << 20;

fn component(id: u32, start: u64, end: u64) -> Component {
    Component {
        id,
        start,
        end,
        pattern: Pattern::Raid0,
        stripe_size: 65536,
        stripe_count: 1,
        overstriped: false,
        pool: None,
        stripes: Vec::new(),
    }
}

fn set(name: &'static [u8], fid: Fid, value: impl Into<Bytes>) -> MdsOp {
    MdsOp::Setxattr { fid, name: b(name), value: value.into(), flags: SetxattrFlags::default() }
}

fn drop_from(fid: Fid, id: u32) -> MdsOp {
    set(b"lustre.lov.del", fid, id.to_le_bytes().to_vec())
}

fn layout(rig: &Rig, fid: Fid, write: bool) -> Arc<Layout> {
    match rig.one(MdsOp::GetLayout { fid, write, start: 0, end: 5 * MIB }).unwrap() {
        MdsReply::Layout(layout) => layout,
        other => panic!("{other:?}"),
    }
}

/// A file of 5 MiB in three components, all with objects.
fn file(rig: &Rig) -> Fid {
    let fid = rig.file("f");
    let components = vec![component(1, 0, MIB), component(2, MIB, 4 * MIB), component(3, 4 * MIB, EOF)];
    let wish = Layout { components, ..Layout::default() };
    rig.one(set(b"lustre.lov", fid, ::layout::lov_ea::encode(&wish, Fid::NONE))).unwrap();
    for (ost, object) in layout(rig, fid, true).objects(fid) {
        rig.osts.objects.lock().insert((ost, object), (MIB, 2048));
    }
    rig.one(MdsOp::Wrote { fid, end: 5 * MIB, blocks_delta: 6144, at: WrittenAt::Now, kill_suidgid: false }).unwrap();
    fid
}

fn close(rig: &Rig, fid: Fid, handle: OpenHandle) {
    assert_eq!(rig.one(MdsOp::Close { fid, handle }), Ok(MdsReply::Done));
}

#[test]
fn the_last_components_go_with_their_objects_and_the_size_follows() {
    let rig = Rig::new();
    let fid = file(&rig);
    let before = layout(&rig, fid, false);
    let ids: Vec<u32> = before.components.iter().map(|c| c.id).collect();
    assert_eq!(before.objects(fid).count(), 3);
    let writer = rig.open(CLIENT, fid, true);
    assert_eq!(rig.one(drop_from(fid, ids[1])), Err(Errno::EBUSY), "open to write");
    close(&rig, fid, writer);
    assert_eq!(rig.one_as(CLIENT, &user(3), drop_from(fid, ids[1])), Err(Errno::EPERM));
    assert_eq!(rig.one(drop_from(fid, ids[0])), Err(Errno::EINVAL), "nothing would be left");
    assert_eq!(rig.one(drop_from(fid, 0)), Err(Errno::ENODATA), "all have objects");
    assert_eq!(rig.getattr(fid).unwrap().size, 5 * MIB);

    let reader = rig.open(CLIENT, fid, false);
    assert_eq!(rig.one(drop_from(fid, ids[1])), Ok(MdsReply::Done));
    close(&rig, fid, reader);
    let after = layout(&rig, fid, false);
    assert_eq!((after.components.len(), after.generation), (1, before.generation + 1));
    assert_eq!(rig.getattr(fid).unwrap().size, MIB);
    let gone: Vec<_> = before.objects(fid).skip(1).collect();
    until("destroyed", || gone.iter().all(|object| rig.osts.destroyed.lock().contains(object)));
    assert_eq!(rig.osts.destroyed.lock().len(), 2, "the first has its objects");
    until("counted anew", || rig.getattr(fid).unwrap().blocks == 2048);

    // What comes behind has other names than what went, also after a second time.
    let more = Layout { components: vec![component(1, MIB, EOF)], ..Layout::default() };
    let add = || set(b"lustre.lov.add", fid, ::layout::lov_ea::encode(&more, Fid::NONE));
    assert_eq!(rig.one(add()), Ok(MdsReply::Done));
    let again = layout(&rig, fid, true);
    assert!(again.components[1].id > ids[2] && again.components[1].is_instantiated());
    assert_eq!(rig.one(drop_from(fid, again.components[1].id)), Ok(MdsReply::Done));
    assert_eq!(rig.one(add()), Ok(MdsReply::Done));
    assert!(layout(&rig, fid, true).components[1].id > again.components[1].id);
}

#[test]
fn what_was_answered_stays_so() {
    let rig = Rig::new();
    let fid = file(&rig);
    let last = layout(&rig, fid, false).components[2].id;
    rig.osts.away.lock().extend(rig.osts_all());
    assert_eq!(rig.one(drop_from(fid, last)), Ok(MdsReply::Done));
    let rig = rig.crash();
    assert_eq!((layout(&rig, fid, false).components.len(), rig.getattr(fid).unwrap().size), (2, 4 * MIB));
    assert_eq!(rig.mds.destroy_backlog(), 1);
    rig.osts.away.lock().clear();
    until("destroyed", || rig.mds.destroy_backlog() == 0);
    until("counted anew", || rig.getattr(fid).unwrap().blocks == 4096);
    assert_eq!(rig.osts.objects.lock().len(), 2);
}

#[test]
fn everybody_forgets_what_goes_also_whoever_asks() {
    let rig = Rig::new();
    let fid = file(&rig);
    let last = layout(&rig, fid, false).components[2].id;
    let (a, c) = (rig.holder(10), rig.holder(11));
    let flags = OpenFlags { read: true, write: false, exec: false, append: false, lasting: false };
    for holder in [&a, &c] {
        rig.warm(holder, MdsOp::Open { fid, flags });
    }
    c.answers(Answer::Later);
    let asks = rig.start(&a, drop_from(fid, last));
    let data = InodeBits::LAYOUT.union(InodeBits::UPDATE).union(InodeBits::DATA);
    for holder in [&a, &c] {
        let revoked = holder.revoked();
        assert!(revoked.iter().all(|(of, bits)| *of == fid && bits.contains(data)), "{revoked:?}");
    }
    let size = |holder| entry(rig.by(holder, MdsOp::Getattr { fid }).0.unwrap()).attr.size;
    assert_eq!(size(&a), 5 * MIB, "not before all have answered");
    c.answers(Answer::Done);
    assert!(asks.join().unwrap().results[0].is_ok());
    assert_eq!((size(&a), size(&c)), (4 * MIB, 4 * MIB));
    let root = Credentials::root();
    assert_eq!(rig.one_as(CLIENT, &root, drop_from(fid, last)), Err(Errno::EINVAL), "it is gone");
}
