//! Which certificates this process believes.

use crate::authority::SERVER_NAME;
use crate::certificate::{is_signed, principal_of};
use crate::error::SealError;
use crate::fingerprint::Fingerprint;
use crate::sites::Sites;
use observe::mutant::{Mutant, is_mutant};
use parking_lot::RwLock;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use types::principal::{KeyHash, KeyName, Principal};
use types::session::ClusterId;

/// What a process heard of keys and authorities, beside its own key.
#[derive(Default)]
pub(crate) struct Heard {
    /// Keys that were revoked.
    pub(crate) revoked: RwLock<BTreeSet<KeyHash>>,
    /// Names of keys of sites that were revoked.
    pub(crate) barred: RwLock<BTreeSet<KeyName>>,
    /// Authorities of sites whose keys are taken.
    pub(crate) sites: RwLock<Arc<Sites>>,
}

impl Heard {
    pub(crate) fn is_revoked(&self, owner: &Principal) -> bool {
        let is_revoked = self.revoked.read().contains(&owner.key)
            || owner.name.is_of_site() && self.barred.read().contains(&owner.name);
        is_revoked && !is_mutant(Mutant::RevokedLives)
    }

    fn sites(&self) -> Arc<Sites> {
        self.sites.read().clone()
    }
}

/// What rustls asks of clients: keys of the cluster, and of sites.
struct Clients {
    cluster: ClusterId,
    own: Arc<dyn ClientCertVerifier>,
    heard: Arc<Heard>,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clients")
    }
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.own.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // None: keys of sites are as good.
        &[]
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let refused = match self.own.verify_client_cert(own, between, now) {
            Ok(verified) => return Ok(verified),
            Err(refused) => refused,
        };
        let chain: Vec<_> = std::iter::once(own).chain(between).cloned().collect();
        match self.heard.sites().owner(&chain, self.cluster, now) {
            Ok(_) => Ok(ClientCertVerified::assertion()),
            // No site has to do with it.
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => Err(refused),
            Err(why) => Err(why),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.own.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.own.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.own.supported_verify_schemes()
    }
}

/// See the module.
pub(crate) struct Trust {
    cluster: ClusterId,
    /// The own one first.
    authorities: Vec<(Fingerprint, CertificateDer<'static>)>,
    servers: Arc<WebPkiServerVerifier>,
    /// Of the cluster only.
    own: Arc<dyn ClientCertVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
    /// As `clients`, and those that show no certificate.
    anyone: Arc<dyn ClientCertVerifier>,
    heard: Arc<Heard>,
}

impl Trust {
    /// In these authorities of a cluster, the own one first, and in those of sites.
    ///
    /// # Errors
    /// A certificate is none of an authority.
    pub(crate) fn new(
        cluster: ClusterId,
        authorities: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
        heard: Arc<Heard>,
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
        let own = clients().build().map_err(tls)?;
        let anyone = clients().allow_unauthenticated().build().map_err(tls)?;
        let with_sites = |own: &Arc<dyn ClientCertVerifier>| {
            let (own, heard) = (own.clone(), heard.clone());
            Arc::new(Clients { cluster, own, heard })
        };
        Ok(Trust {
            cluster,
            authorities: authorities.into_iter().map(|der| (Fingerprint::of(&der), der)).collect(),
            servers: servers.build().map_err(tls)?,
            clients: with_sites(&own),
            anyone: with_sites(&anyone),
            own,
            heard,
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

    /// True if this is an authority of the cluster that is trusted.
    pub(crate) fn knows(&self, authority: &Fingerprint) -> bool {
        self.authorities.iter().any(|(one, _)| one == authority)
    }

    /// True if this vouches for keys: an authority of the cluster, or a mapping of a site.
    pub(crate) fn vouches(&self, by: &Fingerprint) -> bool {
        self.knows(by) || self.heard.sites().knows(by)
    }

    /// Whose key these certificates show, that of the key first, and what vouches for it: the
    /// authority that signed it by itself, or the mapping of a site; `None`: an authority that one
    /// of those signed. `now`: seconds since 1970.
    ///
    /// # Errors
    /// Nothing vouches for it.
    pub(crate) fn owner(
        &self,
        chain: &[CertificateDer<'_>],
        now: i64,
    ) -> Result<(Principal, Option<Fingerprint>), SealError> {
        let (own, between) = chain.split_first().ok_or(SealError::NoPrincipal)?;
        let mut all = self.authorities.iter();
        if let Some((signer, _)) = all.find(|(_, der)| is_signed(own, der, &[], now)) {
            return Ok((principal_of(own)?, Some(*signer)));
        }
        let now = Duration::from_secs(u64::try_from(now).unwrap_or(0));
        let now = UnixTime::since_unix_epoch(now);
        if let Ok((owner, grant)) = self.heard.sites().owner(chain, self.cluster, now) {
            return Ok((owner, Some(grant)));
        }
        // What a certificate of a site says of a cluster counts nothing.
        self.own.verify_client_cert(own, between, now)?;
        Ok((principal_of(own)?, None))
    }

    /// What rustls asks of servers.
    pub(crate) fn servers(&self) -> Arc<WebPkiServerVerifier> {
        self.servers.clone()
    }

    /// What rustls asks of clients. `anyone`: also those that show no certificate.
    pub(crate) fn clients(&self, anyone: bool) -> &Arc<dyn ClientCertVerifier> {
        if anyone { &self.anyone } else { &self.clients }
    }

    /// True if a client that once proved that these certificates are its own, that of its key
    /// first, is believed now, as after a full handshake.
    pub(crate) fn still_believes_client(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> bool {
        if is_mutant(Mutant::OldTicket) {
            return true;
        }
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        self.owner(chain, now).is_ok_and(|(owner, _)| !self.heard.is_revoked(&owner))
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
                && principal_of(own).is_ok_and(|owner| !self.heard.is_revoked(&owner))
        })
    }
}
