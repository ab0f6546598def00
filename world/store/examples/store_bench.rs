//! Measures the cost of the store: creates of three records each, durable every 50 ms; point reads;
//! scans; reopening.
//!
//! `cargo run --release -p store --example store_bench -- [FILES] [FOLDER]`: FILES (1,000,000)
//! creates in one thread. The store is made in a fresh folder under FOLDER (the system's temporary
//! one). CPU counts all threads.

use env::real::{RealConfig, RealEnv};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use store::engine::Engine;
use store::journalled::{Journalled, JournalledOptions};
use store::memory::Memory;
use store::store::{Store, StoreOptions};
use store::tx::Tx;

const FILES_PER_DIR: u64 = 10_000;
const STORE: u128 = 7;
const STORM_PER_S: u64 = 100_000;

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs `f` over `count` operations and prints what one cost.
fn measure<T>(what: &str, count: u64, f: impl FnOnce() -> T) -> T {
    let (wall, before) = (Instant::now(), cpu());
    let result = f();
    let (wall, used) = (wall.elapsed(), cpu() - before);
    let each = |d: Duration| d.as_nanos() as f64 / count as f64 / 1000.0;
    println!(
        "{what:44} {:>10.0}/s {:>8.2} us wall {:>8.2} us CPU",
        1e6 / each(wall),
        each(wall),
        each(used)
    );
    result
}

/// Waits by polling: the bench has no reactor of its own.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn inode_key(n: u64) -> [u8; 17] {
    let mut key = [b'I'; 17];
    key[1..9].copy_from_slice(&0x2_0000_0400u64.to_be_bytes());
    key[9..].copy_from_slice(&n.to_be_bytes());
    key
}

fn dirent_key(dir: u64, name: &str) -> Vec<u8> {
    let mut key = vec![b'D'];
    key.extend_from_slice(&inode_key(dir)[1..]);
    key.extend_from_slice(name.as_bytes());
    key
}

fn create(tx: &mut Tx<'_>, n: u64) {
    let dir = 1_000_000_000 + n / FILES_PER_DIR;
    let entry = dirent_key(dir, &format!("file.{n:08}"));
    assert!(tx.get(&entry, |_| ()).unwrap().is_none(), "the name is free");
    let mut parent = tx.get(&inode_key(dir), |v| v.to_vec()).unwrap().unwrap_or(vec![0; 200]);
    let transno = tx.transno().0;
    parent[..8].copy_from_slice(&transno.to_le_bytes());
    let mut inode = [7; 200];
    inode[..8].copy_from_slice(&transno.to_le_bytes());
    tx.put(&entry, &inode_key(n));
    tx.put(&inode_key(n), &inode);
    tx.put(&inode_key(dir), &parent);
}

fn creates(store: &Store, files: u64) {
    let mut longest = Duration::ZERO;
    for n in 0..files {
        let start = Instant::now();
        wait(store.admit()).unwrap();
        let mut tx = store.begin();
        create(&mut tx, n);
        tx.finish();
        longest = longest.max(start.elapsed());
    }
    println!("    longest wait of one create: {:.1} ms", longest.as_secs_f64() * 1e3);
}

