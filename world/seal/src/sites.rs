//! Authorities of a site, whose keys a cluster takes as those of clients (docs/security.md,
//! "Authorities of a site").
//!
//! Bounds: [`SITES_MAX`] authorities with [`MAPS_MAX`] mappings each, [`SITE_BYTES_MAX`] bytes of
//! text for each.

use crate::certificate::{expires_of, key_hash, only_uri};
use crate::fingerprint::Fingerprint;
use crate::pem;
use data_encoding::BASE64;
use ring::digest::{Context, SHA256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use types::principal::{KeyName, Principal, Role};
use types::session::ClusterId;

/// Authorities of sites that a cluster may trust.
pub const SITES_MAX: usize = 4;
/// Mappings of each.
pub const MAPS_MAX: usize = 8;
/// Longest text of one: the value of a persistent parameter.
pub const SITE_BYTES_MAX: usize = 4_096;
/// Longest pattern and id, bytes.
const ID_BYTES_MAX: usize = 256;
/// Longest label, bytes.
const LABEL_BYTES_MAX: usize = 31;
/// Segments of a pattern that are compared, at most.
const SEGMENTS_MAX: usize = 16;

/// What cannot be an authority of a site, or a mapping.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadSite {
    /// The pattern.
    #[error(
        "{0:?} is no pattern of ids: spiffe://DOMAIN/SEGMENT/..., of letters, digits, '-', '_', '.' (the domain in small letters); one whole segment may be *"
    )]
    Pattern(String),
    /// The domain of the pattern is that of a cluster.
    #[error("{0:?} names ids of a cluster of SheenFS, not of a site")]
    Cluster(String),
    /// The form.
    #[error("{0:?} is no mapping: PATTERN=ROLE:LABEL, as 'spiffe://site/hpc/*=client:physics'")]
    Form(String),
    /// The role.
    #[error("{0:?} is no role for keys of a site: client or admin")]
    Role(String),
    /// The label.
    #[error("{0:?} is no label: 1 to {LABEL_BYTES_MAX} letters, digits, '-', '_' or '.'")]
    Label(String),
    /// A label stands twice.
    #[error("the label {0} is used already, and two hosts could have one name")]
    LabelTaken(KeyName),
    /// One id could be two owners.
    #[error("an id can match both {0} and {1}")]
    Overlap(String, String),
    /// There are no or too many mappings.
    #[error("an authority of a site has 1 to {MAPS_MAX} mappings")]
    Maps,
    /// The certificate.
    #[error("it has no certificate of an authority: PEM, with CA:TRUE")]
    Certificate,
    /// It is too long.
    #[error("its certificate and mappings together are longer than {SITE_BYTES_MAX} bytes")]
    Long,
}

/// Why a key of a site is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refused {
    /// No authority of a site signed it.
    Unknown,
    /// One did, but it is not good now.
    Time(bool),
    /// One did, and no mapping matches.
    Unmapped,
}

/// A pattern of ids.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Pattern {
    text: String,
    domain: String,
    /// `None`: any one.
    segments: Vec<Option<String>>,
}

fn is_segment(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    !text.is_empty() && text != "." && text != ".." && text.bytes().all(plain)
}

fn is_domain(text: &str) -> bool {
    is_segment(text) && !text.bytes().any(|b| b.is_ascii_uppercase())
}

/// Domain and segments of an id or pattern. The segments are not looked at.
fn split(text: &str) -> Option<(&str, Vec<&str>)> {
    let rest = text.strip_prefix("spiffe://").filter(|_| text.len() <= ID_BYTES_MAX)?;
    let (domain, path) = rest.split_once('/')?;
    let segments: Vec<&str> = path.split('/').collect();
    (is_domain(domain) && segments.len() <= SEGMENTS_MAX).then_some((domain, segments))
}

impl FromStr for Pattern {
    type Err = BadSite;

    fn from_str(text: &str) -> Result<Pattern, BadSite> {
        let bad = || BadSite::Pattern(text.to_owned());
        let (domain, segments) = split(text).ok_or_else(bad)?;
        let wild = segments.iter().filter(|one| **one == "*").count();
        if wild > 1 || !segments.iter().all(|one| *one == "*" || is_segment(one)) {
            return Err(bad());
        }
        let number = u128::from_str_radix(&domain.replace('-', ""), 16);
        if number.is_ok_and(|number| ClusterId(number).to_string() == domain) {
            return Err(BadSite::Cluster(text.to_owned()));
        }
        let segments =
            segments.into_iter().map(|one| (one != "*").then(|| one.to_owned())).collect();
        Ok(Pattern { text: text.to_owned(), domain: domain.to_owned(), segments })
    }
}

