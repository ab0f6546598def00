//! A log that two clients append to without a pause, and that programs of both follow: each read is
//! answered, though the file changes hands all the time, and none shows anything but what was
//! appended.

use crate::by_hand::{name, run, start};
use crate::stripes_seen::{does, mounted};
use client::WriteFlags;
use client::caller::Caller;
use client::client::Client;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use parking_lot::Mutex;
use sim::cluster::{Cluster, Mount};
use std::sync::Arc;
use std::time::Duration;

/// Lines that each of the two clients appends.
const LINES: usize = 400;
/// Programs of each client that follow.
const FOLLOWERS: usize = 8;
/// Bytes of a line: the letter of the client that appended it. A read ends with a line.
const LINE: usize = 128;

/// Of one that has appended a line, or read all there is.
const PAUSE: Duration = Duration::from_micros(1000);

fn opened(cluster: &Cluster, mount: &Mount, client: &Arc<Client>, flags: i32) -> FileHandle {
    let client = client.clone();
    does(cluster, mount, async move {
        let found = client.clone().lookup(Caller::root(), NodeId::ROOT, name("log")).await;
        let node = found.expect("it is there").node;
        let mode = OpenMode::from_libc(flags, false);
        client.open(Caller::root(), node, mode).await.expect("it opens")
    })
}

async fn append(client: Arc<Client>, log: FileHandle, number: usize) {
    let line = vec![b'a' + number as u8; LINE];
    let flags = WriteFlags { append: true, ..WriteFlags::default() };
    for _ in 0..LINES {
        let written =
            client.clone().write(Caller::root(), log, 0, line.clone().into(), flags).await;
        assert_eq!(written.expect("it appends").bytes as usize, LINE);
        client.session().env.clock.sleep(PAUSE).await;
    }
}

/// Reads what comes until all is there, as `tail -f` does.
async fn follow(client: Arc<Client>, log: FileHandle) {
    let (mut at, mut lines) = (0, [0; 2]);
    while at < 2 * LINES * LINE {
        let read = client.clone().read(Caller::root(), log, at as u64, 4096, false).await;
        let bytes: Vec<u8> = read.expect("it is answered").concat();
        assert!(
            bytes.len().is_multiple_of(LINE),
            "{} bytes at {at}: a part of a line",
            bytes.len()
        );
        for line in bytes.chunks(LINE) {
            assert!(line.iter().all(|byte| *byte == line[0]), "a mixed line");
            lines[usize::from(line[0] - b'a')] += 1;
        }
        at += bytes.len();
        if bytes.is_empty() {
            client.session().env.clock.sleep(PAUSE).await;
        }
    }
    assert_eq!(lines, [LINES; 2], "every line, once");
}

#[test]
fn those_who_follow_a_busy_log_are_answered() {
    let (cluster, _) = start(7, 1);
    let mounts: [(Mount, Arc<Client>); 2] = std::array::from_fn(|_| mounted(&cluster));
    let (first, maker) = (&mounts[0].0, mounts[0].1.clone());
    does(&cluster, first, async move {
        let mode = libc::S_IFREG | 0o644;
        maker.mknod(Caller::root(), NodeId::ROOT, name("log"), mode, 0).await.expect("a file");
    });
    let left = Arc::new(Mutex::new(2 * (1 + FOLLOWERS)));
    let begins = |mount: &Mount, work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let left = left.clone();
        let life = async move {
            work.await;
            *left.lock() -= 1;
        };
        mount.env.tasks.spawn("program", Box::pin(life));
    };
    let handles: Vec<FileHandle> = mounts
        .iter()
        .map(|(mount, client)| opened(&cluster, mount, client, libc::O_RDWR | libc::O_APPEND))
        .collect();
    for (number, ((mount, client), log)) in mounts.iter().zip(&handles).enumerate() {
        begins(mount, Box::pin(append(client.clone(), *log, number)));
        for _ in 0..FOLLOWERS {
            begins(mount, Box::pin(follow(client.clone(), *log)));
        }
    }
    for _ in 0..12_000 {
        run(&cluster, Duration::from_millis(10));
        if *left.lock() == 0 {
            break;
        }
    }
    assert_eq!(cluster.world.failures(), Vec::<String>::new());
    assert_eq!(*left.lock(), 0, "not done in two minutes");
}
