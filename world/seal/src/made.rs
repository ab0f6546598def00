//! What is made of a key, once: how connections are made and answered with it.

use crate::credentials::Credentials;
use crate::error::SealError;
use crate::provider::{Wall, provider};
use crate::resume::{Answering, Calling, Tickets};
use crate::tickets::{TicketKeys, TicketSealer};
use crate::trust::{Heard, Trust};
use crate::within::WITHIN;
use env::clock::Clock;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;
use types::nid::Nid;
use types::principal::{Principal, Role};

/// Name of the protocol that is sealed (ALPN).
pub(crate) const MESSAGES: &[u8] = b"sheen/1";
/// That of connections by which a process gets a ticket, and nothing else.
pub(crate) const TICKET: &[u8] = b"sheen-ticket/1";

/// Tickets that a server gives with a handshake: the next connections of a process begin at once.
const TICKETS: usize = 2;

/// See the module.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) principal: Principal,
    pub(crate) expires: i64,
    pub(crate) trust: Arc<Trust>,
    provider: Arc<CryptoProvider>,
    wall: Arc<Wall>,
    /// Without tickets.
    calls: ClientConfig,
    /// Of servers to which this process connects.
    tickets: Arc<Tickets>,
    /// Absent: the key is not that of a server.
    shows: Option<Arc<dyn ResolvesServerCert>>,
    ticket_keys: TicketKeys,
    sealer: Arc<TicketSealer>,
}

impl Made {
    pub(crate) fn of(
        credentials: &Credentials,
        clock: &Arc<dyn Clock>,
        heard: &Arc<Heard>,
        ticket_keys: TicketKeys,
    ) -> Result<Made, SealError> {
        let (provider, wall) = (Arc::new(provider()), Arc::new(Wall(clock.clone())));
        let (cluster, authorities) = (credentials.principal().cluster, credentials.authorities());
        let trust = Trust::new(cluster, authorities, &provider, heard.clone())?;
        let mut calls = ClientConfig::builder_with_details(provider.clone(), wall.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(trust.servers())
            .with_client_auth_cert(credentials.chain(), credentials.key())?;
        calls.resumption = Resumption::disabled();
        calls.enable_secret_extraction = true;
        calls.alpn_protocols = vec![MESSAGES.to_vec()];
        let principal = credentials.principal().clone();
        let shows = match principal.role {
            Role::Server => {
                let (chain, key) = (credentials.chain(), credentials.key());
                let own = CertifiedKey::from_der(chain, key, &provider)?;
                Some(Arc::new(SingleCertAndKey::from(own)) as Arc<dyn ResolvesServerCert>)
            }
            _ => None,
        };
        let sealer = Arc::new(TicketSealer::new(&ticket_keys, &principal.key));
        Ok(Made {
            expires: credentials.expires(),
            principal,
            trust: Arc::new(trust),
            provider,
            wall,
            calls,
            tickets: Arc::default(),
            shows,
            ticket_keys,
            sealer,
        })
    }

    /// The same, with other ticket keys.
    pub(crate) fn with_ticket_keys(&self, ticket_keys: TicketKeys) -> Made {
        let sealer = Arc::new(TicketSealer::new(&ticket_keys, &self.principal.key));
        Made { ticket_keys, sealer, ..self.clone() }
    }

    pub(crate) fn ticket_keys(&self) -> &TicketKeys {
        &self.ticket_keys
    }

    /// The tickets that servers gave.
    pub(crate) fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    /// How a connection to `nid` is made. `protocol`: [`MESSAGES`], or [`TICKET`].
    pub(crate) fn calls(
        &self,
        nid: Nid,
        protocol: &'static [u8],
    ) -> (Arc<ClientConfig>, Arc<Calling>) {
        let purpose = (nid, protocol == MESSAGES);
        let (tickets, trust) = (self.tickets.clone(), self.trust.clone());
        let calling = Calling::new(purpose, tickets, trust, self.wall.clone());
        let mut config = self.calls_for(protocol);
        config.resumption = Resumption::store(calling.clone());
        (Arc::new(config), calling)
    }

    /// As connections are made, for another protocol, and without tickets.
    pub(crate) fn calls_for(&self, protocol: &[u8]) -> ClientConfig {
        let mut calls = self.calls.clone();
        calls.alpn_protocols = vec![protocol.to_vec()];
        calls
    }

    /// How a connection that came is answered; `None`: the key is not that of a server. `more`:
    /// further protocols; if there are any, also hosts without a key are answered.
    pub(crate) fn answers(&self, more: &[&[u8]]) -> Result<Option<Arc<ServerConfig>>, SealError> {
        let Some(shows) = &self.shows else { return Ok(None) };
        let (trust, sealer) = (self.trust.clone(), self.sealer.clone());
        let answering = Answering::new(trust, !more.is_empty(), sealer, self.wall.clone());
        let (provider, wall) = (self.provider.clone(), self.wall.clone());
        let mut answers = ServerConfig::builder_with_details(provider, wall)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(answering.clone())
            .with_cert_resolver(shows.clone());
        answers.session_storage = Arc::new(NoServerSessionStorage {});
        answers.ticketer = answering;
        answers.send_tls13_tickets = TICKETS;
        answers.enable_secret_extraction = true;
        // The first that the other end speaks, too, is taken.
        let all = [MESSAGES, TICKET].iter().chain(more);
        answers.alpn_protocols = all.map(|protocol| protocol.to_vec()).collect();
        Ok(Some(Arc::new(answers)))
    }

    /// As `answers`, for connections within this host: these are few, and know no tickets.
    pub(crate) fn within(&self) -> Result<Option<Arc<ServerConfig>>, SealError> {
        let Some(answers) = self.answers(&[])? else { return Ok(None) };
        let mut within = ServerConfig::clone(&answers);
        within.send_tls13_tickets = 0;
        within.alpn_protocols = vec![WITHIN.to_vec()];
        Ok(Some(Arc::new(within)))
    }
}
