//! Many files of a directory far away, read one after the other: when a mount begins to fetch the
//! next ones, and how fast they come then.
//!
//! The line is the client's, 1 Gbit/s in virtual time, so waits are measured and nothing else. A
//! connection has at most 256 KiB under way there, and needs no time to come up to speed.

use crate::mounts::{COMMITS, begin, client, end, run};
use bytes::Bytes;
use client::caller::Caller;
use client::client::Client;
use client::node::NodeId;
use client::open::OpenMode;
use client::read_ahead::ReadAheadLimits;
use client::{Looked, WriteFlags};
use env::clock::Clock;
use layout::lov_ea;
use layout::stripe_spec::default_layout;
use parking_lot::Mutex;
use sim::cluster::{Cluster, Mount};
use simenv::network::Delays;
use simenv::network::cpu::Passing;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::fid::Fid;
use types::name::Name;
use wire::codec::decode_request;
use wire::envelope::ENVELOPE_BYTES;
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::mds::SetxattrFlags;

/// A byte on the line, nanoseconds.
const BYTE_NS: u64 = 8;
const FILES: usize = 64;
const FILE_BYTES: u64 = 1 << 20;
/// Of a file on its MDT.
const DOM_BYTES: u64 = 64 << 10;
/// What the kernel reads of a file from its beginning on for a program that reads blocks of 4 KiB:
/// its window grows.
const KERNEL_READS: [u64; 5] = [16 << 10, 64 << 10, 256 << 10, 512 << 10, 176 << 10];
const SOON: Duration = Duration::from_secs(60);

/// Requests that the client sent, with the moment and their operations.
type Sent = Arc<Mutex<Vec<(Duration, String)>>>;

fn directory() -> Name {
    Name::new(b"d").expect("a short name")
}

fn name(number: usize) -> Name {
    Name::new(format!("f{number:03}").as_bytes()).expect("a short name")
}

async fn written(client: Arc<Client>, dir: NodeId, number: usize) {
    let mode = OpenMode::from_libc(libc::O_WRONLY, false);
    let (who, name) = (Caller::root(), name(number));
    let (found, handle) = client.clone().create(who, dir, name, 0o644, mode).await.expect("create");
    let data = Bytes::from(vec![number as u8; FILE_BYTES as usize]);
    let flags = WriteFlags::default();
    let write = client.clone().write(Caller::root(), handle, 0, data, flags);
    assert_eq!(write.await.expect("write").bytes, FILE_BYTES as u32);
    client.clone().fsync(Caller::root(), handle, false).await.expect("fsync");
    client.clone().release(Caller::root(), handle).await.expect("release");
    client.forget(found.node, 1);
}

/// Frames of all connections of the client, as they pass: the line carries one after the other.
fn line(world: &simenv::world::World, mount: &Mount, sent: &Sent) {
    let (mut frames, sent) = (BTreeMap::<(u64, usize, bool), Vec<u8>>::new(), sent.clone());
    let clock = mount.env.clock.clone();
    let cost = move |passing: Passing<'_>| {
        let Passing { connection, side, sent: goes, bytes } = passing;
        if goes {
            let buffer = frames.entry((connection, side, goes)).or_default();
            buffer.extend_from_slice(bytes);
            while let Some(head) = buffer.first_chunk::<HEADER_BYTES>() {
                let Ok(header) = Header::decode(head) else { break };
                let (body, bulk) = (header.body_bytes as usize, header.bulk_bytes as usize);
                if buffer.len() < HEADER_BYTES + body + bulk {
                    break;
                }
                let frame = buffer.drain(..HEADER_BYTES + body + bulk).skip(HEADER_BYTES);
                let frame: Vec<u8> = frame.collect();
                if header.kind == FrameKind::Request {
                    let (body, bulk) =
                        (frame[ENVELOPE_BYTES..body].to_vec(), frame[body..].to_vec());
                    let request = decode_request(body.into(), bulk.into());
                    let text = format!("{:?}", request.map(|request| request.ops));
                    sent.lock().push((clock.now(), text));
                }
            }
        }
        Duration::from_nanos(bytes.len() as u64 * BYTE_NS)
    };
    world.set_cpu(mount.machine, Box::new(cost));
}

/// When a program had looked a file up, opened it, and read it to its end.
struct Times {
    begun: Duration,
    looked: Duration,
    opened: Duration,
    read: Duration,
}

