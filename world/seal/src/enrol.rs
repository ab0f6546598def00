//! Enrolment: a host gets its key over the network, with a token (docs/security.md, "Enrolment").
//!
//! The host connects to the MGS by TLS without a key of its own, for the protocol `sheen-enrol/1`.
//! It believes the MGS because the token names the authority that must have signed the MGS' key.
//! Then it sends the secret of the token and its new public key, and gets a certificate. A
//! connection carries one question and one answer, of at most [`MESSAGE_BYTES_MAX`] each.

use crate::authority::{PublicKey, SERVER_NAME};
use crate::certificate::sha256;
use crate::credentials::Credentials;
use crate::error::SealError;
use crate::handshake::{Failed, Shaken, halves, shake};
use crate::keys::{Wall, provider};
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
use types::principal::KeyName;

/// Name of the protocol (ALPN).
pub(crate) const ENROLMENT: &[u8] = b"sheen-enrol/1";
/// Longest question and longest answer, bytes.
pub const MESSAGE_BYTES_MAX: usize = 4096;

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

/// The answer: a certificate, or why there is none.
type Answer = Result<Given, String>;

/// The side of the MGS: decides about a question.
pub trait Enroller: Send + Sync {
    /// A host at `from` asks. `Err`: a sentence for its administrator.
    fn enrol(&self, from: Nid, asked: Asked) -> BoxFuture<'_, Answer>;
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

async fn send(message: &impl Serialize, write: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let len = u16::try_from(body.len()).map_err(io::Error::other)?;
    write.write_all(&[&len.to_le_bytes()[..], &body].concat()).await?;
    write.flush().await
}

async fn receive<T: for<'de> Deserialize<'de>>(
    read: &mut (impl AsyncRead + Unpin),
) -> io::Result<T> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let len = usize::from(read.read_u16_le().await?);
    if len > MESSAGE_BYTES_MAX {
        return Err(bad("a message is too long"));
    }
    let mut body = vec![0; len];
    read.read_exact(&mut body).await?;
    match postcard::take_from_bytes(&body) {
        Ok((message, [])) => Ok(message),
        _ => Err(bad("a message is damaged")),
    }
}

/// Answers one question.
pub(crate) async fn serve(
    enroller: &dyn Enroller,
    from: Nid,
    Shaken { mut opening, mut sealing, .. }: Shaken,
) -> io::Result<()> {
    let asked: Asked = receive(&mut opening).await?;
    let answer = enroller.enrol(from, asked).await;
    send(&answer, &mut sealing).await?;
    sealing.shutdown().await
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
    let provider = Arc::new(provider());
    let verifier = Arc::new(Pinned { authority: token.authority, provider: provider.clone() });
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(Wall(clock)))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(SealError::from)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.enable_secret_extraction = true;
    config.alpn_protocols = vec![ENROLMENT.to_vec()];
    let to = ServerName::try_from(SERVER_NAME).map_err(|e| SealError::Tls(e.to_string()))?;
    let end = UnbufferedClientConnection::new(Arc::new(config), to).map_err(SealError::from)?;
    let (end, early, rest) = shake(end, Vec::new(), &mut read, &mut write).await?;
    let Shaken { protocol, mut sealing, mut opening, .. } =
        halves(end, (early, rest), read, write)?;
    if protocol.as_deref() != Some(ENROLMENT) {
        return Err(EnrolError::Refused("it takes no tokens: it is not the MGS".to_owned()));
    }
    let key = KeyPair::generate_for(&PKCS_ED25519).map_err(SealError::from)?;
    let public = PublicKey::of(&key)?;
    let asked = Asked {
        token: token.number,
        secret: token.secret,
        public: public.0,
        name: name.to_string(),
    };
    send(&asked, &mut sealing).await?;
    let Given { certificate, authority, mgs, expires } =
        receive::<Answer>(&mut opening).await?.map_err(EnrolError::Refused)?;
    let bad = |what: &str| EnrolError::Bad(what.to_owned());
    if sha256(&authority) != token.authority {
        return Err(bad("it is of another authority than the token says"));
    }
    let mgs = mgs.iter().map(|nid| nid.parse()).collect::<Result<Vec<Nid>, _>>();
    let mgs = mgs.map_err(|error| bad(&error.to_string()))?;
    let (certificate, authority) = (certificate.into(), authority.into());
    let given = Credentials::new(key.serialize_der(), certificate, authority, (mgs, expires))?;
    if given.principal().key != public.hash() {
        return Err(bad("it is for another key"));
    }
    Ok(given)
}

