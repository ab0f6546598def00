//! Numbers by which processes know each other again, as long as there are no keys.
//!
//! A process draws one [`Secret`]. From it come a [`Pairing`] for each address that the process
//! connects to, and a [`Proof`] for each session. The servers of a cluster share a [`ServerKey`],
//! from which come the proofs that they show to each other. All of them are keyed hashes
//! (SipHash-2-4, 128 bits): the peer that is shown one cannot make another, and cannot show it
//! elsewhere with success. A listener on the line can: these numbers travel in the clear.

use crate::nid::Nid;
use crate::session::{ClientUuid, Pairing};
use crate::target::TargetName;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

/// The purpose of a hash: the first byte of what is hashed.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Purpose {
    Pairing = 1,
    Session = 2,
    Server = 3,
    Peer = 4,
    PeerSession = 5,
    TicketEpoch = 6,
    Ticket = 7,
}

/// Random number of a process. It never leaves the process.
#[derive(Clone, Copy)]
pub struct Secret(u128);

/// What a client shows to a target to open a session, and to get it back; or what a server shows to
/// be believed one. 0: nothing is shown. It is a secret of the two, so it is never printed.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Proof(pub u128);

/// Key that the servers of a cluster share: the MGS makes it and tells it to each target that
/// registers. 0: not known yet. It is never printed.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerKey(pub u128);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(...)")
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerKey(...)")
    }
}

impl Secret {
    /// Of a process that drew this number.
    pub fn new(random: u128) -> Secret {
        Secret(random)
    }

    /// What all connections of this process to the server at `nid` show.
    pub fn pairing(self, nid: Nid) -> Pairing {
        let nothing = SocketAddr::new(IpAddr::from([0; 16]), 0);
        let address = nid.address().unwrap_or(nothing);
        let (ip, port) = (address.ip(), address.port());
        let scope = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        // Of `tcp` nothing, as it was before networks had names.
        let net = match nid {
            Nid::On(net, _) => net.to_string(),
            Nid::Loopback | Nid::Tcp(_) => String::new(),
        };
        let ip = match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Pairing(keyed(
            self.0,
            Purpose::Pairing,
            &[&ip.octets(), &port.to_le_bytes(), &scope.to_le_bytes(), net.as_bytes()],
        ))
    }

    /// What a client of this process shows to a target.
    pub fn proof(self, client: ClientUuid, target: TargetName) -> Proof {
        Proof(keyed(self.0, Purpose::Session, &[&client.0.to_le_bytes(), &bytes_of(target)]))
    }
}

impl ServerKey {
    /// True if it is known.
    pub fn is_known(self) -> bool {
        self.0 != 0
    }

    /// What a server shows to a target, over connections that show this pairing. It is of no use
    /// for any other session: a false target that is shown it cannot show it to a true one.
    pub fn proof(self, pairing: Pairing, client: ClientUuid, target: TargetName) -> Proof {
        let parts: [&[u8]; 3] =
            [&pairing.0.to_le_bytes(), &client.0.to_le_bytes(), &bytes_of(target)];
        Proof(keyed(self.0, Purpose::Server, &parts))
    }

    /// What a server shows to a target to open a session that outlives the server's process, and to
    /// get it back in a later life.
    pub fn peer_proof(self, client: ClientUuid, target: TargetName) -> Proof {
        Proof(keyed(self.0, Purpose::PeerSession, &[&client.0.to_le_bytes(), &bytes_of(target)]))
    }

    /// True if the proof was made with this key.
    pub fn made(
        self,
        proof: Proof,
        pairing: Pairing,
        client: ClientUuid,
        target: TargetName,
    ) -> bool {
        self.is_known() && proof == self.proof(pairing, client, target)
    }
}

/// The client that the target with this store is to other targets, in all of its lives. It does not
/// tell the UUID of the store, which is a secret of the target and the MGS.
pub fn peer_of_store(store: u128) -> ClientUuid {
    ClientUuid(keyed(store, Purpose::Peer, &[]))
}

