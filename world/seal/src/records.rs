//! Records of TLS 1.3 (RFC 8446, 5.2): one half of a connection seals what it sends, the other
//! opens what arrives. Keys and ciphers are those of rustls.
//!
//! Bound: a half holds at most [`QUEUE_MAX`] bytes that are sealed and not yet sent, or
//! [`RAW_MAX`] bytes that arrived and are not opened yet.

use lnet::seal::{KeyRefused, Read, Write};
use parking_lot::Mutex;
use rustls::client::ClientConnectionData;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks,
    OutboundPlainMessage, Tls13AeadAlgorithm,
};
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, HandshakeType, ProtocolVersion,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes in front of a record.
const HEADER: usize = 5;
/// Longest content of a record.
const PLAIN_MAX: usize = 16 << 10;
/// Longest record without its header.
const SEALED_MAX: usize = PLAIN_MAX + 256;
/// Bytes that are sealed and not yet sent.
const QUEUE_MAX: usize = 256 << 10;
/// Bytes that arrived and are not opened yet, at first and at most.
const RAW_MIN: usize = 32 << 10;
const RAW_MAX: usize = 256 << 10;
/// Records that one key seals. AES-GCM stands 2^24.5 of them (RFC 8446, 5.5).
const RECORDS_PER_KEY: u64 = 1 << 23;
/// Records of one write of the socket.
const SLICES_MAX: usize = 32;

/// The next keys of a connection.
pub(crate) trait Updates: Send {
    fn next_sealing(&mut self) -> Result<ConnectionTrafficSecrets, Error>;
    fn next_opening(&mut self) -> Result<ConnectionTrafficSecrets, Error>;
    /// The other end gives a ticket to come back with: the content of its message.
    fn ticket(&mut self, content: &[u8]) -> Result<(), Error>;
}

macro_rules! updates {
    ($data:ty, $ticket:expr) => {
        impl Updates for KernelConnection<$data> {
            fn next_sealing(&mut self) -> Result<ConnectionTrafficSecrets, Error> {
                self.update_tx_secret().map(|(_, secrets)| secrets)
            }

            fn next_opening(&mut self) -> Result<ConnectionTrafficSecrets, Error> {
                self.update_rx_secret().map(|(_, secrets)| secrets)
            }

            fn ticket(&mut self, content: &[u8]) -> Result<(), Error> {
                let take: fn(&mut Self, &[u8]) -> Result<(), Error> = $ticket;
                take(self, content)
            }
        }
    };
}

updates!(ClientConnectionData, KernelConnection::handle_new_session_ticket);
updates!(ServerConnectionData, |_, _| Err(Error::General("a client gives no tickets".to_owned())));

/// What both halves share.
pub(crate) struct Traffic {
    pub(crate) updates: Mutex<Box<dyn Updates>>,
    pub(crate) cipher: &'static dyn Tls13AeadAlgorithm,
    /// The other end asks for another key of what is sent.
    pub(crate) asked: AtomicBool,
}

