//! Epochs are durable in the log: no opening gets one that an earlier one had, whatever was
//! trimmed, closed or cut off in between.

use crate::support::{UUID, copy_dir, eager, lazy, put, quiet, real_env, wait};
use disk::journal::RecordHead;
use env::Env;
use std::path::Path;
use std::sync::Arc;
use store::engine::{Engine, Fence};
use store::error::StoreError;
use store::journalled::{Journalled, JournalledOptions};
use store::store::Store;

const RING: u64 = 128 << 10;

fn open(env: &Env, dir: &Path, options: JournalledOptions) -> Result<Arc<Store>, StoreError> {
    Store::open(Journalled::open(env, dir, UUID, options)?, env.clone(), quiet())
}

#[test]
fn no_epoch_begins_twice() {
    let (env, _guard) = real_env();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    Journalled::create(&env, dir, UUID, &lazy(RING)).unwrap();
    let mut newest = Fence(0);
    for (round, options) in
        [lazy(RING), eager(RING), lazy(RING), lazy(RING)].into_iter().enumerate()
    {
        let store = open(&env, dir, options).unwrap();
        assert_eq!(store.fence(), Fence(newest.0 + 1), "round {round}");
        newest = store.fence();
        if round % 2 == 0 {
            put(&store, b"k", &[round as u8]);
        }
        wait(store.close()).unwrap();
    }
    // Killed when the claims were all that there was in the ring.
    let killed = tempfile::tempdir().unwrap();
    let engine = Journalled::open(&env, dir, UUID, lazy(RING)).unwrap();
    for _ in 0..3 {
        assert_eq!(engine.claim(Fence(0)), Ok(Fence(newest.0 + 1)));
        newest.0 += 1;
    }
    copy_dir(dir, killed.path());
    engine.close().unwrap();
    let dir = killed.path();
    let engine = Journalled::open(&env, dir, UUID, lazy(RING)).unwrap();
    assert_eq!(engine.claim(Fence(100)), Ok(Fence(100)), "as far as the superblock was");
    let transno = engine.last_transno();
    engine.close().unwrap();
    let store = open(&env, dir, lazy(RING)).unwrap();
    assert_eq!(store.fence(), Fence(101));
    assert_eq!(store.last_committed(), transno, "a claim is no change");
    assert_eq!(store.begin().get(b"k", <[u8]>::to_vec).unwrap().as_deref(), Some(&[2][..]));
    wait(store.close()).unwrap();
}

#[test]
fn a_group_larger_than_the_ring_is_fenced_too_and_takes_a_number() {
    let (env, _guard) = real_env();
    let dir = tempfile::tempdir().unwrap();
    Journalled::create(&env, dir.path(), UUID, &lazy(RING)).unwrap();
    let large = vec![7; RING as usize * 2];
    let engine = Journalled::open(&env, dir.path(), UUID, lazy(RING)).unwrap();
    let old = Store::open(engine.clone(), env.clone(), quiet()).unwrap();
    put(&old, b"large", &large);
    wait(old.commit()).unwrap();
    let new = Store::open(engine, env.clone(), quiet()).unwrap();
    assert_eq!(new.last_committed(), old.last_committed());
    put(&old, b"large", &large);
    assert!(matches!(wait(old.commit()), Err(StoreError::Fenced { .. })));
    put(&new, b"small", b"x");
    wait(new.commit()).unwrap();
    wait(new.close()).unwrap();
    let again = open(&env, dir.path(), lazy(RING)).unwrap();
    assert_eq!(again.begin().get(b"large", <[u8]>::len).unwrap(), Some(large.len()));
    assert_eq!(again.begin().get(b"small", <[u8]>::len).unwrap(), Some(1));
    wait(again.close()).unwrap();
}

#[test]
fn a_ring_whose_epochs_fall_is_refused() {
    let (env, _guard) = real_env();
    let dir = tempfile::tempdir().unwrap();
    Journalled::create(&env, dir.path(), UUID, &lazy(RING)).unwrap();
    let store = open(&env, dir.path(), lazy(RING)).unwrap();
    put(&store, b"k", b"v");
    wait(store.commit()).unwrap();
    // What an owner of an older epoch would append to a copy of the folder.
    let path = dir.path().join("journal");
    let mut ring = std::fs::read(&path).unwrap();
    let at = (0..ring.len())
        .step_by(4096)
        .find(|at| RecordHead::decode(&ring[*at..]).is_some_and(|head| head.changes == 1));
    let at = at.unwrap();
    let head = RecordHead::decode(&ring[at..]).unwrap();
    assert_eq!(head.fence, 1);
    let older = RecordHead { fence: 0, ..head }.encode();
    ring[at..at + RecordHead::SIZE].copy_from_slice(&older);
    let copy = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), copy.path());
    std::fs::write(copy.path().join("journal"), &ring).unwrap();
    wait(store.close()).unwrap();
    let refused = Journalled::open(&env, copy.path(), UUID, lazy(RING)).map(|_| ()).unwrap_err();
    assert!(
        refused.to_string().contains("a record of epoch 0 follows one of epoch 1"),
        "{refused}"
    );
}
