//! Bytes of files that live on the MDT: stored with the inode, and gone with it.

use crate::rig::{Rig, b, entry, opened, until, wait};
use bytes::Bytes;
use check::check::{Check, FIRST, THEN};
use check::finding::Finding;
use check::judge::{Change, Records, Verdict, clear, judge};
use layout::layout::{Component, EOF, Layout, Pattern};
use layout::lov_ea;
use types::attr::{SetAttr, WrittenAt};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{DOM_BYTES_MAX, DOM_CHUNK_BYTES};
use wire::mds::{
    Close, Create, CreateKind, MdsOp, MdsReply, Mend, Open, OpenFlags, Punch, Read, Record, Scan,
    Seek, Setxattr, SetxattrFlags, SwapLayouts, Write, Wrote,
};
use wire::ost::PunchKind;

const CHUNK: u64 = DOM_CHUNK_BYTES as u64;
const ELSEWHERE: Errno = Errno(libc::EREMCHG);

/// `end` bytes on the MDT, then one stripe; with 0 only that.
fn layout(end: u64) -> Layout {
    let component = |id, start, end, pattern, count| Component {
        id,
        start,
        end,
        pattern,
        stripe_size: 65536,
        stripe_count: count,
        overstriped: false,
        pool: None,
        stripes: Vec::new(),
        wanted: Vec::new(),
    };
    let mut components =
        vec![component(1, 0, end, Pattern::Mdt, 0), component(2, end, EOF, Pattern::Raid0, 1)];
    components.retain(|c| c.start < c.end);
    Layout { components, ..Layout::default() }
}

fn set_layout(rig: &Rig, fid: Fid, end: u64) -> Result<MdsReply, Errno> {
    let value = lov_ea::encode(&layout(end), Fid::NONE).into();
    rig.one(MdsOp::Setxattr(Setxattr {
        fid,
        name: b(b"lustre.lov"),
        value,
        flags: SetxattrFlags::default(),
    }))
}

/// A file with 64 KiB on the MDT.
pub fn file(rig: &Rig, name: &str) -> Fid {
    let fid = rig.file(name);
    set_layout(rig, fid, 65536).unwrap();
    fid
}

fn write(rig: &Rig, fid: Fid, offset: u64, data: &[u8]) -> Result<MdsReply, Errno> {
    let data = Bytes::copy_from_slice(data);
    rig.one(MdsOp::Write(Write {
        fid,
        offset,
        data,
        at: WrittenAt::Now,
        kill_suidgid: false,
        keeps: false,
    }))
}

/// Bytes, size, blocks.
pub fn read(rig: &Rig, fid: Fid, offset: u64, len: u32) -> (Bytes, u64, u64) {
    match rig.one(MdsOp::Read(Read { fid, offset, len })).unwrap() {
        MdsReply::Data { entry, data } => (data, entry.attr.size, entry.attr.blocks),
        other => panic!("{other:?}"),
    }
}

fn truncate(rig: &Rig, fid: Fid, size: u64) -> u64 {
    rig.setattr(fid, SetAttr { size: Some(size), ..SetAttr::default() }).unwrap().blocks
}

fn chunks(rig: &Rig) -> usize {
    wait(rig.store.commit()).unwrap();
    rig.engine.snapshot().iter().filter(|(key, _)| key[0] == b'B').count()
}

#[test]
fn one_request_stores_and_tells_one_reads_with_the_size() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    let before = rig.getattr(fid).unwrap();
    let attr = entry(write(&rig, fid, 3, b"some bytes").unwrap()).attr;
    assert_eq!((attr.size, attr.blocks), (13, 1));
    assert!(attr.version > before.version && attr.mtime >= before.mtime);
    assert_eq!(read(&rig, fid, 0, 100), (b(b"\0\0\0some bytes"), 13, 1));
    assert_eq!(read(&rig, fid, 8, 2), (b(b"by"), 13, 1));
    assert_eq!(read(&rig, fid, 20, 20), (Bytes::new(), 13, 1));
    // Across chunks.
    write(&rig, fid, CHUNK - 2, b"edge").unwrap();
    assert_eq!(read(&rig, fid, CHUNK - 4, 6), (b(b"\0\0edge"), CHUNK + 2, 32 + 1));
    assert_eq!(chunks(&rig), 2);
    // No OST was asked for anything.
    assert!(rig.osts.objects.lock().is_empty() && rig.osts.destroyed.lock().is_empty());
    rig.unlink("f").unwrap();
    rig.assert_empty();
}

