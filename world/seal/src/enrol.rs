//! Enrolment: a host gets its key over the network, with a token (docs/security.md, "Enrolment").
//!
//! The host connects to the MGS by TLS without a key of its own, for the protocol `sheen-enrol/1`.
//! It believes the MGS because the token names the authority that must have signed the MGS' key.
//! Then it sends the secret of the token and its new public key, and gets a certificate. A
//! connection carries one question and one answer, of at most [`MESSAGE_BYTES_MAX`] each.

use crate::authority::{PublicKey, SERVER_NAME};
use crate::certificate::{is_signed, principal_of, sha256};
use crate::credentials::{Credentials, OVERLAP_MAX};
use crate::error::SealError;
use crate::handshake::{Failed, Shaken, halves, shake};
use crate::provider::{Wall, provider};
use crate::token::Token;
use env::BoxFuture;
use env::clock::Clock;
use lnet::seal::{Read, Write};
use rcgen::{KeyPair, PKCS_ED25519};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use types::nid::Nid;
use types::principal::{KeyName, Principal};

/// Name of the protocol (ALPN), and that of its first form, whose answers have no overlap.
pub(crate) const ENROLMENT: &[u8] = b"sheen-enrol/2";
pub(crate) const ENROLMENT_1: &[u8] = b"sheen-enrol/1";
/// Name of that for hosts with a key, which get a newer one.
pub(crate) const RENEWAL: &[u8] = b"sheen-renew/1";
/// Longest question, and longest answer of the first form, bytes.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// Longest answer, bytes.
pub const GRANTED_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;

/// What a host asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// Number of the token.
    pub token: u64,
    /// Its secret.
    pub secret: [u8; 16],
    /// The host's public key.
    pub public: [u8; 32],
    /// The name that the host would like for it.
    pub name: String,
}

/// What it gets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Given {
    /// Certificate for the key, DER.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub certificate: Vec<u8>,
    /// That of the authority, DER.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub authority: Vec<u8>,
    /// NIDs of the MGS.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub mgs: Vec<String>,
    /// When the certificate ends, seconds since 1970.
    pub expires: i64,
}

/// The same, with what is needed while the authority before holds, too.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Granted {
    /// As it always was.
    pub given: Given,
    /// The bridge and the certificate of the authority before, DER; or nothing.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub overlap: Vec<Vec<u8>>,
}

/// What a host with a key asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AskedAgain {
    /// Its new public key.
    pub public: [u8; 32],
}

/// The answer: a certificate, or why there is none.
type Answer = Result<Granted, String>;
/// That of the first form.
type FirstAnswer = Result<Given, String>;

/// The side of the MGS: decides about a question.
pub trait Enroller: Send + Sync {
    /// A host at `from` asks. `Err`: a sentence for its administrator.
    fn enrol(&self, from: Nid, asked: Asked) -> BoxFuture<'_, Answer>;

    /// A host at `from` that showed this key asks for another one. `Err`: the same.
    fn renew(&self, from: Nid, shown: Principal, asked: AskedAgain) -> BoxFuture<'_, Answer>;
}

