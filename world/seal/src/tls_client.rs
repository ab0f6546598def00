//! TLS 1.3 to a server that is not SheenFS, such as etcd: the client's side. The server shows a
//! certificate of an authority that a file names; the client shows its own, if it has one.

use crate::error::SealError;
use crate::handshake::{Failed, Shaken, halves, shake};
use crate::provider::provider;
use lnet::seal::{Read, Write};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;

/// See the module.
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, SealError> {
    let all = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| SealError::NoKey("a certificate in it is damaged"))?;
    match all.is_empty() {
        true => Err(SealError::NoKey("it has no certificate")),
        false => Ok(all),
    }
}

impl TlsClient {
    /// Trusts servers with certificates of these authorities (PEM). `own`: certificates, the own
    /// one first, and private key that it shows (PEM).
    ///
    /// # Errors
    /// A text is something else, or the key does not fit the certificate.
    pub fn new(authorities: &str, own: Option<(&str, &str)>) -> Result<TlsClient, SealError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(authorities)? {
            roots.add(authority)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .map_err(|_| SealError::NoKey("it has no private key"))?;
                builder.with_client_auth_cert(certificates(chain)?, key)?
            }
        };
        config.resumption = Resumption::disabled();
        config.enable_secret_extraction = true;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsClient { config: Arc::new(config) })
    }

    /// Makes the handshake with the server of this host name or address.
    ///
    /// # Errors
    /// The server shows no certificate for it, or ends the connection.
    pub async fn connect(
        &self,
        host: &str,
        mut read: Read,
        mut write: Write,
    ) -> io::Result<(Read, Write)> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| invalid(format!("{host:?} is no host that a certificate can name")))?;
        let end =
            UnbufferedClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        let shaken = match shake(end, Vec::new(), &mut read, &mut write).await {
            Ok((end, early, rest)) => halves(end, (early, rest), read, write),
            Err(failed) => Err(failed),
        };
        match shaken {
            Ok(Shaken { opening, sealing, .. }) => Ok((Box::new(opening), Box::new(sealing))),
            Err(Failed::Lost(error)) => Err(error),
            Err(Failed::Refused(reason)) => Err(invalid(reason)),
        }
    }
}
