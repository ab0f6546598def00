//! Statfs and Sync.

use crate::mds::Mds;
use observe::mutant::{Mutant, is_mutant};
use types::attr::Statfs;
use types::errno::Errno;
use wire::mds::MdsReply;

/// Bytes that an inode, its name and their share of the tree take; for `df -i` only.
const BYTES_PER_INODE: u64 = 512;

impl Mds {
    /// Bytes and inodes of this MDT; a client adds the space of the OSTs.
    pub(super) fn statfs(&self) -> Result<MdsReply, Errno> {
        Ok(MdsReply::Statfs(self.totals()?))
    }

    /// Bytes and inodes of this MDT alone. What clients were promised is not available.
    ///
    /// # Errors
    /// The store does not tell.
    pub fn totals(&self) -> Result<Statfs, Errno> {
        let space = self.store.space()?;
        let free = space.capacity.saturating_sub(space.used);
        Ok(Statfs {
            bytes_total: space.capacity,
            bytes_free: free,
            bytes_available: space.available().saturating_sub(self.room.claimed()),
            files_total: space.used / BYTES_PER_INODE + space.available() / BYTES_PER_INODE,
            // So other MDTs know that they should make nothing here.
            files_free: if self.no_create() { 0 } else { space.available() / BYTES_PER_INODE },
        })
    }

    pub(super) async fn sync(&self) -> Result<MdsReply, Errno> {
        if !is_mutant(Mutant::SyncTooSoon) {
            self.store.commit().await?;
        }
        Ok(MdsReply::Done)
    }
}
