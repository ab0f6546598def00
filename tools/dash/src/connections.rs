//! The connections of the HTTP server: a bounded number, of which none can hold a place against the
//! others.
//!
//! When all places are taken, a further connection gets that of the one that has been idle for
//! longest. If none is idle, it gets that of one that has not taken its answer for [`STALLED`]. An
//! answer that is not taken within [`WRITE_TIMEOUT`] ends its connection in any case.

use env::net::PeerOwner;
use env::real::owner_of;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Time for a client to take a whole answer.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// When all places are taken, an answer that is not taken for this long may lose its place.
pub const STALLED: Duration = Duration::from_secs(1);

/// Pause after a connection could not be accepted. The usual reason is a lack of descriptors, which
/// passes.
const PAUSE: Duration = Duration::from_secs(1);
/// When no place can be given away, the search is repeated after this time.
const LOOK: Duration = Duration::from_millis(50);

/// What a connection is doing, and since when.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// It waits for a request, or for the rest of its head.
    Idle(Instant),
    /// An answer is being made.
    Answering,
    /// An answer is on its way.
    Writing(Instant),
}

/// Shared by a connection's stream, by the code that answers, and by the code that gives places
/// away.
#[derive(Clone, Debug)]
pub struct Activity(Arc<Mutex<Doing>>);

impl Activity {
    fn new() -> Activity {
        Activity(Arc::new(Mutex::new(Doing::Idle(Instant::now()))))
    }

    fn get(&self) -> Doing {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, doing: Doing) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = doing;
    }

    /// A request came.
    pub fn answering(&self) {
        self.set(Doing::Answering);
    }
}

/// The place of which of these is given away, if any.
fn victim(all: impl Iterator<Item = Doing>, now: Instant) -> Option<usize> {
    let rank = |(at, doing): (usize, Doing)| match doing {
        Doing::Idle(since) => Some(((0, since), at)),
        Doing::Writing(since) if now.duration_since(since) >= STALLED => Some(((1, since), at)),
        Doing::Answering | Doing::Writing(_) => None,
    };
    all.enumerate().filter_map(rank).min().map(|(_, at)| at)
}

/// Serves the connections of a listener, at most `max` at once. Never ends; dropping it ends all
/// connections.
pub async fn serve<W>(listener: TcpListener, max: usize, serve: impl Fn(Watched, Activity) -> W)
where
    W: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut all: Vec<(AbortHandle, Activity)> = Vec::with_capacity(max);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "HTTP server");
                sleep(PAUSE).await;
                continue;
            }
        };
        let owner = owner(&stream);
        loop {
            while tasks.try_join_next().is_some() {}
            all.retain(|(task, _)| !task.is_finished());
            if all.len() < max {
                break;
            }
            match victim(all.iter().map(|(_, activity)| activity.get()), Instant::now()) {
                Some(at) => all.remove(at).0.abort(),
                None => sleep(LOOK).await,
            }
        }
        let activity = Activity::new();
        let watched = Watched { stream, owner, activity: activity.clone(), limit: None };
        all.push((tasks.spawn(serve(watched, activity.clone())), activity));
    }
}

/// Whose the other end is; `None`: the kernel does not tell.
fn owner(stream: &TcpStream) -> Option<PeerOwner> {
    let asked = stream.peer_addr().and_then(|theirs| owner_of(theirs, stream.local_addr()?));
    asked.inspect_err(|error| tracing::debug!(%error, "whose an HTTP connection is")).ok()
}

/// A connection that says what it is doing, and fails if an answer is not taken in time.
pub struct Watched {
    stream: TcpStream,
    owner: Option<PeerOwner>,
    activity: Activity,
    /// While an answer is on its way.
    limit: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    /// Whose the other end was when the connection was accepted; `None`: the kernel does not tell.
    pub fn owner(&self) -> Option<PeerOwner> {
        self.owner
    }

    /// Writes or flushes, within the time of the answer.
    fn in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let limit = self.limit.get_or_insert_with(|| {
            let now = Instant::now();
            self.activity.set(Doing::Writing(now));
            Box::pin(sleep_until(now + WRITE_TIMEOUT))
        });
        if limit.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the answer was not taken in time",
            )));
        }
        write(Pin::new(&mut self.stream), cx)
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().in_time(cx, |stream, cx| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().in_time(cx, |stream, cx| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // hyper flushes when it has handed over all of an answer; it also does when there was none.
        if this.limit.take().is_some() {
            this.activity.set(Doing::Idle(Instant::now()));
        }
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_idle_one_goes_then_the_one_stalled_for_longest() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let now = at(5000);
        let of = |all: &[Doing]| victim(all.iter().copied(), now);
        assert_eq!(
            of(&[
                Doing::Answering,
                Doing::Idle(at(300)),
                Doing::Idle(at(200)),
                Doing::Writing(at(0))
            ]),
            Some(2)
        );
        assert_eq!(
            of(&[Doing::Answering, Doing::Writing(at(3000)), Doing::Writing(at(2000))]),
            Some(2)
        );
        assert_eq!(
            of(&[Doing::Answering, Doing::Writing(at(4500))]),
            None,
            "it may be about to take it"
        );
        assert_eq!(of(&[]), None);
    }
}
