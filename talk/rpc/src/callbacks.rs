//! The side of a client that answers callbacks, and the way to it.

use env::BoxFuture;
use lnet::link::Link;
use std::sync::{Arc, Weak};
use types::errno::Errno;
use wire::client::{ClientOp, ClientReply};

/// Answers callbacks of the target.
pub trait Callbacks: Send + Sync {
    /// One callback. It must not wait for requests of this client, and must accept a repetition.
    fn callback(self: Arc<Self>, op: ClientOp) -> BoxFuture<'static, Result<ClientReply, Errno>>;
}

/// The way to reach a client.
#[derive(Clone)]
pub(crate) enum CallbackRoute {
    /// The client lives in this process.
    Local(Option<Arc<dyn Callbacks>>),
    /// Over this link, as long as it lives.
    Link(Weak<Link>),
}
