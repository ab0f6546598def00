//! The reading half of a connection that fails when its other end is silent, once it is watched.

use super::reactors::Reactors;
use super::tcp;
use crate::net::SILENCE;
use rustix::net::sockopt;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{Instant, Sleep, sleep};

/// An idle end is asked for a sign of life after this long, then again at the same interval.
const ASKED: Duration = Duration::from_secs(1);
/// Interval at which the kernel is asked what it has heard, while a reader waits.
const LOOK: Duration = Duration::from_millis(250);

pub(super) struct Watched {
    socket: OwnedReadHalf,
    on: Arc<AtomicBool>,
    reactors: Arc<Reactors>,
    look: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    pub(super) fn new(
        socket: OwnedReadHalf,
        on: Arc<AtomicBool>,
        reactors: Arc<Reactors>,
    ) -> Watched {
        Watched { socket, on, reactors, look: None }
    }

    /// Ready when the other end is silent.
    fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let look = self.look.get_or_insert_with(|| {
                if let Err(error) = ask_often(self.socket.as_ref()) {
                    // What the kernel sends on its own shows silence, too.
                    tracing::debug!(%error, "an idle end is not asked often");
                }
                let _inside = self.reactors.enter();
                Box::pin(sleep(LOOK))
            });
            ready!(look.as_mut().poll(cx));
            look.as_mut().reset(Instant::now() + LOOK);
            let socket: &TcpStream = self.socket.as_ref();
            if tcp::is_silent(socket.as_fd()) {
                return Poll::Ready(());
            }
        }
    }
}

fn ask_often(socket: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_tcp_keepidle(socket, ASKED)?;
    sockopt::set_tcp_keepintvl(socket, ASKED)
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let read @ Poll::Ready(_) = Pin::new(&mut this.socket).poll_read(cx, buf) {
            return read;
        }
        if !this.on.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        ready!(this.poll_silent(cx));
        let silence = format!("the other end did not answer for {} ms", SILENCE.as_millis());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, silence)))
    }
}
