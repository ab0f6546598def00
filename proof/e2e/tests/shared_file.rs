//! One file that two mounts write at once, each its own segments, as the ranks of a parallel program do: every byte is there in the end, on
//! both, while both go on reading what the other one wrote.

use e2e::can_mount;
use e2e::cluster::Cluster;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Barrier;

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
                        assert!(own == segment(rank, number), "rank {rank} reads its segment {number}");
                        // What is there of the other one's: its bytes or nothing yet, no others.
                        let other = (rank + 1) % ranks;
                        let at = ((number * ranks + other) * SEGMENT) as u64;
                        let read = file.read_at(&mut own, at).expect("read");
                        let wrote = segment(other, number);
                        assert!(own[..read] == wrote[..read] || own[..read].iter().all(|byte| *byte == 0));
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
            assert!(bytes == segment(number % ranks, number / ranks), "segment {number} on mount {rank}");
        }
    }
}
