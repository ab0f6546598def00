//! Power cuts and flipped bits in the journal: what opens again is an exact prefix, or a typed
//! error.

use crate::support::{UUID, all, copy_dir, lazy, open, put, real_env, wait};
use disk::journal::RecordHead;
use env::Env;
use std::path::{Path, PathBuf};
use store::error::StoreError;
use store::journalled::Journalled;
use tempfile::TempDir;

const RING: u64 = 128 << 10;

type Records = Vec<(Vec<u8>, Vec<u8>)>;
/// Content of the store after each commit, from none.
type States = Vec<Records>;

/// A stopped store whose last commits are in the journal alone.
struct Image {
    env: Env,
    _guard: env::real::RealGuard,
    folder: TempDir,
    /// States from the first record that only the journal has.
    states: States,
    /// Place and length in the file of each such record.
    records: Vec<(u64, u64)>,
    /// The journal file before those records were written.
    before: Vec<u8>,
    journal: Vec<u8>,
}

impl Image {
    /// `laps`: how much was written, applied and closed before, so that the ring holds old records
    /// and wraps.
    fn new(laps: usize) -> Image {
        let (env, guard) = real_env();
        let folder = tempfile::tempdir().unwrap();
        let (live, image) = (folder.path().join("live"), folder.path().join("image"));
        std::fs::create_dir(&live).unwrap();
        Journalled::create(&env, &live, UUID, &lazy(RING)).unwrap();
        for lap in 0..laps {
            let store = open(&env, &live, &lazy(RING)).unwrap();
            put(&store, format!("lap{lap}").as_bytes(), &vec![lap as u8; 9000 + 4096 * lap]);
            wait(store.commit()).unwrap();
            wait(store.close()).unwrap();
        }
        let store = open(&env, &live, &lazy(RING)).unwrap();
        let before = std::fs::read(live.join("journal")).unwrap();
        let mut states = vec![all(&store)];
        for n in 0..9u8 {
            // Sizes around whole blocks, one of several blocks, several transactions in a group.
            put(
                &store,
                &[b'k', n],
                &vec![n; [1, 4096 - 64 - 10, 4096 - 64 - 9, 9000, 0][usize::from(n) % 5]],
            );
            put(&store, b"same", &[n]);
            let mut tx = store.begin();
            tx.delete(&[b'k', n.wrapping_sub(3)]);
            tx.finish();
            wait(store.commit()).unwrap();
            states.push(all(&store));
        }
        copy_dir(&live, &image);
        wait(store.close()).unwrap();
        let journal = std::fs::read(image.join("journal")).unwrap();
        let mut records: Vec<(u64, u64, u64)> = (0..journal.len())
            .step_by(4096)
            .filter_map(|at| {
                RecordHead::decode(&journal[at..])
                    .filter(|_| journal[at..at + 64] != before[at..at + 64])
                    .map(|h| (h.sequence, at as u64, h.payload_bytes))
            })
            .collect();
        records.sort();
        assert_eq!(records.len(), 9);
        let records = records
            .into_iter()
            .map(|(_, at, payload)| (at, RecordHead::record_bytes(payload).unwrap()))
            .collect();
        Image { env, _guard: guard, folder, states, records, before, journal }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("again")
    }

    /// Opens the image with another journal.
    fn reopen(&self, journal: &[u8]) -> Result<Records, StoreError> {
        let dir = self.dir();
        let _ = std::fs::remove_dir_all(&dir);
        copy_dir(&self.folder.path().join("image"), &dir);
        std::fs::write(dir.join("journal"), journal).unwrap();
        let store = open(&self.env, &dir, &lazy(RING))?;
        let found = all(&store);
        // It must also work on: a write now is there at the next opening.
        put(&store, b"zz-after", b"x");
        wait(store.close())?;
        let store = open(&self.env, &dir, &lazy(RING))?;
        assert_eq!(store.begin().get(b"zz-after", <[u8]>::len)?, Some(1));
        wait(store.close())?;
        Ok(found)
    }

    /// True if this journal has all bytes of the record that matter (not the padding).
    fn is_whole(&self, record: usize, journal: &[u8]) -> bool {
        let at = self.records[record].0;
        let payload = RecordHead::decode(&self.journal[at as usize..]).unwrap().payload_bytes;
        let mut places =
            (at..at + RecordHead::SIZE as u64 + payload).map(|at| (at % RING) as usize);
        places.all(|at| journal[at] == self.journal[at])
    }

    /// The journal with `record` written up to `len` bytes and nothing of it or later records
    /// beyond.
    fn cut(&self, record: usize, len: u64) -> Vec<u8> {
        let mut journal = self.journal.clone();
        let restore = |journal: &mut Vec<u8>, start: u64, end: u64| {
            for at in start..end {
                let at = (at % RING) as usize;
                journal[at] = self.before[at];
            }
        };
        for (n, (at, bytes)) in self.records.iter().enumerate().skip(record) {
            restore(&mut journal, at + if n == record { len } else { 0 }, at + bytes);
        }
        journal
    }
}

