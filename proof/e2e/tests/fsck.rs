//! `sheen fsck` of a real cluster (docs/fsck.md): clean while clients work. Deliberate damage is
//! found, repaired, and not found again, at work and at rest; files stay readable.

use disk::key::{self, Tag};
use disk::{dirent, inode};
use e2e::cluster::Cluster;
use e2e::many::Many;
use e2e::process::text;
use e2e::programs::sh;
use env::real::{RealConfig, RealEnv};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store::engine::Fence;
use store::journalled::{Journalled, JournalledOptions};
use store::object_store::ObjectStore;
use store::objects::{Objects, ObjectsOptions};
use store::store::{Committer, Store, StoreOptions};
use store::tx::Tx;
use target::superblock;
use types::attr::FileType;
use types::fid::Fid;
use types::object::ObjectId;

/// Checks while clients work, at least.
const CHECKS: usize = 5;
/// Rounds of work of each client meanwhile, at least.
const ROUNDS: u32 = 3;
/// Exit status of a run that found and mended something, and nothing else.
const REPAIRED: i32 = 1;
/// Exit status of a run that found something and left it.
const LEFT: i32 = 4;

type Check = fn(&Many, &[&str]) -> Output;

#[test]
fn a_cluster_at_work_is_clean() {
    if !e2e::can_mount() {
        return;
    }
    let Some(mut cluster) = Cluster::with_clients("2", &["", ""]) else { return };
    let stop = AtomicBool::new(false);
    let rounds = [AtomicU32::new(0), AtomicU32::new(0)];
    thread::scope(|scope| {
        for (n, mount) in cluster.mounts().into_iter().enumerate() {
            let (stop, rounds) = (&stop, &rounds[n]);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let round = rounds.fetch_add(1, Ordering::Relaxed);
                    let script = format!(
                        "mkdir -p d{n} && cd d{n} && mkdir r{round} && for f in $(seq 8); do seq $((f * 3000)) > r{round}/f$f; done
                         mv r{round}/f1 moved; ln r{round}/f2 linked; mv r{round} r; rm moved linked; rm -r r"
                    );
                    sh(&mount, &script);
                }
            });
        }
        // A failure here must not leave the workers at work for ever.
        let (mut outputs, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        let all_worked = || rounds.iter().all(|rounds| rounds.load(Ordering::Relaxed) >= ROUNDS);
        while outputs.len() < CHECKS || !all_worked() && Instant::now() < deadline {
            outputs.push(cluster.many().fsck(&[]));
        }
        let worked = all_worked();
        stop.store(true, Ordering::Relaxed);
        for output in outputs {
            assert!(output.status.success(), "{}: {}", output.status, text(&output));
        }
        assert!(worked, "next to nothing was done meanwhile");
    });
    cluster.stop();
    let output = cluster.many().fsck_at_rest(&[]);
    assert!(output.status.success(), "{}: {}", output.status, text(&output));
}

#[test]
fn damage_is_found_and_mended_at_work() {
    damaged_and_mended(true, |many, args| many.fsck(args));
}

#[test]
fn damage_is_found_and_mended_at_rest() {
    damaged_and_mended(false, |many, args| many.fsck_at_rest(args));
}

fn damaged_and_mended(at_work: bool, check: Check) {
    if !e2e::can_mount() {
        return;
    }
    let Some(mut cluster) = Cluster::on_hosts("1") else { return };
    let mnt = cluster.mount();
    sh(
        &mnt,
        "mkdir dir dir/sub; seq 50000 > good; seq 1000 > linked; seq 2000 > nameless; seq 30000 > objectless",
    );
    cluster.stop();
    let objectless = damage_records(&cluster.dir().join("mdt"));
    damage_objects(&cluster.dir(), objectless);
    if at_work {
        cluster.start();
    }
    let expected =
        ["dangling", "lost-object", "nameless", "orphan-object", "wrong-nlink", "wrong-parent"];
    let expected = expected.map(str::to_owned).into();
    let many = cluster.many();
    // Found, and left alone.
    let (status, kinds) = findings(&check(many, &["--json"]), "left");
    assert_eq!((status, kinds), (LEFT, expected));
    // Mended, and said so.
    let (status, kinds) = findings(&check(many, &["--repair", "--json"]), "repaired");
    let mended = ["dangling", "nameless", "orphan-object", "wrong-nlink", "wrong-parent"];
    assert!(mended.iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
    assert_eq!(status, REPAIRED);
    // And that was all.
    let again = check(many, &["--json"]);
    assert_eq!(findings(&again, "left"), (0, BTreeSet::new()), "{}", text(&again));
    if !at_work {
        cluster.start();
    }
    sh(
        &mnt,
        "seq 50000 | cmp - good; seq 1000 | cmp - linked; test $(stat -c %h linked) = 1; test ! -e ghost
         test -d lost+found; test $(stat -c %i dir/sub/..) = $(stat -c %i dir)
         test $(stat -c %s objectless) = $(seq 30000 | wc -c); tr -d '\\0' < objectless | wc -c | grep -qx 0
         rm -r dir good linked objectless; echo new > ghost; test $(cat ghost) = new",
    );
    cluster.stop();
    let end = cluster.many().fsck_at_rest(&[]);
    assert!(end.status.success(), "{}", text(&end));
}

/// Exit status, and kinds of what was found; each must be in this state.
fn findings(output: &Output, state: &str) -> (i32, BTreeSet<String>) {
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(output)));
    let findings = report["findings"].as_array().expect("findings");
    let mut kinds = BTreeSet::new();
    for finding in findings {
        assert_eq!(finding["state"], state, "{finding}");
        assert!(
            state != "repaired" || finding["done"].as_str().is_some_and(|done| !done.is_empty()),
            "{finding}"
        );
        kinds.insert(finding["kind"].as_str().expect("a kind").to_owned());
    }
    (output.status.code().expect("an exit status"), kinds)
}