/// Believes a server whose key the authority of a token has signed.
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
        verifier.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
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
mod tests {
    use super::*;
    use crate::authority::{Authority, Subject};
    use crate::keys::Keys;
    use crate::tests::{DAY, NID, NOW, answered, authority, clock, credentials, keys, run, split};
    use parking_lot::Mutex;
    use tokio::io::duplex;
    use types::principal::Role;
    use types::session::ClusterId;

    /// Signs whatever it is asked for with the right secret.
    struct Signs {
        authority: Authority,
        asked: Mutex<Vec<Asked>>,
    }

    impl Enroller for Signs {
        fn enrol(&self, _: Nid, asked: Asked) -> BoxFuture<'_, Answer> {
            let given = match asked.secret {
                [7, ..] => {
                    let name = asked.name.parse().unwrap();
                    let owner = Subject { role: Role::Client, name: &name, nids: &[] };
                    let public = PublicKey(asked.public);
                    let certificate = self.authority.issue(owner, public, (NOW, DAY)).unwrap();
                    Ok(Given {
                        certificate: certificate.to_vec(),
                        authority: self.authority.certificate().to_vec(),
                        mgs: vec!["10.0.0.1@tcp".to_owned()],
                        expires: NOW + DAY,
                    })
                }
                _ => Err("no such token".to_owned()),
            };
            self.asked.lock().push(asked);
            Box::pin(std::future::ready(given))
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
        let signs = Arc::new(Signs { authority, asked: Mutex::default() });
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
            let call = lnet::seal::Seal::call(&*client, NID, read, write);
            let (called, answer) = tokio::join!(call, answered(&keys, there));
            assert_eq!(called.unwrap().principal.to_string(), "server mgs");
            assert_eq!(answer.unwrap().unwrap().principal.to_string(), "client node7");
        });
    }

    #[test]
    fn another_authority_learns_no_secret() {
        let (ours, theirs) = (authority(), Authority::make(ClusterId(7), NOW).unwrap());
        let keys = keys(&credentials(&theirs, Role::Server, "mgs"), NOW);
        let signs = Arc::new(Signs { authority: theirs, asked: Mutex::default() });
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
        assert!(keys.set_enroller(Arc::new(Signs { authority, asked: Mutex::default() })));
        // As `enrol`, for messages.
        let refused = run(async {
            let (here, there) = duplex(4096);
            let (mut read, mut write) = split(here);
            let provider = Arc::new(provider());
            let verifier =
                Arc::new(Pinned { authority: token.authority, provider: provider.clone() });
            let mut config =
                ClientConfig::builder_with_details(provider, Arc::new(Wall(clock(NOW))))
                    .with_protocol_versions(&[&rustls::version::TLS13])
                    .unwrap()
                    .dangerous()
                    .with_custom_certificate_verifier(verifier)
                    .with_no_client_auth();
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
            assert_eq!(receive::<Asked>(&mut &bytes[..]).await.unwrap(), asked);
            for cut in 0..bytes.len() {
                assert!(receive::<Asked>(&mut &bytes[..cut]).await.is_err());
            }
            let long = [&(MESSAGE_BYTES_MAX as u16 + 1).to_le_bytes()[..], &[0; 5000]].concat();
            assert!(receive::<Asked>(&mut &long[..]).await.is_err());
            bytes[0] += 1;
            bytes.push(0);
            assert!(receive::<Asked>(&mut &bytes[..]).await.is_err(), "something is behind it");
        });
    }
}
