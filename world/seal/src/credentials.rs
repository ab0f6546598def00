//! The key of a host, with its certificate and that of its cluster's authority.

use crate::certificate::{is_same_authority, is_signed, principal_of};
use crate::error::SealError;
use crate::fingerprint::Fingerprint;
use crate::pem;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use types::nid::Nid;
use types::principal::Principal;

/// Line of the file that names NIDs of the MGS.
const MGS: &str = "# mgs ";
/// Line of the file that says when its certificate ends, seconds since 1970.
const EXPIRES: &str = "# expires ";

/// Certificates of authorities that a key may have beside that of its own.
pub(crate) const OVERLAP_MAX: usize = 4;

/// The key of a host.
#[derive(Clone)]
pub struct Credentials {
    principal: Principal,
    key: Arc<PrivatePkcs8KeyDer<'static>>,
    certificate: CertificateDer<'static>,
    authority: CertificateDer<'static>,
    /// While the authority before still holds: the bridge, which is the certificate of `authority`
    /// that the one before signed, and the certificate of the one before. At most [`OVERLAP_MAX`].
    overlap: Vec<CertificateDer<'static>>,
    mgs: Vec<Nid>,
    expires: i64,
}

impl Credentials {
    pub(crate) fn new(
        key: Vec<u8>,
        certificate: CertificateDer<'static>,
        (authority, overlap): (CertificateDer<'static>, Vec<CertificateDer<'static>>),
        (mgs, expires): (Vec<Nid>, i64),
    ) -> Result<Credentials, SealError> {
        let principal = principal_of(&certificate)?;
        let key = PrivatePkcs8KeyDer::from(key).into();
        Ok(Credentials { principal, key, certificate, authority, overlap, mgs, expires })
    }

    /// From the text of [`Credentials::to_text`].
    ///
    /// # Errors
    /// The text is something else.
    pub fn from_text(text: &str) -> Result<Credentials, SealError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| SealError::NoKey("it has no key"))?;
        let mut certificates = CertificateDer::pem_slice_iter(text.as_bytes());
        let (Some(Ok(certificate)), Some(Ok(authority))) =
            (certificates.next(), certificates.next())
        else {
            return Err(SealError::NoKey("it has no two certificates"));
        };
        let overlap = further(certificates)?;
        let nids = text.lines().filter_map(|line| line.strip_prefix(MGS));
        let mgs = nids
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| SealError::NoKey("a NID is none"))?;
        let expires = text.lines().find_map(|line| line.strip_prefix(EXPIRES)?.parse().ok());
        let expires = expires.ok_or(SealError::NoKey("it does not say when it expires"))?;
        let key = key.secret_pkcs8_der().to_vec();
        Credentials::new(key, certificate, (authority, overlap), (mgs, expires))
    }

    /// The text of its file. It is secret.
    pub fn to_text(&self) -> String {
        let nids: String = self.mgs.iter().map(|nid| format!("{MGS}{nid}\n")).collect();
        let (Principal { cluster, .. }, expires) = (&self.principal, self.expires);
        let overlap: String =
            self.overlap.iter().map(|der| pem::encode("CERTIFICATE", der)).collect();
        format!(
            "# Key of SheenFS: {} of the cluster {cluster}. Keep it secret.\n{nids}{EXPIRES}{expires}\n{}{}{}{overlap}",
            self.principal,
            pem::encode("PRIVATE KEY", self.key.secret_pkcs8_der()),
            pem::encode("CERTIFICATE", &self.certificate),
            pem::encode("CERTIFICATE", &self.authority)
        )
    }

    /// Its owner.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// NIDs of the MGS that gave it.
    pub fn mgs(&self) -> &[Nid] {
        &self.mgs
    }

    /// Its certificate, that of the authority, and what the other end needs if it knows only the
    /// authority before.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        let own = [&self.certificate, &self.authority];
        own.into_iter().chain(&self.overlap).cloned().collect()
    }

    /// The authorities that it trusts: its own first.
    pub(crate) fn authorities(&self) -> Vec<CertificateDer<'static>> {
        let is_other = |other: &&CertificateDer<'_>| !is_same_authority(other, &self.authority);
        let others = self.overlap.iter().filter(is_other);
        std::iter::once(&self.authority).chain(others).cloned().collect()
    }

    /// The authority that signed it.
    pub fn authority(&self) -> Fingerprint {
        Fingerprint::of(&self.authority)
    }

    /// True if a process with this key believes one that shows the other key. `now`: seconds since
    /// 1970.
    pub fn believes(&self, other: &Credentials, now: i64) -> bool {
        let is_signed = |authority: &CertificateDer<'_>| {
            is_signed(&other.certificate, authority, &other.overlap, now)
        };
        self.authorities().iter().any(is_signed)
    }

    /// True if it trusts the authority before its own, too.
    pub fn is_in_overlap(&self) -> bool {
        !self.overlap.is_empty()
    }

    /// The same key with other certificates of authorities beside its own.
    pub(crate) fn with_overlap(&self, overlap: &[CertificateDer<'static>]) -> Credentials {
        Credentials { overlap: overlap.to_vec(), ..self.clone() }
    }

    pub(crate) fn overlap(&self) -> &[CertificateDer<'static>] {
        &self.overlap
    }

    /// The same key, which trusts its own authority only.
    pub fn without_the_authority_before(&self) -> Credentials {
        self.with_overlap(&[])
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone_key())
    }

    /// When its certificate ends, seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.expires
    }
}

