//! How far a tree is that is being copied from that of the owner of its target.
//!
//! The note is in the tree, in the same transaction as the records that were copied, and goes with
//! the last of them. A tree that has it is never served.

use crate::checksum::crc32c;

const MAGIC: [u8; 4] = *b"SCP1";
const HEAD: usize = 8;

/// The note.
///
/// | at | size | field | meaning                          |
/// |----|------|-------|----------------------------------|
/// |  0 |    4 | crc   | crc32c of the rest               |
/// |  4 |    4 | magic | `SCP1`                           |
/// |  8 |    n | after | key of the last record in the tree; empty: it has none |
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Copying {
    /// Key of the last record in the tree.
    pub after: Vec<u8>,
}

impl Copying {
    /// Encodes to bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[4..].copy_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.after);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// From bytes; `None` if they are damaged.
    pub fn decode(bytes: &[u8]) -> Option<Copying> {
        let (crc, rest) = bytes.split_first_chunk::<4>()?;
        let after = rest.strip_prefix(&MAGIC)?;
        (u32::from_le_bytes(*crc) == crc32c(rest)).then(|| Copying { after: after.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_seen() {
        for after in [&b""[..], b"key", &[0xff; 511]] {
            let note = Copying { after: after.to_vec() };
            let bytes = note.encode();
            assert_eq!(Copying::decode(&bytes), Some(note));
            for at in 0..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 1;
                assert_eq!(Copying::decode(&bad), None, "byte {at}");
            }
            assert_eq!(Copying::decode(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(Copying::decode(b""), None);
    }

    #[test]
    fn its_bytes_stay() {
        assert_eq!(Copying { after: b"ab".to_vec() }.encode()[4..], *b"SCP1ab");
    }
}
