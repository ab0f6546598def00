//! The key of a process, and the seal that it makes of connections.
//!
//! Owner: the node, for as long as its messaging. The key is replaced when its certificate was
//! renewed; connections that stand go on. Those that a withdrawn authority vouches for are ended by
//! the node ([`Seal::is_withdrawn`]).

use crate::authority::SERVER_NAME;
use crate::certificate::expires_of;
use crate::credentials::Credentials;
use crate::enrol::{self, ENROLMENT, ENROLMENT_1, Enroller, RENEWAL};
use crate::error::SealError;
use crate::fingerprint::Fingerprint;
use crate::handshake::{Failed, Shaken, halves, shake};
use crate::made::{MESSAGES, Made, TICKET};
use crate::sites::Sites;
use crate::tickets::TicketKeys;
use crate::trust::Heard;
use crate::within::{self, NO_CIPHER, WITHIN};
use env::BoxFuture;
use env::clock::Clock;
use env::random::Random;
use futures_util::future::select;
use lnet::error::LinkError;
use lnet::seal::{KeyRefused, Protection, Reach, Read, START_BYTES, Seal, Sealed, Write};
use observe::mutant::{Mutant, is_mutant};
use parking_lot::RwLock;
use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
#[cfg(test)]
use rustls::pki_types::UnixTime;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use std::collections::BTreeSet;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::nid::Nid;
use types::principal::{KeyHash, KeyName, Principal, Role};

/// What a process that takes tokens speaks, too.
const ENROLS: [&[u8]; 3] = [RENEWAL, ENROLMENT, ENROLMENT_1];
/// A refused connection stays open so long that the other end can read why.
const LINGER: Duration = Duration::from_secs(1);

/// See the module.
pub struct Keys {
    clock: Arc<dyn Clock>,
    made: RwLock<Arc<Made>>,
    /// Takes tokens: where the MGS is.
    enroller: OnceLock<Arc<dyn Enroller>>,
    heard: Arc<Heard>,
    /// Authorities that hold, as the MGS says, the newest first; empty: it says nothing.
    holding: RwLock<Vec<Fingerprint>>,
    handshakes: Handshakes,
}

/// Counts of handshakes for messages, at both sides.
#[derive(Default)]
pub struct Handshakes {
    /// With certificates.
    pub full: AtomicU64,
    /// With a ticket.
    pub resumed: AtomicU64,
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

impl Keys {
    /// The keys of a process that has this one.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn new(credentials: &Credentials, clock: Arc<dyn Clock>) -> Result<Arc<Keys>, SealError> {
        let (enroller, heard) = (OnceLock::new(), Arc::<Heard>::default());
        let made = Made::of(credentials, &clock, &heard, TicketKeys::default())?;
        let (made, holding) = (RwLock::new(Arc::new(made)), RwLock::default());
        let handshakes = Handshakes::default();
        Ok(Arc::new(Keys { clock, made, enroller, heard, holding, handshakes }))
    }

    /// Connections are made with this key from now on. Returns true if it trusts fewer authorities:
    /// connections that the others vouch for are [withdrawn](Seal::is_withdrawn).
    ///
    /// # Errors
    /// The key cannot be used: the one before stays.
    pub fn replace(&self, credentials: &Credentials) -> Result<bool, SealError> {
        let mut made = self.made.write();
        let ticket_keys = made.ticket_keys().clone();
        let next = Made::of(credentials, &self.clock, &self.heard, ticket_keys)?;
        let before = std::mem::replace(&mut *made, Arc::new(next));
        Ok(before.trust.fingerprints().iter().any(|one| !made.trust.knows(one)))
    }

    /// Clients come back with tickets that these keys seal, from now on.
    pub fn set_ticket_keys(&self, keys: TicketKeys) {
        let mut made = self.made.write();
        *made = Arc::new(made.with_ticket_keys(keys));
    }

