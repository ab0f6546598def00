//! The key of a host, with its certificate and that of its cluster's authority.

use crate::certificate::principal_of;
use crate::error::SealError;
use crate::pem;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use types::nid::Nid;
use types::principal::Principal;

/// Line of the file that names NIDs of the MGS.
const MGS: &str = "# mgs ";
/// Line of the file that says when its certificate ends, seconds since 1970.
const EXPIRES: &str = "# expires ";

/// The key of a host.
pub struct Credentials {
    principal: Principal,
    key: PrivatePkcs8KeyDer<'static>,
    certificate: CertificateDer<'static>,
    authority: CertificateDer<'static>,
    mgs: Vec<Nid>,
    expires: i64,
}

impl Credentials {
    pub(crate) fn new(
        key: Vec<u8>,
        certificate: CertificateDer<'static>,
        authority: CertificateDer<'static>,
        (mgs, expires): (Vec<Nid>, i64),
    ) -> Result<Credentials, SealError> {
        let principal = principal_of(&certificate)?;
        Ok(Credentials { principal, key: key.into(), certificate, authority, mgs, expires })
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
        let nids = text.lines().filter_map(|line| line.strip_prefix(MGS));
        let mgs = nids
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| SealError::NoKey("a NID is none"))?;
        let expires = text.lines().find_map(|line| line.strip_prefix(EXPIRES)?.parse().ok());
        let expires = expires.ok_or(SealError::NoKey("it does not say when it expires"))?;
        Credentials::new(key.secret_pkcs8_der().to_vec(), certificate, authority, (mgs, expires))
    }

    /// The text of its file. It is secret.
    pub fn to_text(&self) -> String {
        let nids: String = self.mgs.iter().map(|nid| format!("{MGS}{nid}\n")).collect();
        let (Principal { cluster, .. }, expires) = (&self.principal, self.expires);
        format!(
            "# Key of SheenFS: {} of the cluster {cluster}. Keep it secret.\n{nids}{EXPIRES}{expires}\n{}{}{}",
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

    /// Its certificate, and that of the authority.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone(), self.authority.clone()]
    }

    /// The authority that it trusts.
    pub(crate) fn authority(&self) -> &CertificateDer<'static> {
        &self.authority
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone_key())
    }

    /// When its certificate ends, seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.expires
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
}