/// Damages records of an MDT that does not run; returns the file whose object shall be removed.
fn damage_records(dir: &Path) -> Fid {
    let (env, _guard) = RealEnv::start(RealConfig::default()).expect("an environment");
    let block = superblock::read(&env, dir).expect("a superblock");
    let _lock = superblock::lock(&env, dir).expect("nobody serves it");
    let engine =
        Journalled::open(&env, dir, block.store, JournalledOptions::default()).expect("an engine");
    let options = StoreOptions {
        at_least: Fence(block.boot),
        committer: Committer::Caller,
        ..StoreOptions::default()
    };
    let store = Store::open(engine, env, options).expect("a store");
    let mut tx = store.begin();
    let absent = Fid { oid: 0xffff_0000, ..named(&tx, Fid::ROOT, "good") };
    tx.put(&key::dirent(Fid::ROOT, b"ghost"), &dirent::encode(absent, FileType::Regular));
    let (linked, sub) =
        (named(&tx, Fid::ROOT, "linked"), named(&tx, named(&tx, Fid::ROOT, "dir"), "sub"));
    let nlink = |record: &mut inode::InodeRecord<'_>| record.attr.nlink = 7;
    change(&mut tx, linked, nlink);
    change(&mut tx, sub, |record| record.parent = Fid::ROOT);
    let objectless = named(&tx, Fid::ROOT, "objectless");
    tx.delete(&key::dirent(Fid::ROOT, b"nameless"));
    tx.finish();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(store.close()).expect("what was changed is stored");
    objectless
}

fn named(tx: &Tx<'_>, dir: Fid, name: &str) -> Fid {
    let found = tx.get(&key::dirent(dir, name.as_bytes()), |value| {
        dirent::decode(value).expect("a whole name").0
    });
    found.expect("the store can be read").unwrap_or_else(|| panic!("{name} is not there"))
}

fn change(tx: &mut Tx<'_>, fid: Fid, spoil: impl FnOnce(&mut inode::InodeRecord<'_>)) {
    let (start, mut value) = (key::inode(fid), Vec::new());
    assert_eq!(start[0], Tag::Inode as u8);
    let end = [&start[..], &[0]].concat();
    tx.scan(&start, &end, |_, found| {
        value = found.to_vec();
        ControlFlow::Continue(())
    })
    .expect("the store can be read");
    let mut record = inode::decode(fid, &value).expect("a whole record");
    spoil(&mut record);
    let mut spoilt = Vec::new();
    inode::encode(&record, &mut spoilt);
    tx.put(&start, &spoilt);
}

/// Removes the object of a file, and makes one for a file that never was.
fn damage_objects(dir: &Path, objectless: Fid) {
    let (env, _guard) = RealEnv::start(RealConfig::default()).expect("an environment");
    let mut removed = 0;
    for ost in ["ost0", "ost1", "ost2", "ost3"] {
        let dir = dir.join(ost);
        assert!(fs::exists(dir.join("objects")).expect("a folder"));
        let _lock = superblock::lock(&env, &dir).expect("nobody serves it");
        let objects = Objects::open(&env, &dir, ObjectsOptions::default()).expect("objects");
        let mut all = Vec::new();
        let listed = objects.for_each(|object| {
            all.push(object);
            Ok(())
        });
        listed.expect("the folder can be read");
        for object in all.iter().filter(|object| object.fid == objectless) {
            removed += usize::from(objects.destroy(*object).expect("an object is removed"));
        }
        if ost == "ost2" {
            let stray =
                ObjectId { fid: Fid { oid: 0xffff_0001, ..objectless }, instance: 1, stripe: 0 };
            objects.write(stray, b"nobody's", 0).expect("an object is written");
        }
        objects.sync_all().expect("the objects are stored");
    }
    assert_eq!(removed, 1, "objects of the file");
}
