//! The key of a process, and the seal that it makes of connections.
//!
//! Owner: the node, for as long as its messaging. The key is replaced when its certificate was
//! renewed; connections that stand go on. Those that a withdrawn authority vouches for are ended by
//! the node ([`Seal::is_withdrawn`]).

use crate::authority::SERVER_NAME;
use crate::certificate::{expires_of, is_signed, principal_of};
use crate::credentials::Credentials;
use crate::enrol::{self, ENROLMENT, ENROLMENT_1, Enroller, RENEWAL};
use crate::error::SealError;
use crate::fingerprint::Fingerprint;
use crate::handshake::{Failed, Shaken, halves, shake};
use env::BoxFuture;
use env::clock::Clock;
use futures_util::future::select;
use lnet::error::LinkError;
use lnet::seal::{Protection, Read, START_BYTES, Seal, Sealed, Write};
use parking_lot::RwLock;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use types::nid::Nid;
use types::principal::{KeyHash, Principal, Role};

/// Name of the protocol that is sealed (ALPN).
const MESSAGES: &[u8] = b"sheen/1";
/// A refused connection stays open so long that the other end can read why.
const LINGER: Duration = Duration::from_secs(1);

/// See the module.
pub struct Keys {
    clock: Arc<dyn Clock>,
    made: RwLock<Arc<Made>>,
    /// Takes tokens: where the MGS is.
    enroller: OnceLock<Arc<dyn Enroller>>,
    revoked: RwLock<BTreeSet<KeyHash>>,
    /// Authorities that hold, as the MGS says, the newest first; empty: it says nothing.
    holding: RwLock<Vec<Fingerprint>>,
}

/// What is to be done about the key of this process, by what the MGS says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// There is a new authority, and the key is not of it.
    Renewal,
    /// The authority before that of the key is withdrawn, and this process still trusts it.
    Withdrawal,
}

/// What is due for a key that trusts these authorities, its own first, if those of `holding` hold.
/// Its own one is never given up: another one would have to be trusted without reason.
fn due(trusts: &[Fingerprint], holding: &[Fingerprint]) -> Due {
    match (trusts.first(), holding.first()) {
        (Some(own), Some(newest)) if own != newest => Due::Renewal,
        (Some(_), Some(_)) if trusts.iter().any(|one| !holding.contains(one)) => Due::Withdrawal,
        _ => Due::Nothing,
    }
}

/// What is made of a key, once.
struct Made {
    principal: Principal,
    expires: i64,
    /// The authorities that it trusts: its own first.
    authorities: Vec<(Fingerprint, CertificateDer<'static>)>,
    calls: Arc<ClientConfig>,
    /// Absent: the key is not that of a server.
    answers: Option<Arc<ServerConfig>>,
    /// As `answers`, and also hosts without a key, for enrolment only; and renewal.
    enrols: Option<Arc<ServerConfig>>,
}

/// Wall time of the environment.
pub(crate) struct Wall(pub(crate) Arc<dyn Clock>);

impl fmt::Debug for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wall")
    }
}

impl TimeProvider for Wall {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.wall().sec).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// Two ciphers, one way to agree on a key. Randomness is the kernel's.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    }
}

