//! Sockets.

use crate::BoxFuture;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connected byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Address of the peer.
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    /// Our own end.
    fn local_addr(&self) -> io::Result<SocketAddr>;
    /// Splits into halves that can be used by two tasks.
    fn split(self: Box<Self>) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);
}

/// A listening socket.
pub trait Listener: Send + Sync {
    /// Next connection.
    fn accept(&self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>>;
    /// The bound address (the port that was chosen for port 0).
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// The network.
pub trait Net: Send + Sync {
    /// Binds and listens.
    fn listen(&self, addr: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>>;
    /// Connects. It has no time limit of its own.
    fn connect(&self, addr: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
}
