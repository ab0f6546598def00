//! Large entries and checkpoints of a shared log in a store of blobs.

use crate::support::{UUID, eager, lazy, put, quiet, real_env, wait};
use env::Env;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::checkpoint::{self, Checkpoint};
use store::engine::Engine;
use store::error::StoreError;
use store::journalled::{Journalled, JournalledOptions};
use store::log::Log;
use store::memory_blobs::{BlobConnection, MemoryBlobs};
use store::memory_kv::{Delivery, MemoryKv};
use store::shared_log::{BlobStore, SharedLog};
use store::store::Store;
use store::sweep::sweep;
use store::tree_copy::TreeCopy;

const RING: u64 = 1 << 20;
/// Changes beyond which an entry goes into a blob here.
const LARGE: usize = 200;

/// The keys and the blobs of a target.
struct Site {
    env: Env,
    kv: Arc<MemoryKv>,
    blobs: Arc<MemoryBlobs>,
}

struct Host {
    log: Arc<SharedLog>,
    blobs: Arc<BlobConnection>,
    dir: tempfile::TempDir,
    /// Its requests for blobs are lost.
    no_blobs: Arc<AtomicBool>,
    /// Its requests for keys are done, and their answers lost.
    deaf: Arc<AtomicBool>,
}

impl Site {
    fn new(env: &Env) -> Site {
        Site { env: env.clone(), kv: MemoryKv::new(), blobs: MemoryBlobs::new() }
    }

    fn log(&self, name: &str, place: Option<&str>) -> (SharedLog, Host) {
        let (deaf, no_blobs) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (is_deaf, are_gone) = (deaf.clone(), no_blobs.clone());
        let keys = self.kv.connect(move || match is_deaf.load(Ordering::SeqCst) {
            true => Delivery::AnswerLost,
            false => Delivery::Whole,
        });
        let blobs = self.blobs.connect(move || match are_gone.load(Ordering::SeqCst) {
            true => Delivery::RequestLost,
            false => Delivery::Whole,
        });
        let log = |place: Option<&str>| {
            let store = place.map(|place| BlobStore {
                entry_bytes: LARGE,
                checkpoint_bytes: 1000,
                ..BlobStore::new(blobs.clone(), place.to_owned())
            });
            SharedLog::new(keys.clone(), "sheen-MDT0000", UUID, name, name).with_blobs(store)
        };
        let dir = tempfile::tempdir().unwrap();
        let host = Host { log: Arc::new(log(place)), blobs: blobs.clone(), dir, no_blobs, deaf };
        (log(place), host)
    }

    /// With an empty tree.
    fn host(&self, name: &str) -> Host {
        let (log, host) = self.log(name, Some("bucket"));
        assert_eq!(log.create("").unwrap().store, UUID);
        Journalled::create_tree(&self.env, host.dir.path(), UUID, &eager(RING)).unwrap();
        host
    }

    fn open(&self, host: &Host, options: JournalledOptions) -> Arc<Journalled> {
        self.try_open(host, options).unwrap()
    }

    fn try_open(
        &self,
        host: &Host,
        options: JournalledOptions,
    ) -> Result<Arc<Journalled>, StoreError> {
        let log = host.log.clone();
        log.check()?;
        Journalled::open_tree(&self.env, host.dir.path(), UUID, log, options)
    }

    fn own(&self, engine: &Arc<Journalled>) -> Arc<Store> {
        Store::open(engine.clone(), self.env.clone(), quiet()).unwrap()
    }

    /// The host gets its tree from the checkpoint.
    fn restore(&self, host: &Host) -> Result<(), StoreError> {
        let of = host.checkpoint().expect("there is one");
        assert!(checkpoint::check(&host.log, &*host.blobs, &of, &|| false)?);
        let (dir, log) = (host.dir.path(), &*host.log);
        let place = (log, of.place());
        let mut copy = TreeCopy::from_checkpoint(&self.env, dir, UUID, place, &eager(RING))?;
        for page in 0..of.pages {
            let whole = copy.take(&checkpoint::read(log, &*host.blobs, &of, page)?)?;
            assert_eq!(whole, page + 1 == of.pages);
        }
        Ok(())
    }
}

impl Host {
    fn checkpoint(&self) -> Option<Checkpoint> {
        self.log.show().unwrap().checkpoint
    }

