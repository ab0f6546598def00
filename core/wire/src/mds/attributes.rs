//! Operations on attributes and extended attributes.

use super::shared::SetxattrFlags;
use crate::codec::cursor::{Bulk, Reader, Writer, bits, count, len32, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{
    ATTR_BYTES, FLAGS, Operation, fid, fids, number64, plain, put_fid, put_xattr, xattr_name,
};
use crate::codec::raw::{self, RawFid, RawSetAttr, set_attr_flags};
#[cfg(test)]
use crate::codec::testing::*;
use bytes::Bytes;
use types::attr::SetAttr;
#[cfg(test)]
use types::attr::SetTime;
use types::fid::Fid;
use types::limits::{INODES_PER_REPLY_MAX, XATTR_VALUE_BYTES_MAX};
use types::time::Timestamp;
use zerocopy::little_endian::{I64, U32, U64};

/// Attributes; answers `Entry`.
#[derive(Clone, PartialEq, Debug)]
pub struct Getattr {
    /// The inode.
    pub fid: Fid,
    /// For a read that no lock covers: other clients that write the file store what they have
    /// written before they tell its size, and the answer waits for nothing that may wait for this
    /// client.
    pub stored: bool,
}

impl Getattr {
    /// As the MDT and the writers know them.
    pub fn of(fid: Fid) -> Getattr {
        Getattr { fid, stored: false }
    }
}

impl Operation for Getattr {
    fids!(fid);

    fn flags(&self) -> u16 {
        bits([self.stored])
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Getattr, DecodeError> {
        let [stored] = unpack(FLAGS, flags)?;
        Ok(Getattr { fid: fid(r)?, stored })
    }

    #[cfg(test)]
    fn sample() -> Getattr {
        Getattr { fid: FID, stored: true }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Getattr> {
        (any_fid(), any::<bool>()).prop_map(|(fid, stored)| Getattr { fid, stored }).boxed()
    }
}

/// Attributes of many; answers `Attrs`, in order; at most INODES_PER_REPLY_MAX.
#[derive(Clone, PartialEq, Debug)]
pub struct GetattrMany {
    /// The inodes.
    pub fids: Vec<Fid>,
    /// A program is about to look at them: other clients that are writing them give WRITE back, so
    /// that what is answered can be covered. They get it again with their next writes.
    pub pause: bool,
}

impl GetattrMany {
    /// As the MDT and the writers know them.
    pub fn of(fids: Vec<Fid>) -> GetattrMany {
        GetattrMany { fids, pause: false }
    }
}

impl Operation for GetattrMany {
    fn fid(&self) -> Fid {
        self.fids.first().copied().unwrap_or(Fid::NONE)
    }

    fn reply_bytes(&self) -> usize {
        self.fids.len() * ATTR_BYTES
    }

    fn flags(&self) -> u16 {
        bits([self.pause])
    }

    fn try_each_fid<E>(&mut self, each: impl FnMut(&mut Fid) -> Result<(), E>) -> Result<(), E> {
        self.fids.iter_mut().try_for_each(each)
    }

    fn put(&self, w: &mut Writer) {
        w.put(&len32(self.fids.len()));
        self.fids.iter().for_each(|fid| put_fid(*fid, w));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<GetattrMany, DecodeError> {
        let [pause] = unpack(FLAGS, flags)?;
        let n = count(*r.get()?, "inodes", INODES_PER_REPLY_MAX)?;
        let fids = r.slice_of::<RawFid>(n)?.iter().map(Fid::from).collect();
        Ok(GetattrMany { fids, pause })
    }

    #[cfg(test)]
    fn sample() -> GetattrMany {
        GetattrMany::of(vec![FID, DIR, Fid::result_of(0)])
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<GetattrMany> {
        (vec(any_fid(), 0..50), any::<bool>())
            .prop_map(|(fids, pause)| GetattrMany { fids, pause })
            .boxed()
    }
}

/// Change attributes; answers `Entry`. A new size is the MDT's part only; the client cuts the
/// objects.
#[derive(Clone, PartialEq, Debug)]
pub struct Setattr {
    /// The inode.
    pub fid: Fid,
    /// What changes.
    pub set: SetAttr,
}

impl Operation for Setattr {
    fids!(fid);

    fn flags(&self) -> u16 {
        bits(set_attr_flags(&self.set))
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        w.put(&RawSetAttr::from(&self.set));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Setattr, DecodeError> {
        Ok(Setattr { fid: fid(r)?, set: r.get::<RawSetAttr>()?.decode(unpack(FLAGS, flags)?)? })
    }

    #[cfg(test)]
    fn sample() -> Setattr {
        Setattr {
            fid: FID,
            set: SetAttr {
                mode: Some(0o640),
                uid: Some(1),
                gid: None,
                size: Some(4096),
                atime: Some(SetTime::Now),
                mtime: Some(SetTime::At(Timestamp { sec: -5, nsec: 6 })),
                kill_suidgid: true,
            },
        }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Setattr> {
        (any_fid(), any_set_attr()).prop_map(|(fid, set)| Setattr { fid, set }).boxed()
    }
}

/// Programs read the inode, last at `at`. The MDT decides by the rule of `relatime` whether that
/// becomes the access time.
#[derive(Clone, PartialEq, Debug)]
pub struct Accessed {
    /// The inode.
    pub fid: Fid,
    /// Time of the last access.
    pub at: Timestamp,
    /// It becomes the access time even if relatime would leave that alone.
    pub strict: bool,
}

impl Operation for Accessed {
    fids!(fid);

    fn flags(&self) -> u16 {
        bits([self.strict])
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        w.put(&I64::new(self.at.sec));
        w.put(&U64::new(self.at.nsec.into()));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Accessed, DecodeError> {
        let [strict] = unpack(FLAGS, flags)?;
        let (fid, sec) = (fid(r)?, *r.get::<I64>()?);
        let nsec = u32::try_from(number64(r)?).unwrap_or(u32::MAX);
        Ok(Accessed { fid, at: raw::time(sec, U32::new(nsec))?, strict })
    }

    #[cfg(test)]
    fn sample() -> Accessed {
        Accessed { fid: FID, at: Timestamp { sec: 1_700_000_000, nsec: 7 }, strict: true }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Accessed> {
        (any_fid(), any_time(), any::<bool>())
            .prop_map(|(fid, at, strict)| Accessed { fid, at, strict })
            .boxed()
    }
}

/// One extended attribute; ENODATA if absent. `lustre.lov` and friends are answered from the
/// layout.
#[derive(Clone, PartialEq, Debug)]
pub struct Getxattr {
    /// The inode.
    pub fid: Fid,
    /// Name of the attribute.
    pub name: Bytes,
}

impl Operation for Getxattr {
    fids!(fid);

    fn put(&self, w: &mut Writer) {
        put_xattr(self.fid, &self.name, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Getxattr, DecodeError> {
        plain(flags)?;
        Ok(Getxattr { fid: fid(r)?, name: xattr_name(r)? })
    }

    #[cfg(test)]
    fn sample() -> Getxattr {
        Getxattr { fid: FID, name: Bytes::from_static(b"user.colour") }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Getxattr> {
        (any_fid(), any_bytes(255)).prop_map(|(fid, name)| Getxattr { fid, name }).boxed()
    }
}

/// All names, each with a NUL behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct Listxattr {
    /// The inode.
    pub fid: Fid,
}

impl Operation for Listxattr {
    fids!(fid);

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Listxattr, DecodeError> {
        plain(flags)?;
        Ok(Listxattr { fid: fid(r)? })
    }

    #[cfg(test)]
    fn sample() -> Listxattr {
        Listxattr { fid: FID }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Listxattr> {
        any_fid().prop_map(|fid| Listxattr { fid }).boxed()
    }
}

/// Set an extended attribute.
#[derive(Clone, PartialEq, Debug)]
pub struct Setxattr {
    /// The inode.
    pub fid: Fid,
    /// Name of the attribute.
    pub name: Bytes,
    /// Value.
    pub value: Bytes,
    /// How.
    pub flags: SetxattrFlags,
}

impl Operation for Setxattr {
    fids!(fid);

    fn flags(&self) -> u16 {
        let SetxattrFlags { create, replace, kill_sgid } = self.flags;
        bits([create, replace, kill_sgid])
    }

    fn put(&self, w: &mut Writer) {
        put_xattr(self.fid, &self.name, w);
        w.bytes(&self.value);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Setxattr, DecodeError> {
        let [create, replace, kill_sgid] = unpack(FLAGS, flags)?;
        let (fid, name) = (fid(r)?, xattr_name(r)?);
        let value = r.copied("bytes of xattr value", XATTR_VALUE_BYTES_MAX)?;
        Ok(Setxattr { fid, name, value, flags: SetxattrFlags { create, replace, kill_sgid } })
    }

    #[cfg(test)]
    fn sample() -> Setxattr {
        Setxattr {
            fid: FID,
            name: Bytes::from_static(b"user.colour"),
            value: Bytes::from_static(b"blue"),
            flags: SetxattrFlags { create: false, replace: true, kill_sgid: true },
        }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Setxattr> {
        (any_fid(), any_bytes(255), any_bytes(2000), any::<(bool, bool, bool)>())
            .prop_map(|(fid, name, value, (create, replace, kill_sgid))| Setxattr {
                fid,
                name,
                value,
                flags: SetxattrFlags { create, replace, kill_sgid },
            })
            .boxed()
    }
}

/// Remove one.
#[derive(Clone, PartialEq, Debug)]
pub struct Removexattr {
    /// The inode.
    pub fid: Fid,
    /// Name of the attribute.
    pub name: Bytes,
}

impl Operation for Removexattr {
    fids!(fid);

    fn put(&self, w: &mut Writer) {
        put_xattr(self.fid, &self.name, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Removexattr, DecodeError> {
        plain(flags)?;
        Ok(Removexattr { fid: fid(r)?, name: xattr_name(r)? })
    }

    #[cfg(test)]
    fn sample() -> Removexattr {
        Removexattr { fid: FID, name: Bytes::from_static(b"user.colour") }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Removexattr> {
        (any_fid(), any_bytes(255)).prop_map(|(fid, name)| Removexattr { fid, name }).boxed()
    }
}
