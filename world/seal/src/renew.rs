//! Renewal: a host with a key gets another one from the process with the authority
//! (docs/security.md, "A new authority").
//!
//! The host connects by TLS with the key that it has, for the protocol `sheen-renew/1`. A
//! connection carries one question and one answer. Of a new authority the host needs a proof: the
//! certificate by which an authority that it trusts already has signed the new one.

use crate::authority::SERVER_NAME;
use crate::certificate::{is_same_authority, is_signed, principal_of};
use crate::credentials::Credentials;
use crate::enrol::{
    AskedAgain, Certified, EnrolError, GRANTED_BYTES_MAX, Granted, NewKey, RENEWAL, bad, receive,
    send,
};
use crate::error::SealError;
use crate::handshake::{Shaken, halves, shake};
use crate::keys::Keys;
use lnet::seal::{Read, Write};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::Arc;
use types::principal::Role;

/// Asks the process at the other end for a certificate for `new`, in the name of the key that this
/// process has. The same may be asked again if the answer is lost.
///
/// # Errors
/// [`EnrolError`].
pub async fn renew(
    keys: &Keys,
    new: &NewKey,
    (mut read, mut write): (Read, Write),
) -> Result<Credentials, EnrolError> {
    let to = ServerName::try_from(SERVER_NAME).map_err(|e| SealError::Tls(e.to_string()))?;
    let calls = Arc::new(keys.calls_for(RENEWAL));
    let end = UnbufferedClientConnection::new(calls, to).map_err(SealError::from)?;
    let (end, early, rest) = shake(end, Vec::new(), &mut read, &mut write).await?;
    let Shaken { chain, protocol, mut sealing, mut opening, .. } =
        halves(end, (early, rest), read, write)?;
    if protocol.as_deref() != Some(RENEWAL) {
        return Err(EnrolError::Refused("it renews no keys: it has no authority".to_owned()));
    }
    let shown = chain.first().ok_or(SealError::NoPrincipal)?;
    if principal_of(shown)?.role != Role::Server {
        return Err(EnrolError::Refused("it is no server".to_owned()));
    }
    send(&AskedAgain { public: new.public().0 }, &mut sealing).await?;
    let granted = receive::<Result<Granted, String>>(&mut opening, GRANTED_BYTES_MAX).await?;
    let given = new.certified(granted.map_err(EnrolError::Refused)?)?;
    let owner = principal_of(&given.certificate)?;
    let own = keys.principal();
    if (owner.cluster, owner.role, &owner.name) != (own.cluster, own.role, &own.name) {
        return Err(bad("it is for another owner"));
    }
    believed(given, &keys.authorities(), keys.now())?.into_key()
}

