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
use types::limits::READDIR_ENTRIES_MAX;
use types::lock::InodeBits;
use types::name::Name;
use wire::mds::{DirEntry, MdsReply, Readdir};

/// Bytes of an entry in a reply, apart from its name.
const ENTRY_BYTES: usize = 24;
/// Bytes that attributes add.
const ATTR_BYTES: usize = 128;
/// Inodes read in one transaction: other operations get a turn in between.
pub(in crate::ops) const INODES_PER_TURN: usize = 256;

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

impl Mds {
    pub(in crate::ops) fn readdir(
        &self,
        request: &mut RequestContext<'_>,
        op: &Readdir,
    ) -> Result<MdsReply, Errno> {
        let &Readdir { fid, ref after, limit, bytes_max, with_attr, with_layout } = op;
        let squashed = request.is_squashed;
        self.ours(fid)?;
        self.permit(request, fid, READ)?;
        let limit = (limit as usize).clamp(1, READDIR_ENTRIES_MAX);
        let per_entry = ENTRY_BYTES + if with_attr { ATTR_BYTES } else { 0 };
        let mut entries: Vec<DirEntry> = Vec::new();
        let mut bytes = 0;
        let mut damaged = false;
        let mut more = true;
        while more {
            let first = entries.len();
            // With attributes in turns, names and attributes of each in one transaction: a lock on
            // an inode covers the name that led to it.
            let end =
                if with_attr || with_layout { limit.min(first + INODES_PER_TURN) } else { limit };
            let behind = entries.last().map(|entry| entry.name.clone());
            let behind = behind.as_ref().or(after.as_ref()).map(Name::as_bytes);
            let mut full = false;
            more = self.show(request, |records| {
                records.settled(fid)?;
                if let Some(dir) = records.entry(fid)? {
                    records.touch_stripe(dir);
                }
                let more = readdir(records, fid, behind, |name, dirent| {
                    let bytes_with = bytes + per_entry + name.len();
                    // One entry always fits, so that a reader makes progress.
                    full = entries.len() == limit
                        || (!entries.is_empty() && bytes_with > bytes_max as usize);
                    if full || entries.len() == end {
                        return ControlFlow::Break(());
                    }
                    bytes = bytes_with;
                    match Name::new(name) {
                        Ok(name) => {
                            let (fid, file_type) = (dirent.fid, dirent.file_type);
                            entries.push(DirEntry {
                                name,
                                fid,
                                file_type,
                                entry: None,
                                layout: None,
                            });
                        }
                        Err(_) => damaged = true,
                    }
                    ControlFlow::Continue(())
                })?;
                records.grant(fid, InodeBits::UPDATE);
                if with_attr {
                    // Of another MDT: that one has the attributes.
                    for entry in
                        entries[first..].iter_mut().filter(|entry| !is_elsewhere(fid, entry.fid))
                    {
                        let reads =
                            with_layout && entry.file_type == FileType::Regular && !squashed;
                        let bits = if reads { to_read(records, entry.fid) } else { SHOWN };
                        // Damaged: the name stands, and a lookup reports the error.
                        entry.entry = records.show(entry.fid, bits).ok().flatten();
                    }
                }
                if with_layout {
                    let files = entries[first..]
                        .iter_mut()
                        .filter(|entry| entry.file_type == FileType::Regular);
                    for entry in files {
                        let layout =
                            records.there(entry.fid).and_then(|inode| layout_of(&inode)).ok();
                        let size = layout.as_ref().map_or(0, encoded_len);
                        // A client that misses one asks for it.
                        if bytes + size <= bytes_max as usize {
                            bytes += size;
                            entry.layout = layout.map(Arc::new);
                        }
                    }
                }
                Ok(more)
            })?;
            if full {
                break;
            }
        }
        if damaged {
            tracing::error!(%fid, "directory has names that cannot be");
        }
        Ok(MdsReply::Entries { entries, more })
    }
}
