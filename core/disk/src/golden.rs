//! Bytes that must not change without a new version: one hex file per sample under `golden/`.
//!
//! `BLESS=1 cargo test -p disk` writes them again; do that only together with a new record version.

use std::fmt::Write;
use std::path::PathBuf;

/// Compares `bytes` with `golden/NAME.hex`, 16 bytes a line.
pub fn check(name: &str, bytes: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/golden").join(format!("{name}.hex"));
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
