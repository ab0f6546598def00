//! Content of a frame.

use crate::budget::Room;
use bytes::Bytes;
use wire::frame::Header;

/// Length of [`Payload::head`].
pub const HEAD_BYTES: usize = 32;

/// Something to send.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    /// First bytes of the body. They belong to the layer above and tell whose request it is.
    pub head: [u8; HEAD_BYTES],
    /// The rest of the body.
    pub body: Bytes,
    /// Bulk data, sent as one run of bytes.
    pub bulk: Vec<Bytes>,
}

impl Payload {
    /// Bytes of all.
    pub fn total_len(&self) -> usize {
        HEAD_BYTES + self.body.len() + self.bulk_len()
    }

    /// Bytes of bulk data.
    pub fn bulk_len(&self) -> usize {
        self.bulk.iter().map(Bytes::len).sum()
    }
}

/// A frame that arrived, its checksums verified.
#[derive(Debug)]
pub struct Frame {
    /// Header of the frame.
    pub header: Header,
    /// The body, with the head in front.
    pub body: Bytes,
    /// Bulk data.
    pub bulk: Bytes,
    /// Receive memory that it takes, to be held until the request is answered.
    pub room: Option<Room>,
}
