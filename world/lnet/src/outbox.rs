//! Frames on their way out: small ones are gathered in one buffer, large pieces are passed on as
//! they are.
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
use types::limits::MESSAGE_BYTES_MAX;
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
    len: usize,
    /// Of them, bytes of replies.
    replies: usize,
}

impl Outbox {
    /// Bytes waiting.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of replies among them.
    pub(crate) fn replies(&self) -> usize {
        self.replies
    }

    /// Appends a frame.
    pub(crate) fn push(&mut self, header: &Header, payload: Option<Payload>) {
        let before = self.len;
        self.small.reserve(HEADER_BYTES + 512);
        self.copy(&header.encode());
        if let Some(payload) = payload {
            self.copy(&payload.head);
            self.piece(payload.body);
            payload.bulk.into_iter().for_each(|piece| self.piece(piece));
        }
        if header.kind == FrameKind::Reply {
            self.replies += self.len - before;
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

    /// Appends everything of `other`, to be written: it waits no longer.
    pub(crate) fn append(&mut self, other: &mut Outbox) {
        other.seal();
        self.seal();
        self.chunks.append(&mut other.chunks);
        self.len += std::mem::take(&mut other.len);
        other.replies = 0;
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
            let mut written = ready!(Pin::new(&mut *socket).poll_write_vectored(cx, &slices[..count]))?;
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
