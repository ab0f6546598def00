//! The decoders, one row each.

mod wire_messages;

use crate::meter;
use std::fmt::Debug;
use std::path::Path;

/// How one input fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Did the decoder take it for good?
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
    /// Makes checksums good again, so that damage behind them is reached. Used for every second input.
    pub repair: fn(&mut Vec<u8>),
    /// Runs it.
    ///
    /// # Panics
    /// If the decoder does, or if an accepted value does not encode and decode to itself.
    pub run: fn(&[u8]) -> Outcome,
}

/// All of them.
pub const ALL: &[Decoder] = &[
    wire_messages::FRAME_HEADER,
    wire_messages::HELLO,
    wire_messages::HELLO_REPLY,
    wire_messages::REQUEST,
    wire_messages::REPLY,
    LAYOUT,
];

const LAYOUT: Decoder = Decoder {
    name: "layout",
    seeds: || golden("core/layout/src/golden", |_| true),
    repair: |_| (),
    run: |bytes| {
        let encode = |value: &layout::layout::Layout| {
            let mut out = Vec::new();
            layout::codec::encode(value, &mut out);
            out
        };
        judge(|| layout::codec::decode(bytes), |value| layout::codec::decode(&encode(value)))
    },
};

/// Decodes under the meter, then holds what was accepted against its own encoding.
fn judge<T: PartialEq + Debug, E: Debug + PartialEq>(
    decode: impl FnOnce() -> Result<T, E>,
    again: impl FnOnce(&T) -> Result<T, E>,
) -> Outcome {
    let (decoded, peak_bytes) = meter::peak(decode);
    let accepted = decoded.is_ok();
    if let Ok(value) = decoded {
        let second = again(&value);
        assert_eq!(second.as_ref(), Ok(&value), "decode(encode(x)) is not x");
    }
    Outcome { accepted, peak_bytes }
}

/// The golden files of a crate whose name `wanted` accepts: hex, an empty line before data behind a body. The
/// data's length is put in front (2 bytes), as `wire_messages` expects it, only for messages.
fn golden(folder: &str, wanted: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    files(folder, wanted).iter().map(|text| unhex(text)).collect()
}

fn files(folder: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
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
