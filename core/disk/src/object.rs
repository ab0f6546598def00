//! What an OST keeps in its store besides object files: how far its changes are durable.
//!
//! | at | size | field          | meaning                                                            |
//! |----|------|----------------|--------------------------------------------------------------------|
//! |  0 |    4 | crc            | crc32c of bytes 4..13                                              |
//! |  4 |    1 | version        | 1                                                                  |
//! |  5 |    8 | last_committed | every change up to this transno was on disk when this was written  |
//!
//! Key: `ost/state`. Written after the data it speaks of was synced, never before: after a crash it may say too little
//! (clients then replay what is there already), never too much.

use crate::checksum::crc32c;
use types::session::Transno;

/// Key of the record.
pub const STATE_KEY: &[u8] = b"ost/state";
/// Format version of this build. 1: first version.
pub const VERSION: u8 = 1;

/// State of an object target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OstState {
    /// See above.
    pub last_committed: Transno,
}

/// The bytes are no such record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadOstState {
    /// Wrong length.
    #[error("the OST's state record has {0} bytes instead of {size}", size = OstState::SIZE)]
    Size(usize),
    /// Bits were flipped.
    #[error("the OST's state record has checksum {found:08x}, its bytes say {computed:08x}: it is damaged")]
    Checksum { found: u32, computed: u32 },
    /// From a newer program.
    #[error("the OST's state record has version {0}, this program knows up to {VERSION}: update this program")]
    Version(u8),
}

impl OstState {
    /// Encoded size, bytes.
    pub const SIZE: usize = 4 + 1 + 8;

    /// To bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[4] = VERSION;
        bytes[5..].copy_from_slice(&self.last_committed.0.to_le_bytes());
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// From bytes. The checksum is judged before the version.
    ///
    /// # Errors
    /// [`BadOstState`].
    pub fn decode(bytes: &[u8]) -> Result<OstState, BadOstState> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| BadOstState::Size(bytes.len()))?;
        let [c0, c1, c2, c3, version, last @ ..] = *bytes;
        let (found, computed) = (u32::from_le_bytes([c0, c1, c2, c3]), crc32c(&bytes[4..]));
        if found != computed {
            return Err(BadOstState::Checksum { found, computed });
        }
        if version != VERSION {
            return Err(BadOstState::Version(version));
        }
        Ok(OstState { last_committed: Transno(u64::from_le_bytes(last)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_every_fault_is_found() {
        let state = OstState { last_committed: Transno(0x0102_0304_0506_0708) };
        let bytes = state.encode();
        assert_eq!(bytes[4..], [1, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[..4], crc32c(&bytes[4..]).to_le_bytes());
        assert_eq!(OstState::decode(&bytes), Ok(state));
        for at in 0..bytes.len() {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert!(matches!(OstState::decode(&bad), Err(BadOstState::Checksum { .. })), "byte {at}");
            assert_eq!(OstState::decode(&bytes[..at]), Err(BadOstState::Size(at)));
        }
        let mut newer = bytes;
        newer[4] = 2;
        let crc = crc32c(&newer[4..]);
        newer[..4].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(OstState::decode(&newer), Err(BadOstState::Version(2)));
    }
}
