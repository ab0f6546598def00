//! Two of three etcd are stopped: nothing is called durable, programs wait and see no error, and
//! everything goes on when the members do.

use crate::fixture::{Fixture, unmount, until};
use crate::members::{Members, or_skip};
use e2e::programs::write_and_sync;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long there is no majority.
const AWAY: Duration = Duration::from_secs(10);
/// Within this time after the members go on, fsync has returned.
const BACK: Duration = Duration::from_secs(5);

/// A program that does one step after another, and tells when each was done. All succeed.
struct Program {
    done: Receiver<Instant>,
    thread: JoinHandle<()>,
}

impl Program {
    fn begin(steps: impl Iterator<Item = std::io::Result<()>> + Send + 'static) -> Program {
        let (told, done) = channel();
        let thread = thread::spawn(move || {
            for step in steps {
                step.expect("no error is seen");
                if told.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        Program { done, thread }
    }

    fn end(self) {
        drop(self.done);
        self.thread.join().expect("no error is seen");
    }
}

fn create_for_ever(mnt: &Path) -> impl Iterator<Item = std::io::Result<()>> + use<> {
    let mnt = mnt.to_owned();
    (0..).map(move |n| fs::File::create_new(mnt.join(format!("made {n}"))).map(drop))
}

#[test]
fn fsync_waits_for_a_majority_of_etcd() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let (mut cluster, mgs_nid, [one, two]) = Fixture::with_mdt(&members.url(), ["one", "two"]);
    cluster.serve("one", one, &["one"]);
    cluster.serve("two", two, &["two"]);
    until("a host follows", || {
        ["one", "two"].iter().all(|n| cluster.log_has(n, "following the log"))
    });
    let mnt = cluster.mount("mnt", &mgs_nid);
    write_and_sync(&mnt.join("before"), b"text").expect("write");
    let creates = Program::begin(create_for_ever(&mnt));
    creates.done.recv().expect("a file is made");

    [0, 1].iter().for_each(|n| members.stop(*n));
    let stopped = Instant::now();
    let path = mnt.join("synced");
    let synced = Program::begin(std::iter::once_with(move || write_and_sync(&path, b"text")));
    assert_eq!(
        synced.done.recv_timeout(AWAY),
        Err(RecvTimeoutError::Timeout),
        "no majority has it"
    );
    let made = creates.done.try_iter().filter(|at| *at > stopped).last();
    let made = made.expect("creates go on while the owner has its lease");
    println!("creates went on for {:.1?}", made - stopped);
    // The owner cannot know whether another host took the target over: it answers nothing more.
    assert_eq!(creates.done.try_recv(), Err(TryRecvError::Empty), "its lease is over");

    [0, 1].iter().for_each(|n| members.go_on(*n));
    let back = Instant::now();
    let at = synced.done.recv().expect("no error is seen");
    let made = creates.done.recv().expect("no error is seen");
    println!("fsync returned after {:.1?}, creates after {:.1?}", at - back, made - back);
    assert!(at - back < BACK, "{:.1?}\n{}", at - back, cluster.logs());
    assert_eq!(fs::read(mnt.join("synced")).expect("read"), b"text");
    [creates, synced].into_iter().for_each(Program::end);
    unmount(&mnt);
}
