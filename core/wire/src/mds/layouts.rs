//! Operations on layouts.

use crate::class::Class;
use crate::codec::cursor::{Bulk, Reader, Writer, bits, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{FLAGS, Operation, fids};
use crate::codec::raw::{RawGetLayout, RawSwap};
#[cfg(test)]
use crate::codec::testing::*;
use types::fid::Fid;

/// Layout of a file, its components instantiated for `[start, end)` if `write`; answers `Layout`.
#[derive(Clone, PartialEq, Debug)]
pub struct GetLayout {
    /// The inode.
    pub fid: Fid,
    /// Instantiate components for the range.
    pub write: bool,
    /// First byte.
    pub start: u64,
    /// Byte behind the last.
    pub end: u64,
}

impl Operation for GetLayout {
    fids!(fid);

    fn class(&self, row: Class) -> Class {
        if self.write { row } else { Class::reads(row.counted) }
    }

    fn flags(&self) -> u16 {
        bits([self.write])
    }

    fn put(&self, w: &mut Writer) {
        w.put(&RawGetLayout {
            fid: self.fid.into(),
            start: self.start.into(),
            end: self.end.into(),
        });
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<GetLayout, DecodeError> {
        let [write] = unpack(FLAGS, flags)?;
        let raw: &RawGetLayout = r.get()?;
        Ok(GetLayout { fid: (&raw.fid).into(), write, start: raw.start.get(), end: raw.end.get() })
    }

    #[cfg(test)]
    fn sample() -> GetLayout {
        GetLayout { fid: FID, write: true, start: 1 << 20, end: 2 << 20 }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<GetLayout> {
        (any_fid(), any::<(bool, u64, u64)>())
            .prop_map(|(fid, (write, start, end))| GetLayout { fid, write, start, end })
            .boxed()
    }
}

/// Two regular files exchange layout, size and space. `versions`: they must be in these (EAGAIN), 0
/// = in any. `same`: their contents are the same, so times stay, and their sizes must agree
/// (EAGAIN). EBUSY: one is open to be written. Durable when answered.
#[derive(Clone, PartialEq, Debug)]
pub struct SwapLayouts {
    /// One file.
    pub fid: Fid,
    /// The other file.
    pub other: Fid,
    /// They must be in these (EAGAIN); 0: in any.
    pub versions: (u64, u64),
    /// Their contents are the same: times stay, and their sizes must agree (EAGAIN).
    pub same: bool,
}

impl Operation for SwapLayouts {
    fids!(fid, other);

    fn flags(&self) -> u16 {
        bits([self.same])
    }

    fn put(&self, w: &mut Writer) {
        let (version, other_version) = (self.versions.0.into(), self.versions.1.into());
        w.put(&RawSwap { fid: self.fid.into(), other: self.other.into(), version, other_version });
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<SwapLayouts, DecodeError> {
        let [same] = unpack(FLAGS, flags)?;
        let raw: &RawSwap = r.get()?;
        let versions = (raw.version.get(), raw.other_version.get());
        Ok(SwapLayouts { fid: (&raw.fid).into(), other: (&raw.other).into(), versions, same })
    }

    #[cfg(test)]
    fn sample() -> SwapLayouts {
        SwapLayouts { fid: FID, other: Fid::ROOT, versions: (7, 0), same: true }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<SwapLayouts> {
        (any_fid(), any_fid(), any::<((u64, u64), bool)>())
            .prop_map(|(fid, other, (versions, same))| SwapLayouts { fid, other, versions, same })
            .boxed()
    }
}
