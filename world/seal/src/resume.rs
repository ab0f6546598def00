//! Handshakes that go on from an earlier one (docs/security.md, "Resumption"): what rustls asks for
//! it, at both ends.
//!
//! rustls gives and takes tickets without a look at the certificates for which they stand. Here
//! each is looked at again, as in a full handshake, before it is taken or shown.

use crate::provider::Wall;
use crate::tickets::{Content, TICKET_LIFE, TicketSealer};
use crate::trust::Trust;
use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ProducesTickets;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, NamedGroup, SignatureScheme};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};
use types::nid::Nid;

/// Servers whose tickets a process keeps.
const SERVERS_MAX: usize = 1_024;
/// Tickets that it keeps of each.
const TICKETS_MAX: usize = 4;
/// A ticket that is asked for and not given is asked for again after so long, seconds.
const AGAIN: i64 = 1_800;

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// One connection at the side that answers: what the client proved, in this handshake or in that
/// from which it goes on.
pub(crate) struct Answering {
    trust: Arc<Trust>,
    clients: Arc<dyn ClientCertVerifier>,
    sealer: Arc<TicketSealer>,
    wall: Arc<Wall>,
    proven: Mutex<Option<Proven>>,
}

struct Proven {
    /// Seconds since 1970.
    began: i64,
    chain: Vec<CertificateDer<'static>>,
}

impl Answering {
    /// `anyone`: also clients that show no certificate are answered.
    pub(crate) fn new(
        trust: Arc<Trust>,
        anyone: bool,
        sealer: Arc<TicketSealer>,
        wall: Arc<Wall>,
    ) -> Arc<Answering> {
        let (clients, proven) = (trust.clients(anyone).clone(), Mutex::new(None));
        Arc::new(Answering { trust, clients, sealer, wall, proven })
    }
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answering")
    }
}

impl ClientCertVerifier for Answering {
    fn offer_client_auth(&self) -> bool {
        self.clients.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.clients.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.clients.verify_client_cert(own, between, now)?;
        let chain = std::iter::once(own).chain(between).map(|one| one.clone().into_owned());
        *self.proven.lock() = Some(Proven { began: seconds(now), chain: chain.collect() });
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.clients.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.clients.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.clients.supported_verify_schemes()
    }
}

impl ProducesTickets for Answering {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        // Half a day.
        TICKET_LIFE as u32
    }

    fn encrypt(&self, state: &[u8]) -> Option<Vec<u8>> {
        let now = seconds(self.wall.current_time()?);
        let proven = self.proven.lock();
        let Proven { began, chain } = proven.as_ref()?;
        let content = Content { began: *began, chain: chain.clone(), state: state.to_vec() };
        self.sealer.seal(&content, now, self.trust.authorities())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let now = self.wall.current_time()?;
        let opened = self.sealer.open(ticket, seconds(now), self.trust.authorities())?;
        let Content { began, chain, state } = opened;
        if !self.trust.still_believes_client(&chain, now) {
            return None;
        }
        // Of several tickets that a client shows rustls takes the first that it can, and opens none
        // after it.
        *self.proven.lock() = Some(Proven { began, chain });
        Some(state)
    }
}

/// A ticket at the side that connects.
struct Ticket {
    value: Tls13ClientSessionValue,
    /// What the server showed, its own certificate first.
    chain: Arc<Vec<CertificateDer<'static>>>,
}

#[derive(Default)]
struct Server {
    /// The newest last; at most [`TICKETS_MAX`].
    tickets: VecDeque<Ticket>,
    /// When the last one came, seconds since 1970.
    got: i64,
    /// When one was asked for.
    asked: i64,
}

/// The tickets of a process, while it has one key.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<HashMap<Nid, Server>>);

impl Tickets {
    fn put(&self, nid: Nid, ticket: Ticket, now: i64) {
        let mut servers = self.0.lock();
        if servers.len() >= SERVERS_MAX && !servers.contains_key(&nid) {
            let oldest = servers.iter().min_by_key(|(_, server)| server.got);
            let oldest = oldest.map(|(nid, _)| *nid);
            oldest.and_then(|nid| servers.remove(&nid));
        }
        let server = servers.entry(nid).or_default();
        server.got = now;
        server.tickets.push_back(ticket);
        if server.tickets.len() > TICKETS_MAX {
            server.tickets.pop_front();
        }
    }

    fn take(&self, nid: Nid) -> Option<Ticket> {
        self.0.lock().get_mut(&nid)?.tickets.pop_back()
    }

    #[cfg(test)]
    pub(crate) fn kept(&self, nid: Nid) -> usize {
        self.0.lock().get(&nid).map_or(0, |server| server.tickets.len())
    }

    /// A server whose newest ticket is so old, seconds, that it is to be asked for another one; it
    /// is taken to be asked now. `now`: seconds since 1970.
    pub(crate) fn next_stale(&self, now: i64, age: i64) -> Option<Nid> {
        let mut servers = self.0.lock();
        // Its tickets are not good any more, and it did not give others.
        servers.retain(|_, server| now.saturating_sub(server.got) < TICKET_LIFE);
        let is_stale = |server: &Server| {
            now.saturating_sub(server.got) >= age && now.saturating_sub(server.asked) >= AGAIN
        };
        let (nid, server) = servers.iter_mut().find(|(_, server)| is_stale(server))?;
        server.asked = now;
        Some(*nid)
    }
}

/// One connection at the side that connects.
pub(crate) struct Calling {
    nid: Nid,
    tickets: Arc<Tickets>,
    trust: Arc<Trust>,
    wall: Arc<Wall>,
    /// False: a ticket is wanted, none is shown.
    shows: bool,
    /// What the server showed: known before it gives a ticket.
    chain: OnceLock<Arc<Vec<CertificateDer<'static>>>>,
}

impl Calling {
    /// To the server at `nid`. `shows`: with a ticket, if there is one.
    pub(crate) fn new(
        (nid, shows): (Nid, bool),
        tickets: Arc<Tickets>,
        trust: Arc<Trust>,
        wall: Arc<Wall>,
    ) -> Arc<Calling> {
        Arc::new(Calling { nid, tickets, trust, wall, shows, chain: OnceLock::new() })
    }

    /// The handshake is over, and the server showed this.
    pub(crate) fn set_chain(&self, chain: Vec<CertificateDer<'static>>) {
        self.chain.get_or_init(|| Arc::new(chain));
    }
}

impl fmt::Debug for Calling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calling({})", self.nid)
    }
}

impl ClientSessionStore for Calling {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        if let (Some(chain), Some(now)) = (self.chain.get(), self.wall.current_time()) {
            let chain = chain.clone();
            self.tickets.put(self.nid, Ticket { value, chain }, seconds(now));
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let now = self.shows.then(|| self.wall.current_time()).flatten()?;
        // Most often the first one will do, or none.
        std::iter::from_fn(|| self.tickets.take(self.nid))
            .find(|ticket| self.trust.still_believes_server(&ticket.chain, now))
            .map(|ticket| ticket.value)
    }
}
