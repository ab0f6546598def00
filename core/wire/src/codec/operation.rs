//! What an operation states beside its struct: bytes, class, the inodes and names that it is about,
//! and a sample.

use super::cursor::{Bulk, Reader, Writer, unpack};
use super::error::DecodeError;
use super::raw::RawFid;
use crate::class::Class;
use bytes::Bytes;
#[cfg(test)]
use proptest::strategy::BoxedStrategy;
use types::fid::Fid;
use types::limits::XATTR_NAME_BYTES_MAX;
use types::name::Name;
use zerocopy::little_endian::U64;

/// Attributes of an inode and its place in a reply, about, bytes.
pub(crate) const ATTR_BYTES: usize = 150;
/// The same, of an entry of a directory, with a name of usual length.
pub(crate) const ENTRY_BYTES: usize = 40;

/// One operation. Its number and the class of its most demanding form are its row in
/// [`crate::opcode`].
pub(crate) trait Operation: Sized {
    /// Its class, made from that of its row: some forms ask for less.
    fn class(&self, row: Class) -> Class {
        row
    }

    /// The inode that it is mainly about: the directory of a name, else the inode itself.
    fn fid(&self) -> Fid {
        Fid::NONE
    }

    /// Calls `each` with every FID that may be a `Fid::result_of(n)`, until one fails.
    fn try_each_fid<E>(&mut self, each: impl FnMut(&mut Fid) -> Result<(), E>) -> Result<(), E> {
        let _ = each;
        Ok(())
    }

    /// The name that it makes, or makes lead elsewhere.
    fn name_made(&self) -> Option<(Fid, &Name)> {
        None
    }

    /// The name that it takes.
    fn name_taken(&self) -> Option<(Fid, &Name)> {
        None
    }

    /// Bytes of data to expect with the reply, about.
    fn reply_bytes(&self) -> usize {
        0
    }

    /// Flags in its header.
    fn flags(&self) -> u16 {
        0
    }

    /// Writes what follows the header.
    fn put(&self, w: &mut Writer);

    /// Reads what [`Operation::put`] wrote.
    ///
    /// # Errors
    /// Anything that it would not have written.
    fn get(flags: u16, r: &mut Reader<'_>, bulk: &mut Bulk) -> Result<Self, DecodeError>;

    /// One of it, for the golden bytes.
    #[cfg(test)]
    fn sample() -> Self;

    /// Any of it.
    #[cfg(test)]
    fn any() -> BoxedStrategy<Self>;
}

/// The fields that may be references to results: the first is what the operation is mainly about.
macro_rules! fids {
    ($first:ident $(, $more:ident)*) => {
        fn fid(&self) -> Fid {
            self.$first
        }

        fn try_each_fid<E>(&mut self, mut each: impl FnMut(&mut Fid) -> Result<(), E>) -> Result<(), E> {
            each(&mut self.$first)?;
            $(each(&mut self.$more)?;)*
            Ok(())
        }
    };
}
pub(crate) use fids;

pub(crate) const FLAGS: &str = "MDS operation flags";

/// An operation that has no flags.
pub(crate) fn plain(flags: u16) -> Result<(), DecodeError> {
    unpack::<0>(FLAGS, flags).map(|[]| ())
}

pub(crate) fn put_fid(fid: Fid, w: &mut Writer) {
    w.put(&RawFid::from(fid));
}

pub(crate) fn fid(r: &mut Reader<'_>) -> Result<Fid, DecodeError> {
    r.get::<RawFid>().map(Fid::from)
}

pub(crate) fn put_entry(parent: Fid, name: &Name, w: &mut Writer) {
    put_fid(parent, w);
    w.name(name);
}

pub(crate) fn put_xattr(fid: Fid, name: &Bytes, w: &mut Writer) {
    put_fid(fid, w);
    w.bytes(name);
}

pub(crate) fn xattr_name(r: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    r.copied("bytes of xattr name", XATTR_NAME_BYTES_MAX)
}

pub(crate) fn number64(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
    r.get::<U64>().map(|n| n.get())
}