    /// The ticket keys that are to be set now; `None`: those that are set will do, or the key of
    /// this process is not that of a server.
    pub fn ticket_keys_due(&self, random: &dyn Random) -> Option<TicketKeys> {
        let made = self.made();
        let is_server = made.principal.role == Role::Server;
        is_server.then(|| made.ticket_keys().renewed(self.now(), random)).flatten()
    }

    /// A server that is to be asked for a [ticket](Keys::fetch_ticket), because the newest that it
    /// gave is so old, seconds; it counts as asked.
    pub fn ticket_due(&self, age: i64) -> Option<Nid> {
        self.made().tickets().next_stale(self.now(), age)
    }

    /// Handshakes that are done: full ones, and such as went on from an earlier one.
    pub fn handshakes(&self) -> &Handshakes {
        &self.handshakes
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
        let made = self.made();
        match due(&made.trust.fingerprints(), &self.holding.read()) {
            // The site renews it; the file gets the new authority with that.
            Due::Renewal if made.principal.name.is_of_site() => Due::Nothing,
            due => due,
        }
    }

    /// True if this process takes tokens, and renews the keys of others.
    pub fn enrols(&self) -> bool {
        self.enroller.get().is_some()
    }

    /// The authority that signed the key.
    pub fn authority(&self) -> Fingerprint {
        // Every key has one: its own is the first.
        self.made().trust.authorities()[0].0
    }