/// The certificates behind those that every file of an authority or key has.
pub(crate) fn further(
    certificates: impl Iterator<Item = Result<CertificateDer<'static>, PemError>>,
) -> Result<Vec<CertificateDer<'static>>, SealError> {
    let further: Result<Vec<_>, _> = certificates.take(OVERLAP_MAX + 1).collect();
    match further {
        Ok(further) if further.len() <= OVERLAP_MAX => Ok(further),
        Ok(_) => Err(SealError::NoKey("it has too many certificates")),
        Err(_) => Err(SealError::NoKey("a certificate is none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Authority, Subject};
    use types::principal::Role;
    use types::session::ClusterId;

    #[test]
    fn a_key_survives_its_file() {
        let authority = Authority::make(ClusterId(7), 1_000_000).unwrap();
        let made = authority
            .issue_key(
                Subject { role: Role::Server, name: &"a".parse().unwrap(), nids: &[] },
                vec!["10.0.0.1@tcp".parse().unwrap()],
                (1_000_000, 1_000),
            )
            .unwrap();
        assert_eq!(made.expires(), 1_001_000);
        let text = made.to_text();
        let read = Credentials::from_text(&text).unwrap();
        assert_eq!((read.principal(), read.mgs()), (made.principal(), made.mgs()));
        assert_eq!(read.to_text(), text);
        assert!(text.starts_with("# Key of SheenFS: server a of the cluster 00000000-"), "{text}");
        let (half, _) = text.rsplit_once("-----BEGIN").unwrap();
        assert_eq!(
            Credentials::from_text(half).err(),
            Some(SealError::NoKey("it has no two certificates"))
        );
    }

    #[test]
    fn a_key_of_an_overlap_survives_its_file_and_has_no_more_certificates_than_it_may() {
        let first = Authority::make(ClusterId(7), 1_000_000).unwrap();
        let second = first.rotate(1_000_000).unwrap();
        let subject = Subject { role: Role::Server, name: &"a".parse().unwrap(), nids: &[] };
        let made = second.issue_key(subject, Vec::new(), (1_000_000, 1_000)).unwrap();
        let text = made.to_text();
        let read = Credentials::from_text(&text).unwrap();
        assert_eq!((read.to_text(), read.chain()), (text.clone(), made.chain()));
        let trusts: Vec<_> = read.authorities().iter().map(Fingerprint::of).collect();
        assert_eq!(trusts, second.fingerprints());
        assert_eq!((read.authority(), trusts.len()), (trusts[0], 2));
        let after = read.without_the_authority_before();
        assert_eq!(after.authorities().len(), 1);
        assert!(read.is_in_overlap() && !after.is_in_overlap());
        // As an earlier version reads it: the first key and the first two certificates.
        assert!(text.starts_with(after.to_text().trim_end()));
        let one = &text[text.rfind("-----BEGIN").unwrap()..];
        let full = format!("{text}{one}{one}");
        assert!(Credentials::from_text(&full).is_ok());
        assert_eq!(
            Credentials::from_text(&format!("{full}{one}")).err(),
            Some(SealError::NoKey("it has too many certificates"))
        );
        assert_eq!(
            Credentials::from_text(&text.replace(one, "-----BEGIN CERTIFICATE-----\n?\n")).err(),
            Some(SealError::NoKey("a certificate is none"))
        );
    }
}
