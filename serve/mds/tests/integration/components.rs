//! Components that are taken from the end of a file, with their objects and bytes.

use crate::rig::holder::Answer;
use crate::rig::*;
use bytes::Bytes;
use layout::layout::{Component, EOF, Layout, Pattern};
use std::sync::Arc;
use types::attr::{SetAttr, WrittenAt};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::OpenHandle;
use wire::mds::{
    Close, GetLayout, Getattr, MdsOp, MdsReply, Open, OpenFlags, Setattr, Setxattr, SetxattrFlags,
    Wrote,
};

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
        wanted: Vec::new(),
    }
}

fn set(name: &'static [u8], fid: Fid, value: impl Into<Bytes>) -> MdsOp {
    MdsOp::Setxattr(Setxattr {
        fid,
        name: b(name),
        value: value.into(),
        flags: SetxattrFlags::default(),
    })
}

fn drop_from(fid: Fid, id: u32) -> MdsOp {
    set(b"lustre.lov.del", fid, id.to_le_bytes().to_vec())
}

fn layout(rig: &Rig, fid: Fid, write: bool) -> Arc<Layout> {
    match rig.one(MdsOp::GetLayout(GetLayout { fid, write, start: 0, end: 5 * MIB })).unwrap() {
        MdsReply::Layout(layout) => layout,
        other => panic!("{other:?}"),
    }
}

/// A file of 5 MiB in three components, all with objects.
fn file(rig: &Rig) -> Fid {
    let fid = rig.file("f");
    let components =
        vec![component(1, 0, MIB), component(2, MIB, 4 * MIB), component(3, 4 * MIB, EOF)];
    let wish = Layout { components, ..Layout::default() };
    rig.one(set(b"lustre.lov", fid, ::layout::lov_ea::encode(&wish, Fid::NONE))).unwrap();
    for (ost, object) in layout(rig, fid, true).objects(fid) {
        rig.osts.objects.lock().insert((ost, object), (MIB, 2048));
    }
    rig.one(MdsOp::Wrote(Wrote {
        fid,
        end: 5 * MIB,
        blocks_delta: 6144,
        at: WrittenAt::Now,
        kill_suidgid: false,
    }))
    .unwrap();
    fid
}

fn close(rig: &Rig, fid: Fid, handle: OpenHandle) {
    assert_eq!(rig.one(MdsOp::Close(Close { fid, handle })), Ok(MdsReply::Done));
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

    // New components have other names than the removed ones, also after a second time.
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
    assert_eq!(
        (layout(&rig, fid, false).components.len(), rig.getattr(fid).unwrap().size),
        (2, 4 * MIB)
    );
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
        rig.warm(holder, MdsOp::Open(Open { fid, flags }));
    }
    c.answers(Answer::Later);
    let asks = rig.start(&a, drop_from(fid, last));
    let data = InodeBits::LAYOUT.union(InodeBits::UPDATE).union(InodeBits::DATA);
    for holder in [&a, &c] {
        let revoked = holder.revoked();
        assert!(revoked.iter().all(|(of, bits)| *of == fid && bits.contains(data)), "{revoked:?}");
    }
    let size =
        |holder| entry(rig.by(holder, MdsOp::Getattr(Getattr::of(fid))).0.unwrap()).attr.size;
    assert_eq!(size(&a), 5 * MIB, "not before all have answered");
    c.answers(Answer::Done);
    assert!(asks.join().unwrap().results[0].is_ok());
    assert_eq!((size(&a), size(&c)), (4 * MIB, 4 * MIB));
    let root = Credentials::root();
    assert_eq!(rig.one_as(CLIENT, &root, drop_from(fid, last)), Err(Errno::EINVAL), "it is gone");
}

#[test]
fn sizes_end_where_the_layout_ends() {
    let rig = Rig::new();
    let fid = rig.file("f");
    let wish = Layout { components: vec![component(1, 0, MIB)], ..Layout::default() };
    rig.one(set(b"lustre.lov", fid, ::layout::lov_ea::encode(&wish, Fid::NONE))).unwrap();
    let resize = |size| {
        MdsOp::Setattr(Setattr { fid, set: SetAttr { size: Some(size), ..SetAttr::default() } })
    };
    assert_eq!(rig.one(resize(MIB + 1)), Err(Errno::EFBIG), "no byte was written yet");
    rig.one(MdsOp::GetLayout(GetLayout { fid, write: true, start: 0, end: 1 })).unwrap();
    assert_eq!(rig.one(resize(MIB + 1)), Err(Errno::EFBIG));
    rig.one(resize(MIB - 2)).unwrap();
    rig.one(resize(MIB)).unwrap();
    assert_eq!(
        rig.one(MdsOp::GetLayout(GetLayout { fid, write: true, start: MIB, end: 2 * MIB })),
        Err(Errno::EFBIG)
    );
    assert_eq!(rig.getattr(fid).unwrap().size, MIB);
    rig.one(resize(0)).unwrap();
}

#[test]
fn a_layout_is_asked_for_once_by_its_own_name() {
    let rig = Rig::new();
    let fid = rig.file("f");
    let wish = Layout { components: vec![component(1, 0, EOF)], ..Layout::default() };
    let value = || ::layout::lov_ea::encode(&wish, Fid::NONE);
    assert_eq!(rig.one(set(b"lustre.lov", fid, value())), Ok(MdsReply::Done));
    assert_eq!(rig.one(set(b"lustre.lov", fid, value())), Err(Errno::EEXIST));
    assert_eq!(
        rig.one(set(b"trusted.lov", fid, value())),
        Ok(MdsReply::Done),
        "tools that copy set what they find"
    );
}

#[test]
fn components_get_the_osts_that_they_name() {
    let rig = Rig::new();
    let fid = rig.file("f");
    let mut components =
        vec![component(1, 0, MIB), component(2, MIB, 4 * MIB), component(3, 4 * MIB, EOF)];
    let [first, last] = [rig.osts_all()[0], rig.osts_all()[1]];
    (components[1].wanted, components[2].wanted) = (vec![last], vec![last, first]);
    components[2].stripe_count = 2;
    let wish = Layout { components, ..Layout::default() };
    rig.one(set(b"lustre.lov", fid, ::layout::lov_ea::encode(&wish, Fid::NONE))).unwrap();
    let before = layout(&rig, fid, false);
    assert_eq!(
        (before.components[1].stripes.len(), &before.components[1].wanted),
        (0, &vec![last])
    );
    let after = layout(&rig, fid, true);
    assert_eq!(
        (&after.components[1].stripes, &after.components[1].wanted),
        (&vec![last], &Vec::new())
    );
    assert_eq!(after.components[2].stripes, [last, first]);
    // A directory keeps the names for files created in it; an absent OST is refused.
    let mut default = Layout { components: vec![component(1, 0, EOF)], ..Layout::default() };
    default.components[0].wanted = vec![last];
    let give = |layout: &Layout| {
        rig.one(set(b"lustre.lov", Fid::ROOT, ::layout::lov_ea::encode(layout, Fid::NONE)))
    };
    assert_eq!(give(&default), Ok(MdsReply::Done));
    for name in ["g", "h"] {
        let made = layout(&rig, rig.file(name), false);
        assert_eq!(made.components[0].stripes, [last]);
    }
    default.components[0].wanted = vec![types::target::TargetIndex(999)];
    assert_eq!(give(&default), Err(Errno::EINVAL));
}