impl Made {
    fn of(credentials: &Credentials, clock: &Arc<dyn Clock>) -> Result<Made, SealError> {
        let (provider, time) = (Arc::new(provider()), Arc::new(Wall(clock.clone())));
        let mut roots = RootCertStore::empty();
        let authorities = credentials.authorities();
        for authority in &authorities {
            roots.add(authority.clone())?;
        }
        let authorities = authorities.into_iter().map(|der| (Fingerprint::of(&der), der)).collect();
        let roots = Arc::new(roots);
        let mut calls = ClientConfig::builder_with_details(provider.clone(), time.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(credentials.chain(), credentials.key())?;
        calls.resumption = Resumption::disabled();
        calls.enable_secret_extraction = true;
        calls.alpn_protocols = vec![MESSAGES.to_vec()];
        let principal = credentials.principal().clone();
        let answers = |enrols: bool| {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
            let verifier = if enrols { verifier.allow_unauthenticated() } else { verifier };
            let verifier = verifier.build().map_err(|error| SealError::Tls(error.to_string()))?;
            let mut answers = ServerConfig::builder_with_details(provider.clone(), time.clone())
                .with_protocol_versions(&[&rustls::version::TLS13])?
                .with_client_cert_verifier(verifier)
                .with_single_cert(credentials.chain(), credentials.key())?;
            answers.session_storage = Arc::new(NoServerSessionStorage {});
            answers.send_tls13_tickets = 0;
            answers.enable_secret_extraction = true;
            answers.alpn_protocols = vec![MESSAGES.to_vec()];
            if enrols {
                // The first that the other end speaks, too, is taken.
                let more = [RENEWAL, ENROLMENT, ENROLMENT_1].map(<[u8]>::to_vec);
                answers.alpn_protocols.extend(more);
            }
            Ok::<_, SealError>(Some(Arc::new(answers)))
        };
        let (answers, enrols) = match principal.role {
            Role::Server => (answers(false)?, answers(true)?),
            _ => (None, None),
        };
        let expires = credentials.expires();
        let calls = Arc::new(calls);
        Ok(Made { principal, expires, authorities, calls, answers, enrols })
    }

    fn trusts(&self) -> Vec<Fingerprint> {
        self.authorities.iter().map(|(fingerprint, _)| *fingerprint).collect()
    }

    /// The trusted authority that signed this certificate by itself; `None`: one that a trusted one
    /// signed did.
    fn signer(&self, certificate: &CertificateDer<'_>, now: i64) -> Option<Fingerprint> {
        let mut all = self.authorities.iter();
        all.find(|(_, der)| is_signed(certificate, der, &[], now)).map(|(one, _)| *one)
    }
}

impl Keys {
    /// The keys of a process that has this one.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn new(credentials: &Credentials, clock: Arc<dyn Clock>) -> Result<Arc<Keys>, SealError> {
        let made = RwLock::new(Arc::new(Made::of(credentials, &clock)?));
        let (enroller, revoked) = (OnceLock::new(), RwLock::default());
        let holding = RwLock::default();
        Ok(Arc::new(Keys { clock, made, enroller, revoked, holding }))
    }

    /// Connections are made with this key from now on. Returns true if it trusts fewer authorities:
    /// connections that the others vouch for are [withdrawn](Seal::is_withdrawn).
    ///
    /// # Errors
    /// The key cannot be used: the one before stays.
    pub fn replace(&self, credentials: &Credentials) -> Result<bool, SealError> {
        let made = Arc::new(Made::of(credentials, &self.clock)?);
        let trusts = made.trusts();
        let before = std::mem::replace(&mut *self.made.write(), made);
        Ok(before.trusts().iter().any(|one| !trusts.contains(one)))
    }

    /// The MGS says that these authorities hold, the newest first. Returns true if that is news.
    pub fn hear(&self, holding: Vec<Fingerprint>) -> bool {
        let mut known = self.holding.write();
        let is_news = *known != holding;
        *known = holding;
        is_news
    }

    /// What is to be done about the key.
    pub fn due(&self) -> Due {
        due(&self.made().trusts(), &self.holding.read())
    }

    /// True if this process takes tokens, and renews the keys of others.
    pub fn enrols(&self) -> bool {
        self.enroller.get().is_some()
    }

    /// The authority that signed the key.
    pub fn authority(&self) -> Fingerprint {
        // Every key has one: its own is the first.
        self.made().authorities[0].0
    }