/// There is no key.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// The connection.
    #[error("the connection was lost: {0}")]
    Lost(#[from] io::Error),
    /// One side does not believe the other.
    #[error("{0}")]
    Refused(String),
    /// What was given is no key.
    #[error("what the MGS gave cannot be used: {0}")]
    Bad(String),
    /// A key cannot be made here.
    #[error(transparent)]
    Seal(#[from] SealError),
}

impl From<Failed> for EnrolError {
    fn from(failed: Failed) -> EnrolError {
        match failed {
            Failed::Refused(reason) => EnrolError::Refused(reason),
            Failed::Lost(error) => EnrolError::Lost(error),
        }
    }
}

pub(crate) async fn send(
    message: &impl Serialize,
    write: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let len = u16::try_from(body.len()).map_err(io::Error::other)?;
    write.write_all(&[&len.to_le_bytes()[..], &body].concat()).await?;
    write.flush().await
}

pub(crate) async fn receive<T: for<'de> Deserialize<'de>>(
    read: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> io::Result<T> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let len = usize::from(read.read_u16_le().await?);
    if len > bytes_max {
        return Err(bad("a message is too long"));
    }
    let mut body = vec![0; len];
    read.read_exact(&mut body).await?;
    match postcard::take_from_bytes(&body) {
        Ok((message, [])) => Ok(message),
        _ => Err(bad("a message is damaged")),
    }
}

/// A host that reads no overlap would be shut out by all that have a key of before.
const TOO_OLD: &str = "the authority of this cluster is being replaced, and the version of this host knows nothing of \
                       that: install a newer one, or wait until the old authority is withdrawn";

/// Answers one question of a host without a key.
pub(crate) async fn serve(
    enroller: &dyn Enroller,
    from: Nid,
    Shaken { protocol, mut opening, mut sealing, .. }: Shaken,
) -> io::Result<()> {
    let asked: Asked = receive(&mut opening, MESSAGE_BYTES_MAX).await?;
    let answer = enroller.enrol(from, asked).await;
    match protocol.as_deref() {
        Some(ENROLMENT_1) => {
            let answer: FirstAnswer = answer.and_then(|granted| match &granted.overlap[..] {
                [] => Ok(granted.given),
                _ => Err(TOO_OLD.to_owned()),
            });
            send(&answer, &mut sealing).await?;
        }
        _ => send(&answer, &mut sealing).await?,
    }
    sealing.shutdown().await
}

/// Answers one question of a host that showed this key.
pub(crate) async fn serve_again(
    enroller: &dyn Enroller,
    from: Nid,
    shown: Principal,
    Shaken { mut opening, mut sealing, .. }: Shaken,
) -> io::Result<()> {
    let asked: AskedAgain = receive(&mut opening, MESSAGE_BYTES_MAX).await?;
    let answer = enroller.renew(from, shown, asked).await;
    send(&answer, &mut sealing).await?;
    sealing.shutdown().await
}

/// A key that was made here and has no certificate yet.
pub struct NewKey {
    key: KeyPair,
    public: PublicKey,
}

impl NewKey {
    /// A new one.
    ///
    /// # Errors
    /// There is no randomness for it.
    pub fn make() -> Result<NewKey, SealError> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let public = PublicKey::of(&key)?;
        Ok(NewKey { key, public })
    }

    pub(crate) fn public(&self) -> PublicKey {
        self.public
    }
}

/// What was granted, as it was sent.
pub(crate) struct Certified<'a> {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) authority: CertificateDer<'static>,
    pub(crate) overlap: Vec<CertificateDer<'static>>,
    pub(crate) mgs: Vec<String>,
    pub(crate) expires: i64,
    pub(crate) key: &'a NewKey,
}

pub(crate) fn bad(what: &str) -> EnrolError {
    EnrolError::Bad(what.to_owned())
}

impl NewKey {
    /// What was granted for this key. Whether it is believed is decided by what is known beside it.
    pub(crate) fn certified(&self, granted: Granted) -> Result<Certified<'_>, EnrolError> {
        let Granted { given: Given { certificate, authority, mgs, expires }, overlap } = granted;
        if overlap.len() > OVERLAP_MAX {
            return Err(bad("it has too many certificates"));
        }
        let certificate: CertificateDer<'static> = certificate.into();
        let owner = principal_of(&certificate)?;
        if owner.key != self.public.hash() {
            return Err(bad("it is for another key"));
        }
        let overlap = overlap.into_iter().map(CertificateDer::from).collect();
        let (authority, key) = (authority.into(), self);
        Ok(Certified { certificate, authority, overlap, mgs, expires, key })
    }
}

impl Certified<'_> {
    /// As the key of this host.
    pub(crate) fn into_key(self) -> Result<Credentials, EnrolError> {
        let Certified { certificate, authority, overlap, mgs, expires, key } = self;
        let mgs = mgs.iter().map(|nid| nid.parse()).collect::<Result<Vec<Nid>, _>>();
        let mgs = mgs.map_err(|error| bad(&error.to_string()))?;
        let key = key.key.serialize_der();
        Ok(Credentials::new(key, certificate, (authority, overlap), (mgs, expires))?)
    }
}

/// For connections without a key, to a server that the authority of a token vouches for.
fn pinned(token: &Token, clock: Arc<dyn Clock>) -> Result<ClientConfig, SealError> {
    let provider = Arc::new(provider());
    let verifier = Arc::new(Pinned { authority: token.authority, provider: provider.clone() });
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(Wall(clock)))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.enable_secret_extraction = true;
    Ok(config)
}

