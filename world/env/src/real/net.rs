//! The network of the machine: TCP; sockets within it are made in `local`.
//!
//! A socket is tied to a reactor when it is first polled, not when it was accepted: so one
//! accepting task can hand connections to all reactors.

use super::local;
use super::peer_owner::owner_of;
use super::reactors::Reactors;
use super::tcp;
use super::watched::Watched;
use crate::BoxFuture;
use crate::net::{LONG_LINE, Listener, LocalListener, Net, PeerOwner, Stream, Watcher};
use rustix::net::sockopt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// An idle peer is asked for a sign of life after this long, then again at the same interval.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Unanswered bytes for this long end the connection, milliseconds (TCP_USER_TIMEOUT).
const USER_TIMEOUT_MS: u32 = 30_000;

pub(super) struct RealNet {
    reactors: Arc<Reactors>,
}

impl RealNet {
    pub(super) fn new(reactors: Arc<Reactors>) -> RealNet {
        RealNet { reactors }
    }
}

impl Net for RealNet {
    fn listen(&self, addr: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let reactors = self.reactors.clone();
        Box::pin(async move {
            let socket = std::net::TcpListener::bind(addr)?;
            socket.set_nonblocking(true)?;
            let inside = reactors.enter();
            let socket = TcpListener::from_std(socket)?;
            drop(inside);
            Ok(Box::new(RealListener { socket, reactors }) as Box<dyn Listener>)
        })
    }

    fn connect(&self, addr: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        self.connected(async move { socket_for(addr)?.connect(addr).await })
    }

    fn connect_from(
        &self,
        source: IpAddr,
        addr: SocketAddr,
    ) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        self.connected(async move {
            let socket = socket_for(addr)?;
            socket.bind(SocketAddr::new(source, 0))?;
            socket.connect(addr).await
        })
    }

    fn local_source(&self, ip: IpAddr) -> Option<IpAddr> {
        local::source_at(ip)
    }

    fn listen_local(&self, folder: &Path, name: &str) -> io::Result<Box<dyn LocalListener>> {
        local::listen_at(&self.reactors, folder, name)
    }

    fn connect_local(&self, folder: &Path, name: &str) -> io::Result<Box<dyn Stream>> {
        local::connect_to(&self.reactors, folder, name)
    }
}

impl RealNet {
    fn connected(
        &self,
        connect: impl Future<Output = io::Result<TcpStream>> + Send + 'static,
    ) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let reactors = self.reactors.clone();
        let connected = Inside { reactors: reactors.clone(), future: Box::pin(connect) };
        Box::pin(async move {
            let socket = connected.await?;
            tune(&socket)?;
            let socket = Socket::Ready(socket);
            Ok(Box::new(RealStream { socket, watched: Arc::default(), reactors })
                as Box<dyn Stream>)
        })
    }
}

fn socket_for(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // What asks for the connection may be lost, too.
    tcp::resend_soon(socket.as_fd());
    Ok(socket)
}

fn tune(socket: &TcpStream) -> io::Result<()> {
    tcp::resend_soon(socket.as_fd());
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE)?;
    sockopt::set_tcp_user_timeout(socket, USER_TIMEOUT_MS)?;
    if tcp::round_trip(socket.as_fd()).is_some_and(|time| time >= LONG_LINE) {
        tcp::tune_long_line(socket.as_fd());
    }
    Ok(())
}

/// A tokio future that finds a reactor wherever it is polled.
struct Inside<T> {
    reactors: Arc<Reactors>,
    future: BoxFuture<'static, T>,
}

impl<T> Future for Inside<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let _inside = this.reactors.enter();
        this.future.as_mut().poll(cx)
    }
}

struct RealListener {
    socket: TcpListener,
    reactors: Arc<Reactors>,
}

impl Listener for RealListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(async move {
            let (socket, peer) = std::future::poll_fn(|cx| {
                let _inside = self.reactors.enter();
                self.socket.poll_accept(cx)
            })
            .await?;
            tune(&socket)?;
            let socket = Socket::Loose(Some(socket.into_std()?));
            let (watched, reactors) = (Arc::default(), self.reactors.clone());
            let stream = RealStream { socket, watched, reactors };
            Ok((Box::new(stream) as Box<dyn Stream>, peer))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

enum Socket {
    /// Not tied to a reactor yet; `None` only while it is being tied, or after that failed.
    Loose(Option<std::net::TcpStream>),
    Ready(TcpStream),
}

struct RealStream {
    socket: Socket,
    watched: Arc<AtomicBool>,
    reactors: Arc<Reactors>,
}

impl RealStream {
    fn ready(&mut self) -> io::Result<&mut TcpStream> {
        if let Socket::Loose(loose) = &mut self.socket {
            let socket = loose.take().ok_or(io::ErrorKind::NotConnected)?;
            let _inside = self.reactors.enter();
            self.socket = Socket::Ready(TcpStream::from_std(socket)?);
        }
        match &mut self.socket {
            Socket::Ready(socket) => Ok(socket),
            Socket::Loose(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Stream for RealStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.socket {
            Socket::Ready(socket) => socket.peer_addr(),
            Socket::Loose(Some(socket)) => socket.peer_addr(),
            Socket::Loose(None) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.socket {
            Socket::Ready(socket) => socket.local_addr(),
            Socket::Loose(Some(socket)) => socket.local_addr(),
            Socket::Loose(None) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn peer_owner(&self) -> io::Result<PeerOwner> {
        owner_of(self.peer_addr()?, self.local_addr()?)
    }

    fn round_trip(&self) -> Option<Duration> {
        match &self.socket {
            Socket::Ready(socket) => tcp::round_trip(socket.as_fd()),
            Socket::Loose(Some(socket)) => tcp::round_trip(socket.as_fd()),
            Socket::Loose(None) => None,
        }
    }

    fn watch(&mut self) {
        self.watched.store(true, Ordering::Release);
    }

    fn watcher(&mut self) -> Watcher {
        let watched = self.watched.clone();
        Box::new(move || watched.store(true, Ordering::Release))
    }

    fn split(
        mut self: Box<Self>,
    ) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        if let Err(error) = self.ready() {
            // Both halves will say so at their first use.
            tracing::debug!(%error, "socket cannot join a reactor");
        }
        match self.socket {
            Socket::Ready(socket) => {
                let (read, write) = socket.into_split();
                // Without a watcher beside it, nothing turns it on later.
                let later = Arc::strong_count(&self.watched) > 1;
                match later || self.watched.load(Ordering::Acquire) {
                    true => {
                        let read = Watched::new(read, self.watched, self.reactors);
                        (Box::new(read), Box::new(write))
                    }
                    false => (Box::new(read), Box::new(write)),
                }
            }
            Socket::Loose(_) => (Box::new(Dead), Box::new(Dead)),
        }
    }
}

impl AsyncRead for RealStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().ready()?).poll_read(cx, buf)
    }
}

impl AsyncWrite for RealStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.get_mut().ready()?).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.get_mut().ready()?).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().ready()?).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().ready()?).poll_shutdown(cx)
    }
}

/// Halves of a socket that could not join a reactor.
struct Dead;

impl AsyncRead for Dead {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }
}

impl AsyncWrite for Dead {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }
}
