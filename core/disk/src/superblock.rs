//! The superblock: identity of a target, in its folder. One 4 KiB file, `superblock`.
//!
//! It is replaced as a whole (new file written, synced, renamed, folder synced), so there is always
//! one good copy. All future versions keep size, checksum, version and magic where they are, so an
//! old program can report "from the future".

use crate::checksum::crc32c;
use types::proof::ServerKey;
use types::session::ClusterId;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Format version of this build. 1: first version. 2: with the key of the servers, where version 1
/// had zeros.
pub const VERSION: u32 = 2;
const MAGIC: [u8; 8] = *b"SHEENFS\0";
const UNASSIGNED: u8 = 0;
const ASSIGNED: u8 = 1;

/// Identity of a target. 4,096 bytes.
///
/// | at | size | field    | meaning                                     |
/// |----|------|----------|---------------------------------------------|
/// |  0 |    4 | crc      | crc32c of bytes 4..4096                     |
/// |  4 |    4 | version  | format of the whole target                  |
/// |  8 |    8 | magic    | `SHEENFS` and a zero byte                   |
/// | 16 |   16 | cluster  | cluster id, 0 = not yet known               |
/// | 32 |   16 | store    | uuid of the store                           |
/// | 48 |    8 | boot     | times it was opened for service             |
/// | 56 |    8 | fsname   | file system name, padded with zeros         |
/// | 64 |    1 | kind     | 1 MGT, 2 MDT, 3 OST                         |
/// | 65 |    1 | assigned | 1: index is valid, 0: the MGS will give one |
/// | 66 |    2 | index    | number among those of its kind              |
/// | 68 |   16 | key      | key of the servers, 0 = not yet known       |
/// | 84 | 4012 | zero     |                                             |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Cluster; 0 = not yet known.
    pub cluster: ClusterId,
    /// Uuid of the store.
    pub store: u128,
    /// Times it was opened for service.
    pub boot: u64,
    /// File system.
    pub fsname: FsName,
    /// Kind of the target.
    pub kind: TargetKind,
    /// Index among the targets of its kind, once assigned.
    pub index: Option<TargetIndex>,
    /// Key that the servers of the cluster share; 0 = not yet known.
    pub key: ServerKey,
}

/// The bytes are no superblock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSuperblock {
    /// Shorter or longer than 4 KiB.
    #[error("it has {0} bytes instead of 4096: it was cut or is no superblock")]
    Size(u64),
    /// Another kind of file.
    #[error("it is no SheenFS superblock")]
    Magic,
    /// Bits were flipped.
    #[error("its checksum is wrong ({found:08x} stored, {computed:08x} computed): it is damaged")]
    Checksum {
        /// In the file.
        found: u32,
        /// Of the file.
        computed: u32,
    },
    /// Written by a newer program.
    #[error("it has format version {0}, this program knows up to {VERSION}: update this program")]
    Future(u32),
    /// A value that no version writes, under a good checksum.
    #[error("its field {0} has an impossible value")]
    Field(&'static str),
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    crc: U32,
    version: U32,
    magic: [u8; 8],
    cluster: U128,
    store: U128,
    boot: U64,
    fsname: [u8; 8],
    kind: u8,
    assigned: u8,
    index: U16,
    key: U128,
    zero: [u8; 4012],
}

const _: () = assert!(size_of::<Raw>() == Superblock::SIZE);

impl Superblock {
    /// Encoded size, bytes.
    pub const SIZE: usize = 4096;

    /// Name of the target, once it has one.
    pub fn name(&self) -> Option<TargetName> {
        match self.kind {
            TargetKind::Mgt => Some(TargetName::mgs()),
            kind => self.index.map(|index| TargetName { fsname: self.fsname, kind, index }),
        }
    }

