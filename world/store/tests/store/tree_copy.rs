//! A host that joins late gets the tree of the owner page by page, while that goes on writing, and
//! the rest from the log.

use crate::support::{UUID, eager, lazy, put, quiet, real_env, wait};
use env::Env;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::engine::Engine;
use store::error::StoreError;
use store::journalled::Journalled;
use store::log::{Log, Position};
use store::memory_kv::{Delivery, MemoryKv};
use store::shared_log::SharedLog;
use store::store::Store;
use store::tree_copy::{Page, TreeCopy, page_of};

const RING: u64 = 128 << 10;
const KEYS: u64 = 200;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

struct Host {
    log: Arc<SharedLog>,
    dir: tempfile::TempDir,
    /// Its requests are done, and their answers lost.
    deaf: Arc<AtomicBool>,
}

impl Host {
    /// With an empty tree.
    fn new(env: &Env, kv: &Arc<MemoryKv>, name: &str) -> Host {
        let deaf = Arc::new(AtomicBool::new(false));
        let is_deaf = deaf.clone();
        let keys = kv.connect(move || match is_deaf.load(Ordering::SeqCst) {
            true => Delivery::AnswerLost,
            false => Delivery::Whole,
        });
        let log = Arc::new(SharedLog::new(keys, "sheen-MDT0000", UUID, name, name));
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(log.create("").unwrap().store, UUID);
        Journalled::create_tree(env, dir.path(), UUID, &eager(RING)).unwrap();
        Host { log, dir, deaf }
    }

    fn open(&self, env: &Env) -> Result<Arc<Journalled>, StoreError> {
        Journalled::open_tree(env, self.dir.path(), UUID, self.log.clone(), eager(RING))
    }