#[test]
fn what_lives_elsewhere_is_refused() {
    let rig = Rig::new();
    let (fid, plain) = (file(&rig, "f"), rig.file("plain"));
    assert_eq!(write(&rig, fid, 65535, b"ab"), Err(ELSEWHERE));
    assert_eq!(write(&rig, fid, u64::MAX, b"ab"), Err(ELSEWHERE));
    assert_eq!(write(&rig, plain, 0, b"a"), Err(ELSEWHERE));
    assert_eq!(rig.one(MdsOp::Read(Read { fid: plain, offset: 0, len: 1 })), Err(ELSEWHERE));
    assert_eq!(rig.one(MdsOp::Read(Read { fid, offset: 65536, len: 1 })), Err(ELSEWHERE));
    assert_eq!(
        rig.one(MdsOp::Read(Read { fid: Fid::ROOT, offset: 0, len: 1 })),
        Err(Errno::EINVAL)
    );
    assert_eq!(write(&rig, Fid::ROOT, 0, b"a"), Err(Errno::EINVAL));
    let gone = Fid { oid: 99, ..fid };
    assert_eq!(write(&rig, gone, 0, b"a"), Err(Errno::ESTALE));
    assert_eq!((rig.getattr(fid).unwrap().size, chunks(&rig)), (0, 0));
}

#[test]
fn cuts_holes_and_space() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    write(&rig, fid, 0, &[7; 40_000]).unwrap();
    assert_eq!(rig.getattr(fid).unwrap().blocks, 32 + 32 + 15);
    assert_eq!(truncate(&rig, fid, 20_000), 32 + 8);
    assert_eq!(truncate(&rig, fid, 30_000), 32 + 8);
    let (data, ..) = read(&rig, fid, 19_990, 20);
    assert_eq!(data[..], [[7; 10], [0; 10]].concat(), "what was cut away does not come back");
    let punch = |start, end, kind, grows| {
        let op = MdsOp::Punch(Punch { fid, start, end, kind, grows, kill_suidgid: false });
        rig.one(op).map(|reply| (entry(reply.clone()).attr.size, entry(reply).attr.blocks))
    };
    assert_eq!(punch(0, CHUNK, PunchKind::Hole, false), Ok((30_000, 8)));
    let seek = |offset, hole| rig.one(MdsOp::Seek(Seek { fid, offset, hole }));
    assert_eq!(seek(0, false), Ok(MdsReply::Offset(Some(CHUNK))));
    assert_eq!(seek(CHUNK, true), Ok(MdsReply::Offset(Some(20_000))));
    assert_eq!(seek(20_000, false), Ok(MdsReply::Offset(None)));
    assert_eq!(punch(3 * CHUNK, 65536, PunchKind::Allocate, false), Ok((30_000, 40)));
    assert_eq!(punch(3 * CHUNK, 65536, PunchKind::Zero, true), Ok((65536, 40)));
    assert_eq!(punch(3 * CHUNK, 65537, PunchKind::Zero, true), Err(ELSEWHERE));
    assert_eq!(punch(0, 4096, PunchKind::Truncate, false), Err(Errno::EINVAL));
    assert_eq!(punch(7, 7, PunchKind::Zero, false), Err(Errno::EINVAL));
    assert_eq!(truncate(&rig, fid, 0), 0);
    assert_eq!(chunks(&rig), 0);
}

#[test]
fn a_removed_file_keeps_its_bytes_while_it_is_open() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    let handle = rig.open(crate::rig::CLIENT, fid, true);
    write(&rig, fid, 0, b"bytes").unwrap();
    rig.unlink("f").unwrap();
    assert_eq!(read(&rig, fid, 0, 5).0, b(b"bytes"));
    rig.one(MdsOp::Close(Close { fid, handle })).unwrap();
    rig.assert_empty();
}

