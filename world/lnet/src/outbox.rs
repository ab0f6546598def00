//! Frames on their way out: small ones are gathered in one buffer, large pieces are passed on as
//! they are.
//!
//! A large frame waits behind all small ones, also those that come later: a question does not queue
//! behind megabytes of data that it has nothing to do with. Among themselves frames of either kind
//! keep their order. What is being written is written to its end.
//!
//! Bound: callers stay within the window of their peer; a server reads no further requests while
//! replies of [`REPLIES_QUEUED_MAX`] bytes wait.

use crate::payload::Payload;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;
use types::limits::{FRAME_BYTES_SMALL, MESSAGE_BYTES_MAX};
use wire::frame::{FrameKind, HEADER_BYTES, Header};

/// Bytes of replies queued at which a server reads no further requests of the link: two messages of
/// the largest kind.
pub(crate) const REPLIES_QUEUED_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// Pieces from this length on are not copied.
const COPY_MAX: usize = 8 << 10;
/// Pieces of one write.
const SLICES_MAX: usize = 64;

/// Bytes to write.
#[derive(Default)]
pub(crate) struct Outbox {
    small: BytesMut,
    chunks: VecDeque<Bytes>,
    /// Large frames, which wait, and whether each is a reply.
    large: VecDeque<(bool, Vec<Bytes>)>,
    len: usize,
    /// Of them, bytes of replies in small frames and in large ones.
    replies: (usize, usize),
}

impl Outbox {
    /// Bytes waiting.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of replies among them.
    pub(crate) fn replies(&self) -> usize {
        self.replies.0 + self.replies.1
    }

    /// Appends a frame.
    pub(crate) fn push(&mut self, header: &Header, mut payload: Option<Payload>) {
        let (before, is_reply) = (self.len, header.kind == FrameKind::Reply);
        let is_large =
            payload.as_ref().is_some_and(|payload| payload.total_len() > FRAME_BYTES_SMALL);
        if let Some(payload) = payload.take_if(|_| is_large) {
            let head = Bytes::from([&header.encode()[..], &payload.head[..]].concat());
            let frame: Vec<Bytes> = [head, payload.body].into_iter().chain(payload.bulk).collect();
            self.len += frame.iter().map(Bytes::len).sum::<usize>();
            self.large.push_back((is_reply, frame));
        } else {
            self.push_small(header, payload);
        }
        if is_reply {
            let replies = if is_large { &mut self.replies.1 } else { &mut self.replies.0 };
            *replies += self.len - before;
        }
    }

    fn push_small(&mut self, header: &Header, payload: Option<Payload>) {
        self.small.reserve(HEADER_BYTES + 512);
        self.copy(&header.encode());
        if let Some(payload) = payload {
            self.copy(&payload.head);
            self.piece(payload.body);
            payload.bulk.into_iter().for_each(|piece| self.piece(piece));
        }
    }

    fn copy(&mut self, bytes: &[u8]) {
        self.small.extend_from_slice(bytes);
        self.len += bytes.len();
    }

    fn piece(&mut self, piece: Bytes) {
        if piece.len() < COPY_MAX {
            return self.copy(&piece);
        }
        self.seal();
        self.len += piece.len();
        self.chunks.push_back(piece);
    }

    fn seal(&mut self) {
        if !self.small.is_empty() {
            self.chunks.push_back(self.small.split().freeze());
        }
    }

    /// Takes from `other` what is to be written next: all small frames, or else one large one. It
    /// waits no longer.
    pub(crate) fn take(&mut self, other: &mut Outbox) {
        other.seal();
        self.seal();
        let before = self.len;
        if !other.chunks.is_empty() {
            self.len += other.chunks.iter().map(Bytes::len).sum::<usize>();
            self.chunks.append(&mut other.chunks);
            other.replies.0 = 0;
        } else if let Some((is_reply, frame)) = other.large.pop_front() {
            for piece in frame.into_iter().filter(|piece| !piece.is_empty()) {
                self.len += piece.len();
                self.chunks.push_back(piece);
            }
            other.replies.1 -= if is_reply { self.len - before } else { 0 };
        }
        other.len -= self.len - before;
    }

    /// Writes until everything is out or the socket is full.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Poll<io::Result<()>> {
        self.seal();
        while !self.chunks.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.chunks.len().min(SLICES_MAX);
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                *slice = IoSlice::new(chunk);
            }
            let mut written =
                ready!(Pin::new(&mut *socket).poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.len -= written;
            while written > 0 {
                let Some(front) = self.chunks.front_mut() else { break };
                let part = written.min(front.len());
                front.advance(part);
                written -= part;
                if front.is_empty() {
                    self.chunks.pop_front();
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::nid::Nid;
    use types::session::ClusterId;
    use wire::message::VERSION_MAX;

    fn push(outbox: &mut Outbox, kind: FrameKind, tag: u64, len: usize) {
        let payload =
            Payload { bulk: vec![Bytes::from(vec![tag as u8; len])], ..Payload::default() };
        let (body_crc, bulk_crc, cluster) = (None, None, ClusterId(0));
        let (source, target) = (Nid::Loopback, Nid::Loopback);
        let body_bytes = payload.head.len() as u32;
        let header = Header {
            version: VERSION_MAX,
            kind,
            tag,
            body_bytes,
            bulk_bytes: len as u32,
            body_crc,
            bulk_crc,
            cluster,
            source,
            target,
        };
        outbox.push(&header, Some(payload));
    }

    /// Tags of the frames, in the order in which they are written.
    fn written(outbox: &mut Outbox) -> Vec<u64> {
        let mut tags = Vec::new();
        let mut going = Outbox::default();
        while outbox.len() > 0 {
            going.take(outbox);
            let bytes: Vec<u8> = going.chunks.drain(..).flatten().collect();
            assert_eq!(std::mem::take(&mut going.len), bytes.len());
            let mut rest = &bytes[..];
            while let Some((header, behind)) = rest.split_at_checked(HEADER_BYTES) {
                let header = Header::decode(header.try_into().unwrap()).unwrap();
                tags.push(header.tag);
                rest = &behind[(header.body_bytes + header.bulk_bytes) as usize..];
            }
        }
        tags
    }

    #[test]
    fn a_small_frame_does_not_wait_for_large_ones() {
        let mut outbox = Outbox::default();
        for (tag, len) in
            [(1, 4 << 20), (2, 100), (3, 1 << 20), (4, 20_000), (5, FRAME_BYTES_SMALL), (6, 0)]
        {
            push(&mut outbox, FrameKind::Request, tag, len);
        }
        assert_eq!(written(&mut outbox), [2, 4, 6, 1, 3, 5]);
        assert_eq!(outbox.len(), 0);
    }

    #[test]
    fn replies_that_wait_are_counted_until_they_are_taken() {
        let (mut outbox, mut going) = (Outbox::default(), Outbox::default());
        push(&mut outbox, FrameKind::Reply, 1, 1 << 20);
        push(&mut outbox, FrameKind::Reply, 2, 10);
        let all = outbox.replies();
        assert_eq!(all, outbox.len());
        going.take(&mut outbox);
        assert!(outbox.replies() < all && outbox.replies() > 1 << 20, "the large one waits");
        going.take(&mut outbox);
        assert_eq!((outbox.replies(), outbox.len(), going.len()), (0, 0, all));
    }
}
