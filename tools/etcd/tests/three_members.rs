//! A target on three real etcd, with real owners: killed, deposed, without a majority. Skips, and
//! says so, where etcd is not installed (`./run deps test` installs it).

mod members;

use env::Env;
use env::real::{RealConfig, RealEnv, RealGuard};
use etcd::client::Etcd;
use members::{Members, or_skip};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use store::engine::Fence;
use store::error::StoreError;
use store::journalled::{Journalled, JournalledOptions};
use store::kv::{Change, Kv, KvError, Txn};
use store::log::Log;
use store::shared_log::SharedLog;
use store::store::{Store, StoreOptions};

const TARGET: &str = "sheen-MDT0000";
const UUID: u128 = 0x1234_5678;
const LEASE: Duration = Duration::from_secs(2);
/// Set in a process that is the owner to be killed: the members, and the folder.
const OWNER: &str = "SHEEN_TEST_OWNER";

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park();
    }
}

fn real_env() -> (Env, RealGuard) {
    RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap()
}

/// What etcd answers, as soon as it has a leader.
fn answered<T>(ask: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let began = Instant::now();
    loop {
        match ask() {
            Err(StoreError::NoAnswer { .. }) if began.elapsed() < Duration::from_secs(30) => {
                std::thread::sleep(Duration::from_millis(50));
            }
            answer => return answer,
        }
    }
}

/// A host: a log of its own connection, and a tree in a folder.
struct Host {
    kv: Arc<Etcd>,
    log: Arc<SharedLog>,
    engine: Arc<Journalled>,
    env: Env,
}

impl Host {
    fn new(env: &Env, url: &str, name: &str, dir: &Path) -> Host {
        let kv = Arc::new(Etcd::new(url.parse().unwrap(), Etcd::DEADLINE).unwrap());
        let log = Arc::new(SharedLog::new(kv.clone(), TARGET, UUID, name, name));
        assert_eq!(answered(|| log.create("")).map(|made| made.store), Ok(UUID));
        answered(|| log.check()).unwrap();
        Journalled::create_tree(env, dir, UUID, &JournalledOptions::default()).unwrap();
        let options = JournalledOptions::default();
        let open = || Journalled::open_tree(env, dir, UUID, log.clone(), options.clone());
        let engine = answered(open).unwrap();
        Host { kv, log, engine, env: env.clone() }
    }

