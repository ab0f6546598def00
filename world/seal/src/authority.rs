//! The authority of a cluster: the key that signs the certificates of all its keys.

use crate::certificate::{self, sha256};
use crate::credentials::{ClusterText, Credentials, further};
use crate::error::SealError;
use crate::fingerprint::Fingerprint;
use crate::pem;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SanType, SerialNumber,
    SignatureAlgorithm,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use time::OffsetDateTime;
use types::nid::{Nid, NidPattern};
use types::principal::{BadKeyName, KeyHash, KeyName, Principal, Role};
use types::session::ClusterId;

/// A certificate is good from so long before it was made, seconds: clocks of hosts differ.
const SKEW: i64 = 300;
/// Life of the authority's own certificate, seconds.
const AUTHORITY_LIFE: i64 = 20 * 365 * 86_400;
/// Life of the certificate of a key unless another is asked for, seconds.
pub const KEY_LIFE: i64 = 365 * 86_400;
/// Name that certificates of servers have, and no others: the side that connects asks for it.
pub(crate) const SERVER_NAME: &str = "server.sheenfs.internal";

/// A public key of Ed25519.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl PublicKey {
    /// Its hash, as a certificate's owner has it.
    pub fn hash(&self) -> KeyHash {
        KeyHash(sha256(&self.subject_public_key_info()))
    }

    pub(crate) fn of(key: &KeyPair) -> Result<PublicKey, SealError> {
        let raw = key
            .public_key_raw()
            .try_into()
            .map_err(|_| SealError::NoKey("it is not of Ed25519"))?;
        Ok(PublicKey(raw))
    }
}

/// Whose a key is, and what its certificate says beside that.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// What it may be.
    pub role: Role,
    /// Its name.
    pub name: &'a KeyName,
    /// NIDs under which it may be seen behind routers: addresses, or whole networks.
    pub nids: &'a [NidPattern],
}

/// The authority of a cluster.
pub struct Authority {
    cluster: ClusterId,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    /// 1: the first one of its cluster.
    generation: u32,
    /// Until the authority before is withdrawn: the bridge, which is the certificate of this one
    /// that the one before signed, and the certificate of the one before.
    overlap: Vec<CertificateDer<'static>>,
}

/// Line of the file that says how many authorities the cluster has had. The first one has none.
const GENERATION: &str = "# generation ";
/// Digits of the number of a bridge, bytes.
const SERIAL_BYTES: usize = 16;

fn name_of(cluster: ClusterId) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, format!("SheenFS {cluster}"));
    name
}

fn at(seconds: i64) -> Result<OffsetDateTime, SealError> {
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| SealError::Make(error.to_string()))
}

fn params_of(cluster: ClusterId, now: i64) -> Result<CertificateParams, SealError> {
    let mut params = CertificateParams::default();
    params.not_before = at(now - SKEW)?;
    params.not_after = at(now + AUTHORITY_LIFE)?;
    params.distinguished_name = name_of(cluster);
    // One below it: the next authority.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(params)
}

impl Authority {
    /// A new one. `now`: seconds since 1970.
    ///
    /// # Errors
    /// There is no randomness for a key.
    pub fn make(cluster: ClusterId, now: i64) -> Result<Authority, SealError> {
        let (params, key) = (params_of(cluster, now)?, KeyPair::generate_for(&PKCS_ED25519)?);
        let certificate = params.self_signed(&key)?.der().clone();
        let issuer = Issuer::new(params, key);
        Ok(Authority { cluster, issuer, certificate, generation: 1, overlap: Vec::new() })
    }

    /// The next authority of the cluster, which this one signs. Both hold until
    /// [`Authority::withdraw`]. `now`: seconds since 1970.
    ///
    /// # Errors
    /// The one before this was not withdrawn yet, or there is no randomness for a key.
    pub fn rotate(&self, now: i64) -> Result<Authority, SealError> {
        if self.is_in_overlap() {
            return Err(SealError::Overlap);
        }
        let next = Authority::make(self.cluster, now)?;
        let mut params = params_of(self.cluster, now)?;
        // One that the self-signed certificate does not have, and below 2^127.
        let mut serial = sha256(&next.certificate);
        serial[0] &= 0x7f;
        params.serial_number = Some(SerialNumber::from_slice(&serial[..SERIAL_BYTES]));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.use_authority_key_identifier_extension = true;
        let bridge = params.signed_by(next.issuer.key(), &self.issuer)?.der().clone();
        let overlap = vec![bridge, self.certificate.clone()];
        Ok(Authority { generation: self.generation.saturating_add(1), overlap, ..next })
    }

