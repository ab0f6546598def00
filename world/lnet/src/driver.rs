//! The task of a link: reads, hands requests to the handler, writes.
//!
//! Requests are polled once where they were read. Those that must wait stay in a set of this task:
//! at most REQUESTS_PER_LINK_MAX, and WAITING_MAX that wait for other clients. Beyond that, and
//! while the receive memory has no room for a long request, reading stops at the next request and
//! TCP pushes back. Replies are always read ([`crate::gate`]). When the link ends, requests at work
//! go on in a task of their own: the same client may ask again elsewhere.

use crate::accepted::address_of;
use crate::budget::{Room, Wait};
use crate::error::LinkError;
use crate::fault::Fault;
use crate::gate::{Gate, Side, judge};
use crate::greet;
use crate::inbox::Inbox;
use crate::link::{Handler, Link, Work};
use crate::outbox::REPLIES_QUEUED_MAX;
use crate::payload::{Frame, Payload};
use env::BoxFuture;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::AsyncRead;
use types::limits::REQUESTS_PER_LINK_MAX;
use wire::frame::{FrameError, FrameKind, HEADER_BYTES};

/// Requests of one link that wait for other clients; further ones count as usual.
const WAITING_MAX: usize = 65_536;
/// Frames of a link that a fault rule holds back; beyond it nothing is read.
const LATE_MAX: usize = 1024;
/// Rounds of reading before other tasks of the reactor have their turn.
const ROUNDS_MAX: usize = 16;

/// Drives a link to its end.
pub(crate) struct Driver {
    link: Arc<Link>,
    handler: Arc<dyn Handler>,
    socket: Box<dyn AsyncRead + Send + Unpin>,
    inbox: Inbox,
    /// Room for the next frame: requested, or granted.
    asked: Option<Wait>,
    room: Option<Room>,
    working: FuturesUnordered<Working>,
    /// Of them, those that wait for other clients.
    waiting: usize,
    /// Frames that a fault rule holds back.
    late: FuturesUnordered<BoxFuture<'static, Frame>>,
}

impl Driver {
    pub(crate) fn new(
        link: Arc<Link>,
        handler: Arc<dyn Handler>,
        socket: Box<dyn AsyncRead + Send + Unpin>,
    ) -> Driver {
        let (working, late) = (FuturesUnordered::new(), FuturesUnordered::new());
        Driver {
            link,
            handler,
            socket,
            inbox: Inbox::default(),
            asked: None,
            room: None,
            working,
            waiting: 0,
            late,
        }
    }

    /// True if one more request may be at work.
    fn may_work(&self) -> bool {
        let at_work = self.working.len() - self.waiting;
        match self.link.side() {
            // A server's requests may depend on replies that come over this very link, so they must
            // be read on.
            Side::Dialled => at_work < WAITING_MAX,
            Side::Stranger | Side::Known => {
                at_work < REQUESTS_PER_LINK_MAX && self.link.replies_queued() < REPLIES_QUEUED_MAX
            }
        }
    }