/// What was given, without the certificates that are not for this host to believe. `known`: the
/// authorities that it trusts already.
fn believed<'a>(
    given: Certified<'a>,
    known: &[CertificateDer<'static>],
    now: i64,
) -> Result<Certified<'a>, EnrolError> {
    let Certified { ref certificate, ref authority, .. } = given;
    let bridges: Vec<_> =
        given.overlap.iter().filter(|der| is_same_authority(der, authority)).cloned().collect();
    let is_known = known.contains(authority) && is_signed(certificate, authority, &[], now);
    let is_proven = known.iter().any(|by| is_signed(certificate, by, &bridges, now));
    if !is_known && (bridges.is_empty() || !is_proven) {
        return Err(bad("no authority that this host knows has signed its authority"));
    }
    let mut overlap = bridges;
    let before = given.overlap.iter().filter(|der| known.contains(der) && *der != authority);
    overlap.extend(before.cloned());
    Ok(Certified { overlap, ..given })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Authority;
    use crate::enrol::tests::Signs;
    use crate::tests::{NOW, answered, authority, credentials, keys, run, split};
    use std::collections::BTreeSet;
    use tokio::io::duplex;

    /// What a client with this key gets from a process with that one.
    fn renews(client: &Keys, mgs: &Keys) -> Result<Credentials, EnrolError> {
        let new = NewKey::make().unwrap();
        run(async {
            let (here, there) = duplex(64 << 10);
            let (given, answer) =
                tokio::join!(renew(client, &new, split(here)), answered(mgs, there));
            assert!(!matches!(answer, Ok(Some(_))), "it carries no messages");
            given
        })
    }

    fn mgs(own: &Credentials, signs: Signs) -> Arc<Keys> {
        let mgs = keys(own, NOW);
        assert!(mgs.set_enroller(Arc::new(signs)));
        mgs
    }

    #[test]
    fn a_host_gets_a_key_of_an_authority_that_its_own_has_signed() {
        let first = authority();
        let second = first.rotate(NOW).unwrap();
        let of_second = second.fingerprints();
        let old = credentials(&first, Role::Client, "c");
        let own = [&first, &second].map(|by| credentials(by, Role::Server, "mgs"));
        // The MGS has its new key, or died before it had.
        for own in &own {
            let second = Authority::from_text(second.cluster(), &second.to_text()).unwrap();
            let mgs = mgs(own, Signs::of(second));
            let client = keys(&old, NOW);
            let given = renews(&client, &mgs).unwrap();
            assert_eq!(given.principal().to_string(), "client c");
            assert_ne!(given.principal().key, old.principal().key);
            assert_eq!(given.authority(), of_second[0]);
            assert!(given.believes(own, NOW) && own.believes(&given, NOW));
            assert!(given.believes(&old, NOW) && old.believes(&given, NOW));
            // The next one, from the key that it has now.
            assert_eq!(client.replace(&given), Ok(false), "it still trusts the first");
            assert_eq!(renews(&client, &mgs).unwrap().authority(), of_second[0]);
        }
    }

    #[test]
    fn nothing_else_is_believed_or_granted() {
        let first = authority();
        let second = first.rotate(NOW).unwrap();
        let client = keys(&credentials(&first, Role::Client, "c"), NOW);
        let own = credentials(&first, Role::Server, "mgs");
        let refused = |signs: Signs| {
            renews(&client, &mgs(&own, signs)).err().expect("it is refused").to_string()
        };
        // A server of the cluster that makes an authority of its own, and proves nothing, or has
        // one signed by another.
        let unknown = "no authority that this host knows has signed its authority";
        let stranger = authority();
        for theirs in [stranger.rotate(NOW).unwrap(), stranger] {
            let said = refused(Signs::of(theirs));
            assert!(said.contains(unknown), "{said}");
        }
        // The right one, without the proof.
        let said = refused(Signs::of(second.withdraw()));
        assert!(said.contains(unknown), "{said}");
        let second = first.rotate(NOW).unwrap();
        let said = refused(Signs { renews: false, ..Signs::of(second) });
        assert_eq!(said, "it is not in the list");
        // A key that was revoked, and one without the authority.
        let mgs = mgs(&own, Signs::of(first.rotate(NOW).unwrap()));
        assert!(mgs.revoke(BTreeSet::from([client.principal().key])));
        assert!(renews(&client, &mgs).is_err());
        let other = keys(&own, NOW);
        assert!(renews(&client, &other).is_err());
    }

    #[test]
    fn what_comes_with_a_key_is_not_trusted_for_that() {
        let first = authority();
        let second = first.rotate(NOW).unwrap();
        let stranger = authority();
        let new = NewKey::make().unwrap();
        let owner = crate::authority::Subject {
            role: Role::Client,
            name: &"c".parse().unwrap(),
            nids: &[],
        };
        let certificate = second.issue(owner, new.public(), (NOW, 60)).unwrap();
        let mut overlap: Vec<Vec<u8>> = second.overlap().iter().map(|der| der.to_vec()).collect();
        overlap.push(stranger.certificate().to_vec());
        let granted = Granted {
            given: crate::enrol::Given {
                certificate: certificate.to_vec(),
                authority: second.certificate().to_vec(),
                mgs: Vec::new(),
                expires: NOW + 60,
            },
            overlap,
        };
        let known = [first.certificate().clone()];
        let given = new.certified(granted.clone()).unwrap();
        let key = believed(given, &known, NOW).ok().unwrap().into_key().unwrap();
        let trusts = key.authorities();
        assert_eq!(trusts, [second.certificate().clone(), first.certificate().clone()]);
        let other = NewKey::make().unwrap();
        assert!(other.certified(granted.clone()).is_err(), "it is for another key");
        let many = Granted { overlap: vec![Vec::new(); 5], ..granted };
        assert!(new.certified(many).is_err());
    }
}
