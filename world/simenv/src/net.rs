//! Sockets of a process.

use crate::core::Core;
use crate::executor::Action;
use crate::machine::{MachineId, Process, cable_of};
use env::BoxFuture;
use env::net::{Listener, LocalListener, Net, PeerOwner, Stream, Watcher};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Pause before a connection that got no answer is asked for again.
const SYN_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct SimNet {
    pub(crate) core: Arc<Core>,
    pub(crate) process: Arc<Process>,
}

impl Net for SimNet {
    fn listen(&self, addr: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let (core, process) = (self.core.clone(), self.process.clone());
        Box::pin(async move {
            let addr = core.network.listen(&core.executor, &process, addr)?;
            Ok(Box::new(SimListener { core, process, addr }) as Box<dyn Listener>)
        })
    }

    fn connect(&self, addr: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (core, process) = (self.core.clone(), self.process.clone());
        Box::pin(async move {
            let from = process.machine();
            let Some(to) = MachineId::of(addr.ip()) else {
                return Err(io::ErrorKind::HostUnreachable.into());
            };
            let cable = cable_of(addr.ip());
            loop {
                let (delay, passes) = core.network.travel(from, to, cable);
                pause(&core, delay).await;
                if !passes {
                    pause(&core, SYN_PAUSE).await;
                    continue;
                }
                let opened = core.network.open(&core.executor, &process, addr);
                // Held already: dropped in the middle, it closes.
                let half = opened.map(|(id, _)| Half::new(&core, id, 0, addr, opened));
                let (delay, passes) = core.network.travel(to, from, cable);
                pause(&core, delay).await;
                match half {
                    Some(half) if passes => return Ok(Box::new(half) as Box<dyn Stream>),
                    None if passes => return Err(io::ErrorKind::ConnectionRefused.into()),
                    _ => pause(&core, SYN_PAUSE).await,
                }
            }
        })
    }

    fn connect_from(
        &self,
        source: IpAddr,
        addr: SocketAddr,
    ) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        // A cable joins addresses of its own number, and no others.
        match cable_of(source) == cable_of(addr.ip()) {
            true => self.connect(addr),
            false => Box::pin(async { Err(io::ErrorKind::HostUnreachable.into()) }),
        }
    }

    fn local_source(&self, ip: IpAddr) -> Option<IpAddr> {
        (MachineId::of(ip) == Some(self.process.machine())).then_some(ip)
    }

    fn listen_local(&self, folder: &Path, name: &str) -> io::Result<Box<dyn LocalListener>> {
        let (core, process) = (self.core.clone(), self.process.clone());
        let addr = core.network.listen_local(&core.executor, &process, (folder, name))?;
        Ok(Box::new(SimListener { core, process, addr }))
    }

    fn connect_local(&self, folder: &Path, name: &str) -> io::Result<Box<dyn Stream>> {
        let Core { network, executor, .. } = &*self.core;
        let addr = network.local(&self.process, (folder, name)).ok_or(io::ErrorKind::NotFound)?;
        let opened = network.open(executor, &self.process, addr);
        let (id, own) = opened.ok_or(io::ErrorKind::ConnectionRefused)?;
        Ok(Box::new(Half::new(&self.core, id, 0, addr, Some((id, own)))))
    }
}

async fn pause(core: &Arc<Core>, time: Duration) {
    let until = core.executor.now() + time;
    let mut timer = None;
    std::future::poll_fn(|cx| {
        if core.executor.now() >= until {
            return Poll::Ready(());
        }
        let action = Action::Wake(cx.waker().clone());
        match timer {
            None => timer = Some(core.executor.at(until, action)),
            Some(key) => core.executor.rewake(key, cx.waker().clone()),
        }
        Poll::Pending
    })
    .await;
}

struct SimListener {
    core: Arc<Core>,
    process: Arc<Process>,
    addr: SocketAddr,
}

impl Listener for SimListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(async move {
            let (id, peer) = std::future::poll_fn(|cx| {
                self.core.network.poll_accept(&self.core.executor, self.addr, cx)
            })
            .await?;
            let half = Half::new(&self.core, id, 1, peer, Some((id, self.addr)));
            Ok((Box::new(half) as Box<dyn Stream>, peer))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.addr)
    }
}

impl LocalListener for SimListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async move { Listener::accept(self).await.map(|(stream, _)| stream) })
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.core.network.unlisten(&self.core.executor, &self.process, self.addr);
    }
}

/// One end of a connection, or a half of one. Dropping it closes what is still open.
struct Half {
    core: Arc<Core>,
    id: u64,
    side: usize,
    peer: SocketAddr,
    own: SocketAddr,
    reads: bool,
    writes: bool,
}

impl Half {
    fn new(
        core: &Arc<Core>,
        id: u64,
        side: usize,
        peer: SocketAddr,
        own: Option<(u64, SocketAddr)>,
    ) -> Half {
        let own = own.map_or(peer, |(_, own)| own);
        Half { core: core.clone(), id, side, peer, own, reads: true, writes: true }
    }

    fn poll_slices(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.core.network.poll_write(&self.core.executor, self.id, self.side, cx, bufs)
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if self.reads || self.writes {
            self.core.network.close(
                &self.core.executor,
                self.id,
                self.side,
                self.reads,
                self.writes,
            );
        }
    }
}

impl Stream for Half {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.own)
    }

    fn peer_owner(&self) -> io::Result<PeerOwner> {
        // A simulated machine has one user.
        Ok(if self.peer.ip() == self.own.ip() { PeerOwner::Trusted } else { PeerOwner::Elsewhere })
    }

    fn round_trip(&self) -> Option<Duration> {
        Some(self.core.network.round_trip())
    }

    fn watch(&mut self) {
        self.core.network.watch(&self.core.executor, self.id);
    }

    fn watcher(&mut self) -> Watcher {
        let (core, id) = (self.core.clone(), self.id);
        Box::new(move || core.network.watch(&core.executor, id))
    }

    fn split(
        mut self: Box<Self>,
    ) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        let (core, id, side, peer, own) =
            (self.core.clone(), self.id, self.side, self.peer, self.own);
        self.writes = false;
        let write = Half { core, id, side, peer, own, reads: false, writes: true };
        (self, Box::new(write))
    }
}

impl AsyncRead for Half {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.core.network.poll_read(&self.core.executor, self.id, self.side, cx, buf)
    }
}

impl AsyncWrite for Half {
    env::writes_slices!(poll_slices);

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.writes) {
            self.core.network.close(&self.core.executor, self.id, self.side, false, true);
        }
        Poll::Ready(Ok(()))
    }
}