#[test]
fn a_power_cut_anywhere_leaves_an_exact_prefix() {
    for laps in [0, 5] {
        let image = Image::new(laps);
        assert!(laps == 0 || image.records.windows(2).any(|w| w[1].0 < w[0].0), "the ring wraps");
        for (n, (_, bytes)) in image.records.iter().enumerate() {
            for len in (0..*bytes).step_by(512) {
                let journal = image.cut(n, len);
                let found = image.reopen(&journal).unwrap();
                let expect = &image.states[n + usize::from(image.is_whole(n, &journal))];
                assert!(found == *expect, "laps {laps}, record {n} cut at {len}");
            }
            let whole = image.reopen(&image.cut(n, *bytes)).unwrap();
            assert!(whole == image.states[n + 1], "laps {laps}, record {n} whole");
        }
    }
}

#[test]
fn a_last_record_written_in_the_wrong_order_is_not_taken() {
    let image = Image::new(5);
    let (last, (at, bytes)) = (image.records.len() - 1, image.records[image.records.len() - 1]);
    for missing in (0..bytes).step_by(512) {
        let mut journal = image.journal.clone();
        for at in at + missing..at + missing + 512 {
            let at = (at % RING) as usize;
            journal[at] = image.before[at];
        }
        let whole = image.is_whole(last, &journal);
        assert!(missing > 0 || !whole);
        let found = image.reopen(&journal).unwrap();
        assert!(
            found == image.states[last + usize::from(whole)],
            "without the 512 bytes from {missing}"
        );
    }
}

#[test]
fn a_flipped_bit_in_the_middle_is_an_error_that_says_where() {
    let image = Image::new(2);
    let last = image.records.len() - 1;
    for (n, (at, _)) in image.records.iter().enumerate() {
        let payload = RecordHead::decode(&image.journal[*at as usize..]).unwrap().payload_bytes;
        for byte in [0, 8, 24, 48, 63, 64, 63 + payload] {
            let mut journal = image.journal.clone();
            journal[((at + byte) % RING) as usize] ^= 0x10;
            match image.reopen(&journal) {
                Err(StoreError::Damaged { file, offset, .. }) if n < last => {
                    assert_eq!((file, offset), (image.dir().join("journal"), *at));
                }
                // The last record cannot be told from one that was never acknowledged.
                Ok(found) if n == last => assert!(found == image.states[last]),
                Ok(found) => panic!("record {n}, byte {byte}: {} records", found.len()),
                Err(error) => panic!("record {n}, byte {byte}: {error}"),
            }
        }
    }
}

#[test]
fn a_journal_of_another_size_or_store_is_refused() {
    let image = Image::new(0);
    for len in [0, 100, 4096, RING as usize - 1, RING as usize - 4096] {
        assert!(
            matches!(image.reopen(&image.journal[..len]), Err(StoreError::Damaged { .. })),
            "{len} bytes"
        );
    }
    let dir = image.folder.path().join("image");
    assert!(matches!(open_as(&image.env, &dir, UUID + 1), Err(StoreError::Damaged { .. })));
    std::fs::remove_file(dir.join("journal")).unwrap();
    assert!(matches!(open_as(&image.env, &dir, UUID), Err(StoreError::Io { .. })));
}

#[test]
fn a_cut_or_scribbled_tree_is_refused() {
    let image = Image::new(3);
    let dir = image.folder.path().join("image");
    wait(open(&image.env, &dir, &lazy(RING)).unwrap().close()).unwrap();
    let tree = image.folder.path().join("image/tree/data.mdb");
    let good = std::fs::read(&tree).unwrap();
    for len in [0, 1, 4096, 8192, good.len() - 4096, good.len() - 1] {
        std::fs::write(&tree, &good[..len]).unwrap();
        let opened = open_as(&image.env, &dir, UUID);
        assert!(
            matches!(opened, Err(StoreError::Damaged { .. })),
            "{len} of {} bytes: {opened:?}",
            good.len()
        );
    }
    // A value changed under its checksum.
    let at =
        good.windows(64).position(|w| w == [2; 64]).expect("the value of lap 2 is in the tree");
    let mut bad = good.clone();
    bad[at] ^= 1;
    std::fs::write(&tree, &bad).unwrap();
    let store = open(&image.env, &dir, &lazy(RING)).unwrap();
    let read = store.begin().get(b"lap2", <[u8]>::len);
    assert!(
        matches!(read, Err(StoreError::Damaged { ref reason, .. }) if reason.contains("lap2")),
        "{read:?}"
    );
    assert_eq!(store.begin().get(b"lap1", <[u8]>::len).unwrap(), Some(9000 + 4096));
    wait(store.close()).unwrap();
}

fn open_as(env: &Env, dir: &Path, uuid: u128) -> Result<(), StoreError> {
    Journalled::open(env, dir, uuid, lazy(RING)).map(|_| ())
}
