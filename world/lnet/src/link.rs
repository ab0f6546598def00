//! One connection, as its users see it.
//!
//! Any thread may send on it. Frames are gathered in the outbox. On a reactor the link's task
//! writes them together once the reactor comes to it. On other threads (a FUSE thread) the caller
//! writes at once, without a hand-off, unless a write is under way. Waiting requests are told when
//! the link ends.

use crate::accepted::{Group, Place};
pub use crate::budget::Room;
use crate::error::LinkError;
use crate::fault::Fault;
use crate::gate::Side;
use crate::outbox::Outbox;
use crate::payload::{Frame, Payload};
use crate::rails::Path;
use crate::seal::{Protection, Reach};
use crate::shared::Shared;
use crate::traffic::Meter;
use bytes::Bytes;
use env::BoxFuture;
use env::clock::Monotonic;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::sync::oneshot;
use types::limits::{RECEIVE_RATE_MIN, SESSION_TIMEOUT};
use types::nid::Nid;
use types::principal::Principal;
use types::session::{ClientUuid, Pairing};
use wire::checksum::{crc32c, crc32c_of};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::Purpose;

/// A request that holds receive memory has at least this time to arrive.
const ARRIVAL_MIN: Duration = Duration::from_secs(10);

/// Answers requests that come over links.
pub trait Handler: Send + Sync + 'static {
    /// A request. Must not block; the part that cannot be done at once goes into the future.
    fn request(&self, link: &Arc<Link>, frame: Frame) -> Work;
}

/// How a request will be answered.
pub struct Work {
    /// Gives the reply; `None` if there is nothing to say. Runs to its end even if the link goes
    /// before.
    pub future: BoxFuture<'static, Option<Payload>>,
    /// Receive memory of the request; given back when it was answered.
    pub room: Option<Room>,
    /// It may wait for other clients without a limit (a lock): it does not count among the requests
    /// at work.
    pub waits: bool,
}

/// The two ends: the peer, and this process as the peer knows it.
pub(crate) struct Ends {
    pub(crate) nid: Nid,
    pub(crate) source: Nid,
    pub(crate) process: ClientUuid,
    pub(crate) version: u16,
    pub(crate) purpose: Purpose,
    /// Of the line, when the connection was made; `None`: unknown.
    pub(crate) round_trip: Option<Duration>,
    /// The side that connected showed it.
    pub(crate) pairing: Pairing,
    /// The other connections of the process that made this one; `None`: this process made it.
    pub(crate) group: Option<Arc<Group>>,
    /// Whose the other end is, as its key proves; `None`: the connection is plain.
    pub(crate) principal: Option<Arc<Principal>>,
    /// How it is sealed; `None`: it is plain.
    pub(crate) protection: Option<Protection>,
    /// The NID under which the other end is known: its own one, if it came through a router that is
    /// believed, or has a key that bears it.
    pub(crate) origin: Nid,
    /// Paths to the process at the other end; empty: it made this connection.
    pub(crate) paths: Vec<Path>,
    /// Whether it is of this host, and connected through the kernel only.
    pub(crate) reach: Reach,
}

/// A connection.
pub struct Link {
    pub(crate) shared: Arc<Shared>,
    ends: Ends,
    outbox: Mutex<Outbox>,
    writer: Mutex<Writer>,
    waiters: Mutex<Waiters>,
    pub(crate) meter: Meter,
    /// The task that drives it.
    pub(crate) driver: AtomicWaker,
    closed: Mutex<Option<LinkError>>,
    is_closed: AtomicBool,
    /// The other side said goodbye: no new requests.
    leaving: AtomicBool,
    /// Among the connections without a session.
    place: Mutex<Option<Place>>,
    /// The link is closed at this time if it has no session by then; nanoseconds of the monotonic
    /// clock.
    session_by: AtomicU64,
    /// The link is closed at this time if the request that holds receive memory has not arrived by
    /// then; 0: no such request.
    arrives_by: AtomicU64,
}

struct Writer {
    socket: Box<dyn AsyncWrite + Send + Unpin>,
    /// Taken out of the outbox, partly written.
    going: Outbox,
}

#[derive(Default)]
struct Waiters {
    next: u64,
    by_tag: HashMap<u64, Waiter, foldhash::fast::RandomState>,
}

struct Waiter {
    answer: oneshot::Sender<Result<Frame, LinkError>>,
    sent: Monotonic,
    limit: Option<Duration>,
}

