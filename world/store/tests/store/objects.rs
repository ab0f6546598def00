//! Object files: every call, syncs, space, and what a failed sync does.

use crate::faulty_disk::{Faults, FaultyDisk};
use crate::support::real_env;
use env::Env;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::error::StoreError;
use store::object_store::ObjectStore;
use store::objects::{Objects, ObjectsOptions};
use store::open_files::OpenFiles;
use types::fid::Fid;
use types::limits;
use types::object::ObjectId;

fn id(oid: u32) -> ObjectId {
    ObjectId { fid: Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }, instance: 1, stripe: 2 }
}

fn open(env: &Env, dir: &Path, options: ObjectsOptions) -> Arc<Objects> {
    Objects::open(env, dir, options).unwrap()
}

fn read(objects: &Objects, oid: u32, offset: u64, len: usize) -> Option<Vec<u8>> {
    let mut buf = vec![0xee; len];
    let got = objects.read(id(oid), &mut buf, offset).unwrap()?;
    buf.truncate(got);
    Some(buf)
}

#[test]
fn objects_are_sparse_files() {
    let (env, _guard) = real_env();
    let dir = tempfile::tempdir().unwrap();
    Objects::create(&env, dir.path()).unwrap();
    let objects = open(
        &env,
        dir.path(),
        ObjectsOptions { open: Arc::new(OpenFiles::new(3)), ..ObjectsOptions::default() },
    );
    assert_eq!(read(&objects, 1, 0, 10), None);
    assert_eq!(
        (objects.size_and_blocks(id(1)).unwrap(), objects.seek(id(1), 0, false).unwrap()),
        (None, None)
    );
    objects.punch(id(1), 0, 10).unwrap();
    assert_eq!(read(&objects, 1, 0, 10), None, "punching makes nothing");
    objects.write(id(1), b"hello", 1 << 20).unwrap();
    assert_eq!(read(&objects, 1, (1 << 20) - 2, 10).unwrap(), b"\0\0hello");
    assert_eq!(objects.size_and_blocks(id(1)).unwrap().unwrap().0, (1 << 20) + 5);
    assert_eq!(objects.seek(id(1), 0, false).unwrap(), Some(1 << 20));
    assert_eq!(objects.seek(id(1), 0, true).unwrap(), Some(0));
    objects.punch(id(1), 1 << 20, 2).unwrap();
    assert_eq!(read(&objects, 1, 1 << 20, 10).unwrap(), b"\0\0llo");
    objects.truncate(id(1), (1 << 20) + 3).unwrap();
    assert_eq!(read(&objects, 1, 1 << 20, 10).unwrap(), b"\0\0l");
    objects.allocate(id(1), 0, 8192, false).unwrap();
    assert!(objects.size_and_blocks(id(1)).unwrap().unwrap().1 >= 16);
    // More objects than open files, each still whole.
    for n in 10..40 {
        objects.write(id(n), &n.to_le_bytes(), 0).unwrap();
    }
    assert!((10..40).all(|n| read(&objects, n, 0, 8).unwrap() == n.to_le_bytes()));
    let mut found = Vec::new();
    objects
        .for_each(|id| {
            found.push(id.fid.oid);
            Ok(())
        })
        .unwrap();
    found.sort();
    assert_eq!(found, std::iter::once(1).chain(10..40).collect::<Vec<_>>());
    assert!(objects.destroy(id(1)).unwrap());
    assert!(!objects.destroy(id(1)).unwrap());
    assert_eq!(read(&objects, 1, 0, 10), None);
    objects.sync_all().unwrap();
    drop(objects);
    let objects = open(&env, dir.path(), ObjectsOptions::default());
    assert_eq!(read(&objects, 39, 0, 8).unwrap(), 39u32.to_le_bytes());
}