fn parts(secrets: ConnectionTrafficSecrets) -> io::Result<(AeadKey, Iv)> {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => Ok((key, iv)),
        _ => Err(bad("its cipher is not known")),
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn broken(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The half that sends.
pub(crate) struct Sealing {
    socket: Write,
    cipher: Box<dyn MessageEncrypter>,
    /// Number of the next record under this key.
    number: u64,
    /// Records that this key may seal.
    records_per_key: u64,
    traffic: Arc<Traffic>,
    /// Sealed, not yet sent.
    queue: VecDeque<Vec<u8>>,
    /// Of the first of them, bytes that are sent.
    sent: usize,
    queued: usize,
}

impl Sealing {
    pub(crate) fn new(
        socket: Write,
        traffic: Arc<Traffic>,
        (number, secrets): (u64, ConnectionTrafficSecrets),
    ) -> io::Result<Sealing> {
        let (key, iv) = parts(secrets)?;
        let cipher = traffic.cipher.encrypter(key, iv);
        let records_per_key = RECORDS_PER_KEY;
        Ok(Sealing {
            socket,
            cipher,
            number,
            records_per_key,
            traffic,
            queue: VecDeque::new(),
            sent: 0,
            queued: 0,
        })
    }

    /// The connection below; `None`: something is sealed and not sent.
    pub(crate) fn into_socket(self) -> Option<Write> {
        self.queue.is_empty().then_some(self.socket)
    }

    /// Takes another key after so many records.
    #[cfg(test)]
    pub(crate) fn records_per_key(&mut self, records: u64) {
        self.records_per_key = records;
    }

    fn seal(&mut self, typ: ContentType, payload: OutboundChunks<'_>) -> io::Result<()> {
        let message = OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_2, payload };
        let record = self.cipher.encrypt(message, self.number).map_err(broken)?.encode();
        self.number += 1;
        self.queued += record.len();
        self.queue.push_back(record);
        Ok(())
    }

    /// Takes the next key, after telling the other end.
    fn take_next_key(&mut self) -> io::Result<()> {
        // A KeyUpdate that asks for none in return.
        let told = [u8::from(HandshakeType::KeyUpdate), 0, 0, 1, 0];
        self.seal(ContentType::Handshake, OutboundChunks::Single(&told))?;
        let (key, iv) = parts(self.traffic.updates.lock().next_sealing().map_err(broken)?)?;
        self.cipher = self.traffic.cipher.encrypter(key, iv);
        self.number = 0;
        Ok(())
    }

    /// Sends until at most `rest` bytes wait.
    fn poll_send(&mut self, cx: &mut Context<'_>, rest: usize) -> Poll<io::Result<()>> {
        while self.queued > rest {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.queue.len().min(SLICES_MAX);
            for (at, (slice, record)) in slices.iter_mut().zip(&self.queue).enumerate() {
                *slice = IoSlice::new(if at == 0 { &record[self.sent..] } else { record });
            }
            let mut written =
                ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.queued -= written;
            while let Some(first) = self.queue.front()
                && written > 0
            {
                let part = written.min(first.len() - self.sent);
                written -= part;
                self.sent += part;
                if self.sent == first.len() {
                    self.queue.pop_front();
                    self.sent = 0;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_slices(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(cx, QUEUE_MAX - 1))?;
        let chunks: Vec<&[u8]> = bufs.iter().map(|buf| &**buf).collect();
        let all = chunks.iter().map(|chunk| chunk.len()).sum::<usize>().min(QUEUE_MAX);
        for start in (0..all).step_by(PLAIN_MAX) {
            if self.number >= self.records_per_key
                || self.traffic.asked.swap(false, Ordering::AcqRel)
            {
                self.take_next_key()?;
            }
            let end = all.min(start + PLAIN_MAX);
            self.seal(
                ContentType::ApplicationData,
                OutboundChunks::Multiple { chunks: &chunks, start, end },
            )?;
        }
        // What the socket does not take now goes with the next write, or the flush.
        if let Poll::Ready(Err(error)) = self.poll_send(cx, 0) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(all))
    }
}

impl AsyncWrite for Sealing {
    env::writes_slices!(poll_slices);

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx, 0))?;
        Pin::new(&mut this.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx, 0))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}

/// The contents of the messages of a record, which are all new tickets (RFC 8446, 4.6.1). No
/// server that is known spreads one over two records.
fn tickets(mut messages: &[u8]) -> io::Result<Vec<&[u8]>> {
    let mut contents = Vec::new();
    while let [typ, high, middle, low, rest @ ..] = messages {
        let bytes = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        match rest.split_at_checked(bytes) {
            Some((content, after))
                if HandshakeType::from(*typ) == HandshakeType::NewSessionTicket =>
            {
                contents.push(content);
                messages = after;
            }
            _ => return Err(bad("a message of the handshake comes after its end")),
        }
    }
    match messages.is_empty() {
        true => Ok(contents),
        false => Err(bad("a message of the handshake is cut")),
    }
}

/// The half that receives.
pub(crate) struct Opening {
    socket: Read,
    cipher: Box<dyn MessageDecrypter>,
    /// Number of the next record under this key.
    number: u64,
    traffic: Arc<Traffic>,
    raw: Vec<u8>,
    /// Of `raw`, what arrived and is not opened yet.
    sealed: Range<usize>,
    /// Of `raw`, what is opened and not yet taken. It stands before `sealed`.
    plain: Range<usize>,
    /// Opened during the handshake.
    early: io::Cursor<Vec<u8>>,
    /// Nothing more is read.
    closed: bool,
    /// Why, to be said with the next read.
    failed: Option<io::Error>,
}

impl Opening {
    /// `early`: what was opened during the handshake; `raw`: what arrived behind that.
    pub(crate) fn new(
        socket: Read,
        traffic: Arc<Traffic>,
        (number, secrets): (u64, ConnectionTrafficSecrets),
        (early, mut raw): (Vec<u8>, Vec<u8>),
    ) -> io::Result<Opening> {
        let (key, iv) = parts(secrets)?;
        let (cipher, sealed) = (traffic.cipher.decrypter(key, iv), 0..raw.len());
        raw.resize(raw.len().max(RAW_MIN), 0);
        let early = io::Cursor::new(early);
        Ok(Opening {
            socket,
            cipher,
            number,
            traffic,
            raw,
            sealed,
            plain: 0..0,
            early,
            closed: false,
            failed: None,
        })
    }

    /// The connection below; `None`: something arrived that was not read, or it is over.
    pub(crate) fn into_socket(self) -> Option<Read> {
        let early = self.early.position() < self.early.get_ref().len() as u64;
        let rest = early || !self.sealed.is_empty() || !self.plain.is_empty();
        (!rest && !self.closed && self.failed.is_none()).then_some(self.socket)
    }

