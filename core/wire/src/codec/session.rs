//! Connect and its answer.

use super::cursor::{Reader, Writer, unpack};
use super::error::DecodeError;
use super::raw::{RawConnect, RawConnected};
use crate::message::{ConnectReply, ConnectRequest};
use crate::opcode::{self, answer};
use types::session::{ClientUuid, ClusterId, Transno};

/// Longest description of a client that travels, bytes; the rest is cut off.
const DESCRIPTION_BYTES_MAX: usize = 1024;

/// As much of `text` as fits into `max` bytes, without cutting a character.
fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

pub(super) fn encode_connect(hello: &ConnectRequest, w: &mut Writer) {
    w.op(opcode::CONNECT, 0, |w| {
        w.put(&RawConnect {
            version_min: hello.version_min.into(),
            version_max: hello.version_max.into(),
            zero: 0.into(),
            boot: hello.boot.into(),
            cluster: hello.cluster.0.into(),
            client: hello.client.0.into(),
        });
        w.bytes(cut(&hello.description, DESCRIPTION_BYTES_MAX).as_bytes());
    });
}

pub(super) fn decode_connect(flags: u16, r: &mut Reader<'_>) -> Result<ConnectRequest, DecodeError> {
    let [] = unpack("connect flags", flags)?;
    let raw: &RawConnect = r.get()?;
    let description = std::str::from_utf8(r.bytes("bytes of description", DESCRIPTION_BYTES_MAX)?)
        .map_err(|_| DecodeError::Text { field: "client description" })?;
    Ok(ConnectRequest {
        version_min: raw.version_min.get(),
        version_max: raw.version_max.get(),
        cluster: ClusterId(raw.cluster.get()),
        client: ClientUuid(raw.client.get()),
        description: description.to_owned(),
        boot: raw.boot.get(),
    })
}

pub(super) fn encode_connected(reply: &ConnectReply, w: &mut Writer) {
    w.op(answer::CONNECT, 0, |w| {
        w.put(&RawConnected {
            version: reply.version.into(),
            zero: [0; 6],
            boot: reply.boot.into(),
            last_committed: reply.last_committed.0.into(),
            cluster: reply.cluster.0.into(),
        });
    });
}

pub(super) fn decode_connected(flags: u16, r: &mut Reader<'_>) -> Result<ConnectReply, DecodeError> {
    let [] = unpack("connect flags", flags)?;
    let raw: &RawConnected = r.get()?;
    Ok(ConnectReply {
        version: raw.version.get(),
        cluster: ClusterId(raw.cluster.get()),
        boot: raw.boot.get(),
        last_committed: Transno(raw.last_committed.get()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_description_is_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abc", 2), "ab");
        assert_eq!(cut("ab\u{e9}", 3), "ab");
        assert_eq!(cut("\u{e9}", 1), "");
    }
}
