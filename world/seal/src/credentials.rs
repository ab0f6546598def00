//! The key of a host, with its certificate and that of its cluster's authority.

use crate::certificate::{
    expires_of, is_same_authority, is_signed, key_hash, only_uri, principal_of,
};
use crate::error::SealError;
use crate::fingerprint::Fingerprint;
use crate::pem;
use crate::provider::provider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use types::nid::Nid;
use types::principal::{KeyName, Principal, Role};
use types::session::ClusterId;

/// Line of the file that names NIDs of the MGS.
const MGS: &str = "# mgs ";
/// Line of the file that says when its certificate ends, seconds since 1970.
const EXPIRES: &str = "# expires ";

/// Line of the file of a key of a site: how many certificates are the site's.
const SITE: &str = "# site ";
/// Line that names the cluster, where no certificate does.
const CLUSTER: &str = "# cluster ";
/// Label of such a key where only its host knows it.
const SITE_LABEL: &str = "site";

/// Certificates between a key of a site and its authority.
const BETWEEN_MAX: usize = 4;
/// Certificates of authorities that a key may have beside that of its own.
pub(crate) const OVERLAP_MAX: usize = 4;

/// The key of a host.
#[derive(Clone)]
pub struct Credentials {
    principal: Principal,
    key: Arc<PrivateKeyDer<'static>>,
    certificate: CertificateDer<'static>,
    /// Of a key of a site, the certificates between it and its authority. At most [`BETWEEN_MAX`].
    between: Vec<CertificateDer<'static>>,
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
        let key = Arc::new(PrivatePkcs8KeyDer::from(key).into());
        let between = Vec::new();
        Ok(Credentials { principal, key, certificate, between, authority, overlap, mgs, expires })
    }

    /// The key of a host of a site: its private key and its certificates, its own first, as PEM.
    /// What it may be and its name in the cluster the servers know; here it is a client of its id's
    /// last segment.
    ///
    /// # Errors
    /// A text is something else, or the key does not fit the certificate.
    pub fn of_site(
        cluster: &ClusterText,
        key: &str,
        certificates: &str,
    ) -> Result<Credentials, SealError> {
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| SealError::NoKey("it has no private key"))?;
        let all = CertificateDer::pem_slice_iter(certificates.as_bytes());
        let chain = all
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| SealError::NoKey("a certificate is none"))?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider())?;
        Credentials::with_site(cluster.clone(), key, chain)
    }

    fn with_site(
        ClusterText { cluster, mgs, authority, overlap }: ClusterText,
        key: PrivateKeyDer<'static>,
        mut chain: Vec<CertificateDer<'static>>,
    ) -> Result<Credentials, SealError> {
        if !(1..=1 + BETWEEN_MAX).contains(&chain.len()) {
            return Err(SealError::NoKey("it has no or too many certificates of the site"));
        }
        let between = chain.split_off(1);
        let certificate = chain.remove(0);
        let id = only_uri(&certificate).ok_or(SealError::NoId)?;
        let part = id.strip_prefix("spiffe://").and_then(|id| id.rsplit_once('/'));
        let (_, part) = part.ok_or(SealError::NoId)?;
        let name = KeyName::of_site(&SITE_LABEL.parse()?, part)?;
        let expires = expires_of(&certificate).ok_or(SealError::NoId)?;
        let (key, hash) = (Arc::new(key), key_hash(&certificate)?);
        let principal =
            Principal { cluster, role: Role::Client, name, key: hash, nids: Vec::new() };
        Ok(Credentials { principal, key, certificate, between, authority, overlap, mgs, expires })
    }

    /// True if an authority of a site made it.
    pub fn is_of_site(&self) -> bool {
        self.principal.name.is_of_site()
    }

    /// From the text of [`Credentials::to_text`].
    ///
    /// # Errors
    /// The text is something else.
    pub fn from_text(text: &str) -> Result<Credentials, SealError> {
        if let Some(count) = line_of(text, SITE) {
            return Credentials::of_site_text(text, count);
        }
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| SealError::NoKey("it has no key"))?;
        let mut certificates = CertificateDer::pem_slice_iter(text.as_bytes());
        let (Some(Ok(certificate)), Some(Ok(authority))) =
            (certificates.next(), certificates.next())
        else {
            return Err(SealError::NoKey("it has no two certificates"));
        };
        let overlap = further(certificates)?;
        let mgs = mgs_of(text)?;
        let expires = text.lines().find_map(|line| line.strip_prefix(EXPIRES)?.parse().ok());
        let expires = expires.ok_or(SealError::NoKey("it does not say when it expires"))?;
        let key = key.secret_pkcs8_der().to_vec();
        Credentials::new(key, certificate, (authority, overlap), (mgs, expires))
    }

    /// `count`: how many certificates are those of the site.
    fn of_site_text(text: &str, count: &str) -> Result<Credentials, SealError> {
        let bad = || SealError::NoKey("it does not say which certificates are those of the site");
        let count = count.parse().ok().filter(|n| (1..=1 + BETWEEN_MAX).contains(n));
        let count: usize = count.ok_or_else(bad)?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| SealError::NoKey("it has no key"))?;
        let all = CertificateDer::pem_slice_iter(text.as_bytes());
        let chain: Result<Vec<_>, _> = all.take(count).collect();
        let chain = chain.map_err(|_| SealError::NoKey("a certificate is none"))?;
        let cluster = ClusterText::after(text, count)?;
        Credentials::with_site(cluster, key, chain)
    }

    /// The text of its file. It is secret.
    pub fn to_text(&self) -> String {
        if self.is_of_site() {
            return self.to_site_text();
        }
        let nids: String = self.mgs.iter().map(|nid| format!("{MGS}{nid}\n")).collect();
        let (Principal { cluster, .. }, expires) = (&self.principal, self.expires);
        let overlap: String =
            self.overlap.iter().map(|der| pem::encode("CERTIFICATE", der)).collect();
        format!(
            "# Key of SheenFS: {} of the cluster {cluster}. Keep it secret.\n{nids}{EXPIRES}{expires}\n{}{}{}{overlap}",
            self.principal,
            pem::encode("PRIVATE KEY", self.key.secret_der()),
            pem::encode("CERTIFICATE", &self.certificate),
            pem::encode("CERTIFICATE", &self.authority)
        )
    }

    fn to_site_text(&self) -> String {
        let label = match &*self.key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        let Credentials { principal, certificate, between, .. } = self;
        let own = std::iter::once(certificate).chain(between);
        let own: String = own.map(|der| pem::encode("CERTIFICATE", der)).collect();
        let cluster = ClusterText {
            cluster: principal.cluster,
            mgs: self.mgs.clone(),
            authority: self.authority.clone(),
            overlap: self.overlap.clone(),
        };
        format!(
            "# Key of a site for SheenFS: {principal}. Keep it secret.\n{SITE}{}\n{}{}{own}{}",
            1 + between.len(),
            cluster.lines(),
            pem::encode(label, self.key.secret_der()),
            cluster.certificates()
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
        if self.is_of_site() {
            return std::iter::once(&self.certificate).chain(&self.between).cloned().collect();
        }
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
        self.key.clone_key()
    }

    /// When its certificate ends, seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.expires
    }
}