    fn make_checkpoint(&self, engine: &dyn Engine, id: u64) -> Checkpoint {
        let made = checkpoint::write(engine, &self.log, &*self.blobs, id, &|| false);
        made.unwrap().expect("it is the owner, and has something new")
    }
}

fn all(engine: &dyn Engine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let mut note = |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    engine.scan(b"", &[0xff; 512], &mut note).unwrap();
    all
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn commit(store: &Store, key: &[u8], bytes: usize) {
    put(store, key, &vec![key[0]; bytes]);
    wait(store.commit()).unwrap();
}

#[test]
fn large_entries_are_blobs_and_small_ones_are_not() {
    let (env, _guard) = real_env();
    let site = Site::new(&env);
    let (one, two) = (site.host("one"), site.host("two"));
    let engine = site.open(&one, lazy(RING));
    let store = site.own(&engine);
    commit(&store, b"a small one", 10);
    assert_eq!(site.blobs.names(), Vec::<String>::new());
    commit(&store, b"b large one", 1000);
    let names = site.blobs.names();
    assert_eq!(names.len(), 1);
    let folder = format!("sheen/sheen-MDT0000/{UUID:032x}/entry/");
    assert!(names[0].starts_with(&folder), "{names:?}");
    // While there are none, entries go under keys, and nothing waits.
    one.no_blobs.store(true, Ordering::SeqCst);
    commit(&store, b"c large one, without blobs", 1000);
    one.no_blobs.store(false, Ordering::SeqCst);
    assert_eq!(site.blobs.names(), names);
    let follower = site.open(&two, lazy(RING));
    assert_eq!(all(&*follower), all(&*engine));
    assert_eq!(all(&*engine).len(), 3);
    follower.close().unwrap();
    wait(store.close()).unwrap();
}

#[test]
fn an_entry_whose_answer_was_lost_is_found_wherever_its_changes_are() {
    let (env, _guard) = real_env();
    let site = Site::new(&env);
    let (one, two) = (site.host("one"), site.host("two"));
    let engine = site.open(&one, lazy(RING));
    let store = site.own(&engine);
    let head = || two.log.show().unwrap().head;
    for blobs_gone in [false, true] {
        let before = head();
        one.deaf.store(true, Ordering::SeqCst);
        put(&store, b"large", &[blobs_gone as u8; 1000]);
        let theirs = store.clone();
        let commit = std::thread::spawn(move || wait(theirs.commit()));
        until("the log has it", || head() > before);
        // The next attempt puts it elsewhere, and finds the first.
        one.no_blobs.store(blobs_gone, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        one.deaf.store(false, Ordering::SeqCst);
        commit.join().unwrap().unwrap();
        one.no_blobs.store(false, Ordering::SeqCst);
        assert_eq!(head(), before + 1);
    }
    let follower = site.open(&two, lazy(RING));
    assert_eq!(all(&*follower), all(&*engine));
    follower.close().unwrap();
    wait(store.close()).unwrap();
}

#[test]
fn a_blob_that_is_missing_or_damaged_is_named_and_nothing_is_taken() {
    let (env, _guard) = real_env();
    let site = Site::new(&env);
    let [one, two, three] = ["one", "two", "three"].map(|name| site.host(name));
    let engine = site.open(&one, lazy(RING));
    let store = site.own(&engine);
    commit(&store, b"large", 1000);
    let name = site.blobs.names().remove(0);
    // What does not answer may do so later: it is waited for.
    two.no_blobs.store(true, Ordering::SeqCst);
    let unanswered = site.try_open(&two, lazy(RING)).map(drop);
    assert!(matches!(unanswered, Err(StoreError::NoAnswer { .. })), "{unanswered:?}");
    two.no_blobs.store(false, Ordering::SeqCst);
    let expect = |words: &str| {
        let error = site.try_open(&two, lazy(RING)).map(drop).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&name) && text.contains(words), "{text}");
    };
    let flip = |bytes: &mut Vec<u8>| {
        bytes[500] ^= 1;
        Some(())
    };
    assert!(site.blobs.damage(&name, flip));
    expect("checksum");
    site.blobs.damage(&name, flip);
    let last = std::sync::Mutex::new(0);
    site.blobs.damage(&name, |bytes| bytes.pop().map(|byte| *last.lock().unwrap() = byte));
    expect("bytes, not");
    site.blobs.damage(&name, |bytes| {
        bytes.push(*last.lock().unwrap());
        Some(())
    });
    let follower = site.open(&three, lazy(RING));
    assert_eq!(all(&*follower), all(&*engine));
    follower.close().unwrap();
    site.blobs.damage(&name, |_| None);
    expect("missing");
    wait(store.close()).unwrap();
}

