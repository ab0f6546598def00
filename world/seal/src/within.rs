//! Connections within a host: both ends prove their keys, and what they send after that is plain.
//!
//! The end that accepts says when: with one sealed byte, once it believes the other one. Until then
//! that one sends nothing, so none of its plain bytes is taken for a record; and what it reads is
//! sealed until the accepting end has spoken, so it learns why it is refused. After that byte the
//! end that connected speaks first (it greets).

use crate::handshake::Shaken;
use crate::records::{Opening, Sealing};
use lnet::seal::{Read, Write};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Name of the protocol (ALPN). It is not that of sealed messages: a handshake of one kind of
/// connection cannot be passed on into one of the other kind.
pub(crate) const WITHIN: &[u8] = b"sheen-local/1";
/// Stands in place of the name of a cipher.
pub(crate) const NO_CIPHER: &str = "none, within this host";
/// From here on it is plain.
const GO: u8 = 1;

fn plain(opening: Opening, sealing: Sealing) -> io::Result<(Read, Write)> {
    let more = || io::Error::new(io::ErrorKind::InvalidData, "more than a handshake was said");
    Ok((opening.into_socket().ok_or_else(more)?, sealing.into_socket().ok_or_else(more)?))
}

/// The end that connected: waits until the other one believes it.
pub(crate) async fn called(shaken: Shaken) -> io::Result<(Read, Write)> {
    let Shaken { mut opening, sealing, .. } = shaken;
    match opening.read_u8().await? {
        GO => plain(opening, sealing),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it speaks of another thing")),
    }
}

/// The end that accepted, and believes the other one.
pub(crate) async fn answered(shaken: Shaken) -> io::Result<(Read, Write)> {
    let Shaken { opening, mut sealing, .. } = shaken;
    sealing.write_all(&[GO]).await?;
    sealing.flush().await?;
    plain(opening, sealing)
}
