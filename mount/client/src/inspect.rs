//! What readers of parameters may see of a mount, and set.

use crate::client::Client;
use bytes::Bytes;
use data::kernel_view::kernel_cache::KernelCache;
use data::lock_namespace::LockNamespace;
use data::node::NodeTable;
use data::read_ahead::ledger::Ledger;
use data::writeback::Writeback;
use layout::layout::Pattern;
use layout::lov_ea::{self, LovEa};
use session::error::ClientError;
use session::session::Session;
use std::sync::Arc;
use types::credentials::Credentials;
use types::errno::Errno;
use types::target::TargetIndex;

/// Layout of a new file whose directory has no default layout: its first part in objects.
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
    /// The layout of a new file whose directory has no default layout. 1 round trip.
    ///
    /// # Errors
    /// Those of the MDT; EPROTO: its answer is no layout.
    pub async fn default_layout(&self) -> Result<DefaultLayout, ClientError> {
        let name = Bytes::from_static(b"lustre.lov.default");
        let root = self.nodes.root();
        let value = self.session.mdc(root)?.getxattr(&Credentials::root(), root, name).await?;
        let LovEa { layout } = lov_ea::decode(&value).map_err(|_| Errno::EPROTO)?;
        let striped = layout.components.iter().find(|part| part.pattern == Pattern::Raid0);
        let component = striped.or(layout.components.first()).ok_or(Errno::EPROTO)?;
        Ok(DefaultLayout {
            stripe_count: (component.stripe_count != u16::MAX).then_some(component.stripe_count),
            stripe_size: component.stripe_size,
            first: component.wanted.first().copied(),
        })
    }

    /// The sessions of the mount, and its identity at its servers.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// What is dirty, its bounds, and the space that OSTs granted.
    pub fn writeback(&self) -> &Writeback {
        &self.data.writeback
    }

    /// What is fetched ahead of readers: its bounds and figures.
    pub fn read_ahead(&self) -> &Ledger {
        &self.data.ledger
    }

    /// The numbers by which the kernel names inodes.
    pub fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// The locks, as an administrator looks at them and bounds them.
    pub fn lock_namespace(&self) -> LockNamespace {
        LockNamespace::new(self.locks.clone(), self.data.files.clone(), self.upkeep.clone())
    }

    /// The kernel's caches.
    ///
    /// # Errors
    /// EOPNOTSUPP: there is no kernel.
    pub fn kernel(&self) -> Result<&Arc<dyn KernelCache>, Errno> {
        self.locks.kernel.get().ok_or(Errno::EOPNOTSUPP)
    }
}