impl Link {
    pub(crate) fn new(
        shared: Arc<Shared>,
        ends: Ends,
        socket: Box<dyn AsyncWrite + Send + Unpin>,
        place: Option<Place>,
    ) -> Arc<Link> {
        let session_by = nanos(shared.env.clock.now() + SESSION_TIMEOUT);
        let link = Arc::new(Link {
            shared,
            ends,
            outbox: Mutex::default(),
            writer: Mutex::new(Writer { socket, going: Outbox::default() }),
            waiters: Mutex::default(),
            meter: Meter::default(),
            driver: AtomicWaker::new(),
            closed: Mutex::new(None),
            is_closed: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            place: Mutex::new(place),
            session_by: AtomicU64::new(session_by),
            arrives_by: AtomicU64::new(0),
        });
        if let Some(place) = &*link.place.lock() {
            place.is_of(&link);
        }
        if let Some(group) = &link.ends.group {
            group.join(&link);
        }
        link
    }

    /// The other side's role towards this process.
    pub(crate) fn side(&self) -> Side {
        match &self.ends.group {
            None => Side::Dialled,
            Some(group) if group.has_session() => Side::Known,
            Some(_) => Side::Stranger,
        }
    }

    /// Number that the side that connected showed; 0: none.
    pub fn pairing(&self) -> Pairing {
        self.ends.pairing
    }