impl Pattern {
    /// The segment that names the owner of this id; `None`: it does not match.
    fn part<'a>(&self, id: &'a str) -> Option<&'a str> {
        let (domain, segments) = split(id)?;
        let fits = domain == self.domain
            && segments.len() == self.segments.len()
            && segments.iter().zip(&self.segments).all(|(one, wanted)| match wanted {
                Some(wanted) => one == wanted,
                None => is_segment(one),
            });
        let at = self.segments.iter().position(Option::is_none).unwrap_or(segments.len() - 1);
        fits.then(|| segments[at])
    }

    /// True if an id may match both.
    fn overlaps(&self, other: &Pattern) -> bool {
        let meet = |(one, other): (&Option<String>, &Option<String>)| {
            one.is_none() || other.is_none() || one == other
        };
        self.domain == other.domain
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(meet)
    }
}

/// Which ids are let in, and as what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    pattern: Pattern,
    role: Role,
    label: KeyName,
}

impl FromStr for Mapping {
    type Err = BadSite;

    fn from_str(text: &str) -> Result<Mapping, BadSite> {
        let form = || BadSite::Form(text.to_owned());
        let (pattern, owner) = text.split_once('=').ok_or_else(form)?;
        let (role, label) = owner.split_once(':').ok_or_else(form)?;
        let role = match role.parse() {
            Ok(role @ (Role::Client | Role::Administrator)) => role,
            _ => return Err(BadSite::Role(role.to_owned())),
        };
        let bad = || BadSite::Label(label.to_owned());
        let name: KeyName = label.parse().map_err(|_| bad())?;
        if label.len() > LABEL_BYTES_MAX {
            return Err(bad());
        }
        Ok(Mapping { pattern: pattern.parse()?, role, label: name })
    }
}

/// As it is read again.
impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mapping { pattern, role, label } = self;
        write!(f, "{}={role}:{label}", pattern.text)
    }
}

impl Mapping {
    /// What its keys may be.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Its label.
    pub fn label(&self) -> &KeyName {
        &self.label
    }
}

/// An authority of a site, and the ids that it may name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    certificate: CertificateDer<'static>,
    maps: Vec<Mapping>,
}

impl Site {
    /// # Errors
    /// See [`BadSite`].
    pub fn new(certificate: CertificateDer<'static>, maps: Vec<Mapping>) -> Result<Site, BadSite> {
        if webpki::anchor_from_trusted_cert(&certificate).is_err() || !is_authority(&certificate) {
            return Err(BadSite::Certificate);
        }
        if maps.is_empty() || maps.len() > MAPS_MAX {
            return Err(BadSite::Maps);
        }
        for (at, one) in maps.iter().enumerate() {
            for other in &maps[..at] {
                if one.label == other.label {
                    return Err(BadSite::LabelTaken(one.label.clone()));
                }
                if one.pattern.overlaps(&other.pattern) {
                    return Err(BadSite::Overlap(other.to_string(), one.to_string()));
                }
            }
        }
        let site = Site { certificate, maps };
        if site.to_string().len() > SITE_BYTES_MAX { Err(BadSite::Long) } else { Ok(site) }
    }

    /// The first certificate of this PEM.
    ///
    /// # Errors
    /// [`BadSite::Certificate`].
    pub fn certificate_of(text: &str) -> Result<CertificateDer<'static>, BadSite> {
        CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| BadSite::Certificate)
    }

    /// Its certificate as PEM.
    pub fn pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.certificate)
    }

    /// SHA-256 of its certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Its mappings.
    pub fn maps(&self) -> &[Mapping] {
        &self.maps
    }

    /// What names one of its mappings.
    fn grant(&self, map: &Mapping) -> Fingerprint {
        let mut hash = Context::new(&SHA256);
        [&self.certificate[..], b"\0", map.to_string().as_bytes()]
            .iter()
            .for_each(|part| hash.update(part));
        let mut grant = [0; 32];
        grant.copy_from_slice(hash.finish().as_ref());
        Fingerprint(grant)
    }

    /// The id that it vouches for.
    fn id(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<String, Refused> {
        let (own, between) = chain.split_first().ok_or(Refused::Unknown)?;
        let unknown = |_| Refused::Unknown;
        let anchors = [webpki::anchor_from_trusted_cert(&self.certificate).map_err(unknown)?];
        let key = webpki::EndEntityCert::try_from(own).map_err(unknown)?;
        let verified = key.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            between,
            now,
            webpki::KeyUsage::client_auth(),
            None,
            None,
        );
        match verified {
            Ok(_) => {}
            Err(webpki::Error::CertExpired { .. }) => return Err(Refused::Time(true)),
            Err(webpki::Error::CertNotValidYet { .. }) => return Err(Refused::Time(false)),
            Err(_) => return Err(Refused::Unknown),
        }
        only_uri(own).ok_or(Refused::Unmapped)
    }

    fn owner(&self, id: &str) -> Option<(&Mapping, KeyName)> {
        self.maps.iter().find_map(|map| {
            let name = KeyName::of_site(&map.label, map.pattern.part(id)?).ok()?;
            Some((map, name))
        })
    }
}

