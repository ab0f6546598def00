//! Failing disks poison, full ones refuse before anything is lost, back-pressure waits, fences keep
//! old owners out.

use crate::faulty_disk::{Faults, FaultyDisk};
use crate::support::{NEVER, UUID, all, eager, lazy, open, put, quiet, real_env, wait};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use store::engine::{Engine, Fence};
use store::error::StoreError;
use store::journalled::{Journalled, JournalledOptions};
use store::memory::Memory;
use store::store::{Committer, Store, StoreOptions};
use types::errno::Errno;
use types::session::Transno;

#[test]
fn a_failed_commit_poisons_and_is_never_tried_again() {
    let (env, _guard) = real_env();
    let memory = Memory::new(u64::MAX);
    let store = Store::open(memory.clone(), env.clone(), quiet()).unwrap();
    put(&store, b"kept", b"1");
    wait(store.commit()).unwrap();
    assert_eq!(store.trouble(), None);
    memory.fail_after(Some(0));
    put(&store, b"lost", b"2");
    let error = wait(store.commit()).unwrap_err();
    assert!(
        matches!(&error, StoreError::Poisoned { cause } if cause.contains("Input/output error")),
        "{error}"
    );
    memory.fail_after(None);
    let trouble = store.trouble().expect("it is told");
    assert!(trouble.contains("Input/output error") && trouble.contains("restart"), "{trouble}");
    // Healed or not: every later call fails with the cause.
    assert_eq!(wait(store.commit()), Err(error.clone()));
    assert_eq!(wait(store.admit()), Err(error.clone()));
    assert_eq!(wait(store.committed(Transno(2))), Err(error.clone()));
    assert_eq!(store.begin().get(b"kept", <[u8]>::len), Err(error.clone()));
    assert_eq!(wait(store.close()), Err(error));
    assert_eq!(memory.snapshot(), [(b"kept".to_vec(), b"1".to_vec())]);
    let again = Store::open(memory, env, quiet()).unwrap();
    assert_eq!(again.last_committed(), Transno(1));
    wait(again.close()).unwrap();
}

#[test]
fn a_failed_journal_write_or_sync_poisons_until_reopened() {
    for sync in [false, true] {
        let (mut env, _guard) = real_env();
        let faults = Faults::none();
        env.disk = Arc::new(FaultyDisk { inner: env.disk.clone(), faults: faults.clone() });
        let dir = tempfile::tempdir().unwrap();
        Journalled::create(&env, dir.path(), UUID, &lazy(1 << 20)).unwrap();
        let store = open(&env, dir.path(), &lazy(1 << 20)).unwrap();
        put(&store, b"a", b"1");
        wait(store.commit()).unwrap();
        if sync { &faults.syncs_left } else { &faults.writes_left }.store(0, Ordering::SeqCst);
        put(&store, b"b", b"2");
        assert!(matches!(wait(store.commit()), Err(StoreError::Poisoned { .. })));
        faults.syncs_left.store(-1, Ordering::SeqCst);
        faults.writes_left.store(-1, Ordering::SeqCst);
        assert!(matches!(wait(store.commit()), Err(StoreError::Poisoned { .. })), "no second try");
        assert!(matches!(wait(store.close()), Err(StoreError::Poisoned { .. })));
        drop(store);
        let store = open(&env, dir.path(), &lazy(1 << 20)).unwrap();
        let found = all(&store);
        // A write that was not synced may have reached the disk; the older one must have.
        assert_eq!(found[0], (b"a".to_vec(), b"1".to_vec()));
        assert_eq!(found.len(), if sync { 2 } else { 1 });
        assert_eq!(store.last_committed().0, found.len() as u64);
        wait(store.close()).unwrap();
    }
}

#[test]
fn a_full_store_refuses_new_records_keeps_old_ones_and_can_be_emptied() {
    let (env, _guard) = real_env();
    let dir = tempfile::tempdir().unwrap();
    let options = JournalledOptions { bytes_max: Some(4 << 20), ..eager(1 << 20) };
    Journalled::create(&env, dir.path(), UUID, &options).unwrap();
    let store = open(&env, dir.path(), &options).unwrap();
    let mut count = 0u32;
    let error = loop {
        match wait(store.admit()) {
            Ok(()) => {
                put(&store, &count.to_be_bytes(), &[count as u8; 4000]);
                count += 1;
                wait(store.commit()).unwrap();
            }
            Err(error) => break error,
        }
        assert!(count < 10_000, "it must be full some time");
    };
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
    assert_eq!(Errno::from(error), Errno::ENOSPC);
    assert!(count > 200, "only {count} records fit");
    assert_eq!(all(&store).len(), count as usize);
    for n in 0..count {
        wait(store.admit_release()).unwrap();
        let mut tx = store.begin();
        tx.delete(&n.to_be_bytes());
        tx.finish();
        if n % 16 == 0 {
            wait(store.commit()).unwrap();
        }
    }
    wait(store.commit()).unwrap();
    let start = std::time::Instant::now();
    while wait(store.admit()).is_err() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "deleting made room: {:?}",
            store.space()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    put(&store, b"again", b"x");
    wait(store.commit()).unwrap();
    assert_eq!(all(&store).len(), 1);
    wait(store.close()).unwrap();
}

