//! A target's life: format, serve, close, crash; and every way a folder can be wrong, each with its
//! own sentence.

use disk::checksum::crc32c;
use env::Env;
use env::real::{RealConfig, RealEnv};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use target::{FormatSpec, Target, TargetError, TargetOptions, format};
use types::object::ObjectId;
use types::proof::ServerKey;
use types::session::ClusterId;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};

const CLUSTER: ClusterId = ClusterId(77);
const KEY: ServerKey = ServerKey(7);

fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn spec(kind: TargetKind) -> FormatSpec {
    FormatSpec { journal_bytes: Some(1 << 20), ..FormatSpec::new(FsName::default(), kind) }
}

fn open(env: &Env, dir: &Path) -> Result<Arc<Target>, TargetError> {
    Target::open(env, dir, TargetOptions::default())
}

fn put(target: &Target, key: &[u8], value: &[u8]) {
    let mut tx = target.store().begin();
    tx.put(key, value);
    tx.finish();
}

fn with_target(kind: TargetKind, test: impl FnOnce(&Env, &Path)) {
    let (env, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    format(&env, dir.path(), &spec(kind)).unwrap();
    test(&env, dir.path());
}

#[test]
fn a_target_keeps_its_name_records_and_objects() {
    with_target(TargetKind::Ost, |env, dir| {
        let ost = TargetName::ost(FsName::default(), 3);
        let id = ObjectId { fid: types::fid::Fid::ROOT, instance: 0, stripe: 0 };
        let target = open(env, dir).unwrap();
        assert_eq!((target.name(), target.cluster(), target.boot()), (None, ClusterId(0), 1));
        target.assign(ost, CLUSTER, KEY).unwrap();
        target.assign(ost, CLUSTER, KEY).unwrap();
        assert!(matches!(
            target.assign(TargetName::ost(FsName::default(), 4), CLUSTER, KEY),
            Err(TargetError::Assigned { .. })
        ));
        assert!(matches!(
            target.assign(ost, ClusterId(78), KEY),
            Err(TargetError::Assigned { .. })
        ));
        put(&target, b"k", b"v");
        target.objects().unwrap().write(id, b"data", 0).unwrap();
        let uuid = target.store_uuid();
        wait(target.close()).unwrap();
        // The store is still held, the folder is free.
        let store = target.store().clone();
        let target = open(env, dir).unwrap();
        assert!(store.begin().get(b"k", <[u8]>::len).is_err());
        assert_eq!((target.name(), target.cluster(), target.boot()), (Some(ost), CLUSTER, 2));
        assert_eq!((target.store_uuid(), target.server_key()), (uuid, KEY));
        target.assign(ost, CLUSTER, ServerKey(8)).unwrap();
        assert_eq!(target.server_key(), ServerKey(8), "an MGS that was made anew has another one");
        assert_eq!(target.store().begin().get(b"k", <[u8]>::to_vec).unwrap().unwrap(), b"v");
        assert_eq!(target.objects().unwrap().size_and_blocks(id).unwrap().unwrap().0, 4);
        wait(target.close()).unwrap();
    });
}

#[test]
fn a_target_dropped_without_close_gives_its_folder_back() {
    with_target(TargetKind::Mgt, |env, dir| {
        for boot in 1..4 {
            let start = std::time::Instant::now();
            let target = loop {
                match open(env, dir) {
                    Err(TargetError::Served { by, .. }) => assert_eq!(by, Some(std::process::id())),
                    target => break target.unwrap(),
                }
                assert!(start.elapsed() < Duration::from_secs(10));
                std::thread::sleep(Duration::from_millis(1));
            };
            assert!(target.boot() == boot && target.objects().is_none());
            assert_eq!(target.store().last_committed().0, boot - 1);
            put(&target, b"boot", &[boot as u8]);
        }
    });
}

#[test]
fn only_one_may_serve() {
    with_target(TargetKind::Mdt, |env, dir| {
        let target = open(env, dir).unwrap();
        let second = open(env, dir).err().unwrap();
        assert_eq!(
            second,
            TargetError::Served { dir: dir.to_owned(), by: Some(std::process::id()) }
        );
        assert!(
            second
                .to_string()
                .ends_with(&format!("is already served by process {}", std::process::id()))
        );
        let again = FormatSpec { replace: true, ..spec(TargetKind::Mdt) };
        assert!(matches!(format(env, dir, &again), Err(TargetError::Served { .. })));
        put(&target, b"k", b"v");
        wait(target.close()).unwrap();
        assert_eq!(
            open(env, dir).unwrap().store().begin().get(b"k", <[u8]>::len).unwrap(),
            Some(1)
        );
    });
}

#[test]
fn the_wrong_target_is_refused() {
    with_target(TargetKind::Mdt, |env, dir| {
        let kind = TargetOptions { kind: Some(TargetKind::Ost), ..TargetOptions::default() };
        let error = Target::open(env, dir, kind).err().unwrap();
        assert!(
            matches!(
                error,
                TargetError::Kind { found: TargetKind::Mdt, wanted: TargetKind::Ost, .. }
            ),
            "{error}"
        );
        let fsname =
            TargetOptions { fsname: Some("other".parse().unwrap()), ..TargetOptions::default() };
        let error = Target::open(env, dir, fsname).err().unwrap();
        assert!(
            error.to_string().ends_with("belongs to the file system sheen, not other"),
            "{error}"
        );
        let target = open(env, dir).unwrap();
        assert_eq!(target.boot(), 1, "refusals change nothing");
        let other = TargetName::mdt("other".parse().unwrap(), 0);
        assert!(matches!(target.assign(other, CLUSTER, KEY), Err(TargetError::Assigned { .. })));
        wait(target.close()).unwrap();
    });
}

#[test]
fn every_damage_has_its_sentence_and_harms_nothing() {
    with_target(TargetKind::Mdt, |env, dir| {
        let path = dir.join("superblock");
        let good = std::fs::read(&path).unwrap();
        let resealed = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            let crc = crc32c(&bytes[4..]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
            bytes
        };
        let flipped = |at: usize| {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            bytes
        };
        let cases = [
            (flipped(60), "checksum is wrong"),
            (flipped(4000), "checksum is wrong"),
            (good[..4095].to_vec(), "has 4095 bytes instead of 4096"),
            (Vec::new(), "has 0 bytes"),
            (resealed(4, 3), "format version 3, this program knows up to 2: update this program"),
            (vec![b'#'; 4096], "no SheenFS superblock"),
        ];
        for (bytes, sentence) in cases {
            std::fs::write(&path, &bytes).unwrap();
            let error = open(env, dir).err().unwrap();
            assert!(
                matches!(error, TargetError::Superblock { .. })
                    && error.to_string().contains(sentence),
                "{error}"
            );
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{sentence}: left as it was");
        }
        std::fs::write(&path, &good).unwrap();
        for (file, sentence) in [("journal", "journal"), ("tree/data.mdb", "data.mdb")] {
            let saved = std::fs::read(dir.join(file)).unwrap();
            std::fs::write(dir.join(file), &saved[..saved.len() / 2]).unwrap();
            let error = open(env, dir).err().unwrap().to_string();
            assert!(error.contains(sentence) && error.contains("damaged"), "{error}");
            std::fs::write(dir.join(file), &saved).unwrap();
        }
        wait(open(env, dir).unwrap().close()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(open(env, dir).err().unwrap(), TargetError::NotATarget { dir: dir.to_owned() });
        assert!(matches!(open(env, &dir.join("journal")), Err(TargetError::NotATarget { .. })));
        assert!(matches!(open(env, &dir.join("nowhere")), Err(TargetError::NotATarget { .. })));
    });
}

#[test]
fn format_destroys_only_what_it_may() {
    with_target(TargetKind::Ost, |env, dir| {
        let target = open(env, dir).unwrap();
        target.assign(TargetName::ost(FsName::default(), 9), CLUSTER, KEY).unwrap();
        put(&target, b"k", b"v");
        let id = ObjectId { fid: types::fid::Fid::ROOT, instance: 0, stripe: 0 };
        target.objects().unwrap().write(id, b"data", 0).unwrap();
        let uuid = target.store_uuid();
        wait(target.close()).unwrap();
        drop(target);
        let error = format(env, dir, &spec(TargetKind::Ost)).unwrap_err();
        assert!(error.to_string().contains("already holds sheen-OST0009"), "{error}");

        let index = Some(TargetIndex(1));
        format(
            env,
            dir,
            &FormatSpec { replace: true, index, cluster: CLUSTER, ..spec(TargetKind::Ost) },
        )
        .unwrap();
        let target = open(env, dir).unwrap();
        assert_eq!(
            (target.name(), target.boot()),
            (Some(TargetName::ost(FsName::default(), 1)), 1)
        );
        assert_ne!(target.store_uuid(), uuid);
        assert_eq!(target.store().begin().get(b"k", <[u8]>::len).unwrap(), None);
        assert_eq!(target.objects().unwrap().size_and_blocks(id).unwrap(), None);
        wait(target.close()).unwrap();
        drop(target);

        // A target whose superblock is lost is not taken for an empty folder.
        std::fs::remove_file(dir.join("superblock")).unwrap();
        assert!(matches!(
            format(env, dir, &spec(TargetKind::Ost)),
            Err(TargetError::NotEmpty { .. })
        ));
        // A format that was cut short is begun again.
        std::fs::write(dir.join("formatting"), b"").unwrap();
        format(env, dir, &spec(TargetKind::Ost)).unwrap();
        wait(open(env, dir).unwrap().close()).unwrap();

        std::fs::write(dir.join("letter.txt"), b"dear").unwrap();
        let error =
            format(env, dir, &FormatSpec { replace: true, ..spec(TargetKind::Ost) }).unwrap_err();
        assert!(
            matches!(&error, TargetError::NotEmpty { found, .. } if found == "letter.txt"),
            "{error}"
        );
        assert!(dir.join("journal").exists());
    });
}

#[test]
fn a_folder_that_cannot_be_made_or_written_is_named() {
    let (env, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), b"").unwrap();
    let error = format(&env, &dir.path().join("file/target"), &spec(TargetKind::Mgt)).unwrap_err();
    assert!(matches!(&error, TargetError::Io { action: "create", .. }), "{error}");
    let error = format(&env, Path::new("/proc/self/target"), &spec(TargetKind::Mgt)).unwrap_err();
    assert!(error.to_string().contains("/proc/self/target"), "{error}");
}
