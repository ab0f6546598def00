//! Keys of a log that an administrator changes by hand: the owner, which renews its lease all the
//! while, reads only, and has nothing to commit, stops answering all the same.

use crate::fixture::{Fixture, unmount, until};
use crate::keys::Keys;
use crate::members::{Members, or_skip};
use e2e::programs::write_and_sync;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// An owner answers for so long, at most, when its claim has ended.
const SOON: Duration = Duration::from_secs(1);
/// How long it is seen that it does not.
const SEEN: Duration = Duration::from_secs(3);

/// A program that asks the MDT again and again whether a lock of a file is held, which no client
/// can know by itself, and tells when each answer came.
struct Reader {
    answers: Receiver<Instant>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn begin(path: &Path) -> Reader {
        let (tell, answers) = channel();
        let file = File::options().read(true).write(true).open(path).expect("open");
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Acquire) {
                let held = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock));
                assert!(held.expect("no error is seen").is_none());
                if tell.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        Reader { answers, stop, thread }
    }

    /// Forgets the answers so far, and waits for another one.
    fn goes_on(&self) {
        while self.answers.try_recv().is_ok() {}
        until("reading goes on", || self.answers.try_recv().is_ok());
    }

    fn end(self) {
        self.stop.store(true, Ordering::Release);
        while self.answers.recv().is_ok() {}
        self.thread.join().expect("no error is seen");
    }
}

#[test]
fn an_owner_that_only_reads_stops_when_its_keys_are_changed_by_hand() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let Some(keys) = Keys::of(&members) else { return };
    let (mut cluster, mgs_nid, [one]) = Fixture::with_mdt(&members.url(), ["one"]);
    cluster.serve("one", one, &["one"]);
    let mnt = cluster.mount("mnt", &mgs_nid);
    write_and_sync(&mnt.join("before"), b"text").expect("write");
    // As if for a host that is away: nothing is trimmed.
    keys.put("replica/away", format!("{:016x}", keys.head()));
    let reader = Reader::begin(&mnt.join("before"));
    reader.goes_on();

    // A newer epoch: the owner gives the target up, and takes it over again in the next one.
    let epoch = keys.epoch();
    assert_eq!(cluster.log_count("one", "lost to another host"), 0, "{}", cluster.logs());
    keys.put("epoch", format!("{:016x}", epoch + 1));
    let (changed, head) = (Instant::now(), keys.head());
    until("the owner sees the newer epoch", || cluster.log_has("one", "lost to another host"));
    let took = changed.elapsed();
    assert!(took < SOON, "it went on for {took:.1?}");
    println!("a newer epoch was seen after {took:.1?}");
    until("it is taken over again", || cluster.log_count("one", "taken over") == 2);
    assert_eq!(keys.epoch(), epoch + 2);
    reader.goes_on();
    write_and_sync(&mnt.join("meanwhile"), b"text").expect("write");
    let epochs = keys.epochs_behind(head);
    assert!(epochs.iter().all(|of| *of > epoch) && !epochs.is_empty(), "{epochs:?}");

    // Another claim in the same epoch: it stops, and no host serves the target until that is gone.
    let claim = keys.get("owner");
    reader.goes_on();
    keys.put("owner", format!("{:016x} {:016x} an administrator", 0, epoch + 2));
    let changed = Instant::now();
    thread::sleep(SOON);
    let last = reader.answers.try_iter().last().expect("it went on until then");
    println!("the last answer came {:.1?} later", last.saturating_duration_since(changed));
    thread::sleep(SEEN);
    assert_eq!(reader.answers.try_iter().count(), 0, "it answers without its claim of {claim}");
    keys.delete("owner");
    reader.goes_on();
    assert_eq!(keys.epoch(), epoch + 3);

    reader.end();
    for name in ["before", "meanwhile"] {
        assert_eq!(fs::read(mnt.join(name)).expect("read"), b"text");
    }
    unmount(&mnt);
}
