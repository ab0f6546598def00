//! What MDTs ask of each other: FIDs, and their parts of operations over several MDTs
//! (docs/dne.md).

use super::Mdc;
use crate::misfit::unexpected;
use bytes::Bytes;
use rpc::error::RpcError;
use types::bundle::BundleId;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::session::Transno;
use wire::mds::{
    MdsOp, MdsReply, PeerApply, PeerAsk, PeerBundle, PeerCancel, PeerExchange, PeerFacts,
    PeerForget, PeerMark, PeerPrepare,
};

/// A page of what a restarted MDT may have lost.
#[derive(Clone, PartialEq, Debug)]
pub struct MayBeLost {
    /// Boot number of the MDT that answers.
    pub boot: u64,
    /// Bundles that it has applied or decided, by name.
    pub bundles: Vec<PeerBundle>,
    /// The bundles that are stopped there.
    pub stopped: Vec<BundleId>,
    /// There are others behind.
    pub more: bool,
}

/// What one batch of marks of a realm has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marked {
    /// Inodes that were not marked before, and one that is not where it was found.
    pub marked: u32,
    /// The directory above the children.
    pub parent: Fid,
    /// Inodes that are to be marked, too.
    pub children: Vec<Fid>,
    /// The name after which the directory goes on.
    pub more: Option<Name>,
}

impl Mdc {
    /// Of another MDT: a sequence whose FIDs the asker may hand out.
    pub async fn peer_fids(&self) -> Result<u64, RpcError> {
        match self.call(&Credentials::root(), MdsOp::PeerFids).await? {
            MdsReply::PeerFids(seq) => Ok(seq),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Of another MDT: it pins what a bundle is about to change. Returns its boot number, and what
    /// it is.
    pub async fn peer_prepare(&self, prepare: PeerPrepare) -> Result<(u64, PeerFacts), RpcError> {
        match self.call(&Credentials::root(), MdsOp::PeerPrepare(prepare)).await? {
            MdsReply::PeerPrepared { boot, facts } => Ok((boot, facts)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Of another participant of a bundle that is stopped here. Returns its boot number, and the
    /// record of the bundle if it is applied there; else it is stopped there, too.
    pub async fn peer_ask(&self, id: BundleId) -> Result<(u64, Option<Bytes>), RpcError> {
        match self.call(&Credentials::root(), MdsOp::PeerAsk(PeerAsk { id })).await? {
            MdsReply::PeerTold { boot, applied } => Ok((boot, applied)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Of another MDT: it does its part of a bundle. Returns its boot number, and the change (0: it
    /// is durable), or why it refuses.
    pub async fn peer_apply(
        &self,
        apply: PeerApply,
    ) -> Result<(u64, Result<Transno, Errno>), RpcError> {
        match self.call(&Credentials::root(), MdsOp::PeerApply(apply)).await? {
            MdsReply::PeerApplied { boot, transno } => Ok((boot, Ok(transno))),
            MdsReply::PeerRefused { boot, errno } => Ok((boot, Err(errno))),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Of another MDT: an inode is of a realm. Returns how many were not before.
    pub async fn peer_mark(&self, mark: PeerMark) -> Result<Marked, RpcError> {
        match self.call(&Credentials::root(), MdsOp::PeerMark(mark)).await? {
            MdsReply::PeerMarked { marked, parent, children, more } => {
                Ok(Marked { marked, parent, children, more })
            }
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Of another MDT: it gives up what it has prepared.
    pub async fn peer_cancel(&self, cancel: PeerCancel) -> Result<(), RpcError> {
        match self.call(&Credentials::root(), MdsOp::PeerCancel(cancel)).await? {
            MdsReply::PeerDone { .. } => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Of another MDT: it forgets finished bundles. Returns its boot number, and what is durable
    /// there.
    pub async fn peer_forget(&self, forget: PeerForget) -> Result<(u64, Transno), RpcError> {
        match self.call(&Credentials::root(), MdsOp::PeerForget(forget)).await? {
            MdsReply::PeerDone { boot, committed } => Ok((boot, committed)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Of another MDT, after a restart: what this one may have lost.
    pub async fn peer_exchange(&self, exchange: PeerExchange) -> Result<MayBeLost, RpcError> {
        match self.call(&Credentials::root(), MdsOp::PeerExchange(exchange)).await? {
            MdsReply::PeerBundles { boot, bundles, stopped, more } => {
                Ok(MayBeLost { boot, bundles, stopped, more })
            }
            other => Err(unexpected(&self.import, &other)),
        }
    }
}
