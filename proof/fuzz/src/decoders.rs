//! The decoders, one row each.

mod disk_records;
mod wire_messages;

use crate::meter;
use layout::layout::Layout;
use layout::lov_ea::{self, LovEa};
use std::path::Path;
use types::fid::Fid;

/// Result of one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// True if the decoder accepted it.
    pub accepted: bool,
    /// Most bytes it held at once.
    pub peak_bytes: usize,
}

/// One decoder.
pub struct Decoder {
    /// Name in messages.
    pub name: &'static str,
    /// Good inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Makes checksums good again, so that damage behind them is reached. Used for every second
    /// input.
    pub repair: fn(&mut Vec<u8>),
    /// Runs it.
    ///
    /// # Panics
    /// If the decoder does, or if an accepted value does not encode and decode to itself.
    pub run: fn(&[u8]) -> Outcome,
}

/// All decoders.
pub const ALL: &[Decoder] = &[
    wire_messages::FRAME_HEADER,
    wire_messages::HELLO,
    wire_messages::HELLO_REPLY,
    wire_messages::ROUTE,
    wire_messages::ROUTED,
    wire_messages::ENVELOPE,
    wire_messages::REQUEST,
    wire_messages::REPLY,
    LAYOUT,
    LOV_EA,
    disk_records::SUPERBLOCK,
    disk_records::JOURNAL_HEAD,
    disk_records::JOURNAL_APPLIED,
    disk_records::JOURNAL_CHANGES,
    disk_records::INODE,
    disk_records::DIRENT,
    disk_records::XATTR,
    disk_records::DESTROY_LOG,
    disk_records::MDT_STATE,
    disk_records::MARK,
    disk_records::OBJECTS_AT,
    disk_records::SESSION_CLIENT,
    disk_records::SESSION_REPLY,
    disk_records::REDO,
    disk_records::REDO_KEYS,
    disk_records::OST_STATE,
    disk_records::CONFIG_TARGET,
    disk_records::CONFIG_KEY,
];

const LAYOUT: Decoder = Decoder {
    name: "layout",
    seeds: || golden("core/layout/src/golden", |_| true),
    repair: |_| (),
    run: |bytes| {
        let encode = |value: &Layout| {
            let mut out = Vec::new();
            layout::codec::encode(value, &mut out);
            out
        };
        judge(
            || layout::codec::decode(bytes),
            |value| layout::codec::decode(&encode(value)).as_ref() == Ok(value),
        )
    },
};

/// A value of `lustre.lov` that any program may set. It has many forms, so only its good layouts
/// must come back the same.
const LOV_EA: Decoder = Decoder {
    name: "lov ea",
    seeds: || {
        let layouts = golden("core/layout/src/golden", |_| true);
        layouts
            .iter()
            .map(|l| lov_ea::encode(&layout::codec::decode(l).expect("golden"), Fid::ROOT))
            .collect()
    },
    repair: |_| (),
    run: |bytes| {
        let again = |value: &LovEa| {
            layout::check::verify(&value.layout).is_err()
                || lov_ea::decode(&lov_ea::encode(&value.layout, Fid::ROOT)).is_ok()
        };
        judge(|| lov_ea::decode(bytes), again)
    },
};

/// Decodes under the meter, then asks whether what was accepted comes back from its own encoding.
fn judge<T, E>(decode: impl FnOnce() -> Result<T, E>, again: impl FnOnce(&T) -> bool) -> Outcome {
    let (decoded, peak_bytes) = meter::peak(decode);
    if let Ok(value) = &decoded {
        assert!(again(value), "decode(encode(x)) is not x");
    }
    Outcome { accepted: decoded.is_ok(), peak_bytes }
}

/// The golden files of a crate whose name `wanted` accepts, as bytes.
fn golden(folder: &str, wanted: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    files(folder, wanted).iter().map(|text| unhex(text)).collect()
}

fn files(folder: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("list golden files").path()).collect();
    paths.retain(|path| path.file_stem().is_some_and(|stem| wanted(&stem.to_string_lossy())));
    paths.sort();
    assert!(!paths.is_empty(), "{}: no golden file fits", folder.display());
    paths.iter().map(|path| std::fs::read_to_string(path).expect("read a golden file")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("hexadecimal digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    };
    digits.chunks_exact(2).map(byte).collect()
}
