//! One connection: two directions, each an ordered queue of segments on their way.

use crate::machine::{MachineId, Process};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::ReadBuf;

/// What travels.
pub(super) enum Segment {
    Data(Bytes),
    /// The writer has said everything.
    Fin,
    /// The connection was reset.
    Reset,
}

impl Segment {
    pub(super) fn len(&self) -> usize {
        match self {
            Segment::Data(data) => data.len(),
            Segment::Fin | Segment::Reset => 0,
        }
    }
}

/// A segment on its way.
struct UnderWay {
    /// When it arrives.
    when: Duration,
    segment: Segment,
    /// The CPU of the receiver has it in its queue: [`UnderWay::when`] is when it is done.
    served: bool,
}

/// How a direction ended, as its reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Fin,
    Reset,
}

/// One direction.
#[derive(Default)]
pub(super) struct Pipe {
    under_way: VecDeque<UnderWay>,
    arrived: VecDeque<Bytes>,
    bytes: usize,
    last: Duration,
    end: Option<End>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) write_closed: bool,
    pub(super) read_closed: bool,
    broken: bool,
}

impl Pipe {
    /// Queues a segment that would arrive at `when`, but not before those sent earlier. Returns its
    /// time of arrival.
    pub(super) fn send(&mut self, segment: Segment, when: Duration) -> Duration {
        self.last = self.last.max(when);
        self.bytes += segment.len();
        self.under_way.push_back(UnderWay { when: self.last, segment, served: false });
        self.last
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops everything under way: it never arrives.
    pub(super) fn lose(&mut self) {
        self.under_way.clear();
    }

    pub(super) fn is_held(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub(super) fn write_error(&self) -> Option<io::ErrorKind> {
        match (self.broken, self.write_closed || self.read_closed) {
            (true, _) => Some(io::ErrorKind::ConnectionReset),
            (false, true) => Some(io::ErrorKind::BrokenPipe),
            (false, false) => None,
        }
    }

    /// Gives each segment that has come by now to the receiver's CPU, which says when it is done.
    /// Returns these times.
    pub(super) fn serve(
        &mut self,
        now: Duration,
        mut cpu: impl FnMut(&[u8]) -> Duration,
    ) -> Vec<Duration> {
        let mut done = Vec::new();
        for under_way in self.under_way.iter_mut().filter(|each| !each.served && each.when <= now) {
            if let Segment::Data(data) = &under_way.segment {
                under_way.when = cpu(data);
                self.last = self.last.max(under_way.when);
                done.push(under_way.when);
            }
            under_way.served = true;
        }
        done
    }

    /// Takes what is due: (bytes that arrived, end, true if data came for which there is no
    /// reader).
    pub(super) fn arrive(&mut self, now: Duration) -> (usize, Option<End>, bool) {
        let (mut bytes, mut refused) = (0, false);
        while self.under_way.front().is_some_and(|first| first.when <= now) {
            let Some(UnderWay { segment, .. }) = self.under_way.pop_front() else { break };
            match segment {
                Segment::Data(data) if self.read_closed => {
                    self.bytes -= data.len();
                    refused = true;
                }
                Segment::Data(data) => {
                    bytes += data.len();
                    self.arrived.push_back(data);
                }
                Segment::Fin => self.end = self.end.or(Some(End::Fin)),
                Segment::Reset => self.end = Some(End::Reset),
            }
        }
        (bytes, self.end, refused)
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        wake: &mut Vec<Waker>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        while buf.remaining() > 0
            && let Some(front) = self.arrived.front_mut()
        {
            let part = front.len().min(buf.remaining());
            buf.put_slice(&front[..part]);
            front.advance(part);
            self.bytes -= part;
            wake.extend(self.writer.take());
            if front.is_empty() {
                self.arrived.pop_front();
            }
        }
        if buf.filled().len() > before || buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        match self.end {
            Some(End::Fin) => Poll::Ready(Ok(())),
            Some(End::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => {
                self.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn reset(&mut self, wake: &mut Vec<Waker>) {
        self.lose();
        self.end = Some(End::Reset);
        self.broken = true;
        wake.extend(self.reader.take());
        wake.extend(self.writer.take());
    }
}

/// Both directions; `pipes[side]` is what the end `side` writes. Side 0 connected, side 1 accepted.
pub(super) struct Connection {
    ends: [Arc<Process>; 2],
    pub(super) machines: [MachineId; 2],
    pub(super) cable: u8,
    pub(super) pipes: [Pipe; 2],
    /// It ends as soon as its machines are cut off from each other for a moment.
    pub(super) watched: bool,
    /// Nothing passes on it, though its machines reach each other.
    pub(super) stalled: bool,
}

impl Connection {
    pub(super) fn new(ends: [Arc<Process>; 2], cable: u8) -> Connection {
        let machines = [ends[0].machine(), ends[1].machine()];
        Connection {
            ends,
            machines,
            cable,
            pipes: Default::default(),
            watched: false,
            stalled: false,
        }
    }

    pub(super) fn side_of(&self, process: &Arc<Process>) -> Option<usize> {
        self.ends.iter().position(|end| Arc::ptr_eq(end, process))
    }

    pub(super) fn is_between(&self, a: MachineId, b: MachineId) -> bool {
        self.machines == [a, b] || self.machines == [b, a]
    }

    /// True if the process at its end on that machine died.
    pub(super) fn has_dead_end_at(&self, machine: MachineId) -> bool {
        self.ends.iter().any(|end| end.machine() == machine && !end.is_alive())
    }

    /// Ends at once, for both.
    pub(super) fn reset(&mut self, wake: &mut Vec<Waker>) {
        self.pipes.iter_mut().for_each(|pipe| pipe.reset(wake));
    }

    /// The end `side` gives it up: what it reads and writes from now on fails. What it has written
    /// still arrives, and then the end.
    pub(super) fn give_up(&mut self, side: usize, wake: &mut Vec<Waker>) {
        self.pipes[side].write_closed = true;
        wake.extend(self.pipes[side].writer.take());
        let coming = &mut self.pipes[1 - side];
        coming.read_closed = true;
        coming.end = Some(End::Reset);
        wake.extend(coming.reader.take());
        wake.extend(coming.writer.take());
    }

    /// True if both ends have let go.
    pub(super) fn is_over(&self) -> bool {
        self.pipes.iter().all(|pipe| pipe.write_closed && pipe.read_closed)
    }
}
