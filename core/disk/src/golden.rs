//! Bytes that must not change without a new version: one hex file per sample under `golden/`.
//!
//! `BLESS=1 cargo test -p disk` writes them again; do that only together with a new record version.

use crate::damaged::seal;
use std::fmt::Write;
use std::path::PathBuf;

/// The bytes of `golden/NAME.hex`, for records of earlier versions.
pub fn read(name: &str) -> Vec<u8> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/golden").join(format!("{name}.hex"));
    let hex: String =
        std::fs::read_to_string(&path).expect("a golden file").split_whitespace().collect();
    hex.as_bytes()
        .chunks(2)
        .map(|b| u8::from_str_radix(std::str::from_utf8(b).unwrap(), 16).unwrap())
        .collect()
}

/// Compares `bytes` with `golden/NAME.hex`, 16 bytes a line.
pub fn check(name: &str, bytes: &[u8]) {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/golden").join(format!("{name}.hex"));
    let mut hex = String::new();
    for line in bytes.chunks(16) {
        line.iter().for_each(|b| write!(hex, "{b:02x}").expect("a string takes all"));
        hex.push('\n');
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &hex).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(hex, kept, "the bytes of {name} changed: see {}", path.display());
}

/// Each record that is cut short, or a byte longer, is refused, also under a good checksum.
pub fn refuses_other_lengths(bytes: &[u8], is_refused: impl Fn(&[u8]) -> bool) {
    for len in 0..bytes.len() {
        let mut cut = bytes[..len].to_vec();
        assert!(is_refused(&cut));
        if len > 4 {
            seal(&mut cut);
            assert!(is_refused(&cut), "{len} bytes with a good checksum");
        }
    }
    let mut more = bytes.to_vec();
    more.push(0);
    seal(&mut more);
    assert!(is_refused(&more));
}