/// True if it says that it may sign others: an end entity is no authority, also if one signed it.
fn is_authority(certificate: &CertificateDer<'_>) -> bool {
    let (Ok(key), Ok(anchor), Some(end)) = (
        webpki::EndEntityCert::try_from(certificate),
        webpki::anchor_from_trusted_cert(certificate),
        expires_of(certificate).and_then(|end| u64::try_from(end).ok()),
    ) else {
        return false;
    };
    let anchors = [anchor];
    // As the certificate of a key it is refused then, and only then.
    let verified = key.verify_for_usage(
        webpki::ALL_VERIFICATION_ALGS,
        &anchors,
        &[],
        UnixTime::since_unix_epoch(Duration::from_secs(end)),
        webpki::KeyUsage::client_auth(),
        None,
        None,
    );
    matches!(verified, Err(webpki::Error::CaUsedAsEndEntity))
}

/// The value of its parameter: the certificate, base64, and its mappings.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(&self.certificate))?;
        self.maps.iter().try_for_each(|map| write!(f, " {map}"))
    }
}

impl FromStr for Site {
    type Err = BadSite;

    fn from_str(text: &str) -> Result<Site, BadSite> {
        if text.len() > SITE_BYTES_MAX {
            return Err(BadSite::Long);
        }
        let mut words = text.split(' ');
        let certificate = BASE64.decode(words.next().unwrap_or_default().as_bytes());
        let certificate = certificate.map_err(|_| BadSite::Certificate)?;
        Site::new(certificate.into(), words.map(str::parse).collect::<Result<_, _>>()?)
    }
}

/// All authorities of sites that a process takes keys of.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sites(Vec<Site>);

impl Sites {
    /// # Errors
    /// There are too many, or a label stands twice.
    pub fn new(sites: Vec<Site>) -> Result<Sites, BadSite> {
        if sites.len() > SITES_MAX {
            return Err(BadSite::Long);
        }
        let mut labels = BTreeSet::new();
        for map in sites.iter().flat_map(|site| &site.maps) {
            if !labels.insert(&map.label) {
                return Err(BadSite::LabelTaken(map.label.clone()));
            }
        }
        Ok(Sites(sites))
    }

    /// The authorities.
    pub fn all(&self) -> &[Site] {
        &self.0
    }

    /// True if the other ones take all that these take.
    pub(crate) fn is_within(&self, other: &Sites) -> bool {
        let mut all = self.0.iter().flat_map(|site| site.maps.iter().map(|map| site.grant(map)));
        all.all(|grant| other.knows(&grant))
    }

    /// True if this is one of their mappings.
    pub(crate) fn knows(&self, grant: &Fingerprint) -> bool {
        self.0.iter().any(|site| site.maps.iter().any(|map| site.grant(map) == *grant))
    }

    /// Whose key the chain shows, if an authority of a site vouches for it, and what names the
    /// mapping.
    pub(crate) fn owner(
        &self,
        chain: &[CertificateDer<'_>],
        cluster: ClusterId,
        now: UnixTime,
    ) -> Result<(Principal, Fingerprint), Error> {
        let mut refused = Refused::Unknown;
        for site in &self.0 {
            match site.id(chain, now).map(|id| site.owner(&id)) {
                Ok(Some((map, name))) => {
                    let key = key_hash(&chain[0])
                        .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
                    let role = map.role;
                    let owner = Principal { cluster, role, name, key, nids: Vec::new() };
                    return Ok((owner, site.grant(map)));
                }
                Ok(None) => refused = Refused::Unmapped,
                Err(Refused::Unknown) => {}
                Err(why) => refused = why,
            }
        }
        Err(Error::InvalidCertificate(match refused {
            Refused::Unknown => CertificateError::UnknownIssuer,
            Refused::Time(true) => CertificateError::Expired,
            Refused::Time(false) => CertificateError::NotValidYet,
            Refused::Unmapped => CertificateError::ApplicationVerificationFailure,
        }))
    }
}