    /// Encodes to bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut fsname = [0; 8];
        fsname[..self.fsname.as_str().len()].copy_from_slice(self.fsname.as_str().as_bytes());
        let raw = Raw {
            crc: U32::new(0),
            version: U32::new(VERSION),
            magic: MAGIC,
            cluster: self.cluster.0.into(),
            store: self.store.into(),
            boot: self.boot.into(),
            fsname,
            kind: self.kind as u8,
            assigned: if self.index.is_some() { ASSIGNED } else { UNASSIGNED },
            index: self.index.unwrap_or_default().0.into(),
            key: self.key.0.into(),
            zero: [0; 4012],
        };
        let mut bytes = raw.as_bytes().to_vec();
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// From the bytes of the file.
    ///
    /// # Errors
    /// The reason why the bytes are no superblock. The checksum is judged before the version.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, BadSuperblock> {
        let raw =
            Raw::ref_from_bytes(bytes).map_err(|_| BadSuperblock::Size(bytes.len() as u64))?;
        let (found, computed) = (raw.crc.get(), crc32c(&bytes[4..]));
        if found != computed {
            // A file of another program has neither: do not call it damaged.
            let ours = raw.magic == MAGIC;
            return Err(if ours {
                BadSuperblock::Checksum { found, computed }
            } else {
                BadSuperblock::Magic
            });
        }
        if raw.magic != MAGIC {
            return Err(BadSuperblock::Magic);
        }
        match raw.version.get() {
            0 => return Err(BadSuperblock::Field("version")),
            1..=VERSION => {}
            newer => return Err(BadSuperblock::Future(newer)),
        }
        let end = raw.fsname.iter().position(|b| *b == 0).unwrap_or(raw.fsname.len());
        let fsname = std::str::from_utf8(&raw.fsname[..end]).ok().and_then(|s| s.parse().ok());
        let index = match raw.assigned {
            UNASSIGNED => None,
            ASSIGNED => Some(TargetIndex(raw.index.get())),
            _ => return Err(BadSuperblock::Field("assigned")),
        };
        Ok(Superblock {
            cluster: ClusterId(raw.cluster.get()),
            store: raw.store.get(),
            boot: raw.boot.get(),
            fsname: fsname.ok_or(BadSuperblock::Field("fsname"))?,
            kind: TargetKind::from_u8(raw.kind).ok_or(BadSuperblock::Field("kind"))?,
            index,
            key: ServerKey(raw.key.get()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            cluster: ClusterId(0x1234),
            store: 0x5678,
            boot: 3,
            fsname: FsName::default(),
            kind: TargetKind::Ost,
            index: Some(TargetIndex(10)),
            key: ServerKey(0x9abc),
        }
    }

    fn resealed(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut bytes = sample().encode();
        change(&mut bytes);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn bytes_never_change() {
        let hex: String = sample().encode()[..84].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, include_str!("golden/superblock.hex").trim());
        assert!(sample().encode()[84..].iter().all(|b| *b == 0));
    }

    #[test]
    fn it_round_trips() {
        for block in [sample(), Superblock { index: None, kind: TargetKind::Mdt, ..sample() }] {
            assert_eq!(Superblock::decode(&block.encode()), Ok(block));
        }
        assert_eq!(sample().name().unwrap().to_string(), "sheen-OST000a");
        assert_eq!(Superblock { index: None, ..sample() }.name(), None);
    }

    #[test]
    fn a_block_of_the_first_version_has_no_key() {
        let first = resealed(|b| {
            b[4] = 1;
            b[68..84].fill(0);
        });
        assert_eq!(Superblock::decode(&first), Ok(Superblock { key: ServerKey(0), ..sample() }));
    }

    #[test]
    fn every_bad_block_is_named() {
        let good = sample().encode();
        assert_eq!(Superblock::decode(&good[..4095]), Err(BadSuperblock::Size(4095)));
        assert_eq!(Superblock::decode(&[]), Err(BadSuperblock::Size(0)));
        assert_eq!(Superblock::decode(&[b'x'; 4096]), Err(BadSuperblock::Magic));
        for at in [0, 5, 20, 60, 4095] {
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(
                matches!(Superblock::decode(&bad), Err(BadSuperblock::Checksum { .. })),
                "byte {at}"
            );
        }
        assert_eq!(Superblock::decode(&resealed(|b| b[4] = 9)), Err(BadSuperblock::Future(9)));
        assert_eq!(
            Superblock::decode(&resealed(|b| b[4] = 0)),
            Err(BadSuperblock::Field("version"))
        );
        assert_eq!(
            Superblock::decode(&resealed(|b| b[56] = b'/')),
            Err(BadSuperblock::Field("fsname"))
        );
        assert_eq!(Superblock::decode(&resealed(|b| b[64] = 9)), Err(BadSuperblock::Field("kind")));
        assert_eq!(
            Superblock::decode(&resealed(|b| b[65] = 2)),
            Err(BadSuperblock::Field("assigned"))
        );
    }
}
