//! Decoders of a metadata target's records take any bytes: an answer or `Damaged`, never a panic.
//!
//! Random bytes rarely have a good checksum, so they get one: then the checks behind it are met,
//! too.

use disk::checksum::crc32c;
use disk::inode::{ItemTag, item, items};
use disk::{bundle, destroy_log, dirent, inode, key, mark, mdt_state, xattr};
use proptest::prelude::*;
use types::fid::Fid;

fn decode_all(bytes: &[u8]) {
    if let Ok(record) = inode::decode(Fid::ROOT, bytes) {
        // A decoded record can be encoded and decoded again.
        let mut again = Vec::new();
        inode::encode(&record, &mut again);
        assert_eq!(inode::decode(Fid::ROOT, &again), Ok(record));
        items(record.tail).for_each(drop);
    }
    if let Ok((fid, file_type)) = dirent::decode(bytes) {
        assert_eq!(dirent::decode(&dirent::encode(fid, file_type)), Ok((fid, file_type)));
    }
    if let Ok(state) = mdt_state::decode(bytes) {
        assert_eq!(mdt_state::decode(&mdt_state::encode(&state)), Ok(state));
    }
    if let Ok(boot) = mark::decode(bytes) {
        assert_eq!(mark::decode(&mark::encode(boot)), Ok(boot));
    }
    if let Ok(objects) = destroy_log::decode(bytes) {
        assert!(objects.len() <= bytes.len(), "no more than was there");
    }
    if let Ok(kept) = bundle::decode(bytes) {
        assert_eq!(bundle::decode(&bundle::encode(&kept)), Ok(kept));
    }
    if let Ok(peer) = bundle::decode_peer(bytes) {
        assert_eq!(bundle::decode_peer(&bundle::encode_peer(&peer)), Ok(peer));
    }
    let _ = xattr::decode(bytes).map(|value| assert!(value.len() < bytes.len()));
    let _ = (
        item(bytes, ItemTag::Layout),
        key::fid_of(bytes),
        key::name_of(bytes),
        key::transno_of(bytes),
    );
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= 5 {
        bytes[4] = 1;
    }
    if bytes.len() >= 4 {
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        decode_all(&bytes);
        decode_all(&sealed(bytes));
    }

    #[test]
    fn bytes_of_the_size_of_records(
        size in prop_oneof![Just(16usize), Just(24), Just(36), Just(124), Just(130)],
        bytes in proptest::collection::vec(any::<u8>(), 130),
        mode in any::<u16>(),
    ) {
        let mut bytes = bytes[..size].to_vec();
        if size >= 124 {
            // Let fields be good that would hide those behind them.
            bytes[8..12].copy_from_slice(&u32::from(mode).to_le_bytes());
            bytes[80..96].fill(0);
            let tail = (size - 124) as u32;
            bytes[120..124].copy_from_slice(&tail.to_le_bytes());
        }
        decode_all(&sealed(bytes));
    }
}
