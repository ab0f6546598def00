//! How connections are sealed, where keys are asked for. The seal itself is made elsewhere: here is
//! what a link needs of it.

use crate::error::LinkError;
use env::BoxFuture;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use types::nid::Nid;
use types::principal::Principal;
use wire::frame::MAGIC;

/// Half of a connection.
pub type Read = Box<dyn AsyncRead + Send + Unpin>;
/// The other half.
pub type Write = Box<dyn AsyncWrite + Send + Unpin>;

/// Bytes of a new connection by which its listener tells a sealed one from a plain one.
pub const START_BYTES: usize = 8;

/// It is plain, and this process asks for keys.
pub const IT_IS_OPEN: &str = "it has no key, and this process talks only to those that have one of its cluster; is \
                              security = \"off\" there?";

/// True if a connection that starts so is a sealed one: a TLS record of a handshake (22, version
/// 3.x) with a ClientHello (1). The first two bytes alone would not do: a plain frame begins with a
/// checksum, which may be anything. Where the ClientHello has its 1, a plain frame has a letter of
/// the magic, even after damage of a bit.
pub fn is_sealed(start: &[u8; START_BYTES]) -> bool {
    matches!(start, [0x16, 0x03, _, _, _, 0x01, ..])
}

/// True if a connection, or the answer to it, that starts so is plain.
pub fn is_plain(start: &[u8; START_BYTES]) -> bool {
    start[4..] == MAGIC
}

/// The other end refused the key of this process: a seal returns it inside of an
/// [`std::io::Error`], and the link ends as [`LinkError::Key`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyRefused(pub String);

/// How a connection is sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protection {
    /// Name of the cipher.
    pub cipher: &'static str,
    /// When the certificate that the other end showed ends, seconds since 1970; `None`: it does not
    /// say.
    pub expires: Option<i64>,
    /// SHA-256 of the certificate of the authority that signed the other end's; `None`: it is not
    /// one of those that this process trusted, but one of them signed it.
    pub authority: Option<[u8; 32]>,
}

/// How far a connection reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Over a network.
    Network,
    /// To a process of this host, through the kernel only: both ends prove their keys, and what
    /// they send after that is plain.
    Host,
}

/// A connection whose other end proved its owner.
pub struct Sealed {
    /// Owner of the other end.
    pub principal: Arc<Principal>,
    /// How it is sealed.
    pub protection: Protection,
    /// What arrives, opened.
    pub read: Read,
    /// What is sent; over a network it is sealed on its way.
    pub write: Write,
}

/// Seals connections with the key of this process.
pub trait Seal: Send + Sync {
    /// A connection that this process made: the other end must be a server of the cluster.
    fn call(
        &self,
        nid: Nid,
        read: Read,
        write: Write,
        reach: Reach,
    ) -> BoxFuture<'_, Result<Sealed, LinkError>>;

    /// A connection that came, and began with `start`. `None`: it was for something else than
    /// messages, and is done with.
    fn answer(
        &self,
        nid: Nid,
        start: [u8; START_BYTES],
        read: Read,
        write: Write,
        reach: Reach,
    ) -> BoxFuture<'_, Result<Option<Sealed>, LinkError>>;

    /// True if the key of this principal was revoked.
    fn is_revoked(&self, principal: &Principal) -> bool;

    /// True if the authority that vouched for the other end is trusted no more.
    fn is_withdrawn(&self, protection: &Protection) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::session::ClusterId;
    use wire::frame::{FrameKind, Header};

    /// The start of a plain frame whose checksum looks like the start of a TLS record.
    fn look_alike() -> [u8; START_BYTES] {
        let header = |tag| Header {
            version: 1,
            kind: FrameKind::Hello,
            tag,
            body_bytes: 56,
            bulk_bytes: 0,
            body_crc: None,
            bulk_crc: None,
            cluster: ClusterId(1),
            source: Nid::Loopback,
            target: Nid::Loopback,
        };
        let starts =
            (0..).map(|tag| *header(tag).encode().first_chunk().expect("a header is longer"));
        starts
            .into_iter()
            .find(|start: &[u8; START_BYTES]| start.starts_with(&[0x16, 0x03]))
            .expect("one of 65536")
    }

    #[test]
    fn a_plain_frame_is_not_taken_for_a_sealed_one_whatever_its_checksum_and_with_a_bit_damaged() {
        let start = look_alike();
        assert!(is_plain(&start) && !is_sealed(&start));
        for bit in 0..8 * START_BYTES {
            let mut damaged = start;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_sealed(&damaged), "bit {bit}");
        }
        let client_hello = [0x16, 0x03, 0x01, 0x00, 0xf4, 0x01, 0x00, 0x00];
        assert!(is_sealed(&client_hello) && !is_plain(&client_hello));
    }
}
