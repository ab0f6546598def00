//! Several mounts write one file at once, each its own segments, as the ranks of a parallel program
//! do. Every byte is there at the end, on all mounts, while they go on reading the others' bytes.
//! That also holds for a reader that opened the file before and reads it through the kernel's
//! pages.

use e2e::can_mount;
use e2e::cluster::Cluster;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of a segment: no multiple of any page or block.
const SEGMENT: usize = 47_008;
/// Segments of each mount.
const SEGMENTS: usize = 300;

fn segment(rank: usize, number: usize) -> Vec<u8> {
    (0..SEGMENT).map(|at| (at * 31 + number * 7 + rank * 101) as u8 | 1).collect()
}

#[test]
fn interleaved_segments_of_one_file_are_all_there() {
    if !can_mount() {
        return;
    }
    let ranks = 2;
    let Some(cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let mounts = cluster.mounts();
    let path = |rank: usize| mounts[rank].join("shared");
    File::create(path(0)).expect("create");
    let start = Barrier::new(ranks);
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (path, start) = (path(rank), &start);
            scope.spawn(move || {
                let file = OpenOptions::new().read(true).write(true).open(path).expect("open");
                start.wait();
                for number in 0..SEGMENTS {
                    let at = ((number * ranks + rank) * SEGMENT) as u64;
                    file.write_all_at(&segment(rank, number), at).expect("write");
                    if number % 50 == 49 {
                        let mut own = vec![0; SEGMENT];
                        file.read_exact_at(&mut own, at).expect("read");
                        assert!(
                            own == segment(rank, number),
                            "rank {rank} reads its segment {number}"
                        );
                        // Of the other one's bytes, a part may be missing; none may be wrong.
                        let other = (rank + 1) % ranks;
                        let at = ((number * ranks + other) * SEGMENT) as u64;
                        let read = file.read_at(&mut own, at).expect("read");
                        let wrote = segment(other, number);
                        assert!(
                            own[..read] == wrote[..read]
                                || own[..read].iter().all(|byte| *byte == 0)
                        );
                    }
                }
                file.sync_all().expect("fsync");
            });
        }
    });
    for rank in 0..ranks {
        let all = fs::read(path(rank)).expect("read");
        assert_eq!(all.len(), ranks * SEGMENTS * SEGMENT);
        assert_eq!(fs::metadata(path(rank)).expect("stat").len(), all.len() as u64);
        for (number, bytes) in all.chunks(SEGMENT).enumerate() {
            assert!(
                bytes == segment(number % ranks, number / ranks),
                "segment {number} on mount {rank}"
            );
        }
    }
}

/// Places in a file that each writer counts up in.
const PLACES: usize = 16;
const COUNTS: u64 = 60;

fn place(writer: usize, number: usize) -> u64 {
    ((number * WRITERS + writer) * 8192) as u64
}

const WRITERS: usize = 3;

#[test]
fn who_reads_through_pages_sees_what_several_wrote() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &[""; WRITERS]) else { return };
    let paths: Vec<_> = cluster.mounts().iter().map(|mount| mount.join("counts")).collect();
    fs::write(&paths[0], vec![0; PLACES * WRITERS * 8192]).expect("write");
    // For this long, a file that changed is opened without pages (docs/locks/kernel.md, R16).
    std::thread::sleep(Duration::from_secs(3));
    let reader = File::open(&paths[0]).expect("open");
    assert!(fs::read(&paths[0]).expect("read").iter().all(|byte| *byte == 0));
    let done: [[AtomicU64; PLACES]; WRITERS] = Default::default();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = paths
            .iter()
            .zip(&done)
            .enumerate()
            .map(|(writer, (path, done))| {
                scope.spawn(move || {
                    let file = OpenOptions::new().read(true).write(true).open(path).expect("open");
                    for count in 1..=COUNTS {
                        for (number, done) in done.iter().enumerate() {
                            file.write_all_at(&count.to_le_bytes(), place(writer, number))
                                .expect("write");
                            done.store(count, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        let (reader, done, over) = (&reader, &done, &over);
        for _ in 0..2 {
            scope.spawn(move || {
                let mut reads = 0;
                while !over.load(Ordering::SeqCst) {
                    for (writer, number) in
                        (0..PLACES * WRITERS).map(|n| (n % WRITERS, n / WRITERS))
                    {
                        let (least, mut seen) =
                            (done[writer][number].load(Ordering::SeqCst), [0; 8]);
                        reader.read_exact_at(&mut seen, place(writer, number)).expect("read");
                        let seen = u64::from_le_bytes(seen);
                        assert!(
                            seen >= least,
                            "place {number} of writer {writer} has {seen}, but {least} was written"
                        );
                        reads += 1;
                    }
                }
                eprintln!("{reads} reads");
            });
        }
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        over.store(true, Ordering::SeqCst);
        results.into_iter().for_each(|result| result.expect("a writer failed"));
    });
}
