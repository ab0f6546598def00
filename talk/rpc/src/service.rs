//! A target's side of its sessions.

use crate::error::RpcError;
use env::BoxFuture;
use std::sync::Arc;
use types::errno::Errno;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId};
use types::target::TargetName;
use wire::client::{ClientOp, ClientReply};
use wire::message::{ConnectReply, ConnectRequest, Reply, Request};

/// Why a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// The client said so.
    Disconnected,
    /// Its lease ended.
    Evicted,
    /// The service stopped.
    Stopped,
}

/// What a target does with requests.
pub trait Service: Send + Sync + 'static {
    /// Name requests are addressed to.
    fn target(&self) -> TargetName;

    /// Cluster it belongs to.
    fn cluster(&self) -> ClusterId;

    /// A client wants a session (or renews it after a lost connection). `Err` refuses. Version and cluster were checked.
    fn connect(&self, export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno>;

    /// One request. Runs as far as it can when first polled; only what must wait is pending.
    fn handle(self: Arc<Self>, export: Arc<Export>, request: Request) -> BoxFuture<'static, Reply>;

    /// A session ended: drop what belongs to it.
    fn gone(&self, export: &Arc<Export>, why: Gone);
}

/// A target's record of one client's session.
pub struct Export {
    _private: (),
}

impl Export {
    /// Who.
    pub fn client(&self) -> ClientUuid {
        unimplemented!()
    }

    /// Where it called from last.
    pub fn nid(&self) -> Nid {
        unimplemented!()
    }

    /// Its description of itself.
    pub fn description(&self) -> String {
        unimplemented!()
    }

    /// Asks the client something and waits for the answer.
    ///
    /// # Errors
    /// No answer: the connection is gone or the time is up.
    pub async fn callback(&self, _op: ClientOp) -> Result<ClientReply, RpcError> {
        unimplemented!()
    }
}