#[test]
fn exchanged_layouts_take_their_bytes_along() {
    let rig = Rig::new();
    let (a, c) = (file(&rig, "a"), rig.file("c"));
    write(&rig, a, 0, b"bytes").unwrap();
    rig.one(MdsOp::Wrote(Wrote {
        fid: c,
        end: 9,
        blocks_delta: 8,
        at: WrittenAt::Now,
        kill_suidgid: false,
    }))
    .unwrap();
    let swap = || {
        rig.one(MdsOp::SwapLayouts(SwapLayouts { fid: a, other: c, versions: (0, 0), same: false }))
            .unwrap()
    };
    swap();
    assert_eq!(read(&rig, c, 0, 100), (b(b"bytes"), 5, 1));
    assert_eq!(rig.one(MdsOp::Read(Read { fid: a, offset: 0, len: 5 })), Err(ELSEWHERE));
    write(&rig, c, 5, b" more").unwrap();
    // The clients that made them may go.
    rig.unlink("a").unwrap();
    assert_eq!(read(&rig, c, 0, 100).0, b(b"bytes more"));
    rig.unlink("c").unwrap();
    until("destroyed", || {
        wait(rig.store.commit()).unwrap();
        rig.engine.snapshot().len() == 3
    });
    rig.assert_empty();
}

#[test]
fn what_was_answered_survives_with_its_size_or_not_at_all() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    rig.open(crate::rig::CLIENT, fid, true);
    write(&rig, fid, 0, b"durable").unwrap();
    rig.one(MdsOp::Sync).unwrap();
    write(&rig, fid, 7, &[1; 50_000]).unwrap();
    let rig = rig.crash();
    // The open file was marked; settling it asks no OST and keeps what is here.
    until("settled", || {
        wait(rig.store.commit()).unwrap();
        !rig.engine.snapshot().iter().any(|(key, _)| key[0] == b'W')
    });
    let (data, size, blocks) = read(&rig, fid, 0, 65536);
    match size {
        7 => assert_eq!((&data[..], blocks), (&b"durable"[..], 1)),
        50_007 => assert_eq!((&data[7..], blocks), (&[1u8; 50_000][..], 32 * 3 + 2)),
        other => panic!("{other} bytes"),
    }
}

#[test]
fn damaged_bytes_are_told() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    write(&rig, fid, 0, &[7; 40_000]).unwrap();
    let mut tx = rig.store.begin();
    tx.put(&disk::key::chunk(fid, 1), b"no record");
    tx.finish();
    assert_eq!(rig.one(MdsOp::Read(Read { fid, offset: 0, len: 40_000 })), Err(Errno::EIO));
    assert_eq!(read(&rig, fid, 0, 16_384).0.len(), 16_384, "what is whole can be read");
    rig.unlink("f").unwrap();
    rig.assert_empty();
}

#[test]
fn a_key_that_is_none_is_told() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    write(&rig, fid, 0, &[7; 40_000]).unwrap();
    let (chunk, attribute) = (disk::key::chunk(fid, 1), disk::key::xattr(fid, &[b'x'; 255]));
    let setxattr =
        Setxattr { fid, name: b(b"user.a"), value: b(b"1"), flags: SetxattrFlags::default() };
    rig.one(MdsOp::Setxattr(setxattr)).unwrap();
    let mut tx = rig.store.begin();
    let record = tx.get(&chunk, <[u8]>::to_vec).unwrap().unwrap();
    tx.put(&[&chunk[..], b"x"].concat(), &record);
    tx.put(&[&attribute[..], b"x"].concat(), b"no record");
    tx.finish();
    assert_eq!(rig.one(MdsOp::Read(Read { fid, offset: 0, len: 40_000 })), Err(Errno::EIO));
    assert_eq!(read(&rig, fid, 0, 16_384).0.len(), 16_384, "what is whole can be read");
    rig.unlink("f").unwrap();
    rig.assert_empty();
}

