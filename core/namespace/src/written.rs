//! Data in objects came or went: size, blocks and times follow.
//!
//! No permission is checked: the holder of a file that was opened for writing may write.

use crate::context::Context;
use crate::inode::{Inode, InodeFlags};
use crate::setattr::without_setid;
use crate::view::{Change, Shown, View};
use types::attr::{FileType, WrittenAt};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::FILE_BYTES_MAX;
use types::lock::InodeBits;

/// Attributes follow; data that other clients read before is old.
const WRITTEN: InodeBits = InodeBits::UPDATE.union(InodeBits::DATA);

/// What a client wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Byte behind the last; 0: the size stays.
    pub end: u64,
    /// By how many blocks of 512 bytes the objects grew.
    pub blocks_delta: i64,
    /// The clock that sets the time.
    pub at: WrittenAt,
    /// The writer may not keep set-id bits.
    pub kill_suidgid: bool,
}

/// Data was written to the objects of a file.
///
/// Objects that grow just now without a new end were given space, which may lie beyond the end. A
/// later report of data that was written before (`at` other than now) is no such space.
///
/// # Errors
/// ENOENT; EINVAL: no regular file; EFBIG.
pub fn wrote(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    written: Written,
) -> Result<Inode, Errno> {
    let reserve = written.end == 0 && written.blocks_delta > 0 && written.at == WrittenAt::Now;
    changed(view, ctx, fid, written, reserve)
}

/// As [`wrote`], for bytes that live on the MDT. They are known at any time, so they never need
/// settling.
///
/// # Errors
/// As [`wrote`].
pub fn stored(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    written: Written,
) -> Result<Inode, Errno> {
    changed(view, ctx, fid, written, false)
}

/// `reserve`: space was allocated beyond the end.
fn changed(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    written: Written,
    reserve: bool,
) -> Result<Inode, Errno> {
    let Written { end, blocks_delta, at, kill_suidgid } = written;
    let mut inode = regular(view, fid)?;
    if end > FILE_BYTES_MAX {
        return Err(Errno::EFBIG);
    }
    view.before(&[Change { shown: Shown::Data, ..Change::of(fid, WRITTEN) }])?;

    inode.attr.size = inode.attr.size.max(end);
    inode.attr.blocks = inode.attr.blocks.saturating_add_signed(blocks_delta);
    if reserve {
        inode.flags.insert(InodeFlags::HAS_RESERVE);
    }
    finish(view, ctx, &mut inode, at, kill_suidgid);
    Ok(inode)
}

/// State of the objects of a file that no client writes any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// The writer vanished: the objects end at `size`, if anything was written so far.
    Grown {
        /// Byte behind the last.
        size: u64,
        /// Blocks of 512 bytes.
        blocks: u64,
    },
    /// The objects were cut to the file's size.
    Cut {
        /// Blocks of 512 bytes.
        blocks: u64,
    },
}

impl Settled {
    /// Adds blocks of the file that lie on the MDT, beside those of its objects.
    pub fn with_blocks(self, more: u64) -> Settled {
        match self {
            Settled::Grown { size, blocks } => Settled::Grown { size, blocks: blocks + more },
            Settled::Cut { blocks } => Settled::Cut { blocks: blocks + more },
        }
    }
}

/// Brings size and blocks in line with the objects. A size only grows, and only where the length of
/// the objects shows written data.
///
/// # Errors
/// ENOENT; EINVAL: no regular file.
pub fn settle(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    settled: Settled,
) -> Result<Inode, Errno> {
    let before = regular(view, fid)?;
    let mut inode = before.clone();
    match settled {
        Settled::Grown { size, blocks } => {
            inode.attr.blocks = blocks;
            if !inode.flags.contains(InodeFlags::HAS_RESERVE) {
                inode.attr.size = inode.attr.size.max(size.min(FILE_BYTES_MAX));
            }
        }
        Settled::Cut { blocks } => {
            inode.attr.blocks = blocks;
            inode.flags.remove(InodeFlags::HAS_RESERVE);
        }
    }
    if inode != before {
        view.before(&[Change::of(fid, InodeBits::UPDATE)])?;
        inode.attr.version = ctx.version;
        view.put_inode(&inode);
    }
    Ok(inode)
}

fn regular(view: &impl View, fid: Fid) -> Result<Inode, Errno> {
    let inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    if inode.file_type() == FileType::Regular { Ok(inode) } else { Err(Errno::EINVAL) }
}

fn finish(
    view: &mut impl View,
    ctx: &Context<'_>,
    inode: &mut Inode,
    at: WrittenAt,
    kill_suidgid: bool,
) {
    if kill_suidgid {
        inode.attr.mode = without_setid(inode.attr.mode);
    }
    match at {
        WrittenAt::Now => inode.modified(ctx),
        WrittenAt::Told => inode.attr.version = ctx.version,
        WrittenAt::At(time) => {
            inode.attr.mtime = inode.attr.mtime.max(time);
            inode.attr.ctime = inode.attr.ctime.max(time);
            inode.attr.version = ctx.version;
        }
    }
    view.put_inode(inode);
}
