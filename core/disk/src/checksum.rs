//! crc32c (Castagnoli), the one checksum of everything on disk.

use crc_fast::{CrcAlgorithm, Digest};

/// crc32c of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// crc32c of several pieces as if they stood one after the other.
pub fn crc32c_parts(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_castagnoli_polynomial() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_parts(&[b"1234", b"", b"56789"]), 0xe306_9283);
    }
}