    /// As at first, with other bytes to arrive.
    #[cfg(test)]
    pub(crate) fn start_again(&mut self, socket: Read) {
        (self.socket, self.number, self.sealed, self.plain) = (socket, 0, 0..0, 0..0);
        (self.closed, self.failed) = (false, None);
    }

    /// Opens the next record; `false` if more must arrive first.
    fn open(&mut self) -> io::Result<bool> {
        let arrived = &mut self.raw[self.sealed.clone()];
        let Some((&mut [typ, major, minor, high, low], rest)) =
            arrived.split_first_chunk_mut::<HEADER>()
        else {
            return Ok(false);
        };
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        if bytes > SEALED_MAX {
            return Err(bad("a record is too long"));
        }
        let Some(record) = rest.get_mut(..bytes) else { return Ok(false) };
        if ContentType::from(typ) != ContentType::ApplicationData || [major, minor] != [3, 3] {
            return Err(bad("a record is not sealed"));
        }
        let start = self.sealed.start + HEADER;
        self.sealed.start = start + bytes;
        let message = InboundOpaqueMessage::new(
            ContentType::ApplicationData,
            ProtocolVersion::TLSv1_2,
            record,
        );
        let number = self.number;
        self.number = number.checked_add(1).ok_or_else(|| bad("too many records under one key"))?;
        let opened = self.cipher.decrypt(message, number).map_err(broken)?;
        match opened.typ {
            // It was opened in place.
            ContentType::ApplicationData => self.plain = start..start + opened.payload.len(),
            ContentType::Alert => match *opened.payload {
                [_, 0] => self.closed = true,
                [_, alert] => {
                    let reason = crate::error::ours(AlertDescription::from(alert));
                    return Err(io::Error::other(KeyRefused(reason)));
                }
                _ => return Err(bad("an alert has another length")),
            },
            ContentType::Handshake => match *opened.payload {
                [typ, 0, 0, 1, asks @ (0 | 1)]
                    if HandshakeType::from(typ) == HandshakeType::KeyUpdate =>
                {
                    self.traffic.asked.fetch_or(asks == 1, Ordering::AcqRel);
                    let (key, iv) =
                        parts(self.traffic.updates.lock().next_opening().map_err(broken)?)?;
                    self.cipher = self.traffic.cipher.decrypter(key, iv);
                    self.number = 0;
                }
                ref messages @ [typ, ..]
                    if HandshakeType::from(typ) == HandshakeType::NewSessionTicket =>
                {
                    let mut updates = self.traffic.updates.lock();
                    for content in tickets(messages)? {
                        updates.ticket(content).map_err(broken)?;
                    }
                }
                _ => return Err(bad("a message of the handshake comes after its end")),
            },
            _ => return Err(bad("a record of another kind comes after the handshake")),
        }
        Ok(true)
    }

    /// Makes room for what arrives next.
    fn make_room(&mut self) {
        let longest = HEADER + SEALED_MAX;
        if self.sealed.is_empty() {
            self.sealed = 0..0;
        } else if self.raw.len() - self.sealed.start < longest {
            self.raw.copy_within(self.sealed.clone(), 0);
            self.sealed = 0..self.sealed.len();
        }
    }
}

impl AsyncRead for Opening {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if let Some(error) = this.failed.take() {
            return Poll::Ready(Err(error));
        }
        if this.early.position() < this.early.get_ref().len() as u64 {
            return Pin::new(&mut this.early).poll_read(cx, buf);
        }
        while buf.remaining() > 0 {
            if !this.plain.is_empty() {
                let part = this.plain.len().min(buf.remaining());
                buf.put_slice(&this.raw[this.plain.start..this.plain.start + part]);
                this.plain.start += part;
                continue;
            }
            if this.closed {
                break;
            }
            let is_some_taken = buf.filled().len() > before;
            match this.open() {
                Ok(true) => continue,
                Ok(false) if is_some_taken => break,
                Ok(false) => {}
                Err(error) => {
                    this.closed = true;
                    if !is_some_taken {
                        return Poll::Ready(Err(error));
                    }
                    // What was opened before it is good, and comes first.
                    this.failed = Some(error);
                    break;
                }
            }
            this.make_room();
            let mut more = ReadBuf::new(&mut this.raw[this.sealed.end..]);
            ready!(Pin::new(&mut this.socket).poll_read(cx, &mut more))?;
            let (arrived, full) = (more.filled().len(), more.remaining() == 0);
            if arrived == 0 {
                this.closed = true;
                if !this.sealed.is_empty() {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
            }
            this.sealed.end += arrived;
            if full && this.raw.len() < RAW_MAX {
                this.raw.resize(this.raw.len() * 2, 0);
            }
        }
        Poll::Ready(Ok(()))
    }
}