/// Asks the MGS at the other end for a key under this name. The key itself stays here.
///
/// # Errors
/// [`EnrolError`].
pub async fn enrol(
    token: &Token,
    name: &KeyName,
    clock: Arc<dyn Clock>,
    (mut read, mut write): (Read, Write),
) -> Result<Credentials, EnrolError> {
    let mut config = pinned(token, clock.clone())?;
    config.alpn_protocols = vec![ENROLMENT.to_vec(), ENROLMENT_1.to_vec()];
    let to = ServerName::try_from(SERVER_NAME).map_err(|e| SealError::Tls(e.to_string()))?;
    let end = UnbufferedClientConnection::new(Arc::new(config), to).map_err(SealError::from)?;
    let (end, early, rest) = shake(end, Vec::new(), &mut read, &mut write).await?;
    let Shaken { protocol, mut sealing, mut opening, .. } =
        halves(end, (early, rest), read, write)?;
    let key = NewKey::make()?;
    let asked = Asked {
        token: token.number,
        secret: token.secret,
        public: key.public.0,
        name: name.to_string(),
    };
    let granted = match protocol.as_deref() {
        Some(ENROLMENT) => {
            send(&asked, &mut sealing).await?;
            receive::<Answer>(&mut opening, GRANTED_BYTES_MAX).await?
        }
        Some(ENROLMENT_1) => {
            send(&asked, &mut sealing).await?;
            let answer = receive::<FirstAnswer>(&mut opening, MESSAGE_BYTES_MAX).await?;
            answer.map(|given| Granted { given, overlap: Vec::new() })
        }
        _ => {
            return Err(EnrolError::Refused("it takes no tokens: it is not the MGS".to_owned()));
        }
    };
    let given = key.certified(granted.map_err(EnrolError::Refused)?)?;
    // Of two authorities that hold the token may name either.
    let mut authorities = std::iter::once(&given.authority).chain(&given.overlap);
    let Some(known) = authorities.find(|der| sha256(der) == token.authority) else {
        return Err(bad("it is of another authority than the token says"));
    };
    if !is_signed(&given.certificate, known, &given.overlap, clock.wall().sec) {
        return Err(bad("the authority that the token names did not sign it"));
    }
    given.into_key()
}