/// What hosts with keys of a site need of a cluster. It is not secret.
#[derive(Clone)]
pub struct ClusterText {
    cluster: ClusterId,
    mgs: Vec<Nid>,
    authority: CertificateDer<'static>,
    overlap: Vec<CertificateDer<'static>>,
}

impl ClusterText {
    /// Of this cluster, with its authority and what goes beside it in an overlap.
    pub(crate) fn new(
        cluster: ClusterId,
        mgs: Vec<Nid>,
        authority: CertificateDer<'static>,
        overlap: Vec<CertificateDer<'static>>,
    ) -> ClusterText {
        ClusterText { cluster, mgs, authority, overlap }
    }

    /// From the text of [`ClusterText::to_text`].
    ///
    /// # Errors
    /// The text is something else.
    pub fn from_text(text: &str) -> Result<ClusterText, SealError> {
        ClusterText::after(text, 0)
    }

    /// From a text in which other certificates stand first.
    fn after(text: &str, others: usize) -> Result<ClusterText, SealError> {
        let bad = || SealError::NoKey("it names no cluster: `sheen auth export` prints it");
        let cluster = line_of(text, CLUSTER).ok_or_else(bad)?;
        let number = u128::from_str_radix(&cluster.replace('-', ""), 16).map_err(|_| bad())?;
        let mut certificates = CertificateDer::pem_slice_iter(text.as_bytes()).skip(others);
        let Some(Ok(authority)) = certificates.next() else {
            return Err(SealError::NoKey("it has no certificate of the cluster's authority"));
        };
        let overlap = further(certificates)?;
        Ok(ClusterText { cluster: ClusterId(number), mgs: mgs_of(text)?, authority, overlap })
    }

    fn lines(&self) -> String {
        let nids: String = self.mgs.iter().map(|nid| format!("{MGS}{nid}\n")).collect();
        format!("{CLUSTER}{}\n{nids}", self.cluster)
    }

    fn certificates(&self) -> String {
        let all = std::iter::once(&self.authority).chain(&self.overlap);
        all.map(|der| pem::encode("CERTIFICATE", der)).collect()
    }

    /// Its text.
    pub fn to_text(&self) -> String {
        let what = "# A cluster of SheenFS, for hosts with keys of a site's authority. Not secret.";
        format!("{what}\n{}{}", self.lines(), self.certificates())
    }
}

fn line_of<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(start))
}

fn mgs_of(text: &str) -> Result<Vec<Nid>, SealError> {
    let nids = text.lines().filter_map(|line| line.strip_prefix(MGS));
    let mgs = nids.map(str::parse).collect::<Result<_, _>>();
    mgs.map_err(|_| SealError::NoKey("a NID is none"))
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
