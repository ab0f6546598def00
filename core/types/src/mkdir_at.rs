//! What a program asks of a mount to make a directory on MDTs of choice: ioctl(2) on the directory
//! that gets the name. mkdir(2) has no room for the numbers of MDTs.

use crate::dir_stripes::{BadDirStripes, DirSpec, SPEC_BYTES_MAX};
use crate::name::{NAME_BYTES_MAX, Name};

/// Bytes that go in: length of the MDTs u16, length of the name u16, mode u32, umask u32
/// (little-endian), MDTs ([`DirSpec::encode`]) and zeros behind them, name and zeros behind it.
pub const BYTES: usize = NAME_AT + NAME_BYTES_MAX + 1;
/// The number of the command, as `asm-generic/ioctl.h` makes it: writes, type 'Z', 2.
pub const MKDIR_AT: u32 = 1 << 30 | (BYTES as u32) << 16 | (b'Z' as u32) << 8 | 2;

const HEAD_BYTES: usize = 12;
const NAME_AT: usize = HEAD_BYTES + SPEC_BYTES_MAX;
/// Permissions and the sticky bit, set-id bits.
const MODE_BITS: u32 = 0o7777;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MkdirAt {
    /// The MDTs that get the directory, with at most `DIR_STRIPES_MAX` stripes.
    pub spec: DirSpec,
    /// Its mode as the program gave it, at most 0o7777.
    pub mode: u32,
    /// The program's umask, at most 0o777: applies unless a default ACL does.
    pub umask: u32,
    /// Its name.
    pub name: Name,
}

/// The bytes are no such question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no question for a directory on an MDT: {0}")]
pub struct BadQuestion(&'static str);

impl MkdirAt {
    /// The buffer that goes in.
    pub fn encode(&self) -> [u8; BYTES] {
        let (name, spec) = (self.name.as_bytes(), self.spec.encode());
        // What is longer is refused by the reader.
        let (fits, len) = (spec.len().min(SPEC_BYTES_MAX), spec.len() as u16);
        let mut bytes = [0; BYTES];
        bytes[..2].copy_from_slice(&len.to_le_bytes());
        bytes[2..4].copy_from_slice(&(name.len() as u16).to_le_bytes()); // at most 255
        bytes[4..8].copy_from_slice(&self.mode.to_le_bytes());
        bytes[8..HEAD_BYTES].copy_from_slice(&self.umask.to_le_bytes());
        bytes[HEAD_BYTES..HEAD_BYTES + fits].copy_from_slice(&spec[..fits]);
        bytes[NAME_AT..NAME_AT + name.len()].copy_from_slice(name);
        bytes
    }

    /// # Errors
    /// Too short; MDTs that cannot be; mode or umask out of range; no name.
    pub fn decode(bytes: &[u8]) -> Result<MkdirAt, BadQuestion> {
        let bytes: &[u8; BYTES] = bytes.first_chunk().ok_or(BadQuestion("too short"))?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (spec, len) = (usize::from(half(0)), usize::from(half(2)));
        let (mode, umask) = (word(4), word(8));
        let spec =
            bytes[HEAD_BYTES..NAME_AT].get(..spec).ok_or(BadQuestion("length of the MDTs"))?;
        let spec = DirSpec::decode(spec).map_err(|BadDirStripes(what)| BadQuestion(what))?;
        if mode > MODE_BITS || umask > 0o777 {
            return Err(BadQuestion("mode or umask"));
        }
        let name = bytes[NAME_AT..].get(..len).ok_or(BadQuestion("length of the name"))?;
        let name = Name::new(name).map_err(|_| BadQuestion("name"))?;
        Ok(MkdirAt { spec, mode, umask, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetIndex;

    fn question(name: &[u8]) -> MkdirAt {
        let spec = DirSpec { count: 2, mdts: vec![TargetIndex(3)], ..DirSpec::default() };
        MkdirAt { spec, mode: 0o1755, umask: 0o022, name: Name::new(name).unwrap() }
    }

    #[test]
    fn the_number_is_that_of_the_macro() {
        assert_eq!((BYTES, MKDIR_AT), (530, 0x4212_5a02));
    }

    #[test]
    fn what_goes_in_comes_out() {
        for name in [&b"d"[..], &[b'x'; NAME_BYTES_MAX]] {
            assert_eq!(MkdirAt::decode(&question(name).encode()), Ok(question(name)));
        }
    }

    #[test]
    fn what_no_program_should_send_is_refused() {
        let bad = |at: usize, byte: u8| {
            let mut bytes = question(b"d").encode();
            bytes[at] = byte;
            MkdirAt::decode(&bytes)
        };
        assert_eq!(bad(1, 0x10), Err(BadQuestion("length of the MDTs")));
        assert_eq!(bad(HEAD_BYTES + 7, 0x10), Err(BadQuestion("index of an MDT")));
        assert_eq!(bad(3, 0x10), Err(BadQuestion("length of the name")));
        assert_eq!(
            [bad(2, 0), bad(2, 2), bad(NAME_AT, b'/')],
            [const { Err(BadQuestion("name")) }; 3]
        );
        assert_eq!([bad(5, 0x13), bad(9, 2)], [const { Err(BadQuestion("mode or umask")) }; 2]);
        assert_eq!(MkdirAt::decode(&question(b"d").encode()[1..]), Err(BadQuestion("too short")));
    }
}
