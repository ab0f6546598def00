//! Connect and its answer; changes to be done again.

use super::cursor::{Bulk, Reader, Writer, bits, unpack};
use super::cursor::{count, len32};
use super::error::DecodeError;
use super::raw::{RawConnect, RawConnected, RawRedo};
use super::squash;
use crate::message::{ConnectReply, ConnectRequest, Redo, TreePage};
use crate::opcode::{self, answer};
use bytes::Bytes;
use types::credentials::SquashNews;
use types::limits::{MESSAGE_BYTES_MAX, OPS_PER_REQUEST_MAX, REDO_OF_OTHERS_MAX};
use types::proof::Proof;
use types::session::{ClientUuid, ClusterId, Standing, Transno};
use zerocopy::little_endian::U32;

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
            proof: hello.proof.0.into(),
            server: hello.server.0.into(),
        });
        w.bytes(cut(&hello.description, DESCRIPTION_BYTES_MAX).as_bytes());
    });
}

pub(super) fn decode_connect(
    flags: u16,
    r: &mut Reader<'_>,
) -> Result<ConnectRequest, DecodeError> {
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
        proof: Proof(raw.proof.get()),
        server: Proof(raw.server.get()),
    })
}

pub(super) fn encode_connected(reply: &ConnectReply, w: &mut Writer) {
    let told = reply.squash != SquashNews::silent(reply.boot);
    let [knows, denies] = squash::flags(&reply.squash);
    w.op(answer::CONNECT, bits([told, knows, denies]), |w| {
        w.put(&RawConnected {
            version: reply.version.into(),
            standing: reply.standing as u8,
            zero: 0,
            session: reply.session.into(),
            boot: reply.boot.into(),
            last_committed: reply.last_committed.0.into(),
            cluster: reply.cluster.0.into(),
        });
        if told {
            squash::put(&reply.squash, w);
        }
    });
}

pub(super) fn decode_connected(
    flags: u16,
    r: &mut Reader<'_>,
) -> Result<ConnectReply, DecodeError> {
    let [told, knows, denies] = unpack("connect flags", flags)?;
    let raw: &RawConnected = r.get()?;
    let silent = SquashNews::silent(raw.boot.get());
    let squash = if told { squash::get([knows, denies], r)? } else { silent.clone() };
    if told && squash == silent || !told && (knows || denies) {
        return Err(DecodeError::Field { field: "squash", value: squash.change });
    }
    Ok(ConnectReply {
        version: raw.version.get(),
        cluster: ClusterId(raw.cluster.get()),
        boot: raw.boot.get(),
        session: raw.session.get(),
        last_committed: Transno(raw.last_committed.get()),
        standing: match raw.standing {
            0 => Standing::Transient,
            1 => Standing::Settled,
            2 => Standing::Awaited,
            3 => Standing::Missed,
            other => {
                return Err(DecodeError::Field { field: "session standing", value: other.into() });
            }
        },
        squash,
    })
}

/// Bytes that [`encode_redo`] writes, without padding.
pub(super) fn redo_bytes(redo: &Redo) -> usize {
    size_of::<RawRedo>() + redo.bytes.len()
}

/// One change.
pub(super) fn encode_redo(redo: &Redo, w: &mut Writer) {
    let Redo { transno, bytes, data_of } = redo;
    w.put(&RawRedo {
        transno: transno.0.into(),
        bytes: len32(bytes.len()),
        data_of: (*data_of).into(),
    });
    w.raw(bytes);
    w.pad();
}

/// So many changes.
pub(super) fn decode_redo(n: U32, r: &mut Reader<'_>) -> Result<Vec<Redo>, DecodeError> {
    let n = count(n, "changes", OPS_PER_REQUEST_MAX + REDO_OF_OTHERS_MAX)?;
    r.expect(n, size_of::<RawRedo>())?;
    let mut all = Vec::with_capacity(n);
    for _ in 0..n {
        let raw: &RawRedo = r.get()?;
        let len = count(raw.bytes, "bytes of a change", MESSAGE_BYTES_MAX)?;
        // Copied: a change is kept longer than the message that it came in.
        let bytes = Bytes::copy_from_slice(r.take(len)?);
        r.skip_pad()?;
        let (transno, data_of) = (Transno(raw.transno.get()), raw.data_of.get());
        all.push(Redo { transno, bytes, data_of });
    }
    Ok(all)
}

pub(super) fn encode_replay(changes: &[Redo], w: &mut Writer) {
    w.op(opcode::REPLAY, 0, |w| {
        w.put(&[len32(changes.len()), U32::ZERO]);
        changes.iter().for_each(|redo| encode_redo(redo, w));
    });
}

pub(super) fn decode_replay(flags: u16, r: &mut Reader<'_>) -> Result<Vec<Redo>, DecodeError> {
    let [] = unpack("replay flags", flags)?;
    let head: &[U32; 2] = r.get()?;
    decode_redo(head[0], r)
}

pub(super) fn encode_page(page: &TreePage, w: &mut Writer) {
    let TreePage { records, more, bytes } = page;
    w.op(answer::TREE, bits([*more]), |w| {
        w.put(&U32::new(*records));
        w.bulk(bytes);
    });
}

pub(super) fn decode_page(
    flags: u16,
    r: &mut Reader<'_>,
    bulk: &mut Bulk,
) -> Result<TreePage, DecodeError> {
    let [more] = unpack("tree flags", flags)?;
    let records = r.get::<U32>()?.get();
    Ok(TreePage { records, more, bytes: r.bulk(bulk)? })
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
