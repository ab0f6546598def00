//! Marking of realms: the trees that filesets are (docs/security.md, "Realms").

use crate::codec::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{FLAGS, Operation, fid, put_fid};
use crate::codec::raw::RawFid;
#[cfg(test)]
use crate::codec::testing::*;
use types::fid::Fid;
use types::limits::MARKED_CHILDREN_MAX;
use types::name::Name;
use zerocopy::little_endian::U32;

/// An inode is of a realm from now on, and of a directory also the next inodes in it that are at
/// the same MDT and no directories. Answers `PeerMarked`. It may be repeated.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerMark {
    /// The inode.
    pub fid: Fid,
    /// The directory above it, as it was found; if it is another one by now, nothing is done. NONE:
    /// whatever that is.
    pub parent: Fid,
    /// Number of the realm.
    pub realm: u32,
    /// Of a directory: the name after which to go on; `None`: from the start.
    pub after: Option<Name>,
}

impl Operation for PeerMark {
    fn fid(&self) -> Fid {
        self.fid
    }

    fn flags(&self) -> u16 {
        bits([self.after.is_some()])
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        put_fid(self.parent, w);
        w.put(&U32::new(self.realm));
        self.after.iter().for_each(|name| w.name(name));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<PeerMark, DecodeError> {
        let [goes_on] = unpack(FLAGS, flags)?;
        let (fid, parent, realm) = (fid(r)?, fid(r)?, r.get::<U32>()?.get());
        Ok(PeerMark { fid, parent, realm, after: if goes_on { Some(r.name()?) } else { None } })
    }

    #[cfg(test)]
    fn sample() -> PeerMark {
        PeerMark { fid: DIR, parent: Fid::ROOT, realm: 0x8000_0007, after: Some(name("m")) }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<PeerMark> {
        (any_fid(), any_fid(), any::<u32>(), of(any_name()))
            .prop_map(|(fid, parent, realm, after)| PeerMark { fid, parent, realm, after })
            .boxed()
    }
}

pub(crate) fn put_children(children: &[Fid], w: &mut Writer) {
    w.put(&len32(children.len()));
    children.iter().for_each(|fid| w.put(&RawFid::from(*fid)));
}

pub(crate) fn children(r: &mut Reader<'_>) -> Result<Vec<Fid>, DecodeError> {
    let n = count(*r.get()?, "children", MARKED_CHILDREN_MAX)?;
    Ok(r.slice_of::<RawFid>(n)?.iter().map(Fid::from).collect())
}
