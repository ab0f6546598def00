//! Bytes of files that live on this MDT, as records (docs/dom.md). They are named as the objects of
//! the file are, so an exchange of layouts moves none of them.

use crate::records::Records;
use crate::records::tail::{self, damaged};
use disk::damaged::Damaged;
use disk::inode::ItemTag;
use disk::redo::Source;
use disk::{chunk, key};
use layout::layout::Layout;
use namespace::dom::{Chunks, EachChunk, Plan, sources};
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
    named: Fid,
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

impl Records<'_> {
    /// Carries out a planned change of a file's bytes.
    pub(crate) fn put_chunks(&mut self, part: Part, plan: &Plan) {
        for (n, bytes) in &plan.chunks {
            let key = key::chunk(part.named, *n);
            if bytes.is_empty() {
                self.tx.delete(&key);
            } else {
                let record = &mut self.state.scratch;
                chunk::encode(bytes, record);
                self.tx.put(&key, record);
            }
        }
    }

    /// Carries out the planned change of a write. Its redo names the data, which the request
    /// brought: see [`Durability::data`](crate::locks::context::Durability).
    pub(crate) fn put_written(&mut self, part: Part, plan: &Plan, pieces: &[(u64, &[u8])]) {
        for (n, bytes) in &plan.chunks {
            let key = key::chunk(part.named, *n);
            let record = &mut self.state.scratch;
            chunk::encode(bytes, record);
            self.tx.put_as(&key, record, |log| {
                let source = |(at, from, len)| Source { at, from, len };
                let sources: Vec<_> = sources(pieces, *n).into_iter().map(source).collect();
                log.note_bytes(&key, &sources);
            });
        }
    }

    /// Puts bytes that another MDT had, named after this file.
    pub(crate) fn take_chunks(&mut self, named: Fid, chunks: &[(u32, Vec<u8>)]) {
        for (n, bytes) in chunks {
            let record = &mut self.state.scratch;
            chunk::encode(bytes, record);
            self.tx.put(&key::chunk(named, *n), record);
        }
    }

    /// Removes all bytes of a file, readable or not.
    pub(crate) fn delete_chunks(&mut self, part: Part) {
        if part.end == 0 {
            return;
        }
        self.delete_all(part.named, &key::chunk(part.named, 0), &key::chunks_end(part.named));
    }
}
