//! Operations that MDTs ask of each other (docs/dne.md).
//!
//! Each may be repeated: what it changes is named by a bundle. The sender's boot number tells a
//! late message of an earlier life from one of this life.

use super::shared::PeerBundle;
use crate::codec::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{FLAGS, Operation, fid, number64, plain, put_fid};
use crate::codec::raw::RawBundleId;
#[cfg(test)]
use crate::codec::testing::*;
use bytes::Bytes;
use types::bundle::{BundleId, Place};
use types::fid::Fid;
use types::limits::{BUNDLE_BYTES_MAX, BUNDLES_OPEN_MAX, BUNDLES_PER_REPLY_BYTES};
use types::session::ClientUuid;
use types::target::TargetIndex;
use zerocopy::little_endian::{U32, U64, U128};

/// Bundles in one answer.
const BUNDLES_PER_REPLY_MAX: usize = BUNDLES_PER_REPLY_BYTES / BUNDLE_BYTES_MIN;
/// Fewest bytes of a bundle in an answer: its name, a flag, the length of its record.
const BUNDLE_BYTES_MIN: usize = size_of::<RawBundleId>() + 8;
const BUNDLE_BYTES: &str = "bytes of bundle";

/// Pin an empty directory, which is about to lose its name, and what it is found to be; answers
/// `PeerPrepared`. ENOTEMPTY; EAGAIN: something else is under way with it.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerPrepare {
    /// The bundle.
    pub id: BundleId,
    /// The directory.
    pub fid: Fid,
    /// The client that asked for it: its locks are not called back.
    pub author: ClientUuid,
}

impl Operation for PeerPrepare {
    fn put(&self, w: &mut Writer) {
        w.put(&RawBundleId::from(self.id));
        put_fid(self.fid, w);
        w.put(&U128::new(self.author.0));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerPrepare, DecodeError> {
        plain(flags)?;
        let id = bundle_id(r)?;
        Ok(PeerPrepare { id, fid: fid(r)?, author: ClientUuid(r.get::<U128>()?.get()) })
    }

    #[cfg(test)]
    fn sample() -> PeerPrepare {
        PeerPrepare { id: sample_id(3), fid: FID, author: ClientUuid(7) }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerPrepare> {
        (any_id(), any_fid(), any::<u128>())
            .prop_map(|(id, fid, author)| PeerPrepare { id, fid, author: ClientUuid(author) })
            .boxed()
    }
}

/// Do the own part of a bundle; answers `PeerApplied`, or `PeerRefused`: it was stopped.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerApply {
    /// The bundle.
    pub id: BundleId,
    /// Boot number of the sender.
    pub boot: u64,
    /// The record of the bundle.
    pub bundle: Bytes,
}

impl Operation for PeerApply {
    fn put(&self, w: &mut Writer) {
        w.put(&RawBundleId::from(self.id));
        w.put(&U64::new(self.boot));
        w.bytes(&self.bundle);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerApply, DecodeError> {
        plain(flags)?;
        let (id, boot) = (bundle_id(r)?, number64(r)?);
        Ok(PeerApply { id, boot, bundle: r.copied(BUNDLE_BYTES, BUNDLE_BYTES_MAX)? })
    }

    #[cfg(test)]
    fn sample() -> PeerApply {
        PeerApply { id: sample_id(3), boot: 6, bundle: Bytes::from_static(b"bundle") }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerApply> {
        (any_id(), any::<u64>(), any_bytes(300))
            .prop_map(|(id, boot, bundle)| PeerApply { id, boot, bundle })
            .boxed()
    }
}

/// A bundle is given up: what it had pinned is free. Answers `PeerDone`.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerCancel {
    /// The bundle.
    pub id: BundleId,
}

impl Operation for PeerCancel {
    fn put(&self, w: &mut Writer) {
        w.put(&RawBundleId::from(self.id));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerCancel, DecodeError> {
        plain(flags)?;
        Ok(PeerCancel { id: bundle_id(r)? })
    }

    #[cfg(test)]
    fn sample() -> PeerCancel {
        PeerCancel { id: sample_id(3) }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerCancel> {
        any_id().prop_map(|id| PeerCancel { id }).boxed()
    }
}

/// All bundles of the sender before `below` are finished: their records may go. Answers `PeerDone`,
/// which says what is durable.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerForget {
    /// The sender.
    pub from: TargetIndex,
    /// Its boot number.
    pub boot: u64,
    /// The first of its bundles that may not be finished.
    pub below: Place,
}

impl Operation for PeerForget {
    fn put(&self, w: &mut Writer) {
        let Place { boot, number } = self.below;
        w.put(&RawBundleId::from(BundleId { coordinator: self.from, boot, number }));
        w.put(&U64::new(self.boot));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerForget, DecodeError> {
        plain(flags)?;
        let id = bundle_id(r)?;
        Ok(PeerForget { from: id.coordinator, boot: number64(r)?, below: id.place() })
    }

    #[cfg(test)]
    fn sample() -> PeerForget {
        PeerForget { from: TargetIndex(1), boot: 6, below: Place { boot: 5, number: 9 } }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerForget> {
        (any_id(), any::<u64>())
            .prop_map(|(id, boot)| PeerForget { from: id.coordinator, boot, below: id.place() })
            .boxed()
    }
}

/// An MDT has restarted. `announce`: it shows itself in its new life; what it said in an earlier
/// one does not count any more. Else it asks for the bundles that it may have lost, behind `after`.
/// Answers `PeerBundles`.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerExchange {
    /// The sender.
    pub from: TargetIndex,
    /// Its boot number.
    pub boot: u64,
    /// It shows itself, and asks nothing.
    pub announce: bool,
    /// The last bundle that it was told; `None`: it begins.
    pub after: Option<BundleId>,
}

impl Operation for PeerExchange {
    fn flags(&self) -> u16 {
        bits([self.announce, self.after.is_some()])
    }