    /// Authorities that are trusted.
    pub(crate) fn authorities(&self) -> Vec<CertificateDer<'static>> {
        self.made().trust.authorities().iter().map(|(_, der)| der.clone()).collect()
    }

    /// As connections are made, for another protocol.
    pub(crate) fn calls_for(&self, protocol: &[u8]) -> ClientConfig {
        self.made().calls_for(protocol)
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
        let mut known = self.heard.revoked.write();
        let before = known.len();
        known.extend(revoked);
        known.len() > before
    }

    /// Keys of sites with these names, too, were revoked. `false`: that was known.
    pub fn bar(&self, names: BTreeSet<KeyName>) -> bool {
        let mut known = self.heard.barred.write();
        let before = known.len();
        known.extend(names);
        known.len() > before
    }

    /// Keys of these sites are taken from now on. Returns true if something is not taken any more:
    /// connections for which it vouched are [withdrawn](Seal::is_withdrawn).
    pub fn set_sites(&self, sites: Sites) -> bool {
        let sites = Arc::new(sites);
        let before = std::mem::replace(&mut *self.heard.sites.write(), sites.clone());
        !before.is_within(&sites)
    }

    #[cfg(test)]
    pub(crate) fn test_believes_server(&self, chain: &[CertificateDer<'_>]) -> bool {
        let now = Duration::from_secs(u64::try_from(self.now()).expect("a time"));
        self.made().trust.still_believes_server(chain, UnixTime::since_unix_epoch(now))
    }

    #[cfg(test)]
    pub(crate) fn test_tickets(&self, nid: Nid) -> usize {
        self.made().tickets().kept(nid)
    }

    #[cfg(test)]
    pub(crate) fn test_caller(&self) -> UnbufferedClientConnection {
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        let config = self.made().calls(Nid::Loopback, MESSAGES).0;
        UnbufferedClientConnection::new(config, name).expect("a connection")
    }

    #[cfg(test)]
    pub(crate) fn test_answerer(&self) -> UnbufferedServerConnection {
        let config = self.made().answers(&[]).expect("it can be made").expect("a server");
        UnbufferedServerConnection::new(config).expect("a connection")
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

    /// The handshake with the server at `nid`, over a network.
    async fn shaken(
        &self,
        made: &Made,
        (nid, protocol): (Nid, &'static [u8]),
        halves: (Read, Write),
    ) -> Result<Shaken, LinkError> {
        let (config, calling) = made.calls(nid, protocol);
        let shaken = shaken_with(config, nid, halves).await?;
        calling.set_chain(shaken.chain.clone());
        Ok(shaken)
    }

    /// Only a server whose key holds is connected to.
    fn is_server(&self, nid: Nid, owner: &Principal) -> Result<(), LinkError> {
        let what = match owner.role {
            Role::Server if self.is_revoked(owner) => "which was revoked",
            Role::Server => return Ok(()),
            _ => "and only servers are connected to",
        };
        Err(key(nid, format!("it shows the key of {owner}, {what}")))
    }

    async fn call(
        &self,
        nid: Nid,
        read: Read,
        write: Write,
        reach: Reach,
    ) -> Result<Sealed, LinkError> {
        let made = self.made();
        let shaken = match reach {
            Reach::Network => self.shaken(&made, (nid, MESSAGES), (read, write)).await?,
            Reach::Host => {
                shaken_with(Arc::new(made.calls_for(WITHIN)), nid, (read, write)).await?
            }
        };
        let (principal, protection) = self.proved(&made, nid, &shaken, reach)?;
        self.is_server(nid, &principal)?;
        let (read, write) = match reach {
            Reach::Network => shaken.sealed(),
            Reach::Host => within::called(shaken).await.map_err(|error| lost(nid, &error))?,
        };
        Ok(Sealed { principal: Arc::new(principal), protection, read, write })
    }

    /// Gets a ticket of the server at `nid` by this connection, which is for nothing else.
    ///
    /// # Errors
    /// It does not believe this process, is not believed, or gives none.
    pub async fn fetch_ticket(
        &self,
        nid: Nid,
        (read, write): (Read, Write),
    ) -> Result<(), LinkError> {
        let made = self.made();
        let shaken = self.shaken(&made, (nid, TICKET), (read, write)).await?;
        let owner = self.shown(&made, nid, &shaken.chain)?.0;
        self.is_server(nid, &owner)?;
        let mut opening = shaken.opening;
        // The ticket comes before the end, and nothing else.
        match opening.read(&mut [0]).await {
            Ok(0) => Ok(()),
            Ok(_) => Err(key(nid, "it sends something else than a ticket".to_owned())),
            Err(error) => Err(failed(nid, error.into())),
        }
    }

    async fn answer(
        &self,
        nid: Nid,
        start: [u8; START_BYTES],
        mut read: Read,
        mut write: Write,
        reach: Reach,
    ) -> Result<Option<Sealed>, LinkError> {
        let (made, enroller) = (self.made(), self.enroller.get());
        let config = match reach {
            Reach::Host => made.within(),
            Reach::Network => made.answers(if enroller.is_some() { &ENROLS } else { &[] }),
        };
        let config = config.map_err(|error| key(nid, error.to_string()))?;
        let Some(answers) = config else {
            return Err(key(
                nid,
                "it wants to connect to a process whose key is not that of a server".to_owned(),
            ));
        };
        let end =
            UnbufferedServerConnection::new(answers).map_err(|error| failed(nid, error.into()))?;
        match shake(end, start.to_vec(), &mut read, &mut write).await {
            Ok((end, early, rest)) => {
                let mut shaken =
                    halves(end, (early, rest), read, write).map_err(|error| failed(nid, error))?;
                let served = match (shaken.protocol.as_deref(), enroller) {
                    (Some(ENROLMENT | ENROLMENT_1), Some(enroller)) => {
                        enrol::serve(&**enroller, nid, shaken).await
                    }
                    // It has its ticket.
                    (Some(TICKET), _) => shaken.sealing.shutdown().await,
                    (Some(RENEWAL), Some(enroller)) => {
                        let (shown, _) = self.shown(&made, nid, &shaken.chain)?;
                        if self.is_revoked(&shown) {
                            return Err(key(
                                nid,
                                format!("it shows the key of {shown}, which was revoked"),
                            ));
                        }
                        enrol::serve_again(&**enroller, nid, shown, shaken).await
                    }
                    _ => {
                        let (principal, protection) = self.proved(&made, nid, &shaken, reach)?;
                        let (read, write) = match reach {
                            Reach::Network => shaken.sealed(),
                            Reach::Host => {
                                within::answered(shaken).await.map_err(|error| lost(nid, &error))?
                            }
                        };
                        let principal = Arc::new(principal);
                        return Ok(Some(Sealed { principal, protection, read, write }));
                    }
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

/// The handshake with the server at `nid`.
async fn shaken_with(
    config: Arc<ClientConfig>,
    nid: Nid,
    (mut read, mut write): (Read, Write),
) -> Result<Shaken, LinkError> {
    let name = ServerName::try_from(SERVER_NAME).map_err(|error| key(nid, error.to_string()))?;
    let end =
        UnbufferedClientConnection::new(config, name).map_err(|error| failed(nid, error.into()))?;
    let done = shake(end, Vec::new(), &mut read, &mut write).await;
    let (end, early, rest) = done.map_err(|error| failed(nid, error))?;
    halves(end, (early, rest), read, write).map_err(|error| failed(nid, error))
}

fn key(nid: Nid, reason: String) -> LinkError {
    LinkError::Key { nid, reason }
}

/// The end of a connection behind its handshake; the other end may have refused the key.
fn lost(nid: Nid, error: &io::Error) -> LinkError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<KeyRefused>()) {
        Some(KeyRefused(reason)) => key(nid, reason.clone()),
        None => LinkError::Lost { nid, reason: error.to_string() },
    }
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
    /// Whose key these certificates show, and what vouches for it.
    /// `made`: what the handshake was made with.
    fn shown(
        &self,
        made: &Made,
        nid: Nid,
        chain: &[CertificateDer<'_>],
    ) -> Result<(Principal, Option<Fingerprint>), LinkError> {
        if chain.is_empty() {
            return Err(key(nid, "it shows no key".to_owned()));
        }
        made.trust.owner(chain, self.now()).map_err(|error| key(nid, error.to_string()))
    }

    /// What the other end proved: whose its key is; and how the connection is protected.
    fn proved(
        &self,
        made: &Made,
        nid: Nid,
        shaken: &Shaken,
        reach: Reach,
    ) -> Result<(Principal, Protection), LinkError> {
        let Shaken { chain, is_resumed, protocol, cipher, .. } = shaken;
        let (messages, cipher) = match reach {
            Reach::Network => (MESSAGES, *cipher),
            Reach::Host => (WITHIN, NO_CIPHER),
        };
        if protocol.as_deref() != Some(messages) {
            return Err(key(nid, "it wants something else than messages".to_owned()));
        }
        let (principal, signer) = self.shown(made, nid, chain)?;
        let Handshakes { full, resumed } = &self.handshakes;
        if *is_resumed { resumed } else { full }.fetch_add(1, Ordering::Relaxed);
        let protection = Protection {
            cipher,
            expires: chain.first().and_then(expires_of),
            authority: signer.map(|Fingerprint(hash)| hash),
        };
        if self.is_withdrawn(&protection) {
            return Err(key(nid, "the authority of its key was just withdrawn".to_owned()));
        }
        Ok((principal, protection))
    }
}

impl Seal for Keys {
    fn call(
        &self,
        nid: Nid,
        read: Read,
        write: Write,
        reach: Reach,
    ) -> BoxFuture<'_, Result<Sealed, LinkError>> {
        Box::pin(self.call(nid, read, write, reach))
    }

    fn answer(
        &self,
        nid: Nid,
        start: [u8; START_BYTES],
        read: Read,
        write: Write,
        reach: Reach,
    ) -> BoxFuture<'_, Result<Option<Sealed>, LinkError>> {
        Box::pin(self.answer(nid, start, read, write, reach))
    }

    fn is_revoked(&self, principal: &Principal) -> bool {
        self.heard.is_revoked(principal)
    }

    fn is_withdrawn(&self, protection: &Protection) -> bool {
        let made = self.made();
        protection.authority.is_some_and(|hash| !made.trust.vouches(&Fingerprint(hash)))
            && !is_mutant(Mutant::WithdrawnStays)
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
