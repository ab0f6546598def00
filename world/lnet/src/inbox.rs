//! Bytes on their way in, cut into frames.
//!
//! The header is verified before its lengths are believed, and a frame longer than MESSAGE_BYTES_MAX is refused before
//! anything is allocated for it.

use crate::payload::Frame;
use bytes::{Bytes, BytesMut};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::frame::{FrameError, HEADER_BYTES, Header};

/// Room for one read.
const READ_BYTES: usize = 64 << 10;
/// Room below which a new buffer is taken.
const ROOM_MIN: usize = 16 << 10;
/// Bulk data up to this length is copied, so that it does not keep a whole read buffer alive.
const COPY_MAX: usize = 16 << 10;

/// Reads and cuts.
#[derive(Default)]
pub(crate) struct Inbox {
    buffer: BytesMut,
    /// Header of the frame whose rest is awaited.
    header: Option<Header>,
}

impl Inbox {
    /// The next whole frame that was read; `None` if more must be read first.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let header = match self.header {
            Some(header) => header,
            None => {
                let Some(bytes) = self.buffer.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
                let header = Header::decode(bytes)?;
                let _ = self.buffer.split_to(HEADER_BYTES);
                *self.header.insert(header)
            }
        };
        let (body_len, bulk_len) = (header.body_bytes as usize, header.bulk_bytes as usize);
        if self.buffer.len() < body_len + bulk_len {
            return Ok(None);
        }
        self.header = None;
        let body = self.buffer.split_to(body_len).freeze();
        let bulk = self.buffer.split_to(bulk_len);
        let bulk = if bulk_len <= COPY_MAX { Bytes::copy_from_slice(&bulk) } else { bulk.freeze() };
        header.check_body(&body)?;
        header.check_bulk(&bulk)?;
        Ok(Some(Frame { header, body, bulk }))
    }

    /// Reads once; 0 at the end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Poll<io::Result<usize>> {
        let awaited = self.header.map_or(0, |header| header.body_bytes as usize + header.bulk_bytes as usize);
        let missing = awaited.saturating_sub(self.buffer.len());
        if self.buffer.capacity() - self.buffer.len() < missing.max(ROOM_MIN) {
            self.buffer.reserve(missing.max(READ_BYTES));
        }
        pin!(socket.read_buf(&mut self.buffer)).poll(cx)
    }
}
