//! The owner of a certificate.

use crate::error::SealError;
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use types::principal::{KeyHash, Principal};

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// The owner that a certificate names. Its signature is not looked at.
pub(crate) fn principal_of(certificate: &CertificateDer<'_>) -> Result<Principal, SealError> {
    let certificate =
        webpki::EndEntityCert::try_from(certificate).map_err(|_| SealError::NoPrincipal)?;
    let key = KeyHash(sha256(certificate.subject_public_key_info().as_ref()));
    let mut names = certificate.valid_uri_names();
    match (names.next(), names.next()) {
        (Some(uri), None) => Principal::from_uri(uri, key).ok_or(SealError::NoPrincipal),
        _ => Err(SealError::NoPrincipal),
    }
}
