//! Keys are revoked while their mounts work, one after the other: each is out within two seconds,
//! at the MDT and at the OST, and the mount of another host notices nothing.

use super::Site;
use e2e::can_mount;
use e2e::process::detach;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Keys that are revoked.
const ROUNDS: usize = 10;
/// A revoked key is out after this time.
const OUT: Duration = Duration::from_secs(2);
/// Nothing is waited for longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Threads that look at it end when this is dropped, also by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What a mount does until it must not, or the test ends; each counts what it did.
type Work = fn(&Path, &AtomicU64, &AtomicBool) -> io::Result<()>;

const WORKS: [Work; 2] = [makes_files, writes_a_file];

/// Each file is a change of the MDT.
fn makes_files(dir: &Path, done: &AtomicU64, end: &AtomicBool) -> io::Result<()> {
    while !end.load(Ordering::SeqCst) {
        File::create(dir.join(format!("file{}", done.load(Ordering::SeqCst))))?;
        done.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// The file is open, and the OST stores what is written.
fn writes_a_file(dir: &Path, done: &AtomicU64, end: &AtomicBool) -> io::Result<()> {
    let mut file = File::create(dir.join("written"))?;
    while !end.load(Ordering::SeqCst) {
        file.write_all(&[7; 100_000])?;
        file.sync_data()?;
        done.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// Revokes a key while its mount works; how long each kind of work went on.
fn out_after(site: &Site, name: &str, mount: &Path) -> [Duration; 2] {
    let (counts, end) = ([const { AtomicU64::new(0) }; WORKS.len()], AtomicBool::new(false));
    let [made, written] = ["made", "written"].map(|dir| mount.join(dir));
    [&made, &written].iter().for_each(|dir| fs::create_dir(dir).unwrap());
    std::thread::scope(|scope| {
        let (end, _ends) = (&end, Ends(&end));
        let works = [(&made, &counts[0]), (&written, &counts[1])];
        let began_all = Instant::now();
        let threads: Vec<_> = WORKS
            .iter()
            .zip(works)
            .map(|(work, (dir, count))| {
                scope.spawn(move || {
                    let ended = work(dir, count, end);
                    (Instant::now(), ended.expect_err("it goes on until it must not"))
                })
            })
            .collect();
        while counts.iter().any(|count| count.load(Ordering::SeqCst) < 5) {
            assert!(began_all.elapsed() < PATIENCE, "{name} does not work\n{}", site.logs());
            std::thread::sleep(Duration::from_millis(10));
        }
        let began = Instant::now();
        site.must(1, &["auth", "revoke", &site.at("mgt"), "--name", name]);
        let ended: Vec<Duration> = threads
            .into_iter()
            .map(|thread| {
                while !thread.is_finished() {
                    assert!(began.elapsed() < PATIENCE, "{name} still works\n{}", site.logs());
                    std::thread::sleep(Duration::from_millis(10));
                }
                let (at, error) = thread.join().expect("it ends");
                assert!(at > began, "{name} ended before it was revoked: {error}");
                at - began
            })
            .collect();
        [ended[0], ended[1]]
    })
}

#[test]
fn ten_revoked_keys_are_each_out_within_two_seconds_at_the_mdt_and_the_ost() {
    if !can_mount() {
        return;
    }
    let Some(mut site) = Site::new() else { return };
    site.must(1, &["auth", "init", &site.at("mgt"), "--mgsnode", &site.mgs(), "--name", "mds"]);
    let [oss, client3] =
        [("oss", "server"), ("client3", "client")].map(|(name, role)| site.key(name, role));
    site.serve_all(&[], &["--key", &oss]);
    let other = site.mount(3, &format!("key={client3}"));
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let ends = Ends(&stop);
        let goes_on = scope.spawn(|| -> io::Result<()> {
            while !stop.load(Ordering::SeqCst) {
                let name =
                    other.join(format!("other{}", rounds.fetch_add(1, Ordering::SeqCst) % 9));
                fs::write(&name, [8; 50_000])?;
                File::open(&name)?.sync_all()?;
            }
            Ok(())
        });
        let mut longest = [Duration::ZERO; 2];
        for n in 0..ROUNDS {
            let name = format!("node{n}");
            let key = site.key(&name, "client");
            let mount = site.mount_at(4, &name, &format!("key={key},soft"));
            let dir = mount.join(&name);
            fs::create_dir(&dir).unwrap();
            let before = rounds.load(Ordering::SeqCst);
            let out = out_after(&site, &name, &dir);
            detach(&mount);
            site.mounts.retain(|known| *known != mount);
            assert!(out.iter().all(|after| *after < OUT), "{name}: {out:?}\n{}", site.logs());
            assert!(rounds.load(Ordering::SeqCst) > before, "the other host stood still");
            longest = [longest[0].max(out[0]), longest[1].max(out[1])];
        }
        drop(ends);
        goes_on.join().expect("no panic").expect("the other host notices nothing");
        eprintln!("{ROUNDS} keys revoked: at the MDT and the OST out after {longest:?} at most");
    });
    site.stop();
}
