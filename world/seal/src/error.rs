//! Errors of keys and certificates.

use rustls::{AlertDescription, CertificateError, Error};
use types::nid::NidPattern;
use types::principal::{BadKeyName, BadRole};

/// Something is wrong with a key or a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// A key or a certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(String),
    /// A file of keys holds something else.
    #[error("this is no key of SheenFS: {0}")]
    NoKey(&'static str),
    /// The certificate names no owner that a cluster could have.
    #[error("the certificate names no key of a cluster")]
    NoPrincipal,
    /// The certificate of a site names no id.
    #[error("the certificate has not exactly one URI, spiffe://DOMAIN/...")]
    NoId,
    /// What a certificate cannot bear.
    #[error("{0} is no NID for a key: name an address, 10.1.0.7@tcp1, or a network, *@tcp1")]
    Nid(NidPattern),
    /// The text names no authority.
    #[error("this is no SHA-256 of a certificate: 64 hexadecimal digits")]
    Fingerprint,
    /// The authority before the last one still holds.
    #[error("the authority before this one was not withdrawn yet")]
    Overlap,
    /// A part of the handshake cannot be prepared.
    #[error("{0}")]
    Tls(String),
    /// The name of a key.
    #[error(transparent)]
    Name(#[from] BadKeyName),
    /// The role of a key.
    #[error(transparent)]
    Role(#[from] BadRole),
}

impl From<rcgen::Error> for SealError {
    fn from(error: rcgen::Error) -> SealError {
        SealError::Make(error.to_string())
    }
}

impl From<Error> for SealError {
    fn from(error: Error) -> SealError {
        SealError::Tls(error.to_string())
    }
}

/// Why the other end is not believed, or does not believe this one, in one sentence that goes on
/// from its address.
pub(crate) fn sentence(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => theirs(error).to_owned(),
        Error::NoCertificatesPresented => "it shows no key".to_owned(),
        Error::AlertReceived(alert) => ours(*alert),
        error => format!("its connection cannot be sealed: {error}"),
    }
}

/// About the certificate of the other end.
fn theirs(error: &CertificateError) -> &'static str {
    use CertificateError as E;
    match error {
        E::Expired | E::ExpiredContext { .. } => {
            "its key has expired, or the clock of one of the hosts is wrong"
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "its key is not valid yet: the clock of one of the hosts is wrong"
        }
        E::UnknownIssuer | E::BadSignature => {
            "its key is of another cluster: another authority signed it (or the authority was replaced \
             meanwhile)"
        }
        E::InvalidPurpose
        | E::InvalidPurposeContext { .. }
        | E::NotValidForName
        | E::NotValidForNameContext { .. } => "its key is not that of a server",
        E::Revoked => "its key was revoked",
        E::ApplicationVerificationFailure => {
            "an authority of the site signed its key, and no mapping lets it in: see `sheen auth trust --list`"
        }
        _ => "its key is damaged, or of another sort",
    }
}

/// About our own certificate, as the other end says.
pub(crate) fn ours(alert: AlertDescription) -> String {
    use AlertDescription as A;
    match alert {
        A::CertificateExpired => {
            "the key of this host has expired, or the clock of one of the hosts is wrong; `sheen auth issue` where the MGS is prints another"
                .to_owned()
        }
        A::UnknownCA | A::DecryptError => {
            "the key of this host is of another cluster: another authority signed it (or the authority was replaced \
             meanwhile: `sheen auth join` gets a new key)"
                .to_owned()
        }
        A::CertificateRevoked => "the key of this host was revoked".to_owned(),
        A::AccessDenied => {
            "an authority of the site signed the key of this host, and no mapping lets it in: see `sheen auth trust --list` \
             where the MGS is"
                .to_owned()
        }
        A::CertificateRequired => "it asks for a key, and this process showed none".to_owned(),
        A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown => {
            "it does not take the key of this host: it is not valid yet, or of another sort".to_owned()
        }
        alert => format!("it ends the handshake: {alert:?}"),
    }
}
