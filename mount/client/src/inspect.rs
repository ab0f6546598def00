//! Facts about a mount for readers of parameters.

use crate::client::Client;
use bytes::Bytes;
pub use data::cache::grant::Shrink;
pub use data::locks::table::{Bounds, LOCKS_MAX};
use data::node::NodeId;
use layout::layout::Layout;
use layout::lov_ea::{self, LovEa};
use rpc::import::Import;
use session::error::ClientError;
use std::sync::Arc;
use stubs::mdc::Mdc;
use stubs::osc::Osc;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;
use types::target::TargetIndex;
use types::time::Timestamp;
use wire::mgs::PoolInfo;

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

/// Layout of a new file whose directory has no default layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefaultLayout {
    /// Stripes; `None`: one on each OST.
    pub stripe_count: Option<u16>,
    /// Bytes of one.
    pub stripe_size: u32,
    /// OST of the first stripe; `None`: any with room.
    pub first: Option<TargetIndex>,
}

impl Client {
    /// The inode behind a number that the kernel uses; `None`: it has forgotten it.
    pub fn fid_of_node(&self, node: u64) -> Option<Fid> {
        self.nodes.fid(NodeId(node))
    }

    /// Inodes of which this mount holds locks.
    pub fn lock_count(&self) -> usize {
        self.locks.table.lock().count()
    }

    /// Those of [`Client::held`] whose file is not open and whose data is not in use.
    pub fn unused_locks(&self, whose: Whose) -> usize {
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
                    let layout = layout.or_else(|| self.data.files.get_used(fid)?.layout());
                    layout.is_some_and(|layout| layout.objects(fid).any(|(of, _)| of == ost))
                };
                with_data.into_iter().filter_map(|(fid, layout)| has(fid, layout).then_some(fid)).collect()
            }
        }
    }

    /// Gives these locks back, and drops what they cover from the caches here and in the kernel;
    /// dirty data is stored first. For an OST: the locks on data. Locks that keep open files stay.
    pub async fn clear_locks(&self, whose: Whose) {
        let bits = match whose {
            // Every file that the kernel knows may be open, and only this lock keeps it.
            Whose::Mount | Whose::Mdt(_) if self.locks.no_open() => InodeBits::ALL.without(InodeBits::OPEN),
            Whose::Mount | Whose::Mdt(_) => InodeBits::ALL,
            Whose::Ost(_) => InodeBits::DATA.union(InodeBits::WRITE),
        };
        self.upkeep.give_all_locks(self.held(whose), bits).await;
    }

    /// Bounds on the locks of the mount.
    pub fn lock_bounds(&self) -> Bounds {
        self.locks.table.lock().bounds()
    }

    /// As [`Client::lock_bounds`]: surplus locks are given back at once.
    ///
    /// # Errors
    /// ERANGE: no locks at all, or more than an MDT lets one client have.
    pub fn set_lock_bounds(&self, bounds: Bounds) -> Result<(), Errno> {
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

    /// As [`Client::keeps_xattrs`]. Attributes that may not stay cached are dropped before this
    /// returns.
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

    /// As [`Client::keeps_opens`]. Open files stay open.
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

    /// True if the kernel reports opens and closes (`flock`).
    pub fn tells_opens(&self) -> bool {
        !self.locks.no_open()
    }

    /// Bytes that may be dirty; beyond it a write waits.
    pub fn dirty_bytes_max(&self) -> u64 {
        self.data.writeback.dirty_max()
    }

    /// As [`Client::dirty_bytes_max`], from the next write on.
    pub fn set_dirty_bytes_max(&self, bytes: u64) {
        self.data.writeback.set_dirty_max(bytes);
    }

    /// When the space that this OST granted is given back.
    pub fn grant_shrink(&self, ost: TargetIndex) -> Shrink {
        self.data.writeback.grants.shrink(ost)
    }

    /// As [`Client::grant_shrink`].
    pub fn set_grant_shrink(&self, ost: TargetIndex, shrink: Shrink) {
        self.data.writeback.grants.set_shrink(ost, shrink);
    }

    /// Most that the kernel reads ahead of one open file, KiB.
    ///
    /// # Errors
    /// EOPNOTSUPP: there is no kernel, or it is too old to be asked.
    pub fn read_ahead_kb(&self) -> Result<u64, Errno> {
        self.locks.kernel.get().ok_or(Errno::EOPNOTSUPP)?.read_ahead_kb()
    }

    /// As [`Client::read_ahead_kb`], for files that are opened from then on.
    ///
    /// # Errors
    /// As [`Client::read_ahead_kb`]; the kernel refuses.
    pub fn set_read_ahead_kb(&self, kb: u64) -> Result<(), Errno> {
        self.locks.kernel.get().ok_or(Errno::EOPNOTSUPP)?.set_read_ahead_kb(kb)
    }

    /// The layout of a new file whose directory has no default layout. 1 round trip.
    ///
    /// # Errors
    /// Those of the MDT; EPROTO: its answer is no layout.
    pub async fn default_layout(&self) -> Result<DefaultLayout, ClientError> {
        let name = Bytes::from_static(b"lustre.lov.default");
        let value = self.session.mdc(Fid::ROOT)?.getxattr(&Credentials::root(), Fid::ROOT, name).await?;
        let LovEa { layout } = lov_ea::decode(&value).map_err(|_| Errno::EPROTO)?;
        let component = layout.components.first().ok_or(Errno::EPROTO)?;
        Ok(DefaultLayout {
            stripe_count: (component.stripe_count != u16::MAX).then_some(component.stripe_count),
            stripe_size: component.stripe_size,
            first: component.wanted.first().copied(),
        })
    }

    /// Written by programs and not yet stored by OSTs, bytes in whole blocks.
    pub fn dirty_bytes(&self) -> u64 {
        self.data.writeback.bytes()
    }

    /// Space that this OST granted to the mount and that no write has taken yet, bytes.
    pub fn granted_bytes(&self, ost: TargetIndex) -> u64 {
        self.data.writeback.grants.free(ost)
    }

    /// Sets the counts of programs' operations to zero.
    pub fn clear_counts(&self, now: Timestamp) {
        self.counters.clear(now);
    }

    /// Time since which that is counted; `None`: since the mount.
    pub fn counted_since(&self) -> Option<Timestamp> {
        self.counters.cleared()
    }

    /// The client, as servers know it.
    pub fn uuid(&self) -> ClientUuid {
        self.session.uuid()
    }

    /// Sessions with MDTs, by index.
    pub fn mdts(&self) -> Vec<Mdc> {
        let mut mdcs = self.session.targets.mdcs();
        mdcs.sort_by_key(|mdc| mdc.import().target().index);
        mdcs
    }

    /// Sessions with OSTs, by index.
    pub fn osts(&self) -> Vec<Osc> {
        let mut oscs = self.session.targets.oscs();
        oscs.sort_by_key(|osc| osc.import().target().index);
        oscs
    }

    /// Pools of OSTs, by name.
    pub fn pools(&self) -> Vec<PoolInfo> {
        self.session.targets.pools()
    }

    /// Session with the MGS.
    pub fn mgs(&self) -> &Arc<Import> {
        self.session.mgc().import()
    }
}