    /// Becomes the owner, as soon as there is none.
    fn claim(&self) -> Arc<Store> {
        let began = Instant::now();
        loop {
            if let Ok(lease) = self.kv.grant(LEASE) {
                self.log.claim_under(lease);
            }
            match Store::open(self.engine.clone(), self.env.clone(), StoreOptions::default()) {
                Ok(store) => return store,
                Err(StoreError::Owned { .. } | StoreError::NoAnswer { .. }) => {}
                Err(error) => panic!("claim: {error}"),
            }
            assert!(began.elapsed() < Duration::from_secs(30), "no owner");
            answered(|| self.engine.follow()).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn put(store: &Store, number: u64) {
    let mut tx = store.begin();
    tx.put(&number.to_be_bytes(), &number.to_le_bytes());
    tx.finish();
}

fn has(store: &Store, number: u64) -> bool {
    store.begin().get(&number.to_be_bytes(), |_| ()).unwrap().is_some()
}

/// The owner of [`an_owner_is_killed`]: tells each number once it is durable.
#[test]
fn owner_that_is_killed() {
    let Ok(place) = std::env::var(OWNER) else { return };
    let (url, dir) = place.split_once(' ').unwrap();
    let (env, _guard) = real_env();
    let host = Host::new(&env, url, "one", Path::new(dir));
    let store = host.claim();
    let mut out = std::io::stdout();
    for number in 1.. {
        put(&store, number);
        wait(store.commit()).unwrap();
        writeln!(out, "durable {number}").unwrap();
    }
}

fn start_owner(url: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_that_is_killed", "--nocapture"])
        .env(OWNER, format!("{url} {}", dir.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn what_a_killed_owner_called_durable_is_there_without_its_folder() {
    let Some(members) = or_skip(Members::start()) else { return };
    let folders = tempfile::tempdir().unwrap();
    let (one, two) = (folders.path().join("one"), folders.path().join("two"));
    for dir in [&one, &two] {
        std::fs::create_dir(dir).unwrap();
    }
    let mut owner = start_owner(&members.url(), &one);
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let mut durable = 0;
    let mut told = || loop {
        let line = lines.next()?.ok()?;
        if let Some(number) = line.strip_prefix("durable ").and_then(|n| n.parse::<u64>().ok()) {
            return Some(number);
        }
    };
    let (env, _guard) = real_env();
    let standby = Host::new(&env, &members.url(), "two", &two);
    while durable < 40 {
        durable = told().expect("the owner goes on");
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    // What it told before it was killed.
    while let Some(number) = told() {
        durable = number;
    }
    std::fs::remove_dir_all(&one).unwrap();
    let store = standby.claim();
    assert_eq!(store.fence(), Fence(2));
    assert!((1..=durable).all(|number| has(&store, number)), "all of {durable}");
    put(&store, 1 << 40);
    wait(store.commit()).unwrap();
    wait(store.close()).unwrap();
}

#[test]
fn a_deposed_owner_is_fenced_and_large_groups_come_in_parts() {
    let Some(members) = or_skip(Members::start()) else { return };
    let folders = tempfile::tempdir().unwrap();
    let (env, _guard) = real_env();
    let host = |name: &str| {
        let dir = folders.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        Host::new(&env, &members.url(), name, &dir)
    };
    let (one, two) = (host("one"), host("two"));
    let old = one.claim();
    let large = vec![5; 3 << 20];
    let mut tx = old.begin();
    tx.put(b"large", &large);
    tx.finish();
    wait(old.commit()).unwrap();
    // Its lease ends, for it is never renewed.
    let new = two.claim();
    assert_eq!(new.begin().get(b"large", <[u8]>::to_vec).unwrap(), Some(large));
    put(&old, 1);
    assert_eq!(wait(old.commit()), Err(StoreError::Fenced { ours: 1, current: 2 }));
    assert!(old.is_fenced() && !new.is_fenced());
    put(&new, 2);
    wait(new.commit()).unwrap();
    let shown = answered(|| two.log.show()).unwrap();
    assert_eq!((shown.fence, shown.owner.map(|owner| owner.place)), (Fence(2), Some("two".into())));
    assert_eq!(shown.head, answered(|| one.engine.follow()).unwrap().number);
    let stranger = SharedLog::new(two.kv.clone(), TARGET, 9, "three", "three");
    let refused = answered(|| stranger.check()).unwrap_err().to_string();
    assert!(refused.contains("is the log of store"), "{refused}");
    wait(new.close()).unwrap();
}

#[test]
fn without_a_majority_nothing_is_called_durable_and_with_it_everything_is() {
    let Some(mut members) = or_skip(Members::start()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (env, _guard) = real_env();
    let host = Host::new(&env, &members.url(), "one", folder.path());
    let store = host.claim();
    put(&store, 1);
    wait(store.commit()).unwrap();
    members.stop(0);
    members.stop(1);
    put(&store, 2);
    let (done, result) = channel();
    let theirs = store.clone();
    let waits = std::thread::spawn(move || done.send(wait(theirs.commit())));
    let early = result.recv_timeout(Duration::from_secs(3));
    assert_eq!(early, Err(RecvTimeoutError::Timeout), "no majority has it");
    assert!(matches!(store.unanswered(), Some(StoreError::NoAnswer { .. })));
    put(&store, 3);
    assert!(has(&store, 2) && has(&store, 3), "programs go on");
    members.go_on(0);
    members.go_on(1);
    assert!(result.recv_timeout(Duration::from_secs(30)).unwrap().is_ok());
    waits.join().unwrap().unwrap();
    wait(store.commit()).unwrap();
    // A member that is gone for good, whichever it was.
    members.kill(0);
    put(&store, 4);
    wait(store.commit()).unwrap();
    assert_eq!(store.unanswered(), None);
    wait(store.close()).unwrap();
}

#[test]
fn a_full_etcd_says_so_and_the_owner_makes_room() {
    let Some(members) = or_skip(Members::start_small(16 << 20)) else { return };
    let folders = tempfile::tempdir().unwrap();
    let (env, _guard) = real_env();
    let host = |name: &str| {
        let dir = folders.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        Host::new(&env, &members.url(), name, &dir)
    };
    // The second host never follows: the log is kept for it.
    let (one, two) = (host("one"), host("two"));
    let store = one.claim();
    put(&store, 1);
    wait(store.commit()).unwrap();
    assert_eq!(one.kv.alarms(), Ok(Vec::new()));
    let put_much = |n: u64| {
        let value = vec![n as u8; 400 << 10];
        let key = format!("/other/{n}");
        let put = Change::Put { key, value, lease: 0 };
        one.kv.txn(&Txn { then: vec![put], ..Txn::default() })
    };
    let began = Instant::now();
    let mut number = 0;
    while !matches!(put_much(number), Err(KvError::Full(_))) {
        number += 1;
        assert!(began.elapsed() < Duration::from_secs(60), "it is never full");
    }
    assert_eq!(one.kv.alarms(), Ok(vec!["NOSPACE".to_owned()]));
    assert!(matches!(one.kv.grant(LEASE), Err(KvError::Full(_))));
    let head = answered(|| one.engine.follow()).unwrap();
    answered(|| one.log.trim(head)).unwrap();
    let shown = answered(|| two.log.show()).unwrap();
    assert_eq!((shown.first, shown.head), (head.number + 1, head.number));
    assert_eq!(shown.replicas.len(), 1, "the host that lacks it gets the tree anew");
    // Without an orderly end: nothing becomes durable any more.
    drop(store);
}