/// File system, padded with zeros, kind, index.
fn bytes_of(target: TargetName) -> [u8; 11] {
    let mut bytes = [0; 11];
    let fsname = target.fsname.as_str().as_bytes();
    bytes[..fsname.len()].copy_from_slice(fsname);
    bytes[8] = target.kind as u8;
    bytes[9..].copy_from_slice(&target.index.0.to_le_bytes());
    bytes
}

/// The hash of parts that always have the same lengths for one purpose, but the last one; never 0.
pub(crate) fn keyed(key: u128, purpose: Purpose, parts: &[&[u8]]) -> u128 {
    let mut hasher = SipHasher24::new_with_key(&key.to_le_bytes());
    hasher.write(&[purpose as u8]);
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish128().as_u128().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::FsName;
    use std::collections::BTreeSet;

    fn ost(index: u16) -> TargetName {
        TargetName::ost(FsName::default(), index)
    }

    /// The value of the reference implementation: `vectors_sip128` of SipHash's authors, 15 bytes.
    #[test]
    fn the_hash_is_siphash() {
        let key: [u8; 16] = std::array::from_fn(|n| n as u8);
        let bytes: [u8; 15] = std::array::from_fn(|n| n as u8);
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(&bytes);
        let expected = [
            0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf,
            0xc3, 0xd9,
        ];
        assert_eq!(hasher.finish128().as_bytes(), expected);
    }

    #[test]
    fn every_address_session_and_key_has_its_own_number() {
        let nids =
            ["10.0.0.1@tcp", "10.0.0.1:7988@tcp", "10.0.0.2@tcp", "[fe80::1]:988@tcp", "0@lo"];
        let mut all = BTreeSet::new();
        for secret in [1, 2].map(Secret::new) {
            all.extend(nids.map(|nid| secret.pairing(nid.parse().unwrap()).0));
            for client in [1, 2].map(ClientUuid) {
                let targets =
                    [TargetName::mgs(), ost(0), ost(1), TargetName::mdt(FsName::default(), 0)];
                all.extend(targets.map(|target| secret.proof(client, target).0));
            }
        }
        for key in [1, 2].map(ServerKey) {
            let sessions = [1, 2]
                .into_iter()
                .flat_map(|client| [ost(0), ost(1)].map(|target| (client, target)));
            all.extend(
                sessions.map(|(client, target)| key.peer_proof(ClientUuid(client), target).0),
            );
        }
        all.extend([1, 2].map(|store| peer_of_store(store).0));
        assert_eq!(all.len(), 2 * (nids.len() + 2 * 4) + 2 * 4 + 2);
        let nid = "10.0.0.1@tcp".parse().unwrap();
        assert_eq!(Secret::new(7).pairing(nid), Secret::new(7).pairing(nid), "and always the same");
        assert!(!all.contains(&0));
    }

    #[test]
    fn a_server_is_believed_only_with_the_key_and_in_the_session_that_it_was_made_for() {
        let (key, pairing, client) = (ServerKey(5), Pairing(6), ClientUuid(7));
        let proof = key.proof(pairing, client, ost(1));
        assert!(key.made(proof, pairing, client, ost(1)));
        assert!(!ServerKey(6).made(proof, pairing, client, ost(1)));
        assert!(!key.made(proof, Pairing(7), client, ost(1)));
        assert!(!key.made(proof, pairing, ClientUuid(8), ost(1)));
        assert!(!key.made(proof, pairing, client, ost(2)));
        assert!(!key.made(Proof(0), pairing, client, ost(1)));
        let none = ServerKey(0);
        assert!(
            !none.made(none.proof(pairing, client, ost(1)), pairing, client, ost(1)),
            "no key is no key"
        );
    }

    #[test]
    fn none_of_them_is_printed() {
        let shown = format!("{:?} {:?} {:?}", Secret::new(0xabc), Proof(0xabc), ServerKey(0xabc));
        assert_eq!(shown, "Secret(...) Proof(...) ServerKey(...)");
    }
}
