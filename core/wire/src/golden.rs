//! Bytes that must not change without a new version: one hex file per sample under `golden/`.
//!
//! `BLESS=1 cargo test -p wire` writes them anew. Do that only together with a new protocol
//! version.

use std::fmt::Write;
use std::path::PathBuf;

/// Compares `bytes` with `golden/NAME.hex`, 16 bytes a line.
pub fn check(name: &str, bytes: &[u8]) {
    check_message(name, bytes, &[]);
}

/// Compares a body, and the bulk data behind it after an empty line, with `golden/NAME.hex`.
pub fn check_message(name: &str, body: &[u8], bulk: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(format!("{name}.hex"));
    let mut hex = String::new();
    for line in body.chunks(16).chain((!bulk.is_empty()).then_some(&[][..])).chain(bulk.chunks(16))
    {
        line.iter().for_each(|b| write!(hex, "{b:02x}").expect("a string takes all"));
        hex.push('\n');
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &hex).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(hex, kept, "the bytes of {name} changed: see {}", path.display());
}
