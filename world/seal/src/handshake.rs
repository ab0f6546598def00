//! The handshake of TLS 1.3, by rustls without buffers of its own. What comes out are two halves
//! that are used by two threads at once.

use crate::error::sentence;
use crate::records::{Opening, Sealing, Traffic, Updates};
use lnet::seal::{IT_IS_OPEN, Read, Write, is_plain};
use parking_lot::Mutex;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{Error, ExtractedSecrets, HandshakeKind, SupportedCipherSuite};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes that may arrive before the handshake is over.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// Room for one read of it.
const READ_BYTES: usize = 8 << 10;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum Failed {
    /// One end does not believe the other, in one sentence that goes on from the address of the
    /// other.
    Refused(String),
    /// The connection itself.
    Lost(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Lost(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Refused(sentence(&error))
    }
}

/// A connection after its handshake.
pub(crate) struct Shaken {
    /// The certificates of the other end, its own first; empty: it showed none.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// The handshake went on from an earlier one.
    pub(crate) is_resumed: bool,
    pub(crate) protocol: Option<Vec<u8>>,
    /// Name of the cipher.
    pub(crate) cipher: &'static str,
    pub(crate) sealing: Sealing,
    pub(crate) opening: Opening,
}

impl Shaken {
    /// The two halves of a connection that stays sealed.
    pub(crate) fn sealed(self) -> (Read, Write) {
        (Box::new(self.opening), Box::new(self.sealing))
    }
}

/// What an end is shown: certificates and protocol.
type Shown = (Vec<CertificateDer<'static>>, Option<Vec<u8>>);
/// Secrets of both directions, the cipher, and how there are more.
type Secrets = (ExtractedSecrets, SupportedCipherSuite, Box<dyn Updates>);

/// One end during its handshake.
pub(crate) trait End: Sized + Send {
    type Data: Send + 'static;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;
    /// True if something is ready to be sent.
    fn has_to_tell(&self) -> bool;
    fn shown(&self) -> Shown;
    fn is_resumed(&self) -> bool;
    fn into_secrets(self) -> Result<Secrets, Error>;
}

macro_rules! end {
    ($connection:ident, $data:ty) => {
        impl End for $connection {
            type Data = $data;

            fn process<'c, 'i>(
                &'c mut self,
                incoming: &'i mut [u8],
            ) -> UnbufferedStatus<'c, 'i, $data> {
                self.process_tls_records(incoming)
            }

            fn has_to_tell(&self) -> bool {
                self.wants_write()
            }

            fn shown(&self) -> Shown {
                let chain = self.peer_certificates().unwrap_or_default();
                (
                    chain.iter().map(|one| one.clone().into_owned()).collect(),
                    self.alpn_protocol().map(<[u8]>::to_vec),
                )
            }

            fn is_resumed(&self) -> bool {
                self.handshake_kind() == Some(HandshakeKind::Resumed)
            }

            fn into_secrets(self) -> Result<Secrets, Error> {
                let (secrets, kernel) = self.dangerous_into_kernel_connection()?;
                Ok((secrets, kernel.negotiated_cipher_suite(), Box::new(kernel)))
            }
        }
    };
}

end!(UnbufferedClientConnection, rustls::client::ClientConnectionData);
end!(UnbufferedServerConnection, rustls::server::ServerConnectionData);

/// What a step of the handshake asks for.
enum Step {
    Again,
    Send,
    Receive,
    Over,
    Closed,
}

/// Makes the handshake. `incoming`: what arrived already. Returns also what arrived behind it,
/// opened and not.
pub(crate) async fn shake<E: End>(
    mut end: E,
    mut incoming: Vec<u8>,
    read: &mut Read,
    write: &mut Write,
) -> Result<(E, Vec<u8>, Vec<u8>), Failed> {
    let (mut outgoing, mut early) = (Vec::new(), Vec::new());
    loop {
        let UnbufferedStatus { discard, state } = end.process(&mut incoming);
        let step = match state {
            Ok(state) => step(state, &mut outgoing, &mut early)?,
            Err(error) => {
                tell(end, &mut incoming, outgoing, write).await?;
                return Err(error.into());
            }
        };
        incoming.drain(..discard);
        match step {
            Step::Again => {}
            Step::Send | Step::Over => {
                write.write_all(&outgoing).await?;
                write.flush().await?;
                outgoing.clear();
                if let Step::Over = step {
                    return Ok((end, early, incoming));
                }
            }
            Step::Receive if incoming.len() < HANDSHAKE_BYTES_MAX => {
                let start = incoming.len();
                incoming.resize(start + READ_BYTES, 0);
                let arrived = read.read(&mut incoming[start..]).await?;
                incoming.truncate(start + arrived);
                if arrived == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                if incoming.first_chunk().is_some_and(is_plain) {
                    return Err(Failed::Refused(IT_IS_OPEN.to_owned()));
                }
            }
            Step::Receive => return Err(Failed::Refused("its handshake is too long".to_owned())),
            Step::Closed => return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
        }
    }
}

fn step<Data>(
    state: ConnectionState<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
    early: &mut Vec<u8>,
) -> Result<Step, Failed> {
    Ok(match state {
        ConnectionState::EncodeTlsData(mut data) => {
            let start = outgoing.len();
            if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                outgoing.resize(start + size.required_size, 0);
                data.encode(&mut outgoing[start..])
                    .map_err(|error| io::Error::other(error.to_string()))?;
            }
            Step::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Step::Send
        }
        ConnectionState::ReadTraffic(mut data) => {
            while let Some(record) = data.next_record() {
                early.extend_from_slice(record?.payload);
            }
            Step::Again
        }
        ConnectionState::WriteTraffic(_) => Step::Over,
        ConnectionState::BlockedHandshake => Step::Receive,
        _ => Step::Closed,
    })
}

/// Tells the other end why the handshake failed: the alert that is ready. While one is, rustls
/// gives it without another look at what arrived, which it would not stand.
async fn tell<E: End>(
    mut end: E,
    incoming: &mut [u8],
    mut outgoing: Vec<u8>,
    write: &mut Write,
) -> Result<(), Failed> {
    while end.has_to_tell() {
        match end.process(incoming).state {
            Ok(state) => step(state, &mut outgoing, &mut Vec::new())?,
            Err(_) => break,
        };
    }
    write.write_all(&outgoing).await?;
    Ok(write.flush().await?)
}

/// The two halves. `early`, `incoming`: what arrived behind the handshake, opened and not.
pub(crate) fn halves<E: End>(
    end: E,
    (early, incoming): (Vec<u8>, Vec<u8>),
    read: Read,
    write: Write,
) -> Result<Shaken, Failed> {
    let ((chain, protocol), is_resumed) = (end.shown(), end.is_resumed());
    let (ExtractedSecrets { tx, rx }, SupportedCipherSuite::Tls13(suite), updates) =
        end.into_secrets()?;
    let traffic = Arc::new(Traffic {
        updates: Mutex::new(updates),
        cipher: suite.aead_alg,
        asked: AtomicBool::new(false),
    });
    let sealing = Sealing::new(write, traffic.clone(), tx)?;
    let opening = Opening::new(read, traffic, rx, (early, incoming))?;
    let cipher = suite.common.suite.as_str().unwrap_or("TLS13");
    Ok(Shaken { chain, is_resumed, protocol, cipher, sealing, opening })
}
