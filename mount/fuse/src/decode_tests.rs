//! The decoder: what each request says, and that no bytes harm it.

use super::*;
use crate::abi::EXT_GROUPS;
use bytes::Bytes;
use proptest::prelude::*;
use types::attr::SetTime;
use types::lock::{Flock, FlockFlavor, FlockKind};
use types::time::Timestamp;
use zerocopy::{FromZeros, IntoBytes};

fn message(opcode: Opcode, parts: &[&[u8]], extensions: &[u8]) -> Vec<u8> {
    let body: Vec<u8> = parts.concat();
    let header = InHeader {
        len: (size_of::<InHeader>() + body.len() + extensions.len()) as u32,
        opcode: opcode as u32,
        unique: 42,
        nodeid: 7,
        uid: 1,
        gid: 2,
        pid: 3,
        total_extlen: (extensions.len() / 8) as u16,
        padding: 0,
    };
    [header.as_bytes(), &body, extensions].concat()
}

const PLAIN: Dialect = Dialect { setxattr_ext: false };
const LONG: Dialect = Dialect { setxattr_ext: true };

#[test]
fn lookup_has_a_name() {
    let bytes = message(Opcode::Lookup, &[b"hello\0"], &[]);
    let request = request(&bytes, PLAIN).unwrap();
    assert!(matches!(request.operation, Operation::Lookup { name: b"hello" }));
    assert_eq!((request.header.nodeid, request.extra_group), (7, None));
}

#[test]
fn names_must_end_and_must_not_be_empty() {
    for bad in [&b"hello"[..], b"\0", b""] {
        let bytes = message(Opcode::Unlink, &[bad], &[]);
        assert_eq!(
            request(&bytes, PLAIN).unwrap_err(),
            BadRequest::Name { opcode: Opcode::Unlink }
        );
    }
}

#[test]
fn rename_with_and_without_flags() {
    let flags = Rename2In { newdir: 9, flags: 2, padding: 0 };
    let bytes = message(Opcode::Rename2, &[flags.as_bytes(), b"a\0", b"b\0"], &[]);
    let decoded = request(&bytes, PLAIN).unwrap().operation;
    assert!(matches!(
        decoded,
        Operation::Rename { name: b"a", new_parent: 9, new_name: b"b", flags: 2 }
    ));
    let bytes = message(Opcode::Rename, &[RenameIn { newdir: 9 }.as_bytes(), b"a\0", b"b\0"], &[]);
    let decoded = request(&bytes, PLAIN).unwrap().operation;
    assert!(matches!(
        decoded,
        Operation::Rename { name: b"a", new_parent: 9, new_name: b"b", flags: 0 }
    ));
}

#[test]
fn setxattr_has_two_forms() {
    let short = SetxattrIn { size: 3, flags: 1 };
    let bytes = message(Opcode::Setxattr, &[short.as_bytes(), b"user.a\0", b"xyz"], &[]);
    let decoded = request(&bytes, PLAIN).unwrap().operation;
    assert!(
        matches!(
            decoded,
            Operation::Setxattr { name: b"user.a", value: b"xyz", flags: 1, kill_sgid: false }
        ),
        "{decoded:?}"
    );
    let ext = SetxattrExtIn { setxattr_flags: 1, padding: 0 };
    let bytes =
        message(Opcode::Setxattr, &[short.as_bytes(), ext.as_bytes(), b"user.a\0", b"xyz"], &[]);
    let decoded = request(&bytes, LONG).unwrap().operation;
    assert!(
        matches!(
            decoded,
            Operation::Setxattr { name: b"user.a", value: b"xyz", flags: 1, kill_sgid: true }
        ),
        "{decoded:?}"
    );
}

#[test]
fn write_data_is_as_long_as_it_says() {
    let mut write = WriteIn {
        fh: 5,
        offset: 4096,
        size: 3,
        write_flags: 4,
        lock_owner: 0,
        flags: 1,
        padding: 0,
    };
    let bytes = message(Opcode::Write, &[write.as_bytes(), b"abc"], &[]);
    let decoded = request(&bytes, PLAIN).unwrap().operation;
    assert!(matches!(
        decoded,
        Operation::Write { data: b"abc", kill_suidgid: true, from_page_cache: false, .. }
    ));
    write.size = 4;
    let bytes = message(Opcode::Write, &[write.as_bytes(), b"abc"], &[]);
    assert_eq!(
        request(&bytes, PLAIN).unwrap_err(),
        BadRequest::Truncated { opcode: Opcode::Write }
    );
}

#[test]
fn shared_messages_are_not_copied() {
    let write =
        WriteIn { fh: 5, offset: 0, size: 3, write_flags: 0, lock_owner: 0, flags: 1, padding: 0 };
    let whole = Bytes::from(message(Opcode::Write, &[write.as_bytes(), b"abc"], &[]));
    let shared = request(&whole, PLAIN).unwrap().share(&whole);
    let Operation::Write { data, .. } = shared.operation else { panic!("no write") };
    assert_eq!(shared.to_bytes(data).as_ptr(), data.as_ptr());
    assert_ne!(request(&whole, PLAIN).unwrap().to_bytes(data).as_ptr(), data.as_ptr());
}