#[test]
fn a_host_without_a_tree_starts_from_the_checkpoint_though_no_owner_lives() {
    let (env, _guard) = real_env();
    let site = Site::new(&env);
    let one = site.host("one");
    let engine = site.open(&one, eager(RING));
    let store = site.own(&engine);
    for number in 0..50 {
        commit(
            &store,
            format!("{number} before").as_bytes(),
            if number % 9 == 0 { 500 } else { 9 },
        );
    }
    assert_eq!(one.log.show().unwrap().first, 1, "without a checkpoint all of the log is kept");
    until("the tree has it", || one.log.show().unwrap().replicas[0].applied >= 50);
    assert!(one.log.wants_checkpoint(None, 0));
    let first = one.make_checkpoint(&*engine, 7);
    assert!(!one.log.wants_checkpoint(Some(&first), 0));
    let again = checkpoint::write(&*engine, &one.log, &*one.blobs, 8, &|| false).unwrap();
    assert_eq!(again, None, "there is nothing new");
    for number in 0..50 {
        commit(
            &store,
            format!("{number} behind").as_bytes(),
            if number % 9 == 0 { 500 } else { 9 },
        );
    }
    assert!(one.log.wants_checkpoint(Some(&first), 0));
    assert!(!one.log.wants_checkpoint(Some(&first), 1 << 30), "it is small beside the tree");
    until("the log is trimmed below the checkpoint", || one.log.show().unwrap().first > 1);
    assert_eq!(one.log.show().unwrap().first, first.number + 1);
    wait(store.close()).unwrap();
    let expected = {
        let engine = site.open(&one, lazy(RING));
        let records = all(&*engine);
        engine.close().unwrap();
        records
    };
    assert_eq!(expected.len(), 100);
    drop(one);
    let two = site.host("two");
    let behind = site.try_open(&two, eager(RING)).map(drop);
    assert!(matches!(behind, Err(StoreError::Behind { missing: 1, .. })), "{behind:?}");
    site.restore(&two).unwrap();
    let copied = site.open(&two, lazy(RING));
    assert_eq!(all(&*copied), expected);
    let owner = site.own(&copied);
    commit(&owner, b"it serves", 10);
    wait(owner.close()).unwrap();
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_tree_stays() {
    let (env, _guard) = real_env();
    let site = Site::new(&env);
    let (one, two) = (site.host("one"), site.host("two"));
    let engine = site.open(&one, eager(RING));
    let store = site.own(&engine);
    commit(&store, b"record", 10);
    let follower = site.open(&two, eager(RING));
    until("its tree has it", || follower.bytes_behind() == 0);
    follower.close().unwrap();
    let applied = |host: &str| {
        let trees = one.log.show().unwrap().replicas;
        trees.into_iter().find(|tree| tree.host == host).map_or(0, |tree| tree.applied)
    };
    until("the owner's tree has it", || applied("one") > 0);
    one.make_checkpoint(&*engine, 7);
    let name = site.blobs.names().into_iter().find(|name| name.contains("/checkpoint/")).unwrap();
    let flip = |bytes: &mut Vec<u8>| {
        *bytes.last_mut().unwrap() ^= 1;
        Some(())
    };
    site.blobs.damage(&name, flip);
    let error = site.restore(&two).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&name) && text.contains("checksum"), "{text}");
    let still = site.open(&two, lazy(RING));
    assert_eq!(all(&*still), all(&*engine), "nothing was given up");
    still.close().unwrap();
    site.blobs.damage(&name, flip);
    // That of another place, though whole.
    let mut other = Vec::new();
    site.blobs.damage(&name, |bytes| {
        other.clone_from(bytes);
        Some(())
    });
    commit(&store, b"another", 10);
    until("the owner's tree has it", || applied("one") > 1);
    one.make_checkpoint(&*engine, 8);
    let newer = site.blobs.names().into_iter().rfind(|name| name.contains("/checkpoint/")).unwrap();
    assert!(site.blobs.damage(&newer, |bytes| {
        *bytes = other;
        Some(())
    }));
    let text = site.restore(&two).unwrap_err().to_string();
    assert!(text.contains("another place"), "{text}");
    site.blobs.damage(&newer, |_| None);
    let text = site.restore(&two).unwrap_err().to_string();
    assert!(text.contains("missing"), "{text}");
    wait(store.close()).unwrap();
}

