//! The task of a link: reads, hands requests to the handler, writes.
//!
//! Requests are polled once where they were read; those that must wait stay in a set of this task, at most
//! REQUESTS_PER_LINK_MAX (and WAITING_MAX that wait for other clients), beyond which reading stops and TCP pushes back.
//! When the link ends, requests at work go on in a task of their own: the same client may ask again elsewhere.

use crate::error::LinkError;
use crate::fault::Fault;
use crate::inbox::Inbox;
use crate::link::{Handler, Link, Work};
use crate::outbox::QUEUED_MAX;
use crate::payload::{Frame, Payload};
use env::BoxFuture;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::AsyncRead;
use types::limits::REQUESTS_PER_LINK_MAX;
use wire::frame::FrameKind;

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
    working: FuturesUnordered<Working>,
    /// Of them, those that wait for other clients.
    waiting: usize,
    /// Frames that a fault rule holds back.
    late: FuturesUnordered<BoxFuture<'static, Frame>>,
}

impl Driver {
    pub(crate) fn new(link: Arc<Link>, handler: Arc<dyn Handler>, socket: Box<dyn AsyncRead + Send + Unpin>) -> Driver {
        let (working, late) = (FuturesUnordered::new(), FuturesUnordered::new());
        Driver { link, handler, socket, inbox: Inbox::default(), working, waiting: 0, late }
    }

    /// Room for one more request?
    fn may_work(&self) -> bool {
        self.working.len() - self.waiting < REQUESTS_PER_LINK_MAX && self.link.queued() < QUEUED_MAX
    }

    /// Room for one more frame?
    fn may_receive(&self) -> bool {
        self.may_work() && self.late.len() < LATE_MAX
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
                let Work { mut future, waits } = self.handler.request(&self.link, frame);
                match future.as_mut().poll(cx) {
                    Poll::Ready(Some(payload)) => self.link.reply(tag, payload),
                    Poll::Ready(None) => {}
                    Poll::Pending => {
                        let waits = waits && self.waiting < WAITING_MAX;
                        self.waiting += usize::from(waits);
                        self.working.push(Working { future, tag, waits });
                    }
                }
            }
            FrameKind::Goodbye => self.link.heard_goodbye(),
            FrameKind::Hello | FrameKind::HelloReply => {
                let reason = "greets a second time".to_owned();
                return Err(LinkError::Protocol { nid: self.link.nid(), reason });
            }
        }
        Ok(())
    }

    fn poll_once(&mut self, cx: &mut Context<'_>) -> Result<bool, LinkError> {
        let nid = self.link.nid();
        let mut progress = self.poll_working(cx);
        while self.may_receive() {
            let Some(frame) = self.inbox.next().map_err(|error| LinkError::Frame { nid, error })? else { break };
            self.receive(frame, cx)?;
            progress = true;
        }
        while self.may_work()
            && let Poll::Ready(Some(frame)) = self.late.poll_next_unpin(cx)
        {
            self.take(frame, cx)?;
            progress = true;
        }
        let lost = |error: std::io::Error| LinkError::Lost { nid, reason: error.to_string() };
        if let Poll::Ready(flushed) = self.link.poll_flush(cx) {
            flushed.map_err(lost)?;
        }
        if self.may_receive()
            && let Poll::Ready(read) = self.inbox.poll_read(cx, &mut *self.socket)
        {
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
        self.link.hang_up();
    }
}

struct Working {
    future: BoxFuture<'static, Option<Payload>>,
    tag: u64,
    waits: bool,
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
        this.future.as_mut().poll(cx).map(|payload| Done { tag: this.tag, payload, waits: this.waits })
    }
}
