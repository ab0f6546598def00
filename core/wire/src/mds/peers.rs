//! Operations that MDTs ask of each other (docs/dne.md).
//!
//! Each may be repeated: what it changes is named by a bundle. The sender's boot number tells a
//! late message of an earlier life from one of this life.

use super::shared::{PeerBundle, PeerFacts, PeerFind, PeerInode, PeerName};
use crate::codec::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{FLAGS, Operation, fid, number64, plain, put_entry, put_fid};
use crate::codec::raw::{RawBundleId, RawFid};
#[cfg(test)]
use crate::codec::testing::*;
use bytes::Bytes;
use types::attr::FileType;
use types::bundle::{BundleId, Place};
use types::fid::Fid;
use types::limits::{
    BUNDLE_BYTES_MAX, BUNDLE_PINS_MAX, BUNDLES_OPEN_MAX, BUNDLES_PER_REPLY_BYTES,
    MDTS_PER_BUNDLE_MAX, RECORD_VALUE_BYTES_MAX, XATTR_VALUE_BYTES_MAX,
};
use types::session::ClientUuid;
use types::target::TargetIndex;
use zerocopy::little_endian::{U32, U64, U128};

/// Bundles in one answer.
const BUNDLES_PER_REPLY_MAX: usize = BUNDLES_PER_REPLY_BYTES / BUNDLE_BYTES_MIN;
/// Fewest bytes of a bundle in an answer: its name, a flag, the length of its record.
const BUNDLE_BYTES_MIN: usize = size_of::<RawBundleId>() + 8;
const BUNDLE_BYTES: &str = "bytes of bundle";

/// Pin what a bundle is about to change here, and say what it is; answers `PeerPrepared`. It may
/// come again, with more. EAGAIN: something else is under way with some of it, or the bundle was
/// stopped; ENOSPC; E2BIG: more than [`BUNDLE_PINS_MAX`] would be pinned.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerPrepare {
    /// The bundle.
    pub id: BundleId,
    /// The bundle takes space.
    pub space: bool,
    /// Names pass to other stripes though clients hold some for their second tries.
    pub pass_held: bool,
    /// The client that asks for it; [`ClientUuid::default`]: an MDT itself.
    pub client: ClientUuid,
    /// All MDTs that take part beside the coordinator, as far as they are known.
    pub others: Vec<TargetIndex>,
    /// What is to be pinned.
    pub finds: Vec<PeerFind>,
}

impl Operation for PeerPrepare {
    fn flags(&self) -> u16 {
        bits([self.space, self.pass_held])
    }

