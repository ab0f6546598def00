//! The owner of a certificate, and the NIDs that it bears.

use crate::error::SealError;
use ring::digest::{SHA256, digest};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use time::Date;
use types::limits::PEER_NIDS_MAX;
use types::net::Net;
use types::nid::NidPattern;
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
    let (Some(uri), None) = (names.next(), names.next()) else {
        return Err(SealError::NoPrincipal);
    };
    let principal = Principal::from_uri(uri, key).ok_or(SealError::NoPrincipal)?;
    let nids = certificate.valid_dns_names().filter_map(nid_of_name).take(PEER_NIDS_MAX).collect();
    Ok(Principal { nids, ..principal })
}

/// The only URI of a certificate.
pub(crate) fn only_uri(certificate: &CertificateDer<'_>) -> Option<String> {
    let key = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut names = key.valid_uri_names();
    match (names.next(), names.next()) {
        (Some(uri), None) => Some(uri.to_owned()),
        _ => None,
    }
}

/// SHA-256 of the key of a certificate.
pub(crate) fn key_hash(certificate: &CertificateDer<'_>) -> Result<KeyHash, SealError> {
    let key = webpki::EndEntityCert::try_from(certificate).map_err(|_| SealError::NoPrincipal)?;
    Ok(KeyHash(sha256(key.subject_public_key_info().as_ref())))
}

/// True if an authority signed the certificate of a key: itself, or through one of `between`.
/// `now`: seconds since 1970.
pub(crate) fn is_signed(
    certificate: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
    between: &[CertificateDer<'_>],
    now: i64,
) -> bool {
    let (Ok(key), Ok(anchor), Ok(now)) = (
        webpki::EndEntityCert::try_from(certificate),
        webpki::anchor_from_trusted_cert(authority),
        u64::try_from(now),
    ) else {
        return false;
    };
    key.verify_for_usage(
        webpki::ALL_VERIFICATION_ALGS,
        &[anchor],
        between,
        UnixTime::since_unix_epoch(Duration::from_secs(now)),
        // Every key of a cluster has it.
        webpki::KeyUsage::client_auth(),
        None,
        None,
    )
    .is_ok()
}

/// True if both are certificates of one authority: of the same name and key.
pub(crate) fn is_same_authority(one: &CertificateDer<'_>, other: &CertificateDer<'_>) -> bool {
    let [one, other] = [one, other].map(|authority| webpki::anchor_from_trusted_cert(authority));
    match (one, other) {
        (Ok(one), Ok(other)) => {
            one.subject == other.subject
                && one.subject_public_key_info == other.subject_public_key_info
        }
        _ => false,
    }
}

/// When a certificate ends, seconds since 1970; `None`: it cannot be read. Its signature is not
/// looked at.
pub(crate) fn expires_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut fields, _) = element(certificate)?;
    // Version, serial number, algorithm and issuer stand before the two times (RFC 5280, 4.1).
    for _ in 0..4 {
        (_, _, fields) = element(fields)?;
    }
    let (_, times, _) = element(fields)?;
    let (_, _, rest) = element(times)?;
    let (kind, text, _) = element(rest)?;
    seconds(kind, std::str::from_utf8(text).ok()?)
}

/// UTCTime, whose year has two digits, and GeneralizedTime.
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

fn seconds(kind: u8, text: &str) -> Option<i64> {
    let (year, rest) = match kind {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i32 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<u8>().ok();
    let date = Date::from_calendar_date(year, part(0)?.try_into().ok()?, part(2)?).ok()?;
    let time = date.with_hms(part(4)?, part(6)?, part(8)?).ok()?;
    (rest.get(10..) == Some("Z")).then(|| time.assume_utc().unix_timestamp())
}

/// The first element of DER: its tag, its content, and what is behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 3))?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// End of the names that stand for NIDs: `10-1-0-7.tcp1.nid.sheenfs.internal`, for an address of
/// IPv6 its 32 digits, for a whole network `any`. Earlier versions look at URIs only.
const NID: &str = ".nid.sheenfs.internal";
/// All NIDs of a network.
const ANY: &str = "any";

/// The name that stands for a NID in a certificate; `None`: it has none.
pub(crate) fn name_of_nid(nid: NidPattern) -> Option<String> {
    match nid {
        NidPattern::Net(net) => Some(format!("{ANY}.{net}{NID}")),
        NidPattern::Address(net, IpAddr::V4(ip)) => {
            Some(format!("{}.{net}{NID}", ip.to_string().replace('.', "-")))
        }
        NidPattern::Address(net, IpAddr::V6(ip)) => {
            Some(format!("{:032x}.{net}{NID}", ip.to_bits()))
        }
        NidPattern::Any | NidPattern::Exact(..) => None,
    }
}

fn nid_of_name(name: &str) -> Option<NidPattern> {
    let (address, net) = name.strip_suffix(NID)?.split_once('.')?;
    let net: Net = net.parse().ok()?;
    let nid = match address {
        ANY => NidPattern::Net(net),
        digits if digits.len() == 32 => NidPattern::Address(
            net,
            Ipv6Addr::from_bits(u128::from_str_radix(digits, 16).ok()?).into(),
        ),
        numbers => {
            let ip: Ipv4Addr = numbers.replace('-', ".").parse().ok()?;
            NidPattern::Address(net, ip.into())
        }
    };
    // One spelling each.
    (name_of_nid(nid).as_deref() == Some(name)).then_some(nid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_says_when_it_ends_and_a_part_of_it_nothing() {
        use crate::authority::{Authority, PublicKey, Subject};
        use types::principal::Role;
        use types::session::ClusterId;
        // The second one ends in 2054.
        for (now, life) in [(1_790_000_000, 3600), (1_790_000_000, 28 * 365 * 86400)] {
            let authority = Authority::make(ClusterId(7), now).unwrap();
            let name = "oss1".parse().unwrap();
            let subject = Subject { role: Role::Server, name: &name, nids: &[] };
            let public = PublicKey([9; 32]);
            let certificate = authority.issue(subject, public, (now, life)).unwrap();
            assert_eq!(expires_of(&certificate), Some(now + life));
            for length in 0..certificate.len() {
                let part = CertificateDer::from(certificate[..length].to_vec());
                assert_eq!(expires_of(&part), None, "{length} bytes");
            }
        }
        for text in
            ["", "5", "991332000000Z", "990101000000", "990101000000X", "99010100000\u{df}Z"]
        {
            assert_eq!(seconds(UTC_TIME, text), None, "{text}");
        }
    }

    #[test]
    fn nids_have_one_name_each() {
        for (nid, name) in [
            ("10.1.0.7@tcp1", "10-1-0-7.tcp1.nid.sheenfs.internal"),
            ("*@o2ib", "any.o2ib.nid.sheenfs.internal"),
            ("fd00::7@tcp", "fd000000000000000000000000000007.tcp.nid.sheenfs.internal"),
        ] {
            let nid: NidPattern = nid.parse().unwrap();
            assert_eq!(name_of_nid(nid).as_deref(), Some(name));
            assert_eq!(nid_of_name(name), Some(nid));
        }
        for name in [
            "server.sheenfs.internal",
            "any.tcp0.nid.sheenfs.internal",
            "any.elan.nid.sheenfs.internal",
            "10-1-0.tcp.nid.sheenfs.internal",
            "10-01-0-7.tcp.nid.sheenfs.internal",
            "FD000000000000000000000000000007.tcp.nid.sheenfs.internal",
            "any.nid.sheenfs.internal",
            "any.tcp.nid.sheenfs.internal.example",
        ] {
            assert_eq!(nid_of_name(name), None, "{name}");
        }
    }
}
