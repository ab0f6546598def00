//! The owner of a certificate, and the NIDs that it bears.

use crate::error::SealError;
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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