    /// The same authority, without the one before it.
    #[must_use]
    pub fn withdraw(self) -> Authority {
        Authority { overlap: Vec::new(), ..self }
    }

    /// True if the authority before this one holds, too.
    pub fn is_in_overlap(&self) -> bool {
        !self.overlap.is_empty()
    }

    /// 1 for the first authority of a cluster, and so on.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The authorities that hold: this one, then the one before.
    pub fn fingerprints(&self) -> Vec<Fingerprint> {
        // The bridge is none.
        let before = self.overlap.get(1);
        std::iter::once(&self.certificate).chain(before).map(Fingerprint::of).collect()
    }

    /// This key with the certificates of the overlap as they are now; `None`: it has them, or
    /// another authority signed it.
    pub fn equip(&self, key: &Credentials) -> Option<Credentials> {
        let is_ours = key.authority() == Fingerprint::of(&self.certificate);
        (is_ours && key.overlap() != self.overlap).then(|| key.with_overlap(&self.overlap))
    }

    /// Certificates that go beside its own to those that get a key.
    pub fn overlap(&self) -> &[CertificateDer<'static>] {
        &self.overlap
    }

    /// From the text of [`Authority::to_text`].
    ///
    /// # Errors
    /// [`SealError::NoKey`].
    pub fn from_text(cluster: ClusterId, text: &str) -> Result<Authority, SealError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| SealError::NoKey("it has no key"))?;
        let mut certificates = CertificateDer::pem_slice_iter(text.as_bytes());
        let Some(Ok(certificate)) = certificates.next() else {
            return Err(SealError::NoKey("it has no certificate"));
        };
        let overlap = further(certificates)?;
        let generation = text.lines().find_map(|line| line.strip_prefix(GENERATION));
        let generation = generation.map_or(Ok(1), str::parse);
        let generation =
            generation.map_err(|_| SealError::NoKey("it does not say which authority it is"))?;
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ED25519)?;
        let issuer = Issuer::new(params_of(cluster, 0)?, key);
        Ok(Authority { cluster, issuer, certificate, generation, overlap })
    }

    /// Its key and its certificate. The owner of the text can let every host into the cluster.
    pub fn to_text(&self) -> String {
        let generation = match self.generation {
            1 => String::new(),
            generation => format!("{GENERATION}{generation}\n"),
        };
        let overlap: String =
            self.overlap.iter().map(|der| pem::encode("CERTIFICATE", der)).collect();
        format!(
            "# Authority of the SheenFS cluster {}. The owner of this file can let any host in.\n{generation}{}{}{overlap}",
            self.cluster,
            pem::encode("PRIVATE KEY", self.issuer.key().serialized_der()),
            pem::encode("CERTIFICATE", &self.certificate)
        )
    }

    /// What hosts with keys of a site need to know servers of the cluster, whose MGS is at these
    /// NIDs.
    pub fn public(&self, mgs: Vec<Nid>) -> ClusterText {
        ClusterText::new(self.cluster, mgs, self.certificate.clone(), self.overlap.clone())
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// SHA-256 of its certificate.
    pub fn fingerprint(&self) -> [u8; 32] {
        sha256(&self.certificate)
    }

    /// A certificate for a key. `now`: seconds since 1970; `life`: seconds.
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub fn issue(
        &self,
        Subject { role, name, nids }: Subject<'_>,
        public: PublicKey,
        (now, life): (i64, i64),
    ) -> Result<CertificateDer<'static>, SealError> {
        if name.is_of_site() {
            return Err(BadKeyName(name.to_string()).into());
        }
        let (cluster, name, key) = (self.cluster, name.clone(), public.hash());
        let principal = Principal { cluster, role, name, key, nids: Vec::new() };
        let mut params = CertificateParams::default();
        params.not_before = at(now - SKEW)?;
        params.not_after = at(now.saturating_add(life))?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, principal.to_string());
        params.subject_alt_names = vec![SanType::URI(principal.uri().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role == Role::Server {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
            params.subject_alt_names.push(SanType::DnsName(SERVER_NAME.try_into()?));
        }
        for nid in nids {
            let name = certificate::name_of_nid(*nid).ok_or(SealError::Nid(*nid))?;
            params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
        }
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(&public, &self.issuer)?.der().clone())
    }

    /// A new key with its certificate.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn issue_key(
        &self,
        subject: Subject<'_>,
        mgs: Vec<Nid>,
        (now, life): (i64, i64),
    ) -> Result<Credentials, SealError> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let certificate = self.issue(subject, PublicKey::of(&key)?, (now, life))?;
        Credentials::new(
            key.serialize_der(),
            certificate,
            (self.certificate.clone(), self.overlap.clone()),
            (mgs, now.saturating_add(life)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::{is_same_authority, is_signed, principal_of};

    const CLUSTER: ClusterId = ClusterId(0x1234);

    #[test]
    fn a_new_authority_is_signed_by_the_one_before_and_survives_its_file() {
        let now = 1_000_000;
        let first = Authority::make(CLUSTER, now).unwrap();
        assert!(!first.to_text().contains(GENERATION), "as earlier versions wrote it");
        let second = first.rotate(now).unwrap();
        assert_eq!(second.rotate(now).err(), Some(SealError::Overlap));
        let read = Authority::from_text(CLUSTER, &second.to_text()).unwrap();
        assert_eq!((read.to_text(), read.generation()), (second.to_text(), 2));
        assert!(read.is_in_overlap() && !first.is_in_overlap());
        let of_both = [&second.certificate, &first.certificate].map(Fingerprint::of);
        assert_eq!(read.fingerprints(), of_both);
        // A key of the new one, read from its file: the old one knows it, over the bridge only.
        let name: KeyName = "node7".parse().unwrap();
        let subject = Subject { role: Role::Client, name: &name, nids: &[] };
        let key = read.issue(subject, PublicKey([9; 32]), (now, KEY_LIFE)).unwrap();
        assert!(is_signed(&key, &second.certificate, &[], now));
        assert!(!is_signed(&key, &first.certificate, &[], now));
        assert!(is_signed(&key, &first.certificate, &second.overlap, now));
        let (bridge, old) = (&second.overlap[0], &second.overlap[1]);
        assert!(is_same_authority(bridge, &second.certificate) && bridge != &second.certificate);
        assert!(!is_same_authority(bridge, old) && !is_same_authority(bridge, &vec![1].into()));
        // Of others' authorities no bridge leads anywhere, and a key is no authority.
        let other = Authority::make(CLUSTER, now).unwrap();
        assert!(!is_signed(&key, &other.certificate, &second.overlap, now));
        let theirs = other.rotate(now).unwrap();
        assert!(!is_signed(&key, &first.certificate, &theirs.overlap, now));
        assert!(!is_signed(&key, &first.certificate, std::slice::from_ref(&key), now));
        // What is withdrawn is forgotten, and then there may be a third one.
        let alone = read.withdraw();
        assert_eq!(alone.fingerprints(), of_both[..1]);
        let alone = Authority::from_text(CLUSTER, &alone.to_text()).unwrap();
        assert_eq!((alone.generation(), alone.is_in_overlap()), (2, false));
        assert_eq!(alone.rotate(now).unwrap().generation(), 3);
        let damaged = alone.to_text().replace("generation 2", "generation x");
        assert!(Authority::from_text(CLUSTER, &damaged).is_err());
        // A key file is brought up to date, if it is one of this authority.
        let credentials = |by: &Authority| by.issue_key(subject, Vec::new(), (now, 60)).unwrap();
        let key = credentials(&second);
        assert!(second.equip(&key).is_none());
        assert!(!alone.equip(&key).unwrap().is_in_overlap());
        assert!(second.equip(&credentials(&alone)).unwrap().is_in_overlap());
        assert!(second.equip(&credentials(&first)).is_none());
    }

    #[test]
    fn an_authority_survives_its_file() {
        let made = Authority::make(CLUSTER, 1_000_000).unwrap();
        let read = Authority::from_text(CLUSTER, &made.to_text()).unwrap();
        assert_eq!(read.fingerprint(), made.fingerprint());
        assert_eq!(read.to_text(), made.to_text());
        let name: KeyName = "node7".parse().unwrap();
        let public = PublicKey([9; 32]);
        let nids = ["10.1.0.7@tcp1", "fd00::7@o2ib12", "*@tcp"].map(|nid| nid.parse().unwrap());
        let subject = Subject { role: Role::Client, name: &name, nids: &nids };
        for authority in [&made, &read] {
            let certificate = authority.issue(subject, public, (1_000_000, KEY_LIFE)).unwrap();
            let principal = principal_of(&certificate).unwrap();
            assert_eq!(
                (principal.cluster, principal.role, &principal.name),
                (CLUSTER, Role::Client, &name)
            );
            assert_eq!((principal.key, &principal.nids[..]), (public.hash(), &nids[..]));
        }
        let one = ["10.0.0.1:988@tcp".parse().unwrap()];
        let subject = Subject { nids: &one, ..subject };
        let refused = made.issue(subject, public, (1_000_000, KEY_LIFE)).err();
        assert_eq!(refused, Some(SealError::Nid(one[0])), "a port means nothing");
        assert_eq!(
            Authority::from_text(CLUSTER, "x").err(),
            Some(SealError::NoKey("it has no key"))
        );
    }
}
