//! A client's side of a session with one target.

use crate::error::RpcError;
use env::BoxFuture;
use std::sync::Arc;
use types::credentials::Credentials;
use types::errno::Errno;
use types::nid::Nid;
use types::session::Transno;
use types::target::TargetName;
use wire::client::{ClientOp, ClientReply};
use wire::message::{Op, OpReply};

/// Answers callbacks of the target.
pub trait Callbacks: Send + Sync {
    /// One callback. Must not wait for requests of this client.
    fn callback(self: Arc<Self>, op: ClientOp) -> BoxFuture<'static, Result<ClientReply, Errno>>;
}

/// Where a session stands (the words are Lustre's).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportState {
    /// Not connected; the next call connects.
    Disconn,
    /// Connecting.
    Connecting,
    /// In service.
    Full,
    /// The target forgot us.
    Evicted,
}

/// Session with one target.
pub struct Import {
    _private: (),
}

impl Import {
    /// The target.
    pub fn target(&self) -> TargetName {
        unimplemented!()
    }

    /// Where it stands.
    pub fn state(&self) -> ImportState {
        unimplemented!()
    }

    /// Newest transno known to be durable there.
    pub fn last_committed(&self) -> Transno {
        unimplemented!()
    }

    /// The target moved.
    pub fn set_nids(&self, _nids: Vec<Nid>) {
        unimplemented!()
    }

    /// Sends operations as one request and waits for the results, one per operation, in order.
    ///
    /// # Errors
    /// Only if the request as a whole got no answer; results of single operations are inside.
    pub async fn call(
        &self,
        _credentials: &Credentials,
        _ops: Vec<Op>,
    ) -> Result<Vec<Result<OpReply, Errno>>, RpcError> {
        unimplemented!()
    }

    /// One operation, one result.
    ///
    /// # Errors
    /// As [`Import::call`]; the operation's own failure is [`RpcError::Errno`].
    pub async fn one(&self, _credentials: &Credentials, _op: Op) -> Result<OpReply, RpcError> {
        unimplemented!()
    }

    /// Ends the session in order.
    pub async fn disconnect(&self) {
        unimplemented!()
    }
}