    /// What there is to receive.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Result<Next, LinkError> {
        let nid = self.link.nid();
        let bad = |error| LinkError::Frame { nid, error };
        if self.late.len() >= LATE_MAX {
            return Ok(Next::Held);
        }
        let Some(header) = self.inbox.header().map_err(bad)? else { return Ok(Next::Unread) };
        match judge(self.link.side(), &header, self.may_work()) {
            Gate::Pass => {}
            Gate::Hold => return Ok(Next::Held),
            Gate::TooLong(max) => {
                let found = u64::from(header.body_bytes) + u64::from(header.bulk_bytes);
                return Err(bad(FrameError::TooLong { found, max: max as u64 }));
            }
            Gate::Room(bytes) => {
                if !self.poll_room(cx, bytes) {
                    return Ok(Next::Held);
                }
            }
        }
        let Some(mut frame) = self.inbox.next().map_err(bad)? else { return Ok(Next::Unread) };
        frame.room = self.room.take();
        if frame.room.is_some() {
            self.link.arriving(0);
        }
        Ok(Next::Frame(frame))
    }

    /// True if there is room for the request whose header was read.
    fn poll_room(&mut self, cx: &mut Context<'_>, bytes: usize) -> bool {
        if self.room.is_none() {
            let Driver { link, asked, .. } = self;
            let wait =
                asked.get_or_insert_with(|| link.shared.budget.ask(address_of(link.nid()), bytes));
            if let Poll::Ready(room) = wait.poll(cx) {
                (self.room, self.asked) = (Some(room), None);
                self.link.arriving(bytes);
            }
        }
        self.room.is_some()
    }

    fn poll_working(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while let Poll::Ready(Some(done)) = self.working.poll_next_unpin(cx) {
            self.waiting -= usize::from(done.waits);
            if let Some(payload) = done.payload {
                self.link.reply(done.tag, payload);
            }
            progress = true;
        }
        progress
    }

    /// A frame came; a fault rule may lose or delay it.
    fn receive(&mut self, frame: Frame, cx: &mut Context<'_>) -> Result<(), LinkError> {
        self.link.meter.received(HEADER_BYTES + frame.body.len() + frame.bulk.len());
        match self.link.verdict_on_received(frame.header.kind) {
            None => self.take(frame, cx),
            Some(Fault::Drop) => Ok(()),
            Some(Fault::Delay(time)) => {
                let clock = self.link.shared.env.clock.clone();
                self.late.push(Box::pin(async move {
                    clock.sleep(time).await;
                    frame
                }));
                Ok(())
            }
        }
    }

    fn take(&mut self, frame: Frame, cx: &mut Context<'_>) -> Result<(), LinkError> {
        let tag = frame.header.tag;
        match frame.header.kind {
            FrameKind::Reply => {
                if !self.link.answered(frame) {
                    tracing::debug!(nid = %self.link.nid(), tag, "reply to a request that was given up");
                }
            }
            FrameKind::Request => {
                let Work { mut future, waits, room } = self.handler.request(&self.link, frame);
                match future.as_mut().poll(cx) {
                    Poll::Ready(Some(payload)) => self.link.reply(tag, payload),
                    Poll::Ready(None) => {}
                    Poll::Pending => {
                        let waits = waits && self.waiting < WAITING_MAX;
                        self.waiting += usize::from(waits);
                        self.working.push(Working { future, tag, waits, _room: room });
                    }
                }
            }
            FrameKind::Goodbye => self.link.heard_goodbye(),
            FrameKind::Hello | FrameKind::HelloReply | FrameKind::Route | FrameKind::Routed => {
                let reason = "greets a second time".to_owned();
                return Err(LinkError::Protocol { nid: self.link.nid(), reason });
            }
        }
        Ok(())
    }

    fn poll_once(&mut self, cx: &mut Context<'_>) -> Result<bool, LinkError> {
        let nid = self.link.nid();
        let mut progress = self.poll_working(cx);
        let unread = loop {
            match self.poll_next(cx)? {
                Next::Frame(frame) => self.receive(frame, cx)?,
                Next::Unread => break true,
                Next::Held => break false,
            }
            progress = true;
        };
        while self.may_work()
            && let Poll::Ready(Some(frame)) = self.late.poll_next_unpin(cx)
        {
            self.take(frame, cx)?;
            progress = true;
        }
        let lost = |error: std::io::Error| greet::lost(nid, &error);
        if let Poll::Ready(flushed) = self.link.poll_flush(cx) {
            flushed.map_err(lost)?;
        }
        let stranger = self.link.side() == Side::Stranger;
        if unread && let Poll::Ready(read) = self.inbox.poll_read(cx, &mut *self.socket, stranger) {
            if read.map_err(lost)? == 0 {
                return Err(LinkError::Lost { nid, reason: "the peer closed it".to_owned() });
            }
            progress = true;
        }
        Ok(progress)
    }

    fn end(&mut self) {
        let working = std::mem::take(&mut self.working);
        if working.is_empty() || self.link.shared.is_stopping() {
            return;
        }
        let stopped = self.link.shared.stopped();
        let finish = async move {
            let all = working.for_each(|_| std::future::ready(()));
            futures_util::future::select(std::pin::pin!(all), std::pin::pin!(stopped)).await;
        };
        self.link.shared.env.tasks.spawn("finish requests", Box::pin(finish));
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.link.driver.register(cx.waker());
        for _ in 0..ROUNDS_MAX {
            if let Some(why) = this.link.closed() {
                tracing::debug!(nid = %this.link.nid(), %why, "link ended");
                if let LinkError::Frame { .. }
                | LinkError::Protocol { .. }
                | LinkError::Key { .. } = &why
                {
                    this.link.shared.refused(this.link.nid(), &why);
                }
                this.end();
                return Poll::Ready(());
            }
            match this.poll_once(cx) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(why) => this.link.close(why),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Only if the reactor went first; else it has been closed with a reason.
        self.link.close(LinkError::Shutdown);
        let link = &self.link;
        let totals = if link.is_local() { &link.shared.local.totals } else { &link.shared.totals };
        totals.ended(link.source(), &link.meter);
        self.link.hang_up();
        self.link.leave_place();
    }
}

/// What there is to receive.
#[allow(clippy::large_enum_variant, reason = "it is looked at where it is made, and kept nowhere")]
enum Next {
    Frame(Frame),
    /// More must be read first.
    Unread,
    /// Nothing may be read for now.
    Held,
}

struct Working {
    future: BoxFuture<'static, Option<Payload>>,
    tag: u64,
    waits: bool,
    _room: Option<Room>,
}

struct Done {
    tag: u64,
    payload: Option<Payload>,
    waits: bool,
}

impl Future for Working {
    type Output = Done;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        let this = self.get_mut();
        this.future.as_mut().poll(cx).map(|payload| Done {
            tag: this.tag,
            payload,
            waits: this.waits,
        })
    }
}
