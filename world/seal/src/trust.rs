//! Which certificates this process believes.

use crate::authority::SERVER_NAME;
use crate::certificate::{is_signed, principal_of};
use crate::error::SealError;
use crate::fingerprint::Fingerprint;
use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::collections::BTreeSet;
use std::sync::Arc;
use types::principal::KeyHash;

/// Keys that were revoked.
pub(crate) type Revoked = RwLock<BTreeSet<KeyHash>>;

/// See the module.
pub(crate) struct Trust {
    /// The own one first.
    authorities: Vec<(Fingerprint, CertificateDer<'static>)>,
    servers: Arc<WebPkiServerVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
    /// As `clients`, and those that show no certificate.
    anyone: Arc<dyn ClientCertVerifier>,
    revoked: Arc<Revoked>,
}

impl Trust {
    /// In these authorities, the own one first.
    ///
    /// # Errors
    /// A certificate is none of an authority.
    pub(crate) fn new(
        authorities: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
        revoked: Arc<Revoked>,
    ) -> Result<Trust, SealError> {
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone())?;
        }
        let roots = Arc::new(roots);
        let tls = |error: rustls::server::VerifierBuilderError| SealError::Tls(error.to_string());
        let clients =
            || WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let servers = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone());
        Ok(Trust {
            authorities: authorities.into_iter().map(|der| (Fingerprint::of(&der), der)).collect(),
            servers: servers.build().map_err(tls)?,
            clients: clients().build().map_err(tls)?,
            anyone: clients().allow_unauthenticated().build().map_err(tls)?,
            revoked,
        })
    }

    /// The authorities with their SHA-256, the own one first.
    pub(crate) fn authorities(&self) -> &[(Fingerprint, CertificateDer<'static>)] {
        &self.authorities
    }

    /// Their SHA-256.
    pub(crate) fn fingerprints(&self) -> Vec<Fingerprint> {
        self.authorities.iter().map(|(fingerprint, _)| *fingerprint).collect()
    }

    /// True if this authority is one of them.
    pub(crate) fn knows(&self, authority: &Fingerprint) -> bool {
        self.authorities.iter().any(|(one, _)| one == authority)
    }

    /// The authority that signed this certificate by itself; `None`: one that an authority signed
    /// did. `now`: seconds since 1970.
    pub(crate) fn signer(&self, certificate: &CertificateDer<'_>, now: i64) -> Option<Fingerprint> {
        let mut all = self.authorities.iter();
        all.find(|(_, der)| is_signed(certificate, der, &[], now)).map(|(one, _)| *one)
    }

    /// What rustls asks of servers.
    pub(crate) fn servers(&self) -> Arc<WebPkiServerVerifier> {
        self.servers.clone()
    }

    /// What rustls asks of clients. `anyone`: also those that show no certificate.
    pub(crate) fn clients(&self, anyone: bool) -> &Arc<dyn ClientCertVerifier> {
        if anyone { &self.anyone } else { &self.clients }
    }

    fn is_revoked(&self, certificate: &CertificateDer<'_>) -> bool {
        let revoked = self.revoked.read();
        principal_of(certificate).is_ok_and(|owner| revoked.contains(&owner.key))
    }

    /// True if a client that once proved that these certificates are its own, that of its key
    /// first, is believed now: what a full handshake asks, and what follows it.
    pub(crate) fn still_believes_client(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> bool {
        chain.split_first().is_some_and(|(own, between)| {
            self.clients.verify_client_cert(own, between, now).is_ok() && !self.is_revoked(own)
        })
    }

    /// As [`Trust::still_believes_client`], of a server.
    pub(crate) fn still_believes_server(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> bool {
        let Ok(name) = ServerName::try_from(SERVER_NAME) else { return false };
        chain.split_first().is_some_and(|(own, between)| {
            self.servers.verify_server_cert(own, between, &name, &[], now).is_ok()
                && !self.is_revoked(own)
        })
    }
}
