//! Sockets.

use crate::BoxFuture;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// A line with at least this round trip is *long*: a connection over it is bound by how much may be
/// on its way at once, and not by the processors.
pub const LONG_LINE: Duration = Duration::from_millis(1);

/// A watched connection ([`Stream::watch`]) fails when its other end has acknowledged nothing for
/// so long, though it was asked more than once.
pub const SILENCE: Duration = Duration::from_millis(1500);

/// Whose process has the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerOwner {
    /// A process of another host, or of another network namespace.
    Elsewhere,
    /// A process of root, or of the user that this process runs as: it could do without a
    /// connection whatever this process does.
    Trusted,
    /// A process of another user of this host.
    User(u32),
    /// A process of this host that has closed its end.
    Gone,
}

/// Watches a connection from the call on ([`Stream::watcher`]).
pub type Watcher = Box<dyn FnOnce() + Send>;

/// A connected byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Address of the peer.
    ///
    /// # Errors
    /// The socket is lost, or is one of this host ([`Net::connect_local`]), which has no address.
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    /// Our own end.
    ///
    /// # Errors
    /// As [`Stream::peer_addr`].
    fn local_addr(&self) -> io::Result<SocketAddr>;
    /// Whose process has the other end, as the kernel says. It does not wait.
    ///
    /// # Errors
    /// The kernel cannot tell.
    fn peer_owner(&self) -> io::Result<PeerOwner>;
    /// Turns on later, for a half that was split off, what [`Stream::watch`] does: to be called
    /// before the reader waits.
    fn watcher(&mut self) -> Watcher;
    /// Round trip of the line, as far as the making of the connection has shown it; `None`: it
    /// cannot be told.
    fn round_trip(&self) -> Option<Duration>;
    /// From now on the connection fails after [`SILENCE`]: its reader gets `TimedOut`. Others wait
    /// for half a minute, because a host may be busy for seconds. It is for a connection in whose
    /// place another one works as well.
    fn watch(&mut self);
    /// Splits into halves that can be used by two tasks.
    fn split(
        self: Box<Self>,
    ) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);
}

/// For `impl AsyncWrite` of a stream that writes many slices as well as one: the methods that
/// write, all by the method of this name, which takes `&mut self`, the context and the slices.
#[macro_export]
macro_rules! writes_slices {
    ($all:ident) => {
        fn poll_write(
            self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            buf: &[u8],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            self.get_mut().$all(cx, &[::std::io::IoSlice::new(buf)])
        }

        fn poll_write_vectored(
            self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            bufs: &[::std::io::IoSlice<'_>],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            self.get_mut().$all(cx, bufs)
        }

        fn is_write_vectored(&self) -> bool {
            true
        }
    };
}

/// A listening socket.
pub trait Listener: Send + Sync {
    /// Next connection.
    fn accept(&self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>>;
    /// The bound address (the port that was chosen for port 0).
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// A listening socket for processes of this host. Dropped, it takes no more connections, and its
/// name is free.
pub trait LocalListener: Send + Sync {
    /// Next connection.
    fn accept(&self) -> BoxFuture<'_, io::Result<Box<dyn Stream>>>;
}

/// The network.
pub trait Net: Send + Sync {
    /// Binds and listens.
    fn listen(&self, addr: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>>;
    /// Connects. It has no time limit of its own.
    fn connect(&self, addr: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
    /// Connects from this address of the host. The host's own routes say over which interface.
    fn connect_from(
        &self,
        source: IpAddr,
        addr: SocketAddr,
    ) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;

    /// The address under which this host is seen by processes that listen at `ip`, if that is one
    /// of its own addresses; `None`: it is not, or the system does not tell.
    fn local_source(&self, ip: IpAddr) -> Option<IpAddr>;
    /// Listens under a name for processes of this kernel and network namespace that may open the
    /// folder. It is made if it is absent, for its owner only. The caller sees to it that no living
    /// process of them listens under this name: what is there is replaced.
    ///
    /// # Errors
    /// Another user may write to the folder, or the system's reason.
    fn listen_local(&self, folder: &Path, name: &str) -> io::Result<Box<dyn LocalListener>>;
    /// Connects to the process of this kernel and network namespace that listens under a name. It
    /// does not wait. Whose process that is [`Stream::peer_owner`] tells: it may be anybody's.
    ///
    /// # Errors
    /// No process listens there, its queue is full, or this one may not connect.
    fn connect_local(&self, folder: &Path, name: &str) -> io::Result<Box<dyn Stream>>;
}
