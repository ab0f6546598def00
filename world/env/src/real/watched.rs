//! The reading half of a connection that fails when its other end is silent.

use super::reactors::Reactors;
use super::tcp;
use crate::net::SILENCE;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{Instant, Sleep, sleep};

/// An idle end is asked for a sign of life after this long, then again at the same interval.
pub(super) const ASKED: Duration = Duration::from_secs(1);
/// Interval at which the kernel is asked what it has heard, while a reader waits.
const LOOK: Duration = Duration::from_millis(250);

pub(super) struct Watched {
    socket: OwnedReadHalf,
    reactors: Arc<Reactors>,
    look: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    pub(super) fn new(socket: OwnedReadHalf, reactors: Arc<Reactors>) -> Watched {
        Watched { socket, reactors, look: None }
    }

    /// Ready when the other end is silent.
    fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let look = self.look.get_or_insert_with(|| {
                let _inside = self.reactors.enter();
                Box::pin(sleep(LOOK))
            });
            ready!(look.as_mut().poll(cx));
            look.as_mut().reset(Instant::now() + LOOK);
            let socket: &tokio::net::TcpStream = self.socket.as_ref();
            if tcp::is_silent(socket.as_fd()) {
                return Poll::Ready(());
            }
        }
    }
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
        ready!(this.poll_silent(cx));
        let silence = format!("the other end did not answer for {} ms", SILENCE.as_millis());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, silence)))
    }
}