    /// Authorities that are trusted.
    pub(crate) fn authorities(&self) -> Vec<CertificateDer<'static>> {
        self.made().authorities.iter().map(|(_, der)| der.clone()).collect()
    }

    /// As connections are made, for another protocol.
    pub(crate) fn calls_for(&self, protocol: &[u8]) -> ClientConfig {
        let mut calls = ClientConfig::clone(&self.made().calls);
        calls.alpn_protocols = vec![protocol.to_vec()];
        calls
    }

    /// Seconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        self.clock.wall().sec
    }

    /// Tokens are taken from now on. `false`: they are already.
    pub fn set_enroller(&self, enroller: Arc<dyn Enroller>) -> bool {
        self.enroller.set(enroller).is_ok()
    }

    /// Whose key it is.
    pub fn principal(&self) -> Principal {
        self.made.read().principal.clone()
    }

    /// When its certificate ends, seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.made.read().expires
    }

    /// These keys, too, were revoked. `false`: that was known.
    pub fn revoke(&self, revoked: BTreeSet<KeyHash>) -> bool {
        let mut known = self.revoked.write();
        let before = known.len();
        known.extend(revoked);
        known.len() > before
    }

    #[cfg(test)]
    pub(crate) fn test_caller(&self) -> UnbufferedClientConnection {
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        UnbufferedClientConnection::new(self.made().calls.clone(), name).expect("a connection")
    }

    #[cfg(test)]
    pub(crate) fn test_answerer(&self) -> UnbufferedServerConnection {
        UnbufferedServerConnection::new(self.made().answers.clone().expect("a server"))
            .expect("a connection")
    }

    fn made(&self) -> Arc<Made> {
        self.made.read().clone()
    }

    /// Closing with unread bytes would reset the connection, and the other end might never see why.
    async fn linger(&self, read: &mut Read) {
        let mut rest = [0; 256];
        let until_closed = async { while let Ok(1..) = read.read(&mut rest).await {} };
        select(pin!(until_closed), self.clock.sleep(LINGER)).await;
    }

    async fn call(&self, nid: Nid, mut read: Read, mut write: Write) -> Result<Sealed, LinkError> {
        let made = self.made();
        let name =
            ServerName::try_from(SERVER_NAME).map_err(|error| key(nid, error.to_string()))?;
        let end = UnbufferedClientConnection::new(made.calls.clone(), name)
            .map_err(|error| failed(nid, error.into()))?;
        match shake(end, Vec::new(), &mut read, &mut write).await {
            Ok((end, early, rest)) => {
                let shaken =
                    halves(end, (early, rest), read, write).map_err(|error| failed(nid, error))?;
                let sealed = self.sealed(&made, nid, shaken)?;
                match sealed.principal.role {
                    Role::Server if self.is_revoked(&sealed.principal) => Err(key(
                        nid,
                        format!("it shows the key of {}, which was revoked", sealed.principal),
                    )),
                    Role::Server => Ok(sealed),
                    _ => Err(key(
                        nid,
                        format!(
                            "it shows the key of {}, and only servers are connected to",
                            sealed.principal
                        ),
                    )),
                }
            }
            Err(error) => Err(failed(nid, error)),
        }
    }

    async fn answer(
        &self,
        nid: Nid,
        start: [u8; START_BYTES],
        mut read: Read,
        mut write: Write,
    ) -> Result<Option<Sealed>, LinkError> {
        let (made, enroller) = (self.made(), self.enroller.get());
        let config = if enroller.is_some() { &made.enrols } else { &made.answers };
        let Some(answers) = config.clone() else {
            return Err(key(
                nid,
                "it wants to connect to a process whose key is not that of a server".to_owned(),
            ));
        };
        let end =
            UnbufferedServerConnection::new(answers).map_err(|error| failed(nid, error.into()))?;
        match shake(end, start.to_vec(), &mut read, &mut write).await {
            Ok((end, early, rest)) => {
                let shaken =
                    halves(end, (early, rest), read, write).map_err(|error| failed(nid, error))?;
                let served = match (shaken.protocol.as_deref(), enroller) {
                    (Some(ENROLMENT | ENROLMENT_1), Some(enroller)) => {
                        enrol::serve(&**enroller, nid, shaken).await
                    }
                    (Some(RENEWAL), Some(enroller)) => {
                        let (shown, _) = self.shown(&made, nid, shaken.certificate.as_ref())?;
                        if self.is_revoked(&shown) {
                            return Err(key(
                                nid,
                                format!("it shows the key of {shown}, which was revoked"),
                            ));
                        }
                        enrol::serve_again(&**enroller, nid, shown, shaken).await
                    }
                    _ => return self.sealed(&made, nid, shaken).map(Some),
                };
                served.map(|()| None).map_err(|error| failed(nid, error.into()))
            }
            Err(error) => {
                self.linger(&mut read).await;
                Err(failed(nid, error))
            }
        }
    }
}

