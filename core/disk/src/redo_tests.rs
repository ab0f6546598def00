use super::*;
use crate::inode::InodeRecord;
use types::attr::Attr;

const A: Fid = Fid { seq: 0x2_0000_0400, oid: 1, ver: 0 };

fn delta() -> Delta {
    Delta { nlink: -1, mtime: None, ctime: Some(Timestamp { sec: -5, nsec: 7 }), changed: true }
}

fn found() -> Found {
    let name = |name: &[u8]| key::dirent(A, name).as_bytes().into();
    Found {
        inodes: vec![(A, 7), (Fid::ROOT, 0)],
        names: vec![(name(b"n"), Some(A)), (name(b"none"), None)],
        empty: vec![A],
    }
}

fn attr() -> Attr {
    Attr {
        fid: A,
        mode: 0o40755,
        uid: 0,
        gid: 0,
        nlink: 2,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: Timestamp::default(),
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        btime: Timestamp::default(),
        version: 9,
    }
}

fn record() -> Vec<u8> {
    inode::base(&InodeRecord { attr: attr(), parent: Fid::ROOT, flags: 0, base: 9, tail: &[] })
}

fn sample() -> Vec<u8> {
    let mut log = Log::default();
    log.note(b"Ikey", Some(b"value"));
    log.note(b"Ename", None);
    log.note(b"X", Some(b""));
    log.note_base(A, &record());
    log.note_delta(A, &delta());
    log.encode(&found())
}

#[test]
fn bytes_never_change_and_round_trip() {
    let bytes = sample();
    crate::golden::check("redo", &bytes);
    let redo = decode(&bytes).unwrap();
    let base = record();
    let changes = vec![
        Change::Record(b"Ikey", Some(b"value")),
        Change::Record(b"Ename", None),
        Change::Record(b"X", Some(b"")),
        Change::Base(A, &base),
        Change::Delta(A, delta()),
    ];
    assert_eq!(redo, Redo { found: found(), changes });
    crate::golden::refuses_other_lengths(&bytes, |bytes| decode(bytes).is_err());
}

#[test]
fn data_that_is_named_is_found_in_what_is_added() {
    let chunk = key::chunk(A, 3);
    let [one, two] = [(0, 2, 5), (16_000, 0, 2)].map(|(at, from, len)| Source { at, from, len });
    let mut log = Log::default();
    log.note(b"Ikey", Some(b"value"));
    assert!(!log.names_data());
    log.note_bytes(&chunk, &[one, two]);
    assert!(log.names_data());
    let short = log.encode(&found());
    let missing = Damaged::Field { record: RECORD, field: "data that is named", found: 2 };
    assert_eq!(decode(&short), Err(missing));
    let data = [&b"da"[..], b"ta of it"];
    let whole = with_data(&short, data.into_iter());
    crate::golden::check("redo-data", &whole);
    let bytes = |at, bytes| Change::Bytes { key: &chunk, at, bytes };
    let changes =
        vec![Change::Record(b"Ikey", Some(b"value")), bytes(0, b"ta of"), bytes(16_000, b"da")];
    assert_eq!(decode(&whole), Ok(Redo { found: found(), changes }));
    crate::golden::refuses_other_lengths(&whole, |bytes| decode(bytes).is_err());
    // Less data than is named, and data that comes twice.
    assert!(decode(&with_data(&short, [&b"data o"[..]].into_iter())).is_err());
    assert!(decode(&with_data(&whole, data.into_iter())).is_err());
    assert_eq!(with_data(b"short", data.into_iter()), b"short", "no redo");
}

#[test]
fn bytes_lie_within_a_chunk() {
    let end = DOM_CHUNK_BYTES as u32;
    for (at, len, good) in
        [(0, 1, true), (0, 0, false), (0, end, true), (1, end, false), (u32::MAX, 1, false)]
    {
        let mut log = Log::default();
        log.note_bytes(&key::chunk(A, 0), &[Source { at, from: 0, len }]);
        let redo = with_data(&log.encode(&Found::default()), [&[7; 1 << 15][..]].into_iter());
        assert_eq!(decode(&redo).is_ok(), good, "{at} {len}");
    }
    let mut log = Log::default();
    log.note_bytes(&key::inode(A), &[Source { at: 0, from: 0, len: 1 }]);
    let redo = with_data(&log.encode(&Found::default()), [&b"a"[..]].into_iter());
    assert!(decode(&redo).is_err(), "no chunk");
}

#[test]
fn redo_of_version_2_is_read() {
    let mut bytes = sample();
    bytes[4] = 2;
    seal(&mut bytes);
    crate::golden::check("redo-2", &bytes);
    assert_eq!(decode(&bytes), decode(&sample()));
}

#[test]
fn redo_of_version_1_is_read() {
    let mut log = Log::default();
    log.note(b"Ikey", Some(b"value"));
    let mut bytes = log.encode(&Found { inodes: vec![(A, 7)], ..Found::default() });
    bytes[4] = 1;
    seal(&mut bytes);
    crate::golden::check("redo-1", &bytes);
    let redo = decode(&bytes).unwrap();
    assert_eq!(
        (redo.found.inodes, redo.changes),
        (vec![(A, 7)], vec![Change::Record(b"Ikey", Some(b"value"))])
    );
}

#[test]
fn parts_that_cannot_be_are_named() {
    let whole = |key: &[u8], kind: u16, value: Option<&[u8]>| {
        let mut log = Log::default();
        log.part(kind, key, value);
        decode(&log.encode(&Found::default())).map(|_| ())
    };
    let delta = |bits: u32, nsec: u32| {
        let time = || RawTime { sec: 0.into(), nsec: nsec.into() };
        let raw = RawDelta { nlink: 0.into(), bits: bits.into(), mtime: time(), ctime: time() };
        whole(&key::inode(A), DELTA_KIND, Some(raw.as_bytes()))
    };
    let (inode, entry) = (key::inode(A), key::dirent(A, b"n"));
    assert_eq!(whole(&inode, BASE_KIND, Some(&record())), Ok(()));
    assert!(matches!(
        whole(&inode, BASE_KIND, Some(&record()[1..])),
        Err(Damaged::Checksum { .. })
    ));
    assert_eq!(delta(CHANGED, 1_000_000_000), Ok(()), "times that are not set are not read");
    for (key, kind, value) in [
        (&entry[..], BASE_KIND, Some(&record()[..])),
        (&inode, BASE_KIND, None),
        (&inode, DELTA_KIND, Some(b"short")),
        (&inode, NAME_KIND, None),
        (&entry, NAME_KIND, Some(b"no FID")),
        (&entry, EMPTY_KIND, None),
        (&key::dirent(A, b""), EMPTY_KIND, Some(b"")),
        (&inode, 5, None),
    ] {
        assert!(matches!(whole(key, kind, value), Err(Damaged::Field { .. })), "{kind} {value:?}");
    }
    assert!(matches!(delta(8, 0), Err(Damaged::Field { field: "bits of a delta", .. })));
    assert!(matches!(delta(MTIME, 1_000_000_000), Err(Damaged::Field { field: "nanos", .. })));
}

#[test]
fn counts_are_not_believed() {
    let mut bytes = Log::default().encode(&Found::default());
    for at in [8, 12] {
        bytes[at..at + 4].fill(0xff);
        seal(&mut bytes);
        assert!(matches!(decode(&bytes), Err(Damaged::Short { .. })));
    }
}