/// Findings of a checker that asks the MDT for all records, as `sheen fsck` does with a cluster at
/// work.
fn checked(rig: &Rig) -> Vec<Finding> {
    let mut check = Check::default();
    for tag in FIRST.into_iter().chain(THEN) {
        let (start, end) = disk::key::all(tag);
        let [start, end] = [start, end].map(|key| Bytes::copy_from_slice(&key));
        match rig.one(MdsOp::Scan(Scan { start, end, bytes_max: u32::MAX })).unwrap() {
            MdsReply::Records { records, more: false } => {
                records
                    .iter()
                    .for_each(|r| check.record(0, &r.key, r.value.as_ref().unwrap()).unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
    check.finish().0
}

fn records(changes: Vec<Change>) -> Vec<Record> {
    changes
        .into_iter()
        .map(|c| Record { key: c.key.into(), value: c.value.map(Bytes::from) })
        .collect()
}

#[test]
fn a_checker_finds_damaged_bytes_and_bytes_of_nobody() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    write(&rig, fid, 0, &[7; 40_000]).unwrap();
    assert_eq!(checked(&rig), []);
    let good = rig.value(&disk::key::chunk(fid, 1)).unwrap();
    let mut spoilt = good.clone();
    spoilt[100] ^= 1;
    let stray = Fid { oid: 77, ..fid };
    let mut tx = rig.store.begin();
    tx.put(&disk::key::chunk(fid, 1), &spoilt);
    tx.put(&disk::key::chunk(stray, 0), &good);
    tx.finish();
    let findings = checked(&rig);
    assert_eq!(findings.iter().map(Finding::kind).collect::<Vec<_>>(), ["damaged", "stray-chunk"]);
    for finding in findings {
        let mut seen = Records::default();
        for key in finding.keys() {
            if let Some(value) = rig.value(&key) {
                seen.insert(key, value);
            }
        }
        let Verdict::Confirmed(mend) = judge(&finding, &seen) else {
            panic!("{finding} is not confirmed")
        };
        // Damaged data is removed only on request.
        let mend = mend.or_else(|| clear(&disk::key::chunk(fid, 1), &seen)).unwrap();
        rig.one(MdsOp::Mend(Mend { expect: records(mend.expect), put: records(mend.put) }))
            .unwrap();
    }
    assert_eq!(checked(&rig), []);
    let (data, ..) = read(&rig, fid, 0, 40_000);
    assert!(data[..16_384].iter().chain(&data[32_768..]).all(|byte| *byte == 7), "the rest stays");
    assert!(data[16_384..32_768].iter().all(|byte| *byte == 0));
}

#[test]
fn limits_say_what_new_files_get() {
    let rig = Rig::new();
    let dir = rig.create(Fid::ROOT, "dir", CreateKind::Directory { mdt: None }).unwrap();
    assert_eq!(set_layout(&rig, dir, DOM_BYTES_MAX + 65536), Err(Errno::EINVAL));
    set_layout(&rig, dir, DOM_BYTES_MAX).unwrap();
    let on_mdt = |name: &str| {
        let flags =
            OpenFlags { read: true, write: true, exec: false, append: false, lasting: false };
        let kind = CreateKind::Regular(Some(flags));
        let name = crate::rig::n(name);
        let made = MdsOp::Create(Create {
            parent: dir,
            name,
            kind,
            mode: 0o644,
            umask: 0,
            exclusive: true,
        });
        match rig.one(made).unwrap() {
            MdsReply::Opened { layout: Some(layout), .. } => {
                let starts: Vec<u64> = layout.components.iter().map(|c| c.start).collect();
                assert_eq!(
                    starts.last(),
                    Some(&layout.mdt_bytes()),
                    "the next component begins there: {starts:?}"
                );
                layout.mdt_bytes()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(on_mdt("whole"), DOM_BYTES_MAX);
    rig.mds.set_dom_bytes(128 << 10).unwrap();
    assert_eq!((on_mdt("less"), rig.mds.dom_bytes()), (128 << 10, (128 << 10, 128 << 10)));
    assert_eq!(set_layout(&rig, dir, 256 << 10), Err(Errno::EINVAL));
    for bad in [1, 65537, DOM_BYTES_MAX + 65536] {
        assert_eq!(rig.mds.set_dom_bytes(bad), Err(Errno(libc::ERANGE)));
    }
    // Short of space: the threshold is above what the store can ever have free.
    let half = rig.mds.dom_threshold().unwrap();
    assert_eq!(half, 512, "half of 1 GiB");
    rig.mds.set_dom_threshold(1 << 20).unwrap();
    assert_eq!((on_mdt("short"), rig.mds.dom_bytes()), (0, (128 << 10, 0)));
    rig.mds.set_dom_threshold(1).unwrap();
    assert_eq!(on_mdt("room"), 128 << 10);
    rig.mds.set_dom_bytes(0).unwrap();
    assert_eq!(on_mdt("none"), 0);
    let made = rig.create(Fid::ROOT, "f", CreateKind::Regular(None)).unwrap();
    assert_eq!(set_layout(&rig, made, 65536), Err(Errno::EINVAL));
    let _ = opened(rig.one(MdsOp::Open(Open { fid: made, flags: OpenFlags::default() })).unwrap());
}
