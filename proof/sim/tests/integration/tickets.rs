//! Clients that may not do everything show tickets, also when targets have forgotten everything.

use crate::mounts::{COMMITS, MDT, OSTS, begin, client, end, run};
use client::WriteFlags;
use client::caller::Caller;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use parking_lot::Mutex;
use sim::cluster::{Cluster, Mount};
use simenv::machine::Kill;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use types::name::Name;

/// Size of the pieces that are written.
const PIECE: u64 = 4096;
/// Pieces of the file, in both of its stripes.
const PIECES: u64 = 32;
/// For so long tickets are good, seconds.
const LIFE: u32 = 60;
const SOON: Duration = Duration::from_secs(60);

/// A cluster with a mount that shows tickets, and one that may do everything.
fn started(life: u32) -> (Cluster, Mount, Mount) {
    let cluster = Cluster::start(1, 1, COMMITS, false);
    run(&cluster, Duration::from_secs(5));
    let machines = [cluster.world.machine(0), cluster.world.machine(0)];
    let done = cluster.restrict(&[machines[0].ip()], life);
    run(&cluster, Duration::from_secs(3));
    assert!(done.load(Relaxed), "the nodemaps hold");
    let [tenant, free] = machines.map(|machine| cluster.mount(Some(machine)));
    run(&cluster, Duration::from_secs(5));
    (cluster, tenant, free)
}

fn opened(cluster: &Cluster, mount: &Mount) -> FileHandle {
    let mode = OpenMode::from_libc(libc::O_RDWR, false);
    let name = Name::new(b"f").expect("a good name");
    let opened = client(mount).create(Caller::root(), NodeId::ROOT, name, 0o600, mode);
    end(cluster, &begin(mount, opened), SOON).expect("it opens").1
}

/// The byte that stands everywhere in a piece.
fn content(piece: u64) -> u8 {
    piece as u8 + 1
}

/// A program begins to write these pieces; whether it could.
fn begin_write(
    mount: &Mount,
    handle: FileHandle,
    pieces: impl Iterator<Item = u64> + Send + 'static,
) -> Arc<Mutex<Option<bool>>> {
    let client = client(mount);
    let write = |piece| {
        let data = vec![content(piece); PIECE as usize].into();
        let (caller, flags) = (Caller::root(), WriteFlags::default());
        client.clone().write(caller, handle, piece * PIECE, data, flags)
    };
    let writes: Vec<_> = pieces.map(write).collect();
    begin(mount, async move {
        let mut good = true;
        for write in writes {
            good &= write.await.is_ok();
        }
        good
    })
}

/// Writes them, into the cache.
fn write(
    cluster: &Cluster,
    mount: &Mount,
    handle: FileHandle,
    pieces: impl Iterator<Item = u64> + Send + 'static,
) {
    assert!(end(cluster, &begin_write(mount, handle, pieces), SOON));
}

fn read(cluster: &Cluster, mount: &Mount, handle: FileHandle) -> Vec<u8> {
    let bytes = (PIECE * PIECES) as u32;
    let read = client(mount).read(Caller::root(), handle, 0, bytes, false);
    end(cluster, &begin(mount, read), SOON).expect("it can be read").concat()
}

fn written() -> Vec<u8> {
    (0..PIECES).flat_map(|piece| vec![content(piece); PIECE as usize]).collect()
}

fn fsync(cluster: &Cluster, mount: &Mount, handle: FileHandle) {
    let sync = client(mount).fsync(Caller::root(), handle, false);
    end(cluster, &begin(mount, sync), SOON).expect("nothing was lost");
}

/// Targets that lose power with all that they have not made durable; how long they are away.
const CUTS: [(&[usize], Duration); 3] = [
    (&[OSTS, OSTS + 1], Duration::from_secs(1)),
    (&[MDT, OSTS, OSTS + 1], Duration::from_secs(1)),
    // The time of the tickets is over meanwhile.
    (&[MDT, OSTS, OSTS + 1], Duration::from_secs(LIFE as u64 + 20)),
];

#[test]
fn targets_without_memory_take_back_what_a_restricted_client_wrote() {
    for (victims, away) in CUTS {
        let (cluster, tenant, free) = started(LIFE);
        let handle = opened(&cluster, &tenant);
        let half = PIECES / 2;
        write(&cluster, &tenant, handle, 0..half);
        // Sent and answered, and not durable.
        run(&cluster, Duration::from_millis(1500));
        // Dirty.
        write(&cluster, &tenant, handle, (half..PIECES).step_by(2));
        for victim in victims {
            cluster.kill_server(*victim, Kill::Power);
        }
        let more = begin_write(&tenant, handle, (half + 1..PIECES).step_by(2));
        run(&cluster, away);
        for victim in victims {
            cluster.start_server(*victim);
        }
        assert!(end(&cluster, &more, SOON), "{victims:?}, {away:?}");
        let by_other = opened(&cluster, &free);
        assert!(read(&cluster, &free, by_other) == written(), "{victims:?}, {away:?}");
        fsync(&cluster, &tenant, handle);
        assert!(read(&cluster, &tenant, handle) == written(), "{victims:?}, {away:?}");
    }
}

#[test]
fn tickets_are_renewed_while_a_file_is_in_use() {
    let (cluster, tenant, free) = started(4);
    let handle = opened(&cluster, &tenant);
    for piece in 0..PIECES {
        write(&cluster, &tenant, handle, piece..piece + 1);
        run(&cluster, Duration::from_secs(3));
    }
    fsync(&cluster, &tenant, handle);
    let by_other = opened(&cluster, &free);
    assert!(read(&cluster, &free, by_other) == written());
}

#[test]
fn tickets_that_come_when_their_time_is_over_are_asked_for_again() {
    let life = 8;
    let (cluster, tenant, free) = started(life);
    let handle = opened(&cluster, &tenant);
    cluster.kill_server(MDT, Kill::Power);
    run(&cluster, Duration::from_secs(u64::from(life) + 1));
    // Under locks that are trusted still.
    write(&cluster, &tenant, handle, 0..PIECES);
    let sync = client(&tenant).fsync(Caller::root(), handle, false);
    let sync = begin(&tenant, sync);
    run(&cluster, Duration::from_secs(u64::from(life) + 2));
    cluster.start_server(MDT);
    end(&cluster, &sync, SOON).expect("nothing was lost");
    let by_other = opened(&cluster, &free);
    assert!(read(&cluster, &free, by_other) == written());
}
