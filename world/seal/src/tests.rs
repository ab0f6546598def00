//! Two ends, honest and not.

use crate::authority::{Authority, Subject};
use crate::credentials::Credentials;
use crate::handshake::{Shaken, halves, shake};
use crate::keys::Keys;
use crate::records::{Opening, Sealing};
use env::BoxFuture;
use env::clock::{Clock, Monotonic};
use lnet::error::LinkError;
use lnet::seal::{KeyRefused, Reach, Read, START_BYTES, Seal, Sealed, Write};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use types::nid::Nid;
use types::principal::Role;
use types::session::ClusterId;
use types::time::Timestamp;

pub(crate) const NID: Nid = Nid::Loopback;
pub(crate) const NOW: i64 = 1_700_000_000;
pub(crate) const DAY: i64 = 86_400;

/// Wall time as set.
pub(crate) struct Set(pub(crate) AtomicI64);

impl Clock for Set {
    fn now(&self) -> Monotonic {
        Duration::ZERO
    }

    fn wall(&self) -> Timestamp {
        Timestamp { sec: self.0.load(Ordering::SeqCst), nsec: 0 }
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

pub(crate) fn clock(seconds: i64) -> Arc<dyn Clock> {
    Arc::new(Set(AtomicI64::new(seconds)))
}

pub(crate) fn authority() -> Authority {
    Authority::make(ClusterId(7), NOW).unwrap()
}

pub(crate) fn credentials(authority: &Authority, role: Role, name: &str) -> Credentials {
    let name = name.parse().unwrap();
    let subject = Subject { role, name: &name, nids: &[] };
    authority.issue_key(subject, Vec::new(), (NOW, DAY)).unwrap()
}

pub(crate) fn keys(credentials: &Credentials, seconds: i64) -> Arc<Keys> {
    Keys::new(credentials, clock(seconds)).unwrap()
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) fn split(stream: DuplexStream) -> (Read, Write) {
    let (read, write) = tokio::io::split(stream);
    (Box::new(read), Box::new(write))
}

pub(crate) async fn answered(
    keys: &Keys,
    stream: DuplexStream,
) -> Result<Option<Sealed>, LinkError> {
    answered_over(keys, stream, Reach::Network).await
}

async fn answered_over(
    keys: &Keys,
    stream: DuplexStream,
    reach: Reach,
) -> Result<Option<Sealed>, LinkError> {
    let (mut read, write) = split(stream);
    let mut start = [0; START_BYTES];
    read.read_exact(&mut start).await.unwrap();
    Seal::answer(keys, NID, start, read, write, reach).await
}

/// What the two make of each other.
pub(crate) async fn meet(
    client: &Keys,
    server: &Keys,
) -> (Result<Sealed, LinkError>, Result<Option<Sealed>, LinkError>) {
    meet_over(client, server, [Reach::Network; 2]).await
}

/// The same, each over what it takes the connection for.
async fn meet_over(
    client: &Keys,
    server: &Keys,
    reaches: [Reach; 2],
) -> (Result<Sealed, LinkError>, Result<Option<Sealed>, LinkError>) {
    meet_at(client, server, reaches, duplex(64 << 10)).await
}

/// The same, each at its end of a way.
async fn meet_at(
    client: &Keys,
    server: &Keys,
    [calls, answers]: [Reach; 2],
    (near, far): (DuplexStream, DuplexStream),
) -> (Result<Sealed, LinkError>, Result<Option<Sealed>, LinkError>) {
    let (read, write) = split(near);
    let call = async {
        let mut sealed = Seal::call(client, NID, read, write, calls).await?;
        // The server may refuse the key of the client only now.
        sealed.write.write_all(b"ping").await.ok();
        sealed.write.flush().await.ok();
        let mut pong = [0; 4];
        match sealed.read.read_exact(&mut pong).await {
            Ok(_) => Ok(sealed),
            Err(error) => {
                match error.get_ref().and_then(|inner| inner.downcast_ref::<KeyRefused>()) {
                    Some(KeyRefused(reason)) => {
                        Err(LinkError::Key { nid: NID, reason: reason.clone() })
                    }
                    None => Err(LinkError::Lost { nid: NID, reason: error.to_string() }),
                }
            }
        }
    };
    let answer = async {
        let mut sealed = answered_over(server, far, answers).await?;
        if let Some(sealed) = &mut sealed {
            // The client may not believe the server, and be gone.
            sealed.read.read_exact(&mut [0; 4]).await.ok();
            sealed.write.write_all(b"pong").await.ok();
            sealed.write.flush().await.ok();
        }
        Ok(sealed)
    };
    tokio::join!(call, answer)
}

pub(crate) fn reason(error: LinkError) -> String {
    match error {
        LinkError::Key { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// Passes on what arrives, and keeps a copy.
async fn pass(mut from: Read, mut to: Write, copy: &mut Vec<u8>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        copy.extend(&bytes[..count]);
        to.write_all(&bytes[..count]).await.unwrap();
    }
}

#[test]
fn within_a_host_both_ends_prove_their_keys_and_send_plain_bytes() {
    const MARK: &[u8] = b"what a program wrote, and nothing that looks like a record";
    let authority = authority();
    let (server, client) =
        (credentials(&authority, Role::Server, "s"), credentials(&authority, Role::Client, "c"));
    for reach in [Reach::Host, Reach::Network] {
        let (near, near_end) = duplex(64 << 10);
        let (far_end, far) = duplex(64 << 10);
        let (client_keys, server_keys) = (keys(&client, NOW), keys(&server, NOW));
        let call = async {
            let (read, write) = split(near);
            let mut called = Seal::call(&*client_keys, NID, read, write, reach).await.unwrap();
            // At once: the other end may not have come further yet.
            called.write.write_all(MARK).await.unwrap();
            called.write.flush().await.unwrap();
            let mut answer = [0; MARK.len()];
            called.read.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, MARK);
            called
        };
        let answer = async {
            let mut answered = answered_over(&server_keys, far, reach).await.unwrap().unwrap();
            let mut heard = [0; MARK.len()];
            answered.read.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, MARK);
            answered.write.write_all(MARK).await.unwrap();
            answered.write.flush().await.unwrap();
            answered
        };
        let (mut out, mut back) = (Vec::new(), Vec::new());
        let ((out_read, back_write), (back_read, out_write)) = (split(near_end), split(far_end));
        let (called, answered) = run(async {
            let pass = futures_util::future::join(
                pass(out_read, out_write, &mut out),
                pass(back_read, back_write, &mut back),
            );
            tokio::select! {
                ends = async { tokio::join!(call, answer) } => ends,
                _ = pass => unreachable!("both ends live"),
            }
        });
        assert_eq!(*called.principal, *server.principal());
        assert_eq!(*answered.principal, *client.principal());
        assert!(called.protection.authority.is_some() && called.protection.expires.is_some());
        let shows = |bytes: &[u8]| bytes.windows(MARK.len()).any(|window| window == MARK);
        let plain = reach == Reach::Host;
        assert_eq!((shows(&out), shows(&back)), (plain, plain), "{reach:?}");
        assert_eq!(called.protection.cipher == crate::within::NO_CIPHER, plain);
    }
}

#[test]
fn within_a_host_a_key_is_refused_for_the_same_reasons_and_no_handshake_is_passed_on() {
    let (one, other) = (authority(), authority());
    let (server, client) =
        (credentials(&one, Role::Server, "s"), credentials(&one, Role::Client, "c"));
    let foreign = credentials(&other, Role::Client, "c");
    let meet = |client: &Credentials, server: &Credentials, over, later| {
        run(meet_over(&keys(client, NOW + later), &keys(server, NOW + later), over))
    };
    let host = [Reach::Host; 2];
    let words = |client: &Credentials, later| {
        let (called, answered) = meet(client, &server, host, later);
        let network = run(self::meet(&keys(client, NOW + later), &keys(&server, NOW + later)));
        let words = (reason(called.err().unwrap()), reason(answered.err().unwrap()));
        assert_eq!(words, (reason(network.0.err().unwrap()), reason(network.1.err().unwrap())));
        words
    };
    assert!(!words(&foreign, 0).0.is_empty());
    assert!(!words(&client, 400 * DAY).0.is_empty());
    let (called, answered) = meet(&client, &client, host, 0);
    assert!(called.is_err() && answered.is_err(), "it serves nothing");
    for over in [[Reach::Host, Reach::Network], [Reach::Network, Reach::Host]] {
        let (called, answered) = meet(&client, &server, over, 0);
        assert!(called.is_err() && answered.is_err(), "{over:?}");
    }
    assert!(meet(&client, &server, host, 0).0.is_ok());
}

#[test]
fn both_ends_learn_whose_the_other_is() {
    let authority = authority();
    let (server, client) =
        (credentials(&authority, Role::Server, "s"), credentials(&authority, Role::Client, "c"));
    let (called, answered) = run(meet(&keys(&client, NOW), &keys(&server, NOW)));
    assert_eq!(*called.unwrap().principal, *server.principal());
    assert_eq!(*answered.unwrap().unwrap().principal, *client.principal());
}

#[test]
fn who_is_not_believed_is_told_why_in_one_sentence() {
    let (ours, other) = (authority(), authority());
    let [server, false_server] =
        [&ours, &other].map(|authority| credentials(authority, Role::Server, "s"));
    let [client, stranger] =
        [&ours, &other].map(|authority| credentials(authority, Role::Client, "c"));
    let cases = [
        // (client's key and clock, server's key and clock, what the client hears, what the server
        // says)
        ((&client, NOW), (&client, NOW), "connect", "not that of a server"),
        (
            (&stranger, NOW),
            (&server, NOW),
            "its key is of another cluster",
            "the key of this host is of another",
        ),
        ((&client, NOW), (&false_server, NOW), "its key is of another cluster", ""),
        (
            (&client, NOW),
            (&server, NOW + 2 * DAY),
            "the key of this host has expired",
            "its key has expired",
        ),
        ((&client, NOW + 2 * DAY), (&server, NOW), "its key has expired", ""),
        ((&client, NOW - DAY), (&server, NOW), "its key is not valid yet", ""),
    ];
    for (at, ((key, now), (answers, then), hears, says)) in cases.into_iter().enumerate() {
        let (called, answered) = run(meet(&keys(key, now), &keys(answers, then)));
        let answered = reason(answered.err().unwrap());
        assert!(answered.contains(says), "{at}: {answered}");
        match called.err().unwrap() {
            LinkError::Key { reason, .. } => assert!(reason.contains(hears), "{at}: {reason}"),
            LinkError::Lost { .. } if at == 0 => {}
            other => panic!("{at}: {other}"),
        }
    }
    // The client of another cluster, which believes any server.
    let (called, answered) = run(async {
        let (near, far) = duplex(64 << 10);
        let (read, write) = split(near);
        let both = Credentials::from_text(&mixed(&stranger, &server)).unwrap();
        let client = keys(&both, NOW);
        let server = keys(&server, NOW);
        let call = async {
            let mut sealed = Seal::call(&*client, NID, read, write, Reach::Network).await.unwrap();
            sealed.read.read_exact(&mut [0; 1]).await.unwrap_err()
        };
        tokio::join!(call, answered(&server, far))
    });
    assert!(called.to_string().contains("the key of this host is of another cluster"), "{called}");
    assert!(reason(answered.err().unwrap()).contains("its key is of another cluster"));
}

/// The key of the one, with the authority of the other.
fn mixed(key: &Credentials, authority: &Credentials) -> String {
    let (of_key, of_authority) = (key.to_text(), authority.to_text());
    let own = of_key.rsplit_once("-----BEGIN CERTIFICATE").unwrap().0;
    let foreign = of_authority.rsplit_once("-----BEGIN CERTIFICATE").unwrap().1;
    format!("{own}-----BEGIN CERTIFICATE{foreign}")
}

/// Keys of an owner: of the first authority, of the second in the overlap, and of the second after
/// it.
pub(crate) fn generations(
    role: Role,
    name: &str,
    first: &Authority,
    second: &Authority,
) -> [Credentials; 3] {
    let overlap = credentials(second, role, name);
    let after = overlap.without_the_authority_before();
    [credentials(first, role, name), overlap, after]
}

#[test]
fn keys_of_both_authorities_meet_until_the_first_one_is_withdrawn() {
    let first = authority();
    let second = first.rotate(NOW).unwrap();
    let [_, of_first] = second.fingerprints()[..] else { panic!("two hold") };
    let servers = generations(Role::Server, "s", &first, &second);
    let clients = generations(Role::Client, "c", &first, &second);
    for (c, client) in clients.iter().enumerate() {
        for (s, server) in servers.iter().enumerate() {
            let (called, answered) = run(meet(&keys(client, NOW), &keys(server, NOW)));
            // Only the first authority and the second without the bridge know nothing of each
            // other.
            let meets = !matches!((c, s), (0, 2) | (2, 0));
            assert_eq!((called.is_ok(), answered.is_ok()), (meets, meets), "{c} {s}");
            assert_eq!(client.believes(server, NOW) && server.believes(client, NOW), meets);
            let Ok(called) = called else {
                let sentence = reason(called.err().unwrap());
                assert!(sentence.contains("another authority signed it"), "{c} {s}: {sentence}");
                continue;
            };
            let answered = answered.unwrap().unwrap();
            assert_eq!(
                (&*called.principal, &*answered.principal),
                (server.principal(), client.principal())
            );
            // Each knows which authority vouches: none that it trusts, if that is the bridge.
            for (own, other, protection) in [(c, s, called.protection), (s, c, answered.protection)]
            {
                let expected = match (own, other) {
                    (_, 0) => Some(of_first.0),
                    (0, _) => None,
                    _ => Some(second.fingerprint()),
                };
                assert_eq!(protection.authority, expected, "{own} of {other}");
            }
        }
    }
}

#[test]
fn what_a_withdrawn_authority_vouches_for_is_known() {
    let first = authority();
    let second = first.rotate(NOW).unwrap();
    let [_, overlap, after] = generations(Role::Server, "s", &first, &second);
    let server = keys(&overlap, NOW);
    let clients = generations(Role::Client, "c", &first, &second);
    let [old, new, _] = clients.map(|client| {
        let (_, answered) = run(meet(&keys(&client, NOW), &server));
        answered.unwrap().unwrap().protection
    });
    assert!(!server.is_withdrawn(&old) && !server.is_withdrawn(&new));
    assert_eq!(server.replace(&overlap), Ok(false), "the same");
    assert_eq!(server.replace(&after), Ok(true), "it trusts one authority less");
    assert!(server.is_withdrawn(&old) && !server.is_withdrawn(&new));
    assert_eq!(server.replace(&after), Ok(false));
}

#[test]
fn a_key_that_the_first_authority_signed_after_its_withdrawal_is_refused() {
    let first = authority();
    let second = first.rotate(NOW).unwrap();
    let forged = credentials(&first, Role::Client, "c");
    let [_, overlap, after] = generations(Role::Server, "s", &first, &second);
    // It believes the new authority.
    let forged = keys(&Credentials::from_text(&mixed(&forged, &after)).unwrap(), NOW);
    let server = keys(&overlap, NOW);
    // In a handshake that began before the withdrawal and ends after it, too.
    let (called, answered) = run(async {
        let (near, far) = duplex(64 << 10);
        let (read, write) = split(near);
        let call = async {
            let mut sealed = Seal::call(&*forged, NID, read, write, Reach::Network).await?;
            server.replace(&after).unwrap();
            sealed.write.write_all(b"ping").await.ok();
            sealed.write.flush().await.ok();
            Ok::<_, LinkError>(())
        };
        tokio::join!(call, answered(&server, far))
    });
    called.unwrap();
    let said = reason(answered.err().unwrap());
    assert!(said.contains("was just withdrawn"), "{said}");
    let (_, answered) = run(meet(&forged, &server));
    let said = reason(answered.err().unwrap());
    assert!(said.contains("its key is of another cluster: another authority signed it"), "{said}");
}

#[test]
fn a_revoked_server_is_not_believed() {
    let authority = authority();
    let (server, client) =
        (credentials(&authority, Role::Server, "s"), credentials(&authority, Role::Client, "c"));
    let client = keys(&client, NOW);
    assert!(client.revoke(BTreeSet::from([server.principal().key])));
    assert!(!client.revoke(BTreeSet::from([server.principal().key])), "no news");
    let (called, _) = run(meet(&client, &keys(&server, NOW)));
    assert_eq!(reason(called.err().unwrap()), "it shows the key of server s, which was revoked");
}

/// The halves of both ends, with the traffic between them in the hands of the test: (client's
/// sealing half, its records), (server's opening half, the way to it).
async fn tapped(records_per_key: u64) -> ((Sealing, DuplexStream), (Opening, DuplexStream)) {
    let authority = authority();
    let (server, client) =
        (credentials(&authority, Role::Server, "s"), credentials(&authority, Role::Client, "c"));
    let (near, far) = duplex(64 << 10);
    let (client, server) = (keys(&client, NOW), keys(&server, NOW));
    let ((mut near_read, mut near_write), (mut far_read, mut far_write)) =
        (split(near), split(far));
    let (near, far) = tokio::join!(
        shake(client.test_caller(), Vec::new(), &mut near_read, &mut near_write),
        shake(server.test_answerer(), Vec::new(), &mut far_read, &mut far_write),
    );
    let ((near, ..), (far, ..)) = (near.unwrap(), far.unwrap());
    let ((sent, tap), (way, arrives)) = (duplex(32 << 20), duplex(32 << 20));
    let nothing = || split(duplex(1).0);
    let Shaken { mut sealing, .. } =
        halves(near, Default::default(), nothing().0, Box::new(sent)).unwrap();
    let Shaken { opening, .. } =
        halves(far, Default::default(), Box::new(arrives), nothing().1).unwrap();
    sealing.records_per_key(records_per_key);
    ((sealing, tap), (opening, way))
}

async fn records(
    sealing: &mut Sealing,
    tap: &mut DuplexStream,
    contents: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for content in contents {
        sealing.write_all(content).await.unwrap();
        sealing.flush().await.unwrap();
        let mut left = content.len().div_ceil(16 << 10);
        while left > 0 {
            let mut record = vec![0; 5];
            tap.read_exact(&mut record).await.unwrap();
            let bytes = u16::from_be_bytes([record[3], record[4]]) as usize;
            record.resize(5 + bytes, 0);
            tap.read_exact(&mut record[5..]).await.unwrap();
            // 5 bytes of a KeyUpdate, kind and tag are 22: no content of the tests is that short.
            left -= usize::from(bytes != 22);
            all.push(record);
        }
    }
    all
}

#[test]
fn what_is_sealed_is_opened_and_not_to_be_seen() {
    run(async {
        for records_per_key in [1, 3, u64::MAX] {
            let ((mut sealing, mut tap), (mut opening, mut way)) = tapped(records_per_key).await;
            let mut random = fastrand::Rng::with_seed(7);
            let sizes = [100, 1, 16 << 10, (16 << 10) + 1, 200_000, 1 << 20, 31]
                .into_iter()
                .filter(|size| *size != 5);
            for size in sizes {
                let content: Vec<u8> = (0..size).map(|_| random.u8(..)).collect();
                sealing.write_all(&content).await.unwrap();
                sealing.flush().await.unwrap();
                let mut seen = vec![0; 4 << 20];
                let bytes = tap.read(&mut seen).await.unwrap();
                let shown =
                    size >= 16 && seen[..bytes].windows(16).any(|part| part == &content[..16]);
                assert!(!shown, "{size} bytes are to be seen");
                way.write_all(&seen[..bytes]).await.unwrap();
                let mut opened = vec![0; size];
                opening.read_exact(&mut opened).await.unwrap();
                assert_eq!(opened, content, "{size} bytes, {records_per_key} records under a key");
            }
        }
    });
}

/// What the receiver makes of these bytes: what it opened, and how it ended.
async fn receive(
    opening: &mut Opening,
    mut way: DuplexStream,
    bytes: &[u8],
) -> (Vec<u8>, io::Result<usize>) {
    way.write_all(bytes).await.unwrap();
    drop(way);
    let mut opened = Vec::new();
    let end = opening.read_to_end(&mut opened).await;
    (opened, end)
}

#[test]
fn damage_repetition_and_order_are_found_and_nothing_wrong_is_opened() {
    const CONTENTS: usize = 4;
    let rounds = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    run(async {
        let contents: Vec<Vec<u8>> = (0..CONTENTS).map(|n| vec![n as u8 + 1; 40 + n]).collect();
        let honest = contents.concat();
        let mut random = fastrand::Rng::with_seed(11);
        let mut refused = 0;
        let mut done = 0;
        while done < rounds {
            // The handshake is dear: one serves many attempts, each from the start of the records.
            let ((mut sealing, mut tap), (mut opening, _way)) = tapped(u64::MAX).await;
            let good = records(&mut sealing, &mut tap, &contents).await;
            for _ in 0..1_000 {
                done += 1;
                let mut records = good.clone();
                match random.u8(0..6) {
                    0 => records.swap(0, 1 + random.usize(0..CONTENTS - 1)),
                    1 => records.insert(1, records[0].clone()),
                    2 => drop(records.remove(random.usize(0..CONTENTS - 1))),
                    3 => {
                        let record = &mut records[random.usize(0..CONTENTS)];
                        record.truncate(random.usize(0..record.len()));
                    }
                    4 => {
                        let record = &mut records[random.usize(0..CONTENTS)];
                        for _ in 0..random.usize(1..20) {
                            let at = random.usize(0..record.len());
                            record[at] = random.u8(..);
                        }
                    }
                    _ => {
                        let record = &mut records[random.usize(0..CONTENTS)];
                        let (at, bit) = (random.usize(0..record.len()), random.u8(0..8));
                        record[at] ^= 1 << bit;
                    }
                }
                let (way, arrives) = duplex(4 << 10);
                opening.start_again(Box::new(arrives));
                let bytes = records.concat();
                let (opened, end) = receive(&mut opening, way, &bytes).await;
                assert!(
                    honest.starts_with(&opened),
                    "what was opened is what was sent, as far as it goes"
                );
                // Only an end between two records cannot be told from the end.
                let is_cut = (0..=CONTENTS).any(|whole| good[..whole].concat() == bytes);
                assert_eq!(end.is_ok(), is_cut, "{records:02x?}");
                refused += usize::from(end.is_err());
            }
        }
        assert!(refused > rounds * 8 / 10, "{refused} of {rounds}");
        let ((mut sealing, mut tap), (mut opening, way)) = tapped(u64::MAX).await;
        let good = records(&mut sealing, &mut tap, &contents).await;
        assert_eq!(
            receive(&mut opening, way, &good.concat()).await.0,
            honest,
            "undamaged they are taken"
        );
    });
}

/// Handshakes that are damaged, unless `HANDSHAKES` says how many.
const DAMAGED: usize = 2_000;
/// Memory that these may cost, if they have the process to themselves, bytes.
const DAMAGED_MEMORY_MAX: usize = 16 << 20;

/// Resident memory that is no file's, bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Does so many rounds, and looks at the memory that they cost once a tenth of them is done. Only
/// `HANDSHAKES` makes it many, and only then no other test runs in this process.
async fn damaged_often(mut round: impl AsyncFnMut(usize)) {
    let wanted = std::env::var("HANDSHAKES").ok().map(|text| text.parse().unwrap());
    let rounds: usize = wanted.unwrap_or(DAMAGED);
    let mut before = 0;
    for n in 0..rounds {
        if n == rounds / 10 {
            before = resident();
        }
        round(n).await;
    }
    let more = resident().saturating_sub(before);
    println!("{rounds} damaged handshakes, {more} bytes more resident since the first tenth");
    assert!(wanted.is_none() || more < DAMAGED_MEMORY_MAX, "{more} bytes");
}

#[test]
fn damaged_greetings_are_refused_without_a_panic() {
    let authority = authority();
    let (server, client) =
        (credentials(&authority, Role::Server, "s"), credentials(&authority, Role::Client, "c"));
    let (server, client) = (keys(&server, NOW), keys(&client, NOW));
    let mut random = fastrand::Rng::with_seed(3);
    run(async {
        // The first flight of an honest client.
        let (near, mut far) = duplex(64 << 10);
        let (read, write) = split(near);
        let mut hello = vec![0; 4096];
        let bytes = tokio::select! {
            _ = Seal::call(&*client, NID, read, write, Reach::Network) => unreachable!(),
            bytes = far.read(&mut hello) => bytes.unwrap(),
        };
        hello.truncate(bytes);
        damaged_often(async |round| {
            let mut damaged = hello.clone();
            for _ in 0..random.usize(1..6) {
                // The first two bytes lead here.
                let at = random.usize(2..damaged.len());
                damaged[at] = random.u8(..);
            }
            if round % 3 == 0 {
                damaged.truncate(random.usize(START_BYTES..damaged.len()));
            }
            let (near, far) = duplex(64 << 10);
            let (mut read, mut write) = split(near);
            write.write_all(&damaged).await.unwrap();
            write.shutdown().await.unwrap();
            let drain = async {
                let mut rest = Vec::new();
                read.read_to_end(&mut rest).await.ok();
            };
            let (answered, ()) = tokio::join!(answered(&server, far), drain);
            assert!(answered.is_err(), "nobody gets in without a key");
        })
        .await;
    });
}

/// Passes on what arrives, with one bit of the byte at `at` flipped; what arrived.
async fn pass_flipped(mut from: Read, mut to: Write, at: usize, bit: u8) -> Vec<u8> {
    let (mut bytes, mut arrived) = ([0; 4096], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let before = arrived.len();
        arrived.extend(&bytes[..count]);
        if let Some(byte) = at.checked_sub(before).and_then(|at| bytes[..count].get_mut(at)) {
            *byte ^= 1 << bit;
        }
        // The other end may be gone.
        if to.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
    arrived
}

/// True if a byte is the type or the version of a record. In a handshake they say nothing (RFC
/// 8446, 5.1 and 5.2): what a record holds is sealed with those that it ought to have.
fn says_nothing(records: &[u8], at: usize) -> bool {
    let mut start = 0;
    while let Some(&[_, _, _, high, low]) = records.get(start..start + 5) {
        if (start..start + 3).contains(&at) {
            return true;
        }
        start += 5 + usize::from(u16::from_be_bytes([high, low]));
    }
    false
}

#[test]
fn a_bit_that_flips_in_a_handshake_ends_it() {
    /// Of a record with 4 bytes: header, content, its kind, tag.
    const PING: usize = 5 + 4 + 1 + 16;
    /// Of the clock of the test, which goes on when nothing else does.
    const DAY_LONG: Duration = Duration::from_secs(DAY as u64);
    let authority = authority();
    let (server, client) =
        (credentials(&authority, Role::Server, "s"), credentials(&authority, Role::Client, "c"));
    let (server_keys, client_keys) = (keys(&server, NOW), keys(&client, NOW));
    let mut random = fastrand::Rng::with_seed(5);
    let mut ended = [0; 2];
    run(async {
        damaged_often(async |_| {
            let to_server = random.bool();
            let (near, near_end) = duplex(64 << 10);
            let (far_end, far) = duplex(64 << 10);
            // A whole handshake is some 1,500 bytes in each direction.
            let (at, bit) = (random.usize(2..1_500), random.u8(0..8));
            let [out, back] = if to_server { [at, usize::MAX] } else { [usize::MAX, at] };
            let ((out_read, back_write), (back_read, out_write)) =
                (split(near_end), split(far_end));
            let meet = meet_at(&client_keys, &server_keys, [Reach::Network; 2], (near, far));
            let (met, said, answer) = tokio::join!(
                async {
                    // Where a length is damaged, both may wait for the other one: nodes give
                    // that a time. The ends of the way are closed then.
                    let (called, answered) = tokio::time::timeout(DAY_LONG, meet).await.ok()?;
                    let whose = |sealed: Sealed| sealed.principal;
                    Some((called.ok().map(whose)?, answered.ok().flatten().map(whose)?))
                },
                pass_flipped(out_read, out_write, out, bit),
                pass_flipped(back_read, back_write, back, bit),
            );
            let bytes = if to_server { said } else { answer };
            let flipped = at < bytes.len();
            match met {
                Some((called, answered)) => {
                    // The server of this test does not look at the first words.
                    let is_ping = to_server && at + PING >= bytes.len();
                    let harms = flipped && !is_ping && !says_nothing(&bytes, at);
                    assert!(!harms, "{at} of {bytes:02x?}");
                    assert_eq!(*called, *server.principal());
                    assert_eq!(*answered, *client.principal());
                }
                None => {
                    assert!(flipped, "it was not damaged");
                    ended[usize::from(to_server)] += 1;
                }
            }
        })
        .await;
    });
    println!("{ended:?} ended, by damage to what the server and the client said");
    assert!(ended.iter().all(|count| *count > DAMAGED / 10), "{ended:?}");
}