#[test]
fn batch_forget_counts_are_checked() {
    let one = ForgetOne { nodeid: 3, nlookup: 4 };
    let two = ForgetOne { nodeid: 5, nlookup: 6 };
    let head = BatchForgetIn { count: 2, dummy: 0 };
    let bytes =
        message(Opcode::BatchForget, &[head.as_bytes(), one.as_bytes(), two.as_bytes()], &[]);
    let Operation::BatchForget { nodes } = request(&bytes, PLAIN).unwrap().operation else {
        panic!("no forget")
    };
    assert_eq!(nodes.iter().collect::<Vec<_>>(), [(3, 4), (5, 6)]);
    let head = BatchForgetIn { count: u32::MAX, dummy: 0 };
    let bytes = message(Opcode::BatchForget, &[head.as_bytes(), one.as_bytes()], &[]);
    assert!(request(&bytes, PLAIN).is_err());
}

#[test]
fn locks_speak_the_clients_words() {
    let lk = FileLock { start: 10, end: i64::MAX as u64, kind: libc::F_WRLCK as u32, pid: 77 };
    let asked = LkIn { fh: 1, owner: 99, lk, lk_flags: 0, padding: 0 };
    let bytes = message(Opcode::Setlkw, &[asked.as_bytes()], &[]);
    let Operation::Setlk { lock, wait: true, .. } = request(&bytes, PLAIN).unwrap().operation
    else {
        panic!()
    };
    let expected = Flock {
        flavor: FlockFlavor::Posix,
        kind: FlockKind::Write,
        owner: 99,
        pid: 77,
        start: 10,
        end: u64::MAX,
    };
    assert_eq!(lock, expected);
    let asked = LkIn { lk: FileLock { kind: 9, ..lk }, ..asked };
    assert!(matches!(
        request(&message(Opcode::Setlk, &[asked.as_bytes()], &[]), PLAIN),
        Err(BadRequest::Field { field: "lock type", .. })
    ));
}

#[test]
fn times_before_1970_and_now() {
    let asked = SetattrIn {
        valid: setattr::ATIME | setattr::MTIME | setattr::MTIME_NOW | setattr::SIZE,
        atime: (-5i64) as u64,
        atimensec: 7,
        size: 12,
        ..SetattrIn::new_zeroed()
    };
    let bytes = message(Opcode::Setattr, &[asked.as_bytes()], &[]);
    let Operation::Setattr { set, handle: None, .. } = request(&bytes, PLAIN).unwrap().operation
    else {
        panic!()
    };
    assert_eq!(set.atime, Some(SetTime::At(Timestamp { sec: -5, nsec: 7 })));
    assert_eq!((set.mtime, set.size, set.mode), (Some(SetTime::Now), Some(12), None));
}

#[test]
fn creates_carry_a_group() {
    let ext = ExtHeader { size: 16, kind: EXT_GROUPS };
    let extension = [ext.as_bytes(), 1u32.as_bytes(), 1234u32.as_bytes()].concat();
    let asked = MkdirIn { mode: 0o755, umask: 0o22 };
    let bytes = message(Opcode::Mkdir, &[asked.as_bytes(), b"d\0"], &extension);
    let decoded = request(&bytes, PLAIN).unwrap();
    assert_eq!(decoded.extra_group, Some(1234));
    assert!(matches!(decoded.operation, Operation::Mkdir { name: b"d", mode: 0o755, umask: 0o22 }));
}

#[test]
fn lengths_and_opcodes_are_checked() {
    let good = message(Opcode::Statfs, &[], &[]);
    assert!(request(&good, PLAIN).is_ok());
    assert!(matches!(request(&good[..39], PLAIN), Err(BadRequest::Length { .. })));
    let longer = [&good[..], b"x"].concat();
    assert!(matches!(request(&longer, PLAIN), Err(BadRequest::Length { .. })));
    let mut unknown = good.clone();
    unknown[4] = 200;
    assert_eq!(request(&unknown, PLAIN).unwrap_err(), BadRequest::Opcode(200));
}

fn visit(bytes: &[u8], dialect: Dialect) {
    if let Ok(decoded) = request(bytes, dialect) {
        if let Operation::BatchForget { nodes } = decoded.operation {
            assert!(nodes.iter().count() * 16 <= bytes.len());
        }
        if let Operation::Write { data, .. } = decoded.operation {
            assert!(data.len() <= bytes.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn random_bodies_never_harm(
        opcode in 0u32..60, body in proptest::collection::vec(any::<u8>(), 0..160), extlen in 0u16..24, long: bool,
        lie in any::<Option<u32>>(),
    ) {
        let header = InHeader {
            len: lie.unwrap_or((40 + body.len()) as u32), opcode, unique: 2, nodeid: 1, uid: 0, gid: 0, pid: 0,
            total_extlen: extlen, padding: 0,
        };
        visit(&[header.as_bytes(), &body].concat(), Dialect { setxattr_ext: long });
    }

    #[test]
    fn random_bytes_never_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        visit(&bytes, LONG);
    }

    /// A body cut anywhere is an error or a shorter request, for every opcode.
    #[test]
    fn truncation_never_harms(at in 0usize..200, zeros: bool, opcode in 0usize..Opcode::ALL.len()) {
        let body = if zeros { [0u8; 160] } else { [b'x'; 160] };
        let body = &body[..at.min(160)];
        visit(&message(Opcode::ALL[opcode], &[body], &[]), PLAIN);
    }
}
