//! FIDs: the identity of an inode, never reused.
//!
//! Written as in Lustre: `[0x200000400:0x1:0x0]`. Normal sequences start at 0x200000400. Each MDT
//! takes a fresh sequence at every start, so a FID handed out before a crash is never handed out
//! again.

use std::fmt;
use std::str::FromStr;

/// File identifier: sequence, object number in the sequence, version (always 0 today).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Fid {
    /// Sequence. Which MDT owns it is answered by [`Fid::mdt`].
    pub seq: u64,
    /// Number within the sequence, from 1.
    pub oid: u32,
    /// Version; 0.
    pub ver: u32,
}

impl Fid {
    /// No inode. Its sequence is also that of [`Fid::result_of`].
    pub const NONE: Fid = Fid { seq: 0, oid: 0, ver: 0 };
    /// The root directory, on MDT0000.
    pub const ROOT: Fid = Fid { seq: 0x2_0000_0007, oid: 1, ver: 0 };
    /// `.lustre` in the root: no MDT has it, clients show it.
    pub const DOT_LUSTRE: Fid = Fid { seq: 0x2_0000_0002, oid: 1, ver: 0 };
    /// `.lustre/fid`, where inodes are found by FID.
    pub const BY_FID: Fid = Fid { seq: 0x2_0000_0002, oid: 2, ver: 0 };
    /// First sequence that MDTs hand out (FID_SEQ_NORMAL in Lustre).
    pub const SEQ_NORMAL: u64 = 0x2_0000_0400;
    /// Sequences that belong to one MDT: MDT n owns `SEQ_NORMAL + n * SEQ_WIDTH ..` (Lustre's
    /// super-sequence width).
    pub const SEQ_WIDTH: u64 = 0x4000_0000;

    /// A reference, inside one vector request, to the FID that operation `index` of the same
    /// request finds or makes.
    pub const fn result_of(index: u32) -> Fid {
        Fid { seq: 0, oid: index + 1, ver: u32::MAX }
    }

    /// The operation that this FID refers to, if it is a [`Fid::result_of`].
    pub const fn as_result_of(self) -> Option<u32> {
        if self.seq == 0 && self.ver == u32::MAX && self.oid > 0 {
            Some(self.oid - 1)
        } else {
            None
        }
    }

    /// True if only clients show this FID. `lost+found` has a number of the same sequence but does
    /// not count: it exists on an MDT.
    pub const fn is_shown_only(self) -> bool {
        self.seq == Self::DOT_LUSTRE.seq
            && (self.oid == Self::DOT_LUSTRE.oid || self.oid == Self::BY_FID.oid)
    }

    /// FID location: the index of the MDT that owns the sequence.
    pub const fn mdt(self) -> u16 {
        if self.seq < Self::SEQ_NORMAL {
            0
        } else {
            ((self.seq - Self::SEQ_NORMAL) / Self::SEQ_WIDTH) as u16
        }
    }

    /// Inode number that programs see: sequence and object number folded into 64 bits.
    ///
    /// Unique as long as sequences stay below 2^40 and objects of a sequence below 2^24. Above
    /// that, the high bits of the object number are folded into the upper part.
    pub const fn ino(self) -> u64 {
        let ino = (self.seq << 24)
            .wrapping_add((self.seq >> 24) & 0xff_ffff_0000)
            .wrapping_add(self.oid as u64);
        if ino < 2 { ino + 2 } else { ino }
    }

    /// 16 bytes, big endian, so that byte order is FID order.
    pub const fn to_be_bytes(self) -> [u8; 16] {
        let (s, o, v) = (self.seq.to_be_bytes(), self.oid.to_be_bytes(), self.ver.to_be_bytes());
        [
            s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], o[0], o[1], o[2], o[3], v[0], v[1],
            v[2], v[3],
        ]
    }

    /// Reverse of [`Fid::to_be_bytes`].
    pub const fn from_be_bytes(b: [u8; 16]) -> Fid {
        Fid {
            seq: u64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            oid: u32::from_be_bytes([b[8], b[9], b[10], b[11]]),
            ver: u32::from_be_bytes([b[12], b[13], b[14], b[15]]),
        }
    }
}

impl fmt::Display for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}:{:#x}:{:#x}]", self.seq, self.oid, self.ver)
    }
}

impl fmt::Debug for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no FID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no FID; a FID looks like [0x200000400:0x1:0x0]")]
pub struct BadFid(pub String);

impl FromStr for Fid {
    type Err = BadFid;

    fn from_str(s: &str) -> Result<Fid, BadFid> {
        let bad = || BadFid(s.to_owned());
        let inner = s.strip_prefix('[').map_or(Some(s), |t| t.strip_suffix(']')).ok_or_else(bad)?;
        let mut parts = inner.split(':').map(|p| {
            let digits = p.strip_prefix("0x").or_else(|| p.strip_prefix("0X"));
            digits.map_or_else(|| p.parse::<u64>().ok(), |d| u64::from_str_radix(d, 16).ok())
        });
        let mut next = || parts.next().flatten().ok_or_else(bad);
        let seq = next()?;
        let oid = u32::try_from(next()?).map_err(|_| bad())?;
        let ver = u32::try_from(next()?).map_err(|_| bad())?;
        if parts.next().is_some() {
            return Err(bad());
        }
        Ok(Fid { seq, oid, ver })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_round_trip() {
        for fid in [Fid::ROOT, Fid { seq: u64::MAX, oid: 7, ver: 9 }, Fid::NONE] {
            assert_eq!(fid.to_string().parse::<Fid>().unwrap(), fid);
            assert_eq!(Fid::from_be_bytes(fid.to_be_bytes()), fid);
        }
        assert!("[0x1:0x2]".parse::<Fid>().is_err());
        assert!("[0x1:0x2:0x3:0x4]".parse::<Fid>().is_err());
        assert!("[0x1:0x2:0x3".parse::<Fid>().is_err());
    }

    #[test]
    fn sequences_belong_to_mdts() {
        assert_eq!(Fid::ROOT.mdt(), 0);
        assert_eq!(Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH * 3, oid: 1, ver: 0 }.mdt(), 3);
    }

    #[test]
    fn result_references_are_recognised() {
        assert_eq!(Fid::result_of(4).as_result_of(), Some(4));
        assert_eq!(Fid::ROOT.as_result_of(), None);
        assert_eq!(Fid::NONE.as_result_of(), None);
    }
}