fn reads(store: &Store, files: u64) {
    let count = files.min(500_000);
    let mut at = 1u64;
    measure("lookup: entry and inode", count, || {
        for _ in 0..count {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let n = (at >> 20) % files;
            let tx = store.begin();
            let entry = dirent_key(1_000_000_000 + n / FILES_PER_DIR, &format!("file.{n:08}"));
            assert!(tx.get(&entry, |_| ()).unwrap().is_some());
            assert_eq!(tx.get(&inode_key(n), <[u8]>::len).unwrap(), Some(200));
        }
    });
    measure("getattr: one inode", count, || {
        for _ in 0..count {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            assert_eq!(
                store.begin().get(&inode_key((at >> 20) % files), <[u8]>::len).unwrap(),
                Some(200)
            );
        }
    });
    let mut seen = 0;
    measure("scan: entries, 10,000 a folder", files, || {
        store
            .begin()
            .scan(b"D", b"E", |_, _| {
                seen += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
    });
    assert_eq!(seen, files);
    measure("scan: entries with a read of each inode", files, || {
        let tx = store.begin();
        tx.scan(b"D", b"E", |_, inode| {
            assert!(tx.get(inode, <[u8]>::len).unwrap().is_some());
            ControlFlow::Continue(())
        })
        .unwrap();
    });
}

/// Measures an fsync every 10 ms while another thread creates `STORM_PER_S` files a second.
fn fsyncs_in_a_storm(store: &Store, first: u64, count: u64) {
    let done = AtomicBool::new(false);
    let mut times = Vec::new();
    let before = cpu();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            for n in 0..count {
                if n % 100 == 0 {
                    let due = Duration::from_secs_f64(n as f64 / STORM_PER_S as f64);
                    std::thread::sleep(due.saturating_sub(start.elapsed()));
                }
                wait(store.admit()).unwrap();
                let mut tx = store.begin();
                create(&mut tx, first + n);
                tx.finish();
            }
            println!("storm: {:.0} creates/s", count as f64 / start.elapsed().as_secs_f64());
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let start = Instant::now();
            wait(store.commit()).unwrap();
            times.push(start.elapsed());
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let each = (cpu() - before).as_secs_f64() * 1e6 / count as f64;
    times.sort();
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    let max = times[times.len() - 1];
    println!(
        "    fsync every 10 ms beside it: p50 {:?}, p99 {:?}, max {max:?}; {each:.2} us CPU a create",
        at(0.5),
        at(0.99)
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let files: u64 = args.next().map_or(1_000_000, |n| n.parse().expect("FILES is a number"));
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let (env, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
    let folder = tempfile::tempdir_in(parent).unwrap();
    let dir = folder.path();

    println!("in memory only, {files} creates");
    let store =
        Store::open(Memory::new(u64::MAX / 4), env.clone(), StoreOptions::default()).unwrap();
    measure("create: entry, inode, parent", files, || creates(&store, files));
    measure("commit of the rest, close", 1, || wait(store.close()).unwrap());
    drop(store);

    println!("journal and LMDB in {}, {files} creates", dir.display());
    let options = JournalledOptions::default();
    Journalled::create(&env, dir, STORE, &options).unwrap();
    let open = || -> (Arc<Journalled>, Arc<Store>) {
        let engine = Journalled::open(&env, dir, STORE, options.clone()).unwrap();
        let store = Store::open(engine.clone(), env.clone(), StoreOptions::default()).unwrap();
        (engine, store)
    };
    let (engine, store) = open();
    measure("create, all durable at the end", files, || {
        measure("create: entry, inode, parent", files, || creates(&store, files));
        measure("    fsync behind them", 1, || wait(store.commit()).unwrap());
    });
    println!("    behind: {} MiB of records not yet in the tree", engine.bytes_behind() >> 20);
    // Without close: as after kill -9.
    measure("rest: tree takes over", 1, || wait(store.close()).unwrap());
    drop((engine, store));
    let (engine, store) = measure("reopen after close", 1, open);
    reads(&store, files);
    let mut times: Vec<Duration> = (0..500u64)
        .map(|n| {
            let start = Instant::now();
            let mut tx = store.begin();
            create(&mut tx, files + n);
            tx.finish();
            wait(store.commit()).unwrap();
            start.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "create + fsync, one at a time: p50 {:?}, p99 {:?}, max {:?}",
        times[250], times[495], times[499]
    );
    fsyncs_in_a_storm(&store, files + 500, 3 * STORM_PER_S);
    let count = files.min(300_000);
    measure("remove: entry, inode, parent", count, || {
        for n in 0..count {
            wait(store.admit_release()).unwrap();
            let dir = 1_000_000_000 + n / FILES_PER_DIR;
            let mut tx = store.begin();
            let entry = dirent_key(dir, &format!("file.{n:08}"));
            assert!(tx.get(&entry, |_| ()).unwrap().is_some());
            let parent = tx.get(&inode_key(dir), |v| v.to_vec()).unwrap().unwrap();
            tx.delete(&entry);
            tx.delete(&inode_key(n));
            tx.put(&inode_key(dir), &parent);
            tx.finish();
        }
    });
    wait(store.commit()).unwrap();
    let space = engine.space().unwrap();
    println!("tree: {} MiB in use", space.used >> 20);
    wait(store.close()).unwrap();
}