    fn put(&self, w: &mut Writer) {
        let after = self.after.unwrap_or_default();
        w.put(&U32::new(self.from.0.into()));
        w.put(&U64::new(self.boot));
        w.put(&RawBundleId::from(after));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerExchange, DecodeError> {
        let [announce, asks_on] = unpack(FLAGS, flags)?;
        let from = index(r)?;
        let boot = number64(r)?;
        let after = bundle_id(r)?;
        if !asks_on && after != BundleId::default() {
            return Err(DecodeError::Field { field: FLAGS, value: flags.into() });
        }
        Ok(PeerExchange { from, boot, announce, after: asks_on.then_some(after) })
    }

    #[cfg(test)]
    fn sample() -> PeerExchange {
        PeerExchange { from: TargetIndex(1), boot: 6, announce: false, after: Some(sample_id(3)) }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerExchange> {
        (any::<u16>(), any::<u64>(), any::<bool>(), of(any_id()))
            .prop_map(|(from, boot, announce, after)| PeerExchange {
                from: TargetIndex(from),
                boot,
                announce,
                after,
            })
            .boxed()
    }
}

fn index(r: &mut Reader<'_>) -> Result<TargetIndex, DecodeError> {
    let index = r.get::<U32>()?.get();
    let wrong = DecodeError::Field { field: "index of an MDT", value: index.into() };
    u16::try_from(index).map(TargetIndex).map_err(|_| wrong)
}

fn bundle_id(r: &mut Reader<'_>) -> Result<BundleId, DecodeError> {
    r.get::<RawBundleId>().map(BundleId::from)
}

pub(crate) fn put_ids(ids: &[BundleId], w: &mut Writer) {
    w.put(&len32(ids.len()));
    ids.iter().for_each(|id| w.put(&RawBundleId::from(*id)));
}

pub(crate) fn ids(r: &mut Reader<'_>) -> Result<Vec<BundleId>, DecodeError> {
    // Of all MDTs together: each of them stops few.
    let n = count(*r.get()?, "bundles", BUNDLES_OPEN_MAX)?;
    Ok(r.slice_of::<RawBundleId>(n)?.iter().map(BundleId::from).collect())
}

pub(crate) fn put_bundles(bundles: &[PeerBundle], w: &mut Writer) {
    w.put(&len32(bundles.len()));
    for PeerBundle { id, applied, bundle } in bundles {
        w.put(&RawBundleId::from(*id));
        w.put(&U32::new((*applied).into()));
        w.bytes(bundle);
    }
}

pub(crate) fn bundles(r: &mut Reader<'_>) -> Result<Vec<PeerBundle>, DecodeError> {
    let n = count(*r.get()?, "bundles", BUNDLES_PER_REPLY_MAX)?;
    r.expect(n, BUNDLE_BYTES_MIN)?;
    let mut bundles = Vec::with_capacity(n);
    for _ in 0..n {
        let id = bundle_id(r)?;
        let applied = match r.get::<U32>()?.get() {
            0 => false,
            1 => true,
            other => {
                return Err(DecodeError::Field { field: "state of a bundle", value: other.into() });
            }
        };
        bundles.push(PeerBundle { id, applied, bundle: r.copied(BUNDLE_BYTES, BUNDLE_BYTES_MAX)? });
    }
    Ok(bundles)
}

#[cfg(test)]
pub(crate) fn sample_id(number: u64) -> BundleId {
    BundleId { coordinator: TargetIndex(1), boot: 5, number }
}

#[cfg(test)]
pub(crate) fn any_id() -> impl Strategy<Value = BundleId> {
    any::<(u16, u64, u64)>().prop_map(|(mdt, boot, number)| BundleId {
        coordinator: TargetIndex(mdt),
        boot,
        number,
    })
}

#[cfg(test)]
pub(crate) fn any_bundles() -> impl Strategy<Value = Vec<PeerBundle>> {
    let one = (any_id(), any::<bool>(), any_bytes(200));
    vec(one.prop_map(|(id, applied, bundle)| PeerBundle { id, applied, bundle }), 0..5)
}