#[test]
fn only_what_no_key_names_is_swept() {
    let (env, _guard) = real_env();
    let site = Site::new(&env);
    let (one, two) = (site.host("one"), site.host("two"));
    let engine = site.open(&one, eager(RING));
    let store = site.own(&engine);
    let epoch = store.fence().0;
    let swept = |host: &Host| sweep(&host.log, &*host.blobs, &|| false).unwrap();
    for number in 0..10 {
        commit(&store, format!("{number} large").as_bytes(), 500);
    }
    assert_eq!((swept(&one), site.blobs.names().len()), (0, 10), "the log names them all");
    assert_eq!(swept(&two), 0, "only the owner sweeps");
    // What an owner that lost the target left, and what this one is about to name.
    let folder = site.blobs.names()[0].rsplit_once('/').unwrap().0.to_owned();
    let blob = |number: u64, epoch: u64| format!("{folder}/{number:016x}-{epoch:016x}-00000000");
    let others = format!("{folder}/README");
    let head = one.log.show().unwrap().head;
    let lost = blob(head + 1, epoch - 1);
    // Those of numbers that the log still has stay as long as these entries.
    let later = [blob(head, epoch), blob(1, 0)];
    let kept = [blob(head + 1, epoch), others.clone()];
    for name in later.iter().chain([&lost]).chain(&kept) {
        store::blobs::Blobs::put(&*one.blobs, name, b"x".to_vec()).unwrap();
    }
    assert_eq!(swept(&one), 1);
    let names = site.blobs.names();
    assert!(!names.contains(&lost), "{names:?}");
    assert_eq!(names.len(), 10 + 2 + 2);
    // The page of a checkpoint that another one followed.
    let applied = || one.log.show().unwrap().replicas[0].applied;
    until("the tree has it", || applied() >= head);
    one.make_checkpoint(&*engine, 1);
    commit(&store, b"newer", 500);
    until("the tree has it", || applied() > head);
    one.make_checkpoint(&*engine, 2);
    two.log.trim(engine.follow().unwrap()).unwrap();
    one.log.trim(engine.follow().unwrap()).unwrap();
    assert!(swept(&one) >= 13, "ten entries, two that were not named, and a page");
    let names = site.blobs.names();
    assert!(later.iter().all(|name| !names.contains(name)), "{names:?}");
    let pages: Vec<&String> = names.iter().filter(|name| name.contains("/checkpoint/")).collect();
    assert_eq!(pages.len(), 1);
    assert!(pages[0].contains("-0000000000000002/"), "{pages:?}");
    wait(store.close()).unwrap();
    // The next owner removes what this one was about to name.
    site.restore(&two).unwrap();
    let follower = site.open(&two, eager(RING));
    let store = site.own(&follower);
    swept(&two);
    let names = site.blobs.names();
    assert!(names.contains(&others) && !names.contains(&kept[0]), "{names:?}");
    wait(store.close()).unwrap();
}

#[test]
fn hosts_agree_on_where_blobs_are() {
    let (env, _guard) = real_env();
    let site = Site::new(&env);
    site.host("one");
    for (place, words) in [(None, "no store of blobs"), (Some("another"), "another")] {
        let (log, _) = site.log("two", place);
        for refused in [log.create("").map(drop), log.check()] {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("bucket") && text.contains(words), "{text}");
        }
    }
    assert_eq!(site.log("one", Some("bucket")).0.show().unwrap().replicas.len(), 1, "none joined");
    let site = Site::new(&env);
    site.log("one", None).0.create("").unwrap();
    let text = site.log("two", Some("bucket")).0.check().unwrap_err().to_string();
    assert!(text.contains("without a store of blobs"), "{text}");
}