    /// Whose the other end is, as its key proves; `None`: no key was asked for.
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.ends.principal.as_ref()
    }

    /// How it is sealed; `None`: it is plain.
    pub fn protection(&self) -> Option<Protection> {
        self.ends.protection
    }

    /// True if this process made the connection. Then the other side is the process that answers at
    /// [`Link::nid`], the address that this process chose.
    pub fn is_dialled(&self) -> bool {
        self.ends.group.is_none()
    }

    /// A client got a session over it: from now on all connections of that process may carry large
    /// messages.
    pub fn has_session(&self) {
        if let Some(group) = &self.ends.group {
            group.get_session();
        }
    }

    /// A client was told to try again later, so the link is not closed for having no session yet.
    pub fn be_patient(&self) {
        self.session_by
            .store(nanos(self.shared.env.clock.now() + SESSION_TIMEOUT), Ordering::Release);
    }

    pub(crate) fn leave_place(&self) {
        drop(self.place.lock().take());
    }

    /// A request that holds this much receive memory is arriving; 0: it arrived.
    pub(crate) fn arriving(&self, bytes: usize) {
        let by = match bytes {
            0 => 0,
            _ => {
                let time =
                    ARRIVAL_MIN + Duration::from_millis((bytes * 1000 / RECEIVE_RATE_MIN) as u64);
                nanos(self.shared.env.clock.now() + time)
            }
        };
        self.arrives_by.store(by, Ordering::Release);
    }

    /// The other end.
    pub fn nid(&self) -> Nid {
        self.ends.nid
    }

    /// This end.
    pub(crate) fn source(&self) -> Nid {
        self.ends.source
    }

    /// True if it is a connection to a process of this host, through the kernel only.
    pub(crate) fn is_local(&self) -> bool {
        self.ends.reach == Reach::Host
    }

    /// Paths to the process at the other end.
    pub(crate) fn paths(&self) -> &[Path] {
        &self.ends.paths
    }

    /// NID under which the other end is known. Behind a router it is the node's own one, as far as
    /// that is proven (docs/networks.md, "Clients behind routers"); else that of [`Link::nid`].
    pub fn origin(&self) -> Nid {
        self.ends.origin
    }

    /// The process at the other end, by its own name: all links of one process have the same.
    pub fn process(&self) -> ClientUuid {
        self.ends.process
    }

    /// Small requests, or bulk.
    pub fn purpose(&self) -> Purpose {
        self.ends.purpose
    }

    /// Round trip of the line, when the connection was made; `None`: unknown.
    pub fn round_trip(&self) -> Option<Duration> {
        self.ends.round_trip
    }

    /// True if it can take requests.
    pub fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Acquire) && !self.leaving.load(Ordering::Acquire)
    }

    /// Sends a request and waits for its reply, at most for `limit`.
    ///
    /// # Errors
    /// The link ended before the reply came, or the time is up.
    pub async fn request(
        self: &Arc<Self>,
        payload: Payload,
        limit: Option<Duration>,
    ) -> Result<Frame, LinkError> {
        let (answer, answered) = oneshot::channel();
        let tag = {
            let mut waiters = self.waiters.lock();
            waiters.next += 1;
            let tag = waiters.next;
            waiters.by_tag.insert(tag, Waiter { answer, sent: self.shared.env.clock.now(), limit });
            tag
        };
        let _forget = Forget { link: self, tag };
        // Closing drains the waiters after it set the flag: a request that comes too late sees the
        // flag here.
        if self.is_closed.load(Ordering::Acquire) {
            return Err(self.why_closed());
        }
        self.send(FrameKind::Request, tag, Some(payload));
        match answered.await {
            Ok(answer) => answer,
            Err(_) => Err(self.why_closed()),
        }
    }

    /// Ends the link. Requests that wait for a reply fail with `why`.
    pub fn close(&self, why: LinkError) {
        {
            let mut closed = self.closed.lock();
            if closed.is_some() {
                return;
            }
            *closed = Some(why.clone());
            self.is_closed.store(true, Ordering::Release);
        }
        let mut waiters: Vec<_> =
            std::mem::take(&mut self.waiters.lock().by_tag).into_iter().collect();
        waiters.sort_unstable_by_key(|(tag, _)| *tag);
        for (_, waiter) in waiters {
            // The receiver is gone: the caller gave up.
            let _ = waiter.answer.send(Err(why.clone()));
        }
        self.driver.wake();
    }

    /// Why it ended, if it did.
    pub(crate) fn closed(&self) -> Option<LinkError> {
        if self.is_closed.load(Ordering::Acquire) { self.closed.lock().clone() } else { None }
    }

    fn why_closed(&self) -> LinkError {
        let lost = || LinkError::Lost { nid: self.ends.nid, reason: "closed".to_owned() };
        self.closed().unwrap_or_else(lost)
    }

    /// Tells the peer that no more requests will come from here.
    pub(crate) fn say_goodbye(self: &Arc<Self>) {
        self.send(FrameKind::Goodbye, 0, None);
    }

    /// The other side said so.
    pub(crate) fn heard_goodbye(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// A reply came. `false`: no request waits for it (any more).
    pub(crate) fn answered(&self, frame: Frame) -> bool {
        let Some(waiter) = self.waiters.lock().by_tag.remove(&frame.header.tag) else {
            return false;
        };
        waiter.answer.send(Ok(frame)).is_ok()
    }

    /// Closes it if it has no session in time, or takes too long over a request that holds receive
    /// memory.
    pub(crate) fn close_if_idle(&self, now: Monotonic) {
        let nid = self.ends.nid;
        let arrives_by = self.arrives_by.load(Ordering::Acquire);
        if self.side() == Side::Stranger && nanos(now) >= self.session_by.load(Ordering::Acquire) {
            let reason = format!("made no session within {} s", SESSION_TIMEOUT.as_secs());
            self.close(LinkError::Protocol { nid, reason });
        } else if arrives_by != 0 && nanos(now) >= arrives_by {
            let reason =
                format!("sends a request at less than {RECEIVE_RATE_MIN} bytes per second");
            self.close(LinkError::Protocol { nid, reason });
        }
    }

    /// Fails the requests whose time is up.
    pub(crate) fn expire(&self, now: Monotonic) {
        let mut late = Vec::new();
        self.waiters.lock().by_tag.retain(|_, waiter| match waiter.limit {
            Some(limit) if now.saturating_sub(waiter.sent) >= limit => {
                let (answer, _) = oneshot::channel();
                late.push((std::mem::replace(&mut waiter.answer, answer), limit));
                false
            }
            _ => true,
        });
        for (answer, limit) in late {
            // As above: the caller may have given up.
            let _ = answer
                .send(Err(LinkError::NoAnswer { nid: self.ends.nid, seconds: limit.as_secs() }));
        }
    }

    /// Queues a reply; the driver, which calls this, writes it.
    pub(crate) fn reply(self: &Arc<Self>, tag: u64, payload: Payload) {
        self.faulty_push(FrameKind::Reply, tag, Some(payload));
    }

    /// Bytes of replies that wait to be written.
    pub(crate) fn replies_queued(&self) -> usize {
        self.outbox.lock().replies()
    }

    fn send(self: &Arc<Self>, kind: FrameKind, tag: u64, payload: Option<Payload>) {
        if self.faulty_push(kind, tag, payload) {
            self.write_soon();
        }
    }

    /// Writes here and now if that is cheaper than waking the driver.
    fn write_soon(&self) {
        if self.shared.env.tasks.on_reactor() {
            return self.driver.wake();
        }
        match self.try_flush(&mut Context::from_waker(Waker::noop())) {
            Some(Poll::Ready(Ok(()))) => {}
            // Under way, or the socket is full, or it failed: the driver sees to it, with its own
            // waker.
            Some(_) | None => self.driver.wake(),
        }
    }

    /// Puts the frame into the outbox, unless a fault rule takes it.
    fn faulty_push(self: &Arc<Self>, kind: FrameKind, tag: u64, payload: Option<Payload>) -> bool {
        match self.verdict(kind, self.ends.source, self.ends.nid) {
            None => self.push(kind, tag, payload),
            Some(Fault::Drop) => return false,
            Some(Fault::Delay(time)) => {
                let link = self.clone();
                let later = async move {
                    link.shared.env.clock.sleep(time).await;
                    link.push(kind, tag, payload);
                    link.driver.wake();
                };
                self.shared.env.tasks.spawn("delayed frame", Box::pin(later));
                return false;
            }
        }
        true
    }

    /// The rules' verdict on a frame of this link.
    fn verdict(&self, kind: FrameKind, source: Nid, target: Nid) -> Option<Fault> {
        let faults = &self.shared.faults;
        if !faults.any() || !matches!(kind, FrameKind::Request | FrameKind::Reply) {
            return None;
        }
        let env = &self.shared.env;
        faults.verdict(source, target, kind == FrameKind::Request, &*env.random, env.clock.now())
    }

    /// The rules' verdict on a received frame.
    pub(crate) fn verdict_on_received(&self, kind: FrameKind) -> Option<Fault> {
        self.verdict(kind, self.ends.nid, self.ends.source)
    }

    fn push(&self, kind: FrameKind, tag: u64, payload: Option<Payload>) {
        // What seals a connection finds damage, too, and within a host there is none.
        let bare = self.ends.principal.is_none() && !self.is_local();
        let checksums = self.shared.sends_checksums() && payload.is_some() && bare;
        let (body_bytes, bulk_bytes) =
            payload.as_ref().map_or((0, 0), |p| (p.head.len() + p.body.len(), p.bulk_len()));
        let header = Header {
            version: self.ends.version,
            kind,
            tag,
            body_bytes: body_bytes as u32,
            bulk_bytes: bulk_bytes as u32,
            body_crc: payload
                .as_ref()
                .filter(|_| checksums)
                .map(|p| crc32c_of([&p.head[..], &p.body])),
            bulk_crc: payload.as_ref().filter(|_| checksums && bulk_bytes > 0).map(|p| {
                match &p.bulk[..] {
                    [one] => crc32c(one),
                    many => crc32c_of(many.iter().map(Bytes::as_ref)),
                }
            }),
            cluster: self.shared.cluster(),
            source: self.ends.source,
            target: self.ends.nid,
        };
        self.meter.sent(HEADER_BYTES + body_bytes + bulk_bytes);
        self.outbox.lock().push(&header, payload);
    }

    /// Lets go of the socket, although others may still hold the link. Nothing is written after the
    /// end.
    pub(crate) fn hang_up(&self) {
        self.writer.lock().socket = Box::new(tokio::io::sink());
    }

    /// Writes the queued frames. `None`: another thread is writing, and will see what was queued
    /// meanwhile, or wake the driver.
    fn try_flush(&self, cx: &mut Context<'_>) -> Option<Poll<io::Result<()>>> {
        let mut writer = self.writer.try_lock()?;
        Some(self.write(&mut writer, cx))
    }

    /// Writes what is queued; for the driver.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(&mut self.writer.lock(), cx)
    }

    fn write(&self, writer: &mut Writer, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(writer.going.poll_write(cx, &mut *writer.socket))?;
            {
                let mut outbox = self.outbox.lock();
                if outbox.len() > 0 {
                    writer.going.take(&mut outbox);
                    continue;
                }
            }
            // What seals a connection may hold back what it has sealed.
            return Pin::new(&mut *writer.socket).poll_flush(cx);
        }
    }
}

fn nanos(time: Monotonic) -> u64 {
    time.as_nanos() as u64
}

/// Forgets a request whose caller is gone.
struct Forget<'a> {
    link: &'a Link,
    tag: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.link.waiters.lock().by_tag.remove(&self.tag);
    }
}
