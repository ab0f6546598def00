//! The locks of a mount, as an administrator looks at them, bounds them and gives them back
//! (`ldlm.namespaces`).

use crate::file::FileTable;
use crate::locks::Locks;
use crate::locks::table::{Bounds, LOCKS_MAX};
use crate::locks::upkeep::Upkeep;
use layout::layout::Layout;
use std::sync::Arc;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::target::TargetIndex;

/// A selection of a mount's locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// All.
    Mount,
    /// Those that this MDT granted.
    Mdt(TargetIndex),
    /// Locks on data of files that have objects on this OST.
    Ost(TargetIndex),
}

/// The locks of one mount.
pub struct LockNamespace {
    locks: Arc<Locks>,
    files: Arc<FileTable>,
    upkeep: Arc<Upkeep>,
}

impl LockNamespace {
    /// Of these locks, and the files on whose data they are.
    pub fn new(locks: Arc<Locks>, files: Arc<FileTable>, upkeep: Arc<Upkeep>) -> LockNamespace {
        LockNamespace { locks, files, upkeep }
    }

    /// Inodes of which this mount holds locks.
    pub fn count(&self) -> usize {
        self.locks.table.lock().count()
    }

    /// Those of [`LockNamespace::held`] whose file is not open and whose data is not in use.
    pub fn unused(&self, whose: Whose) -> usize {
        let held = self.held(whose);
        let opens = self.locks.opens.lock();
        held.into_iter().filter(|fid| !opens.is_open(*fid) && !self.locks.is_used(*fid)).count()
    }

    /// Inodes with locks.
    pub fn held(&self, whose: Whose) -> Vec<Fid> {
        match whose {
            Whose::Mount => self.locks.table.lock().held(None),
            Whose::Mdt(mdt) => self.locks.table.lock().held(Some(mdt.0)),
            Whose::Ost(ost) => {
                let with_data = self.locks.table.lock().with_data();
                let has = |fid: Fid, layout: Option<Arc<Layout>>| {
                    let layout = layout.or_else(|| self.files.get_used(fid)?.layout());
                    layout.is_some_and(|layout| layout.objects(fid).any(|(of, _)| of == ost))
                };
                with_data
                    .into_iter()
                    .filter_map(|(fid, layout)| has(fid, layout).then_some(fid))
                    .collect()
            }
        }
    }

    /// Gives these locks back, and drops what they cover from the caches here and in the kernel;
    /// dirty data is stored first. For an OST: the locks on data. Locks that keep open files stay.
    pub async fn clear(&self, whose: Whose) {
        let bits = match whose {
            // Every file that the kernel knows may be open, and only this lock keeps it.
            Whose::Mount | Whose::Mdt(_) if self.locks.no_open() => {
                InodeBits::ALL.difference(InodeBits::OPEN)
            }
            Whose::Mount | Whose::Mdt(_) => InodeBits::ALL,
            Whose::Ost(_) => InodeBits::DATA.union(InodeBits::WRITE),
        };
        self.upkeep.give_all_locks(self.held(whose), bits).await;
    }

    /// Bounds on the locks of the mount.
    pub fn bounds(&self) -> Bounds {
        self.locks.table.lock().bounds()
    }

    /// As [`LockNamespace::bounds`]: surplus locks are given back at once.
    ///
    /// # Errors
    /// ERANGE: no locks at all, or more than an MDT lets one client have.
    pub fn set_bounds(&self, bounds: Bounds) -> Result<(), Errno> {
        if !(1..=LOCKS_MAX).contains(&bounds.locks) {
            return Err(Errno::ERANGE);
        }
        self.locks.table.lock().set_bounds(bounds);
        self.locks.wake_upkeep.notify_one();
        Ok(())
    }

    /// True if extended attributes are cached.
    pub fn keeps_xattrs(&self) -> bool {
        self.locks.keeps(InodeBits::XATTR)
    }

    /// As [`LockNamespace::keeps_xattrs`]. Attributes that may not stay cached are dropped before
    /// this returns.
    pub async fn keep_xattrs(&self, on: bool) {
        self.locks.set_keeps(InodeBits::XATTR, on);
        if !on {
            self.upkeep.give_all_locks(self.held(Whose::Mount), InodeBits::XATTR).await;
        }
    }

    /// True if files are opened again without a request.
    pub fn keeps_opens(&self) -> bool {
        self.locks.keeps(InodeBits::OPEN)
    }

    /// As [`LockNamespace::keeps_opens`]. Open files stay open.
    ///
    /// # Errors
    /// EOPNOTSUPP: the kernel opens files without requests, so they must stay so.
    pub async fn keep_opens(&self, on: bool) -> Result<(), Errno> {
        if !on && self.locks.no_open() {
            return Err(Errno::EOPNOTSUPP);
        }
        self.locks.set_keeps(InodeBits::OPEN, on);
        if !on {
            self.upkeep.give_all_locks(self.held(Whose::Mount), InodeBits::OPEN).await;
        }
        Ok(())
    }
}