#[test]
fn a_full_target_refuses_growth_but_not_overwriting_and_destroying() {
    let (env, _guard) = real_env();
    let dir = tempfile::tempdir().unwrap();
    Objects::create(&env, dir.path()).unwrap();
    let options = ObjectsOptions { bytes_max: Some(1 << 20), ..ObjectsOptions::default() };
    let objects = open(&env, dir.path(), options.clone());
    let mut written = 0;
    let error = loop {
        match objects.write(id(1), &[7; 65536], written) {
            Ok(()) => written += 65536,
            Err(error) => break error,
        }
        assert!(written <= 1 << 20);
    };
    assert!(matches!(error, StoreError::NoSpace { capacity: 1_048_576, .. }), "{error}");
    assert!(written >= 1 << 19);
    objects.sync(id(1)).unwrap();
    objects.write(id(1), &[8; 65536], 0).unwrap();
    assert_eq!(read(&objects, 1, 65535, 2).unwrap(), [8, 7]);
    assert!(objects.space().unwrap().free < 65536);
    drop(objects);
    // Counted again at the next opening.
    let objects = open(&env, dir.path(), options);
    assert!(matches!(objects.write(id(2), &[1; 65536 * 2], 0), Err(StoreError::NoSpace { .. })));
    objects.destroy(id(1)).unwrap();
    objects.write(id(2), &[1; 65536 * 2], 0).unwrap();
    assert_eq!(objects.space().unwrap().total, 1 << 20);
}

#[test]
fn a_failed_sync_is_not_forgotten() {
    let (mut env, _guard) = real_env();
    let faults = Faults::none();
    env.disk = Arc::new(FaultyDisk { inner: env.disk.clone(), faults: faults.clone() });
    let dir = tempfile::tempdir().unwrap();
    Objects::create(&env, dir.path()).unwrap();
    for all in [false, true] {
        let objects = open(&env, dir.path(), ObjectsOptions::default());
        objects.write(id(1), b"x", 0).unwrap();
        faults.syncs_left.store(0, Ordering::SeqCst);
        assert!(if all { objects.sync_all() } else { objects.sync(id(1)) }.is_err());
        faults.syncs_left.store(-1, Ordering::SeqCst);
        assert!(matches!(objects.sync(id(1)), Err(StoreError::Poisoned { .. })));
        assert!(matches!(objects.sync_all(), Err(StoreError::Poisoned { .. })));
        assert!(matches!(objects.write(id(1), b"y", 0), Err(StoreError::Poisoned { .. })));
    }
}

#[test]
fn a_synced_object_has_its_folders_synced_too_and_only_once() {
    let (mut env, _guard) = real_env();
    let faults = Faults::none();
    env.disk = Arc::new(FaultyDisk { inner: env.disk.clone(), faults: faults.clone() });
    let dir = tempfile::tempdir().unwrap();
    Objects::create(&env, dir.path()).unwrap();
    let objects = open(&env, dir.path(), ObjectsOptions::default());
    let syncs = |f: &dyn Fn()| {
        faults.syncs_left.store(1000, Ordering::SeqCst);
        f();
        1000 - faults.syncs_left.load(Ordering::SeqCst)
    };
    objects.write(id(1), b"x", 0).unwrap();
    assert_eq!(
        syncs(&|| objects.sync(id(1)).unwrap()),
        4,
        "file, folder, and the two above that were new"
    );
    objects.write(id(1), b"y", 0).unwrap();
    assert_eq!(syncs(&|| objects.sync(id(1)).unwrap()), 1, "only the file");
    objects.write(id(2), b"x", 0).unwrap();
    assert_eq!(syncs(&|| objects.sync(id(2)).unwrap()), 2, "file and folder");
    assert_eq!(syncs(&|| objects.sync_all().unwrap()), 0, "nothing is left");
    objects.write(id(2), b"z", 0).unwrap();
    assert_eq!(syncs(&|| objects.sync_all().unwrap()), 1);
    for n in 0..=limits::OBJECT_FILES_SYNCED_ONE_BY_ONE as u32 {
        objects.write(id(100 + n), b"x", 0).unwrap();
    }
    assert_eq!(syncs(&|| objects.sync_all().unwrap()), 1, "many: the volume once");
    assert_eq!(syncs(&|| objects.sync_all().unwrap()), 0);
}
