//! Entries of a shared log are compressed where that saves something, and read as they were.

use std::sync::Arc;
use std::time::Duration;
use store::batch::Batch;
use store::engine::Fence;
use store::error::StoreError;
use store::kv::{Change, Kv, Txn};
use store::log::{Log, Position};
use store::memory_kv::{Delivery, MemoryKv};
use store::shared_log::SharedLog;
use types::session::Transno;

const ENTRY: &str = "/sheen/sheen-MDT0000/log/0000000000000001";

fn batch(records: u32, value: impl Fn(u32) -> Vec<u8>) -> Arc<Batch> {
    let mut batch = Batch::new();
    for n in 0..records {
        batch.put(format!("key {n:08}").as_bytes(), &value(n));
    }
    batch.set_transno(Transno(9));
    batch.freeze();
    Arc::new(batch)
}

/// Keys and what each has.
type Records = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn records(batch: &Batch) -> Records {
    batch.iter().map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect()
}

/// Appends it as the first entry; the keys, and a host that reads them.
fn appended(batch: &Arc<Batch>) -> (Arc<dyn Kv>, SharedLog) {
    let kv = MemoryKv::new();
    let connect = || kv.connect(|| Delivery::Whole);
    let log = |host: &str| SharedLog::new(connect(), "sheen-MDT0000", 7, host, host);
    let owner = log("one");
    owner.create("").unwrap();
    owner.claim_under(connect().grant(Duration::from_secs(2)).unwrap());
    let fence = owner.claim(Position::default(), Fence(1)).unwrap();
    let end = owner.append(Position::default(), batch, fence).unwrap();
    // Its answer was lost: it finds itself.
    assert_eq!(owner.append(Position::default(), batch, fence), Ok(end));
    (connect(), log("two"))
}

fn value(keys: &Arc<dyn Kv>) -> Vec<u8> {
    keys.get(&[ENTRY.to_owned()]).unwrap().pop().flatten().unwrap()
}

fn read(log: &SharedLog) -> Result<Records, StoreError> {
    let mut found = Vec::new();
    log.read(Position::default(), &mut |entry| found.extend(records(&entry.batch)))?;
    Ok(found)
}

#[test]
fn groups_are_compressed_and_small_ones_are_not() {
    // As of creates: much of each record is that of the one before.
    let alike = |n: u32| {
        [&b"mode and owner, times and layout of a new file"[..], &n.to_le_bytes()].concat()
    };
    let many = batch(2_000, alike);
    let (keys, two) = appended(&many);
    let kept = value(&keys);
    assert_eq!(kept[4..8], *b"SLE3");
    assert!(kept.len() * 3 < many.bytes(), "{} of {}", kept.len(), many.bytes());
    assert_eq!(read(&two), Ok(records(&many)));

    let few = batch(3, alike);
    let (keys, two) = appended(&few);
    assert_eq!(value(&keys)[4..8], *b"SLE1");
    assert_eq!(read(&two), Ok(records(&few)));
}

#[test]
fn what_needs_parts_is_whole_again() {
    // Of random bytes nothing is saved: that one goes in parts, as it is.
    let mut rng = 1_u64;
    let mut noise = || {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (rng >> 56) as u8
    };
    let bytes: Vec<u8> = (0..1_500_000).map(|_| noise()).collect();
    let large = batch(3, |n| bytes[n as usize * 500_000..][..500_000].to_vec());
    let (keys, two) = appended(&large);
    assert_eq!(value(&keys)[4..8], *b"SLE1");
    assert_eq!(read(&two), Ok(records(&large)));
    // Every second byte: that one is compressed, and needs parts still.
    let half = batch(3, |n| {
        let bytes = &bytes[n as usize * 500_000..][..500_000];
        bytes.iter().flat_map(|byte| [*byte & 0x0f, 0, 0, 0, 0, 0, 0, 0]).collect()
    });
    let (keys, two) = appended(&half);
    assert_eq!(value(&keys)[4..8], *b"SLE3");
    let parts = keys.range("/sheen/sheen-MDT0000/part/", "/sheen/sheen-MDT0000/part0", 100);
    assert!(!parts.unwrap().is_empty(), "it has parts");
    assert_eq!(read(&two), Ok(records(&half)));
}

#[test]
fn a_changed_byte_is_told() {
    let many = batch(2_000, |n| n.to_le_bytes().to_vec());
    let (keys, two) = appended(&many);
    let good = value(&keys);
    for at in (0..good.len()).step_by(97) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let put = Change::Put { key: ENTRY.to_owned(), value: bad, lease: 0 };
        keys.txn(&Txn { then: vec![put], ..Txn::default() }).unwrap();
        assert!(matches!(read(&two), Err(StoreError::Damaged { .. })), "byte {at}");
    }
}
