//! A piece of a directory as a program gets it from a mount, by ioctl(2) on the open directory:
//! names with all attributes, and layouts if wanted. So `lfs find` asks once for a hundred files
//! instead of once for each.
//!
//! The kernel copies as many bytes as the number of the command says, in both directions:
//! [`BUFFER_BYTES`], which start with a head (position, bytes behind it, flags). Entries are in the
//! form in which they travel between client and MDT.

use super::cursor::{Reader, Writer, len32, unpack};
use super::error::DecodeError;
use super::mds_reply::{dir_entry, put_dir_entry};
use super::raw::RawDirScan;
use crate::mds::shared::DirEntry;
use zerocopy::IntoBytes;

/// Bytes in each direction: a little less than the 16,383 that the number of a command can express.
pub const BUFFER_BYTES: usize = 16_376;
/// The number of the command, as `asm-generic/ioctl.h` makes it: reads and writes, type 'Z', 1.
pub const DIR_SCAN: u32 = 3 << 30 | (BUFFER_BYTES as u32) << 16 | (b'Z' as u32) << 8 | 1;
/// Position at which a directory begins; asking for it looks at everything anew.
pub const FIRST: u64 = 0;

const HEAD_BYTES: usize = size_of::<RawDirScan>();

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Entries from here on: [`FIRST`], or what the piece before said.
    pub position: u64,
    /// With layouts of regular files.
    pub with_layout: bool,
}

impl Question {
    /// The buffer that goes in.
    pub fn encode(&self) -> Box<[u8; BUFFER_BYTES]> {
        let mut buffer = Box::new([0; BUFFER_BYTES]);
        let flags = u32::from(self.with_layout).into();
        let head = RawDirScan { position: self.position.into(), len: 0.into(), flags };
        buffer[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        buffer
    }

    /// # Errors
    /// It is none.
    pub fn decode(buffer: &[u8]) -> Result<Question, DecodeError> {
        let raw: &RawDirScan = Reader::new(buffer).get()?;
        let [with_layout] = unpack("dir_scan flags", low(raw)?)?;
        Ok(Question { position: raw.position.get(), with_layout })
    }
}

/// A piece that is being filled.
pub struct Piece {
    w: Writer,
    len: usize,
    next: u64,
}

impl Piece {
    /// Without entries, for this question.
    pub fn new(question: Question) -> Piece {
        Piece { w: Writer::new(BUFFER_BYTES), len: 0, next: question.position }
    }

    /// Adds one entry, behind which is position `next`; `false`: the entry must wait for the next
    /// piece. A layout that would not fit there either is left out.
    pub fn push(&mut self, next: u64, entry: &DirEntry) -> bool {
        let mut one = Writer::new(256);
        put_dir_entry(entry, &mut one);
        let mut bytes = one.finish().body;
        if HEAD_BYTES + bytes.len() > BUFFER_BYTES {
            let mut plain = Writer::new(512);
            put_dir_entry(&DirEntry { layout: None, ..entry.clone() }, &mut plain);
            bytes = plain.finish().body;
        }
        if HEAD_BYTES + self.len + bytes.len() > BUFFER_BYTES {
            return false;
        }
        self.len += bytes.len();
        self.next = next;
        self.w.raw(&bytes);
        true
    }

    /// The buffer that comes out.
    pub fn finish(self) -> Vec<u8> {
        let head = RawDirScan { position: self.next.into(), len: len32(self.len), flags: 0.into() };
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        buffer.extend_from_slice(head.as_bytes());
        buffer.extend_from_slice(&self.w.finish().body);
        buffer
    }
}

/// What came out: the entries, and the position behind them. No entries: the directory ends.
///
/// # Errors
/// It is no piece.
pub fn decode(buffer: &[u8]) -> Result<(Vec<DirEntry>, u64), DecodeError> {
    let mut r = Reader::new(buffer);
    let raw: RawDirScan = *r.get()?;
    let [] = unpack("dir_scan flags", low(&raw)?)?;
    let mut rest = Reader::new(r.take(usize::try_from(raw.len.get()).unwrap_or(usize::MAX))?);
    let mut entries = Vec::new();
    while !rest.is_empty() {
        entries.push(dir_entry(&mut rest)?);
    }
    Ok((entries, raw.position.get()))
}

fn low(raw: &RawDirScan) -> Result<u16, DecodeError> {
    let flags = raw.flags.get();
    u16::try_from(flags)
        .map_err(|_| DecodeError::Field { field: "dir_scan flags", value: flags.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::strategies::any_dir_entry;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn the_number_is_that_of_the_macro() {
        assert_eq!(DIR_SCAN, 0xfff8_5a01);
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out_in_pieces(all in vec(any_dir_entry(), 0..300), with_layout: bool) {
            let mut question = Question { position: FIRST, with_layout };
            let mut seen = Vec::new();
            loop {
                prop_assert_eq!(Question::decode(&question.encode()[..]).unwrap(), question);
                let mut piece = Piece::new(question);
                let rest = all.iter().enumerate().skip(question.position as usize);
                for (n, entry) in rest {
                    if !piece.push(n as u64 + 1, entry) {
                        break;
                    }
                }
                let buffer = piece.finish();
                prop_assert!(buffer.len() <= BUFFER_BYTES);
                let (entries, next) = decode(&buffer).unwrap();
                if entries.is_empty() {
                    break;
                }
                seen.extend(entries);
                question.position = next;
            }
            prop_assert_eq!(seen, all);
        }

        #[test]
        fn forged_bytes_are_refused_or_read(bytes in vec(any::<u8>(), 0..400)) {
            let _ = (Question::decode(&bytes), decode(&bytes));
        }
    }
}
