//! Readdir: entries in name order, resumed by name, with attributes if wanted.

use crate::mds::Mds;
use namespace::readdir::readdir;
use std::ops::ControlFlow;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::READDIR_ENTRIES_MAX;
use types::name::Name;
use wire::mds::{DirEntry, MdsReply};

/// Bytes of an entry in a reply, apart from its name.
const ENTRY_BYTES: usize = 24;
/// Bytes that attributes add.
const ATTR_BYTES: usize = 128;
/// Inodes read in one transaction: others get a turn between.
pub(super) const INODES_PER_TURN: usize = 256;

impl Mds {
    pub(super) fn readdir(
        &self,
        fid: Fid,
        after: Option<&Name>,
        limit: u32,
        bytes_max: u32,
        with_attr: bool,
    ) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        let limit = (limit as usize).clamp(1, READDIR_ENTRIES_MAX);
        let per_entry = ENTRY_BYTES + if with_attr { ATTR_BYTES } else { 0 };
        let mut entries: Vec<DirEntry> = Vec::new();
        let mut bytes = 0;
        let mut damaged = false;
        let more = self.read(|records| {
            readdir(records, fid, after.map(Name::as_bytes), |name, dirent| {
                bytes += per_entry + name.len();
                // One entry always fits, so that a reader gets on.
                if entries.len() == limit || (!entries.is_empty() && bytes > bytes_max as usize) {
                    return ControlFlow::Break(());
                }
                match Name::new(name) {
                    Ok(name) => {
                        entries.push(DirEntry { name, fid: dirent.fid, file_type: dirent.file_type, entry: None })
                    }
                    Err(_) => damaged = true,
                }
                ControlFlow::Continue(())
            })
        })?;
        if damaged {
            tracing::error!(%fid, "directory has names that cannot be");
        }
        if with_attr {
            for turn in entries.chunks_mut(INODES_PER_TURN) {
                self.read(|records| {
                    for entry in turn {
                        // Gone since, or damaged: the name stands, a lookup will tell.
                        entry.entry = records.entry(entry.fid).ok().flatten();
                    }
                    Ok(())
                })?;
            }
        }
        Ok(MdsReply::Entries { entries, more })
    }
}