fn key(nid: Nid, reason: String) -> LinkError {
    LinkError::Key { nid, reason }
}

fn failed(nid: Nid, failed: Failed) -> LinkError {
    match failed {
        Failed::Refused(reason) => key(nid, reason),
        Failed::Lost(error) => {
            LinkError::Lost { nid, reason: format!("during the handshake: {error}") }
        }
    }
}

impl Keys {
    /// Whose key this certificate shows, and the trusted authority that signed it by itself.
    /// `made`: what the handshake was made with.
    fn shown(
        &self,
        made: &Made,
        nid: Nid,
        certificate: Option<&CertificateDer<'_>>,
    ) -> Result<(Principal, Option<Fingerprint>), LinkError> {
        let certificate = certificate.ok_or_else(|| key(nid, "it shows no key".to_owned()))?;
        let principal = principal_of(certificate).map_err(|error| key(nid, error.to_string()))?;
        Ok((principal, made.signer(certificate, self.now())))
    }

    fn sealed(&self, made: &Made, nid: Nid, shaken: Shaken) -> Result<Sealed, LinkError> {
        let Shaken { certificate, protocol, cipher, sealing, opening } = shaken;
        if protocol.as_deref() != Some(MESSAGES) {
            return Err(key(nid, "it wants something else than messages".to_owned()));
        }
        let (principal, signer) = self.shown(made, nid, certificate.as_ref())?;
        let protection = Protection {
            cipher,
            expires: certificate.as_ref().and_then(expires_of),
            authority: signer.map(|Fingerprint(hash)| hash),
        };
        if self.is_withdrawn(&protection) {
            return Err(key(nid, "the authority of its key was just withdrawn".to_owned()));
        }
        let (principal, read, write) = (Arc::new(principal), Box::new(opening), Box::new(sealing));
        Ok(Sealed { principal, protection, read, write })
    }
}

impl Seal for Keys {
    fn call(&self, nid: Nid, read: Read, write: Write) -> BoxFuture<'_, Result<Sealed, LinkError>> {
        Box::pin(self.call(nid, read, write))
    }

    fn answer(
        &self,
        nid: Nid,
        start: [u8; START_BYTES],
        read: Read,
        write: Write,
    ) -> BoxFuture<'_, Result<Option<Sealed>, LinkError>> {
        Box::pin(self.answer(nid, start, read, write))
    }

    fn is_revoked(&self, principal: &Principal) -> bool {
        self.revoked.read().contains(&principal.key)
    }

    fn is_withdrawn(&self, protection: &Protection) -> bool {
        let made = self.made();
        let is_trusted = |hash| made.authorities.iter().any(|(one, _)| *one == Fingerprint(hash));
        protection.authority.is_some_and(|hash| !is_trusted(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_follows_from_what_holds_and_the_own_authority_is_never_given_up() {
        let [first, second, third] = [1, 2, 3].map(|byte| Fingerprint([byte; 32]));
        for (trusts, holding, expected) in [
            (&[first][..], &[][..], Due::Nothing),
            (&[first], &[first], Due::Nothing),
            // The overlap: of one that hears of it, of one that has its new key.
            (&[first], &[second, first], Due::Renewal),
            (&[second, first], &[second, first], Due::Nothing),
            // The withdrawal: of one that has a new key, of one that took part in it already, of
            // one that was away.
            (&[second, first], &[second], Due::Withdrawal),
            (&[second], &[second], Due::Nothing),
            (&[first], &[second], Due::Renewal),
            (&[second, first], &[third, second], Due::Renewal),
            // Words that are wrong.
            (&[second, first], &[third], Due::Renewal),
            (&[second], &[first], Due::Renewal),
        ] {
            assert_eq!(due(trusts, holding), expected, "{trusts:?} {holding:?}");
        }
    }
}