/// Believes a server whose key the authority of a token has signed, or the next authority, which
/// that one has signed.
struct Pinned {
    authority: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pinned")
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authority = intermediates.iter().find(|der| sha256(der) == self.authority);
        let mut roots = RootCertStore::empty();
        roots.add(authority.ok_or_else(unknown)?.clone().into_owned())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone());
        let verifier = verifier.build().map_err(|_| unknown())?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::authority::{Authority, Subject};
    use crate::keys::Keys;
    use crate::tests::{DAY, NID, NOW, answered, authority, clock, credentials, keys, run, split};
    use parking_lot::Mutex;
    use tokio::io::duplex;
    use types::principal::Role;
    use types::session::ClusterId;

    /// Signs whatever it is asked for with the right secret.
    pub(crate) struct Signs {
        pub(crate) authority: Authority,
        pub(crate) asked: Mutex<Vec<Asked>>,
        pub(crate) renews: bool,
    }

    impl Enroller for Signs {
        fn enrol(&self, _: Nid, asked: Asked) -> BoxFuture<'_, Answer> {
            let given = match asked.secret {
                [7, ..] => {
                    let name = asked.name.parse().unwrap();
                    let owner = Subject { role: Role::Client, name: &name, nids: &[] };
                    let public = PublicKey(asked.public);
                    let certificate = self.authority.issue(owner, public, (NOW, DAY)).unwrap();
                    Ok(self.grant(certificate.to_vec()))
                }
                _ => Err("no such token".to_owned()),
            };
            self.asked.lock().push(asked);
            Box::pin(std::future::ready(given))
        }

        fn renew(&self, _: Nid, shown: Principal, asked: AskedAgain) -> BoxFuture<'_, Answer> {
            let owner = Subject { role: shown.role, name: &shown.name, nids: &shown.nids };
            let public = PublicKey(asked.public);
            let certificate = self.authority.issue(owner, public, (NOW, DAY)).unwrap();
            Box::pin(std::future::ready(match self.renews {
                true => Ok(self.grant(certificate.to_vec())),
                false => Err("it is not in the list".to_owned()),
            }))
        }
    }

    impl Signs {
        pub(crate) fn of(authority: Authority) -> Signs {
            Signs { authority, asked: Mutex::default(), renews: true }
        }

        fn new(authority: Authority) -> Arc<Signs> {
            Arc::new(Signs::of(authority))
        }

        fn grant(&self, certificate: Vec<u8>) -> Granted {
            Granted {
                given: Given {
                    certificate,
                    authority: self.authority.certificate().to_vec(),
                    mgs: vec!["10.0.0.1@tcp".to_owned()],
                    expires: NOW + DAY,
                },
                overlap: self.authority.overlap().iter().map(|der| der.to_vec()).collect(),
            }
        }
    }

    fn token(authority: &Authority, secret: u8) -> Token {
        let mgs = vec!["10.0.0.1@tcp".parse().unwrap()];
        Token { number: 5, secret: [secret; 16], authority: authority.fingerprint(), mgs }
    }

    fn enrols(keys: &Keys, token: &Token) -> Result<Credentials, EnrolError> {
        run(async {
            let (here, there) = duplex(4096);
            let name = "node7".parse().unwrap();
            let ask = enrol(token, &name, clock(NOW), split(here));
            let (given, answer) = tokio::join!(ask, answered(keys, there));
            assert!(!matches!(answer, Ok(Some(_))), "it carries no messages");
            given
        })
    }

    #[test]
    fn a_host_with_the_secret_gets_a_key_that_the_cluster_takes() {
        let authority = authority();
        let server = credentials(&authority, Role::Server, "mgs");
        let (token, wrong) = (token(&authority, 7), token(&authority, 8));
        let keys = keys(&server, NOW);
        let refused = enrols(&keys, &token).err().unwrap().to_string();
        assert!(refused.contains("handshake") || refused.contains("lost"), "no MGS: {refused}");
        let signs = Signs::new(authority);
        assert!(keys.set_enroller(signs.clone()));
        let given = enrols(&keys, &token).unwrap();
        assert_eq!(given.principal().to_string(), "client node7");
        assert_eq!(given.mgs(), &token.mgs[..]);
        let refused = enrols(&keys, &wrong).err().unwrap();
        assert_eq!(refused.to_string(), "no such token");
        assert_eq!(signs.asked.lock().len(), 2);
        // With the key it is let in, as any other.
        let client = crate::tests::keys(&given, NOW);
        run(async {
            let (here, there) = duplex(4096);
            let (read, write) = split(here);
            let call =
                lnet::seal::Seal::call(&*client, NID, read, write, lnet::seal::Reach::Network);
            let (called, answer) = tokio::join!(call, answered(&keys, there));
            assert_eq!(called.unwrap().principal.to_string(), "server mgs");
            assert_eq!(answer.unwrap().unwrap().principal.to_string(), "client node7");
        });
    }

    /// An authority, the next one, and the enrolling process in the overlap.
    fn overlap() -> (Authority, Arc<Signs>, Arc<Keys>) {
        let first = authority();
        let second = first.rotate(NOW).unwrap();
        let keys = keys(&credentials(&second, Role::Server, "mgs"), NOW);
        let signs = Signs::new(second);
        assert!(keys.set_enroller(signs.clone()));
        (first, signs, keys)
    }

    #[test]
    fn a_token_of_either_authority_gets_a_key_in_the_overlap_and_then_only_one_of_the_new() {
        let (first, signs, mgs) = overlap();
        let [of_old, of_new] = [&first, &signs.authority].map(|authority| token(authority, 7));
        let old = credentials(&first, Role::Server, "oss");
        for token in [&of_old, &of_new] {
            let given = enrols(&mgs, token).unwrap();
            assert_eq!(given.authority().0, signs.authority.fingerprint());
            assert!(given.is_in_overlap());
            assert!(given.believes(&old, NOW) && old.believes(&given, NOW));
        }
        let alone = credentials(&signs.authority, Role::Server, "mgs");
        mgs.replace(&alone.without_the_authority_before()).unwrap();
        let asked = signs.asked.lock().len();
        let refused = enrols(&mgs, &of_old).err().unwrap().to_string();
        assert!(refused.contains("another authority signed it"), "{refused}");
        assert_eq!(signs.asked.lock().len(), asked, "it learned no secret");
        enrols(&mgs, &of_new).unwrap();
    }

    /// Asks as a host does that knows only the first form.
    fn enrols_as_before(mgs: &Keys, token: &Token) -> Result<FirstAnswer, EnrolError> {
        run(async {
            let (here, there) = duplex(4096);
            let (mut read, mut write) = split(here);
            let asking = async {
                let mut config = pinned(token, clock(NOW))?;
                config.alpn_protocols = vec![ENROLMENT_1.to_vec()];
                let to = ServerName::try_from(SERVER_NAME).unwrap();
                let end = UnbufferedClientConnection::new(Arc::new(config), to).unwrap();
                let (end, early, rest) = shake(end, Vec::new(), &mut read, &mut write).await?;
                let Shaken { mut sealing, mut opening, .. } =
                    halves(end, (early, rest), read, write)?;
                let Token { number, secret, .. } = *token;
                let (public, name) = ([1; 32], "a".to_owned());
                send(&Asked { token: number, secret, public, name }, &mut sealing).await?;
                Ok(receive::<FirstAnswer>(&mut opening, MESSAGE_BYTES_MAX).await?)
            };
            tokio::join!(asking, answered(mgs, there)).0
        })
    }

    #[test]
    fn an_earlier_version_is_enrolled_as_ever_but_not_in_an_overlap() {
        let authority = authority();
        let token_of_before = token(&authority, 7);
        let mgs = keys(&credentials(&authority, Role::Server, "mgs"), NOW);
        let signs = Signs::new(authority);
        assert!(mgs.set_enroller(signs.clone()));
        let given = enrols_as_before(&mgs, &token_of_before).unwrap().unwrap();
        assert_eq!(sha256(&given.authority), signs.authority.fingerprint());
        let (_, signs, mgs) = overlap();
        let refused = enrols_as_before(&mgs, &token(&signs.authority, 7)).unwrap();
        assert_eq!(refused, Err(TOO_OLD.to_owned()));
    }

    #[test]
    fn another_authority_learns_no_secret() {
        let (ours, theirs) = (authority(), Authority::make(ClusterId(7), NOW).unwrap());
        let keys = keys(&credentials(&theirs, Role::Server, "mgs"), NOW);
        let signs = Signs::new(theirs);
        assert!(keys.set_enroller(signs.clone()));
        let refused = enrols(&keys, &token(&ours, 7)).err().unwrap().to_string();
        assert!(refused.contains("of another cluster"), "{refused}");
        assert!(signs.asked.lock().is_empty());
    }

    #[test]
    fn without_a_key_there_is_nothing_but_enrolment() {
        let authority = authority();
        let server = credentials(&authority, Role::Server, "mgs");
        let token = token(&authority, 7);
        let keys = keys(&server, NOW);
        assert!(keys.set_enroller(Signs::new(authority)));
        // As `enrol`, for messages.
        let refused = run(async {
            let (here, there) = duplex(4096);
            let (mut read, mut write) = split(here);
            let mut config = pinned(&token, clock(NOW)).unwrap();
            config.alpn_protocols = vec![b"sheen/1".to_vec()];
            let to = ServerName::try_from(SERVER_NAME).unwrap();
            let end = UnbufferedClientConnection::new(Arc::new(config), to).unwrap();
            let ask = shake(end, Vec::new(), &mut read, &mut write);
            tokio::join!(ask, answered(&keys, there)).1
        });
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("it shows no key"), "{refused}");
    }

    #[test]
    fn damaged_messages_are_refused() {
        run(async {
            let mut bytes: Vec<u8> = Vec::new();
            let asked = Asked { token: 1, secret: [2; 16], public: [3; 32], name: "a".to_owned() };
            send(&asked, &mut bytes).await.unwrap();
            let receive =
                async |bytes: &[u8]| receive::<Asked>(&mut &bytes[..], MESSAGE_BYTES_MAX).await;
            assert_eq!(receive(&bytes).await.unwrap(), asked);
            for cut in 0..bytes.len() {
                assert!(receive(&bytes[..cut]).await.is_err());
            }
            let long = [&(MESSAGE_BYTES_MAX as u16 + 1).to_le_bytes()[..], &[0; 5000]].concat();
            assert!(receive(&long).await.is_err());
            bytes[0] += 1;
            bytes.push(0);
            assert!(receive(&bytes).await.is_err(), "something is behind it");
        });
    }
}