async fn read_in_order(mount: Arc<Client>, clock: Arc<dyn Clock>, dir: NodeId) -> Vec<Times> {
    let mut times = Vec::new();
    for number in 0..FILES {
        let (begun, client) = (clock.now(), || mount.clone());
        let found = match client().lookup_known(1, dir, &name(number)) {
            Some(Looked::Found(found)) => found,
            _ => client().lookup(Caller::root(), dir, name(number)).await.expect("lookup"),
        };
        let looked = clock.now();
        let mode = OpenMode::from_libc(libc::O_RDONLY, false);
        let handle = client().open(Caller::root(), found.node, mode).await.expect("open");
        let opened = clock.now();
        let mut at = 0;
        for bytes in KERNEL_READS {
            let read = client().read(Caller::root(), handle, at, bytes as u32, true);
            let read = read.await.expect("read").concat();
            let is_right = read.iter().all(|byte| *byte == number as u8);
            assert!(read.len() as u64 == bytes && is_right, "{number} at {at}");
            at += bytes;
        }
        assert_eq!(at, FILE_BYTES);
        client().release(Caller::root(), handle).await.expect("release");
        times.push(Times { begun, looked, opened, read: clock.now() });
    }
    times
}

/// Another client makes the files in a directory, then leaves.
async fn made(client: Arc<Client>) {
    let made = client.clone().mkdir(Caller::root(), NodeId::ROOT, directory(), 0o755).await;
    let dir = made.expect("mkdir").node;
    let value = lov_ea::encode(&default_layout(DOM_BYTES), Fid::NONE).into();
    let (lov, flags) = (Bytes::from_static(b"lustre.lov"), SetxattrFlags::default());
    client.clone().setxattr(Caller::root(), dir, lov, value, flags).await.expect("a layout");
    for number in 0..FILES {
        written(client.clone(), dir, number).await;
    }
    client.unmount().await;
}

/// Reads the files over a line with this delay in each direction. Their times, and what was sent.
fn read_over(delay: Duration) -> (Vec<Times>, Vec<(Duration, String)>) {
    let cluster = Cluster::start(1, 1, COMMITS, false);
    let near = cluster.mount(None);
    run(&cluster, Duration::from_secs(5));
    end(&cluster, &begin(&near, made(client(&near))), SOON);
    run(&cluster, Duration::from_secs(10));
    let us = delay.as_micros() as u64;
    let delays = Delays { min_us: us, max_us: us, late: 0, late_us: 0, rate: u64::MAX };
    cluster.world.network().set_delays(delays);
    let (far, sent) = (cluster.mount(None), Sent::default());
    line(&cluster.world, &far, &sent);
    run(&cluster, Duration::from_secs(10));
    let (mount, clock) = (client(&far), far.env.clock.clone());
    let limits = ReadAheadLimits { eager: false, ..mount.read_ahead().limits() };
    mount.read_ahead().set_limits(limits);
    sent.lock().clear();
    let work = async move {
        let found = mount.clone().lookup(Caller::root(), NodeId::ROOT, directory()).await;
        read_in_order(mount, clock, found.expect("d").node).await
    };
    let times = end(&cluster, &begin(&far, work), SOON);
    let sent = std::mem::take(&mut *sent.lock());
    (times, sent)
}

#[test]
fn the_second_file_that_is_opened_brings_the_next_ones() {
    sim::log::start();
    for delay in [Duration::from_micros(1_250), Duration::from_micros(16_250)] {
        let (times, sent) = read_over(delay);
        let count = |word: &str| sent.iter().filter(|(_, ops)| ops.contains(word)).count();
        // The directory and the first file; the second one comes with those behind it.
        assert_eq!(["Lookup(", "Mds(Open("].map(count), [2, 1], "{delay:?}");
        assert_eq!(count("with_layout: false"), 1, "names, beside the first open");
        let round_trip = 2 * delay + Duration::from_millis(1);
        let Times { begun, looked, opened, .. } = times[1];
        assert!(looked - begun < round_trip && opened == looked, "{delay:?}");
        for Times { begun, opened, .. } in &times[2..] {
            assert_eq!(begun, opened, "{delay:?}: one of the others waited for its open");
        }
        // 64 MiB are 0.54 s of the line. One after the other they took 8.5 s at 32.5 ms.
        let took = times[FILES - 1].read - times[1].begun;
        let first = times[2].read - times[1].begun;
        eprintln!("{delay:?}: {FILES} files in {took:?}, the third one after {first:?}");
        assert!(took < Duration::from_secs(2), "{delay:?}: {took:?}");
    }
}