#[test]
fn admit_waits_while_too_much_is_uncommitted() {
    let (env, _guard) = real_env();
    let options = StoreOptions {
        commit_interval: NEVER,
        group_bytes_soft: usize::MAX,
        group_bytes_hard: 10_000,
        committer: Committer::Caller,
        ..StoreOptions::default()
    };
    let memory = Memory::new(u64::MAX);
    let store = Store::open(memory.clone(), env.clone(), options.clone()).unwrap();
    wait(store.admit()).unwrap();
    put(&store, b"big", &[1; 20_000]);
    assert!(store.bytes_uncommitted() > 20_000);
    // Without a commit thread, the caller commits.
    wait(store.admit()).unwrap();
    assert_eq!((store.bytes_uncommitted(), store.last_committed()), (0, Transno(1)));
    wait(store.close()).unwrap();

    // A commit thread that fails must wake the waiting tasks.
    let store =
        Store::open(memory.clone(), env, StoreOptions { committer: Committer::Thread, ..options })
            .unwrap();
    memory.fail_after(Some(0));
    put(&store, b"big", &[2; 20_000]);
    assert!(matches!(wait(store.admit()), Err(StoreError::Poisoned { .. })));
    assert!(wait(store.close()).is_err());
}

#[test]
fn a_group_is_committed_by_itself_after_the_interval() {
    let (env, _guard) = real_env();
    let store = Store::open(Memory::new(u64::MAX), env, StoreOptions::default()).unwrap();
    let transno = Transno(put(&store, b"k", b"v"));
    assert_eq!(store.last_committed(), Transno(0));
    wait(store.committed(transno)).unwrap();
    assert_eq!(store.last_committed(), transno);
    // A wait that is given up leaves nothing behind that could be woken.
    let future = store.committed(Transno(9));
    let mut future = Box::pin(future);
    assert_eq!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    drop(future);
    wait(store.close()).unwrap();
    assert_eq!(wait(store.committed(Transno(9))), Err(StoreError::Closed));
    assert_eq!(wait(store.admit()), Err(StoreError::Closed));
}

#[test]
fn an_owner_that_lost_its_target_cannot_write() {
    let (env, _guard) = real_env();
    let dir = tempfile::tempdir().unwrap();
    Journalled::create(&env, dir.path(), UUID, &lazy(1 << 20)).unwrap();
    let journalled = Journalled::open(&env, dir.path(), UUID, lazy(1 << 20)).unwrap();
    for engine in [Memory::new(u64::MAX) as Arc<dyn Engine>, journalled] {
        let at_least = |n| StoreOptions { at_least: Fence(n), ..quiet() };
        let old = Store::open(engine.clone(), env.clone(), at_least(5)).unwrap();
        assert_eq!(old.fence(), Fence(5));
        put(&old, b"k", b"old");
        wait(old.commit()).unwrap();
        // However little it asks for, its epoch is a newer one.
        let new = Store::open(engine.clone(), env.clone(), at_least(1)).unwrap();
        assert_eq!(new.fence(), Fence(6));
        put(&old, b"k", b"too late");
        assert_eq!(wait(old.commit()), Err(StoreError::Fenced { ours: 5, current: 6 }));
        assert_eq!(new.begin().get(b"k", <[u8]>::to_vec).unwrap().as_deref(), Some(&b"old"[..]));
        wait(new.close()).unwrap();
    }
}

#[test]
fn a_store_that_discards_goes_on_and_is_what_it_was_when_it_is_opened_again() {
    let (env, _guard) = real_env();
    let memory = Memory::new(u64::MAX);
    let store = Store::open(memory.clone(), env.clone(), quiet()).unwrap();
    put(&store, b"kept", b"1");
    wait(store.commit()).unwrap();
    assert!(!store.is_discarding());
    store.discard_from_now_on();
    put(&store, b"lost", b"2");
    assert!(store.is_discarding());
    assert_eq!(store.begin().get(b"lost", <[u8]>::len).unwrap(), Some(1), "it answers as ever");
    let mut commit = Box::pin(store.commit());
    std::thread::sleep(Duration::from_millis(50));
    assert!(
        commit.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(),
        "who syncs waits"
    );
    drop(commit);
    assert_eq!(store.last_committed(), Transno(1));
    wait(store.close()).unwrap();
    assert_eq!(memory.snapshot(), [(b"kept".to_vec(), b"1".to_vec())]);
    let again = Store::open(memory, env, quiet()).unwrap();
    put(&again, b"new", b"3");
    wait(again.commit()).unwrap();
    wait(again.close()).unwrap();
}
