//! Handshakes that are damaged on their way end, and cost little.

use super::{DAY, NID, NOW, answered, authority, credentials, keys, meet_at, run, split};
use lnet::seal::{Reach, Read, START_BYTES, Seal, Sealed, Write};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use types::principal::Role;

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