    fn copy(&self, env: &Env) -> TreeCopy {
        TreeCopy::open(env, self.dir.path(), UUID, &self.log, &eager(RING)).unwrap()
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The owner writes values from `value` on, until its log has lost its first entry.
fn write_until_trimmed(host: &Host, store: &Arc<Store>, value: &mut u64) {
    until("the log is trimmed", || {
        *value += 1;
        put(store, &key(*value % KEYS), &value.to_le_bytes());
        wait(store.commit()).unwrap();
        // And the tree has more than a few pages.
        *value > KEYS && host.log.show().unwrap().first > 1
    });
}

fn all(engine: &dyn Engine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let mut note = |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        std::ops::ControlFlow::Continue(())
    };
    engine.scan(b"", &[0xff; 512], &mut note).unwrap();
    all
}

fn path(host: &Host) -> &Path {
    host.dir.path()
}

#[test]
fn a_copy_and_the_log_behind_it_are_the_owners_tree() {
    let (env, _guard) = real_env();
    let kv = MemoryKv::new();
    let one = Host::new(&env, &kv, "one");
    let engine = one.open(&env).unwrap();
    let store = Store::open(engine.clone(), env.clone(), quiet()).unwrap();
    let mut value = 0;
    write_until_trimmed(&one, &store, &mut value);
    let two = Host::new(&env, &kv, "two");
    let behind = two.open(&env).map(drop);
    assert!(matches!(behind, Err(StoreError::Behind { missing: 1, .. })), "{behind:?}");
    let mut copy = two.copy(&env);
    let (mut pages, mut torn) = (0, false);
    loop {
        // The owner goes on: it changes, adds and removes before and behind the page.
        for _ in 0..5 {
            value += 1;
            put(&store, &key(value * 7 % (2 * KEYS)), &value.to_le_bytes());
            let mut tx = store.begin();
            tx.delete(&key(value * 11 % KEYS));
            tx.finish();
            wait(store.commit()).unwrap();
        }
        let page = page_of(&*engine, copy.after(), 512).unwrap();
        // A page of another place changes nothing.
        if !copy.after().is_empty() {
            let first = page_of(&*engine, b"", 64).unwrap();
            assert!(matches!(copy.take(&first), Err(StoreError::Damaged { .. })));
            let cut = Page { bytes: page.bytes[1..].to_vec(), ..page.clone() };
            assert!(matches!(copy.take(&cut), Err(StoreError::Damaged { .. })));
        }
        pages += 1;
        if copy.take(&page).unwrap() {
            break;
        }
        if pages == 3 {
            // It is cut short, and goes on where it was.
            let after = copy.after().to_vec();
            drop(copy);
            let unfinished = two.open(&env).map(drop);
            assert!(matches!(unfinished, Err(StoreError::Unfinished { .. })), "{unfinished:?}");
            copy = two.copy(&env);
            assert_eq!(copy.after(), after);
            torn = true;
        }
    }
    assert!(torn && pages > 5, "{pages}");
    drop(copy);
    let copied = two.open(&env).unwrap();
    copied.follow().unwrap();
    assert_eq!(all(&*copied), all(&*engine));
    assert!(!all(&*copied).is_empty());
    copied.close().unwrap();
    wait(store.close()).unwrap();
}

#[test]
fn an_entry_whose_answer_the_owner_waits_for_is_not_missed() {
    let (env, _guard) = real_env();
    let kv = MemoryKv::new();
    let one = Host::new(&env, &kv, "one");
    let engine = one.open(&env).unwrap();
    let store = Store::open(engine.clone(), env.clone(), quiet()).unwrap();
    let mut value = 0;
    write_until_trimmed(&one, &store, &mut value);
    let two = Host::new(&env, &kv, "two");
    let before = two.log.show().unwrap().head;
    one.deaf.store(true, Ordering::SeqCst);
    put(&store, b"durable, and not yet told", b"1");
    let theirs = store.clone();
    let commit = std::thread::spawn(move || wait(theirs.commit()));
    until("the log has it", || two.log.show().unwrap().head > before);
    let page = page_of(&*engine, b"", 1 << 20).unwrap();
    let mut copy = two.copy(&env);
    assert!(copy.take(&page).unwrap());
    drop(copy);
    let copied = two.open(&env).unwrap();
    assert!(copied.get(b"durable, and not yet told", &mut |_| ()).unwrap());
    one.deaf.store(false, Ordering::SeqCst);
    commit.join().unwrap().unwrap();
    copied.follow().unwrap();
    assert_eq!(all(&*copied), all(&*engine));
    copied.close().unwrap();
    wait(store.close()).unwrap();
}

#[test]
fn a_copy_that_the_log_cannot_complete_begins_anew() {
    let (env, _guard) = real_env();
    let kv = MemoryKv::new();
    let one = Host::new(&env, &kv, "one");
    let engine = one.open(&env).unwrap();
    let store = Store::open(engine.clone(), env.clone(), quiet()).unwrap();
    let mut value = 0;
    write_until_trimmed(&one, &store, &mut value);
    let two = Host::new(&env, &kv, "two");
    let mut copy = two.copy(&env);
    assert!(!copy.take(&page_of(&*engine, b"", 256).unwrap()).unwrap());
    drop(copy);
    let held = one.log.show().unwrap().replicas.into_iter().find(|tree| tree.host == "two");
    assert!(held.is_some(), "the log is kept for it");
    // An administrator lets it go, and the log goes on without it.
    assert_eq!(one.log.remove_replica("two"), Ok(true));
    assert_eq!(one.log.remove_replica("two"), Ok(false));
    let before = one.log.show().unwrap().head;
    until("the log is trimmed behind that", || {
        value += 1;
        put(&store, &key(value % KEYS), &value.to_le_bytes());
        wait(store.commit()).unwrap();
        // The copy may need entry `before + 1` next, and no more than that.
        one.log.show().unwrap().first > before + 1
    });
    let mut copy = two.copy(&env);
    assert_eq!(copy.after(), b"", "from the beginning");
    while !copy.take(&page_of(&*engine, copy.after(), 256).unwrap()).unwrap() {}
    drop(copy);
    let copied = two.open(&env).unwrap();
    assert_eq!(all(&*copied), all(&*engine));
    copied.close().unwrap();
    assert!(path(&two).join("tree").exists());
    wait(store.close()).unwrap();
}

#[test]
fn the_owner_of_a_full_log_trims_as_far_as_its_own_tree() {
    let (env, _guard) = real_env();
    let kv = MemoryKv::new();
    let (one, two) = (Host::new(&env, &kv, "one"), Host::new(&env, &kv, "two"));
    let engine =
        Journalled::open_tree(&env, path(&one), UUID, one.log.clone(), lazy(RING)).unwrap();
    let store = Store::open(engine.clone(), env.clone(), quiet()).unwrap();
    for value in 0..5_u64 {
        put(&store, &key(value), &value.to_le_bytes());
        wait(store.commit()).unwrap();
    }
    let head = engine.follow().unwrap();
    let shown = || one.log.show().unwrap();
    one.log.trim(head).unwrap();
    assert_eq!((shown().first, shown().replicas.len()), (1, 2), "another host lacks all of it");
    kv.set_full(true);
    two.log.trim(Position::default()).unwrap();
    assert_eq!(shown().first, 1, "only the owner may");
    one.log.trim(head).unwrap();
    assert_eq!((shown().first, shown().head), (head.number + 1, head.number));
    let left: Vec<String> = shown().replicas.into_iter().map(|tree| tree.host).collect();
    assert_eq!(left, ["one"], "the other one gets the tree anew");
    // What is durable is so without it; nothing else becomes so.
    put(&store, &key(9), b"9");
    let refused = one.log.hold(None);
    assert!(matches!(refused, Err(StoreError::NoAnswer { .. })), "{refused:?}");
    kv.set_full(false);
    wait(store.commit()).unwrap();
    wait(store.close()).unwrap();
}

#[test]
fn only_committed_records_are_in_a_page() {
    let (env, _guard) = real_env();
    let kv = MemoryKv::new();
    let one = Host::new(&env, &kv, "one");
    let store = Store::open(one.open(&env).unwrap(), env.clone(), quiet()).unwrap();
    put(&store, b"durable", b"1");
    wait(store.commit()).unwrap();
    put(&store, b"not yet", b"2");
    let page = wait(store.tree_page(Vec::new())).unwrap();
    assert_eq!((page.records, page.more), (1, false));
    wait(store.close()).unwrap();
}
