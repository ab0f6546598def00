//! The twin of the seal of connections, without cryptography: each end says whose key it has, and
//! is believed. What a process makes of that, its real code decides: which role may send what,
//! whose a session is, and what becomes of keys that were revoked.

use env::BoxFuture;
use lnet::error::LinkError;
use lnet::seal::{
    IT_IS_OPEN, Protection, Reach, Read, START_BYTES, Seal, Sealed, Write, is_sealed,
};
use observe::mutant::{Mutant, is_mutant};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::nid::Nid;
use types::principal::{KeyHash, Principal, Role};
use types::session::ClusterId;

/// A key: the one with this serial number of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its role.
    pub role: Role,
    /// Number of the host.
    pub host: u8,
    /// Its number among the keys of the host.
    pub serial: u8,
}

impl Key {
    /// What stands for its hash.
    pub fn hash(self) -> KeyHash {
        let mut hash = [self.role as u8; 32];
        hash[..2].copy_from_slice(&[self.host, self.serial]);
        KeyHash(hash)
    }

    fn principal(self) -> Arc<Principal> {
        let name = format!("host{}", self.host).parse().expect("a good name");
        let nids = Vec::new();
        Arc::new(Principal { cluster: ClusterId(1), role: self.role, name, key: self.hash(), nids })
    }

    /// As a handshake of TLS begins.
    fn start(self) -> [u8; START_BYTES] {
        [0x16, 0x03, self.role as u8, self.host, self.serial, 1, 0, 0]
    }

    fn of_start(start: [u8; START_BYTES]) -> Key {
        Key { role: Role::of_number(start[2]), host: start[3], serial: start[4] }
    }
}

/// The seal of a process.
pub struct Twin {
    key: Mutex<Key>,
    /// Keys that are known to be revoked; a server's next process knows them, too.
    revoked: Arc<Mutex<BTreeSet<KeyHash>>>,
}

impl Twin {
    /// That of a process with this key.
    pub fn new(key: Key, revoked: Arc<Mutex<BTreeSet<KeyHash>>>) -> Arc<Twin> {
        Arc::new(Twin { key: Mutex::new(key), revoked })
    }

    /// Its key.
    pub fn key(&self) -> Key {
        *self.key.lock()
    }

    /// The key is renewed: connections that are made from now on show this one.
    pub fn renew(&self, key: Key) {
        *self.key.lock() = key;
    }

    /// These keys, too, were revoked. `false`: that was known.
    pub fn revoke(&self, revoked: BTreeSet<KeyHash>) -> bool {
        let mut known = self.revoked.lock();
        let before = known.len();
        known.extend(revoked);
        known.len() > before
    }

    fn sealed(&self, start: [u8; START_BYTES], read: Read, write: Write) -> Sealed {
        let protection = Protection { cipher: "none", expires: None, authority: None };
        Sealed { principal: Key::of_start(start).principal(), protection, read, write }
    }
}

fn lost(nid: Nid) -> impl Fn(std::io::Error) -> LinkError {
    move |error| LinkError::Lost { nid, reason: error.to_string() }
}

impl Seal for Twin {
    fn call(
        &self,
        nid: Nid,
        mut read: Read,
        mut write: Write,
        _reach: Reach,
    ) -> BoxFuture<'_, Result<Sealed, LinkError>> {
        Box::pin(async move {
            write.write_all(&self.key().start()).await.map_err(lost(nid))?;
            let mut start = [0; START_BYTES];
            read.read_exact(&mut start).await.map_err(lost(nid))?;
            if !is_sealed(&start) {
                return Err(LinkError::Key { nid, reason: IT_IS_OPEN.to_owned() });
            }
            Ok(self.sealed(start, read, write))
        })
    }

    fn answer(
        &self,
        nid: Nid,
        start: [u8; START_BYTES],
        read: Read,
        mut write: Write,
        _reach: Reach,
    ) -> BoxFuture<'_, Result<Option<Sealed>, LinkError>> {
        Box::pin(async move {
            write.write_all(&self.key().start()).await.map_err(lost(nid))?;
            Ok(Some(self.sealed(start, read, write)))
        })
    }

    fn is_revoked(&self, principal: &Principal) -> bool {
        // As the seal with cryptography.
        self.revoked.lock().contains(&principal.key) && !is_mutant(Mutant::RevokedLives)
    }

    fn is_withdrawn(&self, _protection: &Protection) -> bool {
        false
    }
}
