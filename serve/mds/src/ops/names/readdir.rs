//! Readdir: entries in name order, resumed by name, with attributes and layouts if wanted.

use crate::mds::{Mds, RequestContext};
use crate::ops::layouts::layout::layout_of;
use crate::ops::names::lookup::SHOWN;
use crate::records::Records;
use dlm::leases::OpenBy;
use layout::codec::encoded_len;
use namespace::access::READ;
use namespace::readdir::readdir;
use namespace::view::is_elsewhere;
use std::ops::ControlFlow;
use std::sync::Arc;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{INODES_PER_REPLY_MAX, READDIR_ENTRIES_MAX};
use types::lock::InodeBits;
use types::name::Name;
use wire::mds::{DirEntry, MdsReply, Readdir};

/// Bytes of an entry in a reply, apart from its name.
const ENTRY_BYTES: usize = 24;
/// Bytes that attributes add.
const ATTR_BYTES: usize = 128;
/// Inodes read in one turn, which is one transaction: so long do others wait, some 0.2 ms.
pub(in crate::ops) const INODES_PER_TURN: usize = 128;
/// Names read in one turn, for the same reason.
const NAMES_PER_TURN: usize = 1024;

/// What a client may be granted of a file that it is shown with its layout, because a program may
/// open it next: what an open for reading would be granted. But it is not open, and breaks no
/// lease; so there is none of that while there are leases.
fn to_read(records: &Records<'_>, fid: Fid) -> InodeBits {
    let client = records.lock_context.asked.client;
    let shown = SHOWN.union(InodeBits::LAYOUT);
    if !records.state.locks.leases.is_empty() {
        return shown;
    }
    let opens = &records.state.opens;
    let written = opens.is_written(fid) && opens.others(client, fid) == OpenBy::Writers;
    shown.union(InodeBits::DATA).union(if written { InodeBits::NONE } else { InodeBits::OPEN })
}

/// A listing under way. Other requests get their turns between its own, so that none waits until a
/// large directory is listed.
struct Listing {
    limit: usize,
    per_turn: usize,
    entries: Vec<DirEntry>,
    /// Of the reply, about.
    bytes: usize,
    /// The directory goes on.
    more: bool,
    /// The reply has no room for another entry.
    full: bool,
    damaged: bool,
}

impl Listing {
    fn of(op: &Readdir) -> Listing {
        let (most, per_turn) = match op.with_attr || op.with_layout {
            true => (INODES_PER_REPLY_MAX, INODES_PER_TURN),
            false => (READDIR_ENTRIES_MAX, NAMES_PER_TURN),
        };
        let limit = (op.limit as usize).clamp(1, most);
        let (entries, bytes) = (Vec::new(), 0);
        Listing { limit, per_turn, entries, bytes, more: true, full: false, damaged: false }
    }

    /// Names of one turn, from the transaction that shows what they lead to: a lock on an inode
    /// covers the name that led to it.
    fn names(&mut self, records: &Records<'_>, op: &Readdir) -> Result<(), Errno> {
        let Listing { limit, per_turn, entries, bytes, more, full, damaged } = self;
        *full = false;
        let end = (*limit).min(entries.len() + *per_turn);
        let per_entry = ENTRY_BYTES + if op.with_attr { ATTR_BYTES } else { 0 };
        let behind = entries.last().map(|entry| entry.name.clone());
        let behind = behind.as_ref().or(op.after.as_ref()).map(Name::as_bytes);
        *more = readdir(records, op.fid, behind, |name, dirent| {
            let bytes_with = *bytes + per_entry + name.len();
            // One entry always fits, so that a reader makes progress.
            *full = entries.len() == *limit
                || (!entries.is_empty() && bytes_with > op.bytes_max as usize);
            if *full || entries.len() == end {
                return ControlFlow::Break(());
            }
            *bytes = bytes_with;
            match Name::new(name) {
                Ok(name) => {
                    let (fid, file_type) = (dirent.fid, dirent.file_type);
                    entries.push(DirEntry { name, fid, file_type, entry: None, layout: None });
                }
                Err(_) => *damaged = true,
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// What the names from this one on lead to.
    fn inodes(&mut self, first: usize, records: &mut Records<'_>, op: &Readdir, squashed: bool) {
        let new = &mut self.entries[first..];
        if op.with_attr {
            // Of another MDT: that one has the attributes.
            for entry in new.iter_mut().filter(|entry| !is_elsewhere(op.fid, entry.fid)) {
                let reads = op.with_layout && entry.file_type == FileType::Regular && !squashed;
                let bits = if reads { to_read(records, entry.fid) } else { SHOWN };
                // Damaged: the name stands, and a lookup reports the error.
                entry.entry = records.show(entry.fid, bits).ok().flatten();
            }
        }
        if op.with_layout {
            for entry in new.iter_mut().filter(|entry| entry.file_type == FileType::Regular) {
                let layout = records.there(entry.fid).and_then(|inode| layout_of(&inode)).ok();
                let size = layout.as_ref().map_or(0, encoded_len);
                // A client that misses one asks for it.
                if self.bytes + size <= op.bytes_max as usize {
                    self.bytes += size;
                    entry.layout = layout.map(Arc::new);
                }
            }
        }
    }
}

impl Mds {
    pub(in crate::ops) async fn readdir(
        &self,
        request: &mut RequestContext<'_>,
        op: &Readdir,
    ) -> Result<MdsReply, Errno> {
        let squashed = request.is_squashed;
        self.ours(op.fid)?;
        self.permit(request, op.fid, READ)?;
        let mut listing = Listing::of(op);
        while listing.more && !listing.full {
            let (first, bytes) = (listing.entries.len(), listing.bytes);
            if first > 0 {
                tokio::task::yield_now().await;
                request.lock_context.outcome.refused.next_step();
            }
            self.in_turn(request, |request| {
                // It may be the second attempt.
                listing.entries.truncate(first);
                listing.bytes = bytes;
                self.show(request, |records| {
                    records.settled(op.fid)?;
                    if let Some(dir) = records.entry(op.fid)? {
                        records.touch_stripe(dir);
                    }
                    listing.names(records, op)?;
                    records.grant(op.fid, InodeBits::UPDATE);
                    listing.inodes(first, records, op, squashed);
                    Ok(())
                })
            })
            .await?;
        }
        if listing.damaged {
            tracing::error!(fid = %op.fid, "directory has names that cannot be");
        }
        Ok(MdsReply::Entries { entries: listing.entries, more: listing.more })
    }
}
