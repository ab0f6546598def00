//! Bytes on their way in, cut into frames.
//!
//! The header is verified before its lengths are trusted, and the driver judges it before anything
//! is allocated for the rest.

use crate::payload::Frame;
use bytes::{Bytes, BytesMut};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt};
use types::limits::FRAME_BYTES_BEFORE_SESSION_MAX;
use wire::frame::{FrameError, HEADER_BYTES, Header};

/// Room for one read.
const READ_BYTES: usize = 64 << 10;
/// The same on a connection without a session: one short frame.
const READ_BYTES_BEFORE_SESSION: usize = HEADER_BYTES + FRAME_BYTES_BEFORE_SESSION_MAX;
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
    /// Header of the next frame; `None` if more must be read first.
    pub(crate) fn header(&mut self) -> Result<Option<Header>, FrameError> {
        if self.header.is_none() {
            let Some(bytes) = self.buffer.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
            let header = Header::decode(bytes)?;
            let _ = self.buffer.split_to(HEADER_BYTES);
            self.header = Some(header);
        }
        Ok(self.header)
    }

    /// The next whole frame that was read; `None` if more must be read first.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(header) = self.header()? else { return Ok(None) };
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
        Ok(Some(Frame { header, body, bulk, room: None }))
    }

    /// Reads once; 0 at the end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut (dyn AsyncRead + Send + Unpin),
        stranger: bool,
    ) -> Poll<io::Result<usize>> {
        let (least, usual) =
            if stranger { (1, READ_BYTES_BEFORE_SESSION) } else { (ROOM_MIN, READ_BYTES) };
        let awaited =
            self.header.map_or(0, |header| header.body_bytes as usize + header.bulk_bytes as usize);
        let missing = awaited.saturating_sub(self.buffer.len());
        if self.buffer.capacity() - self.buffer.len() < missing.max(least) {
            self.buffer.reserve(missing.max(usual));
        }
        pin!(socket.read_buf(&mut self.buffer)).poll(cx)
    }
}
