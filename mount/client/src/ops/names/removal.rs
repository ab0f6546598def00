//! What a mount does with a file of which it removed the last name.

use crate::client::Client;
use data::file::File;
use data::kernel_view::invalidations::Invalidations;
use std::sync::Arc;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::mds::Removed;

impl Client {
    /// This mount removed a name. If it was the last one of an inode whose OPEN is held here, the
    /// MDT keeps that inode for this mount. Lets it go when the last local user is gone, or at once
    /// if there is none.
    pub(crate) async fn let_go(&self, removed: Removed) {
        let fid = removed.fid;
        if fid == Fid::NONE || removed.nlink > 0 {
            return;
        }
        let (held, in_use) = {
            let (mut table, mut opens) = (self.locks.table.lock(), self.locks.opens.lock());
            // Not trusted here, or not known: the MDT counts it nevertheless.
            let untaken = table.untaken_open(fid);
            let held = untaken || table.bits(fid).contains(InodeBits::OPEN);
            // The kernel need not forget anything for OPEN.
            table.take(fid, InodeBits::OPEN, &mut Invalidations::default());
            (held, held && self.locks.keeps_open(&mut opens, fid))
        };
        if in_use {
            return;
        }
        let dirty = self.dirty_and_closed(fid);
        match held {
            // The MDT is asked next whether the inode lives: not because of this mount.
            true if dirty.is_some() => self.upkeep.give_open(fid).await,
            true => self.upkeep.unlock_open(fid),
            false => {}
        }
        if let Some(file) = dirty {
            self.data.discard_removed(&file).await;
        }
        if self.nodes.node(fid).is_none() {
            self.locks.bury(fid);
        }
    }

    /// The file, if something of it is not stored and this mount does not have it open.
    fn dirty_and_closed(&self, fid: Fid) -> Option<Arc<File>> {
        let file =
            self.data.writeback.dirty_file(fid).filter(|file| !file.dirty.lock().is_clean())?;
        (!self.files_open.any(|open| open.file.fid == fid)).then_some(file)
    }
}