    fn put(&self, w: &mut Writer) {
        w.put(&RawBundleId::from(self.id));
        w.put(&U128::new(self.client.0));
        w.put(&len32(self.others.len()));
        self.others.iter().for_each(|mdt| w.put(&U32::new(mdt.0.into())));
        w.put(&len32(self.finds.len()));
        self.finds.iter().for_each(|find| put_find(find, w));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerPrepare, DecodeError> {
        let [space, pass_held] = unpack(FLAGS, flags)?;
        let id = bundle_id(r)?;
        let client = client(r)?;
        let n = count(*r.get()?, "MDTs of a bundle", MDTS_PER_BUNDLE_MAX)?;
        r.expect(n, size_of::<U32>())?;
        let others = (0..n).map(|_| index(r)).collect::<Result<_, _>>()?;
        let n = count(*r.get()?, "finds", BUNDLE_PINS_MAX)?;
        r.expect(n, FIND_BYTES_MIN)?;
        let finds = (0..n).map(|_| find(r)).collect::<Result<_, _>>()?;
        Ok(PeerPrepare { id, space, pass_held, client, others, finds })
    }

    #[cfg(test)]
    fn sample() -> PeerPrepare {
        let finds = vec![
            PeerFind::Token,
            PeerFind::Name { dir: DIR, name: name("a"), loses: true },
            PeerFind::Inode { fid: FID, loses: false },
            PeerFind::Above(FID),
            PeerFind::Stripe(FID),
            PeerFind::Names { dir: DIR, after: Some(name("c")), limit: 128 },
            PeerFind::Names { dir: DIR, after: None, limit: 128 },
        ];
        let (client, others) = (ClientUuid(0x5678), vec![TargetIndex(2), TargetIndex(3)]);
        let id = sample_id(3);
        PeerPrepare { id, space: true, pass_held: false, client, others, finds }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerPrepare> {
        let find = prop_oneof![
            Just(PeerFind::Token),
            (any_place(), any::<bool>()).prop_map(|((dir, name), loses)| PeerFind::Name {
                dir,
                name,
                loses
            }),
            (any_fid(), any::<bool>()).prop_map(|(fid, loses)| PeerFind::Inode { fid, loses }),
            any_fid().prop_map(PeerFind::Above),
            any_fid().prop_map(PeerFind::Stripe),
            (any_place(), any::<bool>(), any::<u32>()).prop_map(|((dir, name), begins, limit)| {
                PeerFind::Names { dir, after: (!begins).then_some(name), limit }
            }),
        ];
        let others = vec(any::<u16>().prop_map(TargetIndex), 0..4);
        let flags = any::<(bool, bool)>();
        (any_id(), flags, any::<u128>().prop_map(ClientUuid), others, vec(find, 0..5))
            .prop_map(|(id, (space, pass_held), client, others, finds)| PeerPrepare {
                id,
                space,
                pass_held,
                client,
                others,
                finds,
            })
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

/// A participant has stopped a bundle: what became of it at the receiver, which takes part, too?
/// Answers `PeerTold`.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerAsk {
    /// The bundle.
    pub id: BundleId,
}

impl Operation for PeerAsk {
    fn put(&self, w: &mut Writer) {
        w.put(&RawBundleId::from(self.id));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerAsk, DecodeError> {
        plain(flags)?;
        Ok(PeerAsk { id: bundle_id(r)? })
    }

    #[cfg(test)]
    fn sample() -> PeerAsk {
        PeerAsk { id: sample_id(3) }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerAsk> {
        any_id().prop_map(|id| PeerAsk { id }).boxed()
    }
}

/// A bundle is given up: what it had pinned is free. Answers `PeerDone`.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerCancel {
    /// The bundle.
    pub id: BundleId,
    /// The names that it had pinned stay as they are for a moment, for the second try of this
    /// client (docs/locks/kernel.md, R34 and R41); [`ClientUuid::default`]: they do not.
    pub held_for: ClientUuid,
}

impl Operation for PeerCancel {
    fn put(&self, w: &mut Writer) {
        w.put(&RawBundleId::from(self.id));
        w.put(&U128::new(self.held_for.0));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerCancel, DecodeError> {
        plain(flags)?;
        Ok(PeerCancel { id: bundle_id(r)?, held_for: client(r)? })
    }

    #[cfg(test)]
    fn sample() -> PeerCancel {
        PeerCancel { id: sample_id(3), held_for: ClientUuid(0x5678) }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerCancel> {
        (any_id(), any::<u128>())
            .prop_map(|(id, client)| PeerCancel { id, held_for: ClientUuid(client) })
            .boxed()
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
    /// The bundles that it has stopped: the receiver does with them as with a `PeerAsk`.
    pub stopped: Vec<BundleId>,
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
        put_ids(&self.stopped, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerExchange, DecodeError> {
        let [announce, asks_on] = unpack(FLAGS, flags)?;
        let from = index(r)?;
        let boot = number64(r)?;
        let after = bundle_id(r)?;
        if !asks_on && after != BundleId::default() {
            return Err(DecodeError::Field { field: FLAGS, value: flags.into() });
        }
        let after = asks_on.then_some(after);
        Ok(PeerExchange { from, boot, announce, after, stopped: ids(r)? })
    }

    #[cfg(test)]
    fn sample() -> PeerExchange {
        let (from, after, stopped) = (TargetIndex(1), Some(sample_id(3)), vec![sample_id(4)]);
        PeerExchange { from, boot: 6, announce: false, after, stopped }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerExchange> {
        (any::<u16>(), any::<u64>(), any::<bool>(), of(any_id()), vec(any_id(), 0..4))
            .prop_map(|(from, boot, announce, after, stopped)| {
                let from = TargetIndex(from);
                PeerExchange { from, boot, announce, after, stopped }
            })
            .boxed()
    }
}

const TOKEN: u32 = 1;
const NAME: u32 = 2;
const INODE: u32 = 3;
const ABOVE: u32 = 4;
const STRIPE: u32 = 5;
const NAMES: u32 = 6;
/// Fewest bytes of what is to be pinned.
const FIND_BYTES_MIN: usize = size_of::<U32>();
const FIND: &str = "what is to be pinned";

fn put_find(find: &PeerFind, w: &mut Writer) {
    let kind = |kind: u32, flag: bool| U32::new(kind | u32::from(flag) << 8);
    match find {
        PeerFind::Token => w.put(&kind(TOKEN, false)),
        PeerFind::Name { dir, name, loses } => {
            w.put(&kind(NAME, *loses));
            put_entry(*dir, name, w);
        }
        PeerFind::Inode { fid, loses } => {
            w.put(&kind(INODE, *loses));
            put_fid(*fid, w);
        }
        PeerFind::Above(fid) => {
            w.put(&kind(ABOVE, false));
            put_fid(*fid, w);
        }
        PeerFind::Stripe(fid) => {
            w.put(&kind(STRIPE, false));
            put_fid(*fid, w);
        }
        PeerFind::Names { dir, after, limit } => {
            w.put(&kind(NAMES, after.is_some()));
            w.put(&U32::new(*limit));
            match after {
                Some(name) => put_entry(*dir, name, w),
                None => put_fid(*dir, w),
            }
        }
    }
}

fn find(r: &mut Reader<'_>) -> Result<PeerFind, DecodeError> {
    let raw = r.get::<U32>()?.get();
    let flag = match raw >> 8 {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::Field { field: FIND, value: raw.into() }),
    };
    Ok(match (raw & 0xff, flag) {
        (TOKEN, false) => PeerFind::Token,
        (NAME, loses) => PeerFind::Name { dir: fid(r)?, name: r.name()?, loses },
        (INODE, loses) => PeerFind::Inode { fid: fid(r)?, loses },
        (ABOVE, false) => PeerFind::Above(fid(r)?),
        (STRIPE, false) => PeerFind::Stripe(fid(r)?),
        (NAMES, goes_on) => {
            let (limit, dir) = (r.get::<U32>()?.get(), fid(r)?);
            let after = if goes_on { Some(r.name()?) } else { None };
            PeerFind::Names { dir, after, limit }
        }
        _ => return Err(DecodeError::Field { field: FIND, value: raw.into() }),
    })
}

/// Fewest bytes of an inode, a name, a directory with the one above it, and a directory that was
/// looked through.
const FACT_BYTES_MIN: [usize; 4] =
    [size_of::<RawFid>() + 12, size_of::<RawFid>() + 3, 32, size_of::<RawFid>() + 4];

pub(crate) fn put_facts(facts: &PeerFacts, w: &mut Writer) {
    let PeerFacts { inodes, names, above, looked } = facts;
    w.put(&len32(inodes.len()));
    for PeerInode { fid, record, acl, is_empty } in inodes {
        put_fid(*fid, w);
        w.put(&U32::new((*is_empty).into()));
        w.bytes(record);
        w.bytes(acl);
    }
    w.put(&len32(names.len()));
    for PeerName { dir, name, to } in names {
        put_entry(*dir, name, w);
        let (fid, file_type) = to.map_or((Fid::NONE, 0), |(fid, kind)| (fid, kind as u32));
        put_fid(fid, w);
        w.put(&U32::new(file_type));
    }
    w.put(&len32(above.len()));
    for (fid, parent) in above {
        put_fid(*fid, w);
        put_fid(*parent, w);
    }
    w.put(&len32(looked.len()));
    for (dir, up_to) in looked {
        w.put(&U32::new(up_to.is_some().into()));
        match up_to {
            Some(name) => put_entry(*dir, name, w),
            None => put_fid(*dir, w),
        }
    }
}

pub(crate) fn facts(r: &mut Reader<'_>) -> Result<PeerFacts, DecodeError> {
    let of = |each: usize, r: &mut Reader<'_>| {
        let n = count(*r.get()?, "facts", BUNDLE_PINS_MAX)?;
        r.expect(n, each).map(|()| n)
    };
    let [inode, name, above, looked] = FACT_BYTES_MIN;
    let mut facts = PeerFacts::default();
    for _ in 0..of(inode, r)? {
        let fid = fid(r)?;
        let is_empty = match r.get::<U32>()?.get() {
            0 => false,
            1 => true,
            other => return Err(DecodeError::Field { field: "emptiness", value: other.into() }),
        };
        let record = r.copied("bytes of record", RECORD_VALUE_BYTES_MAX)?;
        let acl = r.copied("bytes of ACL", XATTR_VALUE_BYTES_MAX)?;
        facts.inodes.push(PeerInode { fid, record, acl, is_empty });
    }
    for _ in 0..of(name, r)? {
        let (dir, name, to) = (fid(r)?, r.name()?, fid(r)?);
        let raw = r.get::<U32>()?.get();
        let wrong = DecodeError::Field { field: "file type", value: raw.into() };
        let to = match u8::try_from(raw).map_err(|_| wrong.clone())? {
            0 => None,
            raw => Some((to, FileType::from_dtype(raw).ok_or(wrong)?)),
        };
        facts.names.push(PeerName { dir, name, to });
    }
    for _ in 0..of(above, r)? {
        facts.above.push((fid(r)?, fid(r)?));
    }
    for _ in 0..of(looked, r)? {
        let up_to = r.get::<U32>()?.get();
        let dir = fid(r)?;
        let up_to = match up_to {
            0 => None,
            1 => Some(r.name()?),
            other => return Err(DecodeError::Field { field: "end of names", value: other.into() }),
        };
        facts.looked.push((dir, up_to));
    }
    Ok(facts)
}

fn index(r: &mut Reader<'_>) -> Result<TargetIndex, DecodeError> {
    let index = r.get::<U32>()?.get();
    let wrong = DecodeError::Field { field: "index of an MDT", value: index.into() };
    u16::try_from(index).map(TargetIndex).map_err(|_| wrong)
}

fn bundle_id(r: &mut Reader<'_>) -> Result<BundleId, DecodeError> {
    r.get::<RawBundleId>().map(BundleId::from)
}

fn client(r: &mut Reader<'_>) -> Result<ClientUuid, DecodeError> {
    r.get::<U128>().map(|client| ClientUuid(client.get()))
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

#[cfg(test)]
pub(crate) fn sample_facts() -> PeerFacts {
    let inode = |record: &'static [u8], is_empty| PeerInode {
        fid: FID,
        record: Bytes::from_static(record),
        acl: Bytes::new(),
        is_empty,
    };
    let to = Some((FID, FileType::Regular));
    PeerFacts {
        inodes: vec![inode(b"record", true), inode(b"", false)],
        names: vec![
            PeerName { dir: DIR, name: name("a"), to },
            PeerName { dir: DIR, name: name("b"), to: None },
        ],
        above: vec![(DIR, Fid::ROOT)],
        looked: vec![(DIR, Some(name("b"))), (FID, None)],
    }
}

#[cfg(test)]
pub(crate) fn any_facts() -> impl Strategy<Value = PeerFacts> {
    let inode = (any_fid(), any_bytes(100), any_bytes(50), any::<bool>())
        .prop_map(|(fid, record, acl, is_empty)| PeerInode { fid, record, acl, is_empty });
    let name = (any_place(), of(any_fid())).prop_map(|((dir, name), to)| PeerName {
        dir,
        name,
        to: to.map(|fid| (fid, FileType::Symlink)),
    });
    let above = (any_fid(), any_fid());
    let looked =
        (any_place(), any::<bool>()).prop_map(|((dir, name), on)| (dir, on.then_some(name)));
    (vec(inode, 0..4), vec(name, 0..4), vec(above, 0..4), vec(looked, 0..4))
        .prop_map(|(inodes, names, above, looked)| PeerFacts { inodes, names, above, looked })
}
