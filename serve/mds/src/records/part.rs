//! The part of a file that lives on this MDT (docs/dom.md).

use crate::records::tail::{self, damaged};
use disk::damaged::Damaged;
use disk::inode::ItemTag;
use disk::{chunk, key};
use layout::layout::Layout;
use namespace::dom::{Chunks, EachChunk};
use namespace::inode::Inode;
use std::ops::{ControlFlow, Range};
use store::tx::Tx;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;

/// By the present layout, some of the bytes are not on the MDT.
pub(crate) const ELSEWHERE: Errno = Errno(libc::EREMCHG);

/// The part of a file that lives here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The file after which its bytes are named.
    pub(super) named: Fid,
    /// End, exclusive; 0 = there is none.
    pub(crate) end: u64,
}

/// The chunks of one file inside a transaction.
pub(crate) struct Here<'a, 'tx> {
    tx: &'a Tx<'tx>,
    named: Fid,
}

impl Part {
    /// Of a file with this layout.
    pub(crate) fn of(layout: &Layout, fid: Fid) -> Part {
        Part { named: layout.names(fid), end: layout.mdt_bytes() }
    }

    /// For an inode; one that is no file has no part here.
    ///
    /// # Errors
    /// EIO: the record is damaged.
    pub(crate) fn of_inode(inode: &Inode) -> Result<Part, Errno> {
        let fid = inode.fid();
        let layout = match inode.file_type() {
            FileType::Regular => tail::layout(fid, &inode.tail, ItemTag::Layout)?,
            _ => None,
        };
        Ok(layout.map_or(Part { named: fid, end: 0 }, |layout| Part::of(&layout, fid)))
    }

    /// Chunks of the inode.
    pub(crate) fn chunks<'a, 'tx>(&self, tx: &'a Tx<'tx>) -> Here<'a, 'tx> {
        Here { tx, named: self.named }
    }

    /// True if all bytes up to `end` (exclusive) are here.
    ///
    /// # Errors
    /// [`ELSEWHERE`].
    pub(crate) fn has(&self, end: u64) -> Result<(), Errno> {
        if end <= self.end { Ok(()) } else { Err(ELSEWHERE) }
    }
}

impl Chunks for Here<'_, '_> {
    fn chunks(&self, numbers: Range<u32>, each: &mut EachChunk<'_>) -> Result<(), Errno> {
        let mut damage = None;
        let keys = [numbers.start, numbers.end].map(|n| key::chunk(self.named, n));
        self.tx.scan(&keys[0], &keys[1], |key, record| {
            match (key::chunk_of(key), chunk::decode(record)) {
                (Some(n), Ok(bytes)) => each(n, bytes),
                (_, Err(error)) => {
                    damage = Some(damaged(self.named, &error));
                    ControlFlow::Break(())
                }
                (None, _) => {
                    damage = Some(damaged(self.named, &Damaged::key("chunk", key)));
                    ControlFlow::Break(())
                }
            }
        })?;
        damage.map_or(Ok(()), Err)
    }
}
