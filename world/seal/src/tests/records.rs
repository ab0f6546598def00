//! Records: what is sealed is opened, and nothing else is.

use super::{NOW, authority, credentials, keys, run, split};
use crate::handshake::{Shaken, halves, shake};
use crate::records::{Opening, Sealing};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use types::principal::Role;

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
