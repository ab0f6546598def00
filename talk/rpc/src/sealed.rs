//! A message behind its envelope, as it travels on a link.

use lnet::payload::Payload;
use wire::codec::Encoded;
use wire::envelope::{ENVELOPE_BYTES, Envelope};

const _: () = assert!(ENVELOPE_BYTES == lnet::payload::HEAD_BYTES);

/// A message and its envelope as a payload.
pub(crate) fn seal(envelope: Envelope, message: Encoded) -> Payload {
    Payload { head: envelope.encode(), body: message.body, bulk: message.bulk }
}
