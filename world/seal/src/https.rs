//! TLS 1.3 of a daemon's page and metrics: the server's side, for clients that have no key.
//!
//! Browsers know no Ed25519, so the key is of P-256. Its certificate is one that an administrator
//! got for the host, or one that it signs itself: then readers know it by its fingerprint.

use crate::certificate::sha256;
use crate::error::SealError;
use crate::handshake::{Failed, Shaken, halves, shake};
use crate::pem;
use crate::provider::{Wall, provider};
use env::clock::Clock;
use lnet::seal::{Read, Write};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use time::OffsetDateTime;

/// Life of a certificate that a daemon signs itself, seconds: what browsers accept.
const LIFE: i64 = 397 * 86_400;
/// It is good from so long before it was made, seconds.
const SKEW: i64 = 300;

/// See the module.
pub struct Https {
    config: Arc<ServerConfig>,
    fingerprint: [u8; 32],
}

/// A new key with a certificate for this address, which it signs itself: the text of its file. It
/// is secret. `now`: seconds since 1970.
///
/// # Errors
/// It cannot be made.
pub fn self_signed(ip: IpAddr, host: &str, now: i64) -> Result<String, SealError> {
    let at = |seconds| {
        OffsetDateTime::from_unix_timestamp(seconds).map_err(|e| SealError::Make(e.to_string()))
    };
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::default();
    params.not_before = at(now - SKEW)?;
    params.not_after = at(now + LIFE)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("SheenFS at {host}"));
    params.subject_alt_names = vec![SanType::IpAddress(ip)];
    params.subject_alt_names.extend(host.try_into().ok().map(SanType::DnsName));
    let certificate = params.self_signed(&key)?;
    Ok(format!(
        "# Key and certificate of a SheenFS daemon's page. Keep it secret.\n{}{}",
        pem::encode("PRIVATE KEY", &key.serialize_der()),
        pem::encode("CERTIFICATE", certificate.der())
    ))
}

impl Https {
    /// With the key and the certificates of a file, the host's own first.
    ///
    /// # Errors
    /// The text is something else, or its key and certificate do not fit.
    pub fn from_text(text: &str, clock: Arc<dyn Clock>) -> Result<Https, SealError> {
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| SealError::NoKey("it has no private key"))?;
        let chain = CertificateDer::pem_slice_iter(text.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| SealError::NoKey("a certificate in it is damaged"))?;
        let own = chain.first().ok_or(SealError::NoKey("it has no certificate"))?;
        let fingerprint = sha256(own);
        let mut config =
            ServerConfig::builder_with_details(Arc::new(provider()), Arc::new(Wall(clock)))
                .with_protocol_versions(&[&rustls::version::TLS13])?
                .with_no_client_auth()
                .with_single_cert(chain, key)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.enable_secret_extraction = true;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Https { config: Arc::new(config), fingerprint })
    }

    /// SHA-256 of its certificate, in the form that browsers show.
    pub fn fingerprint(&self) -> String {
        let bytes: Vec<String> =
            self.fingerprint.iter().map(|byte| format!("{byte:02X}")).collect();
        bytes.join(":")
    }

    /// Makes the handshake of a connection that came.
    ///
    /// # Errors
    /// The other end ends it, or speaks no TLS.
    pub async fn accept(&self, mut read: Read, mut write: Write) -> io::Result<(Read, Write)> {
        let end = UnbufferedServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
        let shaken = match shake(end, Vec::new(), &mut read, &mut write).await {
            Ok((end, early, rest)) => halves(end, (early, rest), read, write),
            Err(failed) => Err(failed),
        };
        match shaken {
            Ok(Shaken { opening, sealing, .. }) => Ok((Box::new(opening), Box::new(sealing))),
            Err(Failed::Lost(error)) => Err(error),
            Err(Failed::Refused(reason)) => Err(io::Error::new(io::ErrorKind::InvalidData, reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{NOW, clock, run, split};
    use rustls::client::{Resumption, UnbufferedClientConnection};
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    fn calls(text: &str, name: &str, seconds: i64) -> Result<String, Failed> {
        let https = Https::from_text(text, clock(NOW)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(text.as_bytes()).unwrap()).unwrap();
        let time = Arc::new(Wall(clock(seconds)));
        let mut config = ClientConfig::builder_with_details(Arc::new(provider()), time)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.enable_secret_extraction = true;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let end = UnbufferedClientConnection::new(Arc::new(config), name).unwrap();
        run(async {
            let (here, there) = duplex(4096);
            let ((mut read, mut write), (their_read, their_write)) = (split(here), split(there));
            let serve = async {
                let (mut read, mut write) = https.accept(their_read, their_write).await?;
                let mut asked = [0; 4];
                read.read_exact(&mut asked).await?;
                write.write_all(&asked).await?;
                write.shutdown().await
            };
            let ask = async {
                let (end, early, rest) = shake(end, Vec::new(), &mut read, &mut write).await?;
                let Shaken { mut opening, mut sealing, .. } =
                    halves(end, (early, rest), read, write)?;
                sealing.write_all(b"ping").await?;
                sealing.flush().await?;
                let mut answer = String::new();
                opening.read_to_string(&mut answer).await?;
                Ok(answer)
            };
            tokio::join!(ask, serve).0
        })
    }

    #[test]
    fn a_reader_that_knows_the_certificate_reads() {
        let text = self_signed("10.0.0.1".parse().unwrap(), "mds1", NOW).unwrap();
        assert_eq!(calls(&text, "10.0.0.1", NOW).unwrap(), "ping");
        assert_eq!(calls(&text, "mds1", NOW).unwrap(), "ping");
        assert!(matches!(calls(&text, "10.0.0.2", NOW), Err(Failed::Refused(_))));
        assert!(matches!(calls(&text, "10.0.0.1", NOW + LIFE + 1), Err(Failed::Refused(_))));
        let https = Https::from_text(&text, clock(NOW)).unwrap();
        assert_eq!(https.fingerprint().len(), 32 * 3 - 1);
        // A name that no certificate can have is left out of it.
        assert!(self_signed("fd00::1".parse().unwrap(), "a b", NOW).is_ok());
    }

    #[test]
    fn what_is_no_key_is_refused_in_a_sentence() {
        let text = self_signed("10.0.0.1".parse().unwrap(), "a", NOW).unwrap();
        let other = self_signed("10.0.0.1".parse().unwrap(), "b", NOW).unwrap();
        let (key, certificate) = text.split_at(text.rfind("-----BEGIN").unwrap());
        let of_other = &other[other.rfind("-----BEGIN").unwrap()..];
        for (text, reason) in [
            ("", "no private key"),
            (certificate, "no private key"),
            (key, "no certificate"),
            (&format!("{key}{of_other}"), ""),
        ] {
            let error = Https::from_text(text, clock(NOW)).err().unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
