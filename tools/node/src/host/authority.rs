//! The authority of a cluster and the list of its keys, in the folder of the MGT.
//!
//! | file of `MGT/auth/` | what |
//! |---|---|
//! | `authority.pem` | key and certificate that sign those of all keys; what decides which authorities hold ([`rotation`]) |
//! | `key.pem` | key of the host of the MGS |
//! | `keys.json` | every key that was made, and which are revoked |
//! | `tokens.json` | tokens that are good ([`tokens`]) |
//! | `sites.json` | authorities of sites whose keys are taken ([`sites`]) |
//! | `lock` | held by the process that changes the list |
//!
//! All are for their owner only. Bounds: [`KEYS_MAX`] keys, [`ENDED_MAX`] of them that have ended.

pub mod rotation;
pub mod sites;
pub mod standing;
pub mod tokens;

use crate::host::keys::{AUTHORITY_DIR, MGS_KEY};
use crate::host::secret_file;
use rustix::fs::FlockOperation;
use seal::authority::{Authority, Subject};
use seal::credentials::Credentials;
use seal::error::SealError;
use seal::sites::BadSite;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use types::nid::{Nid, NidPattern};
use types::principal::{KeyHash, KeyName, Role};
use types::session::ClusterId;

/// Keys that a list may have.
pub const KEYS_MAX: usize = 65_536;
/// Keys that have ended which a list keeps, the newest: with keys that are good for minutes they
/// would fill it within days.
pub const ENDED_MAX: usize = 4096;
/// They have ended by every clock, seconds.
const ENDED_SINCE: i64 = 3600;
/// Longest list, bytes: names, hashes and NIDs of a key take far less than a KiB.
const LIST_BYTES_MAX: u64 = KEYS_MAX as u64 * 1024;

const AUTHORITY: &str = "authority.pem";
const LIST: &str = "keys.json";
const LOCK: &str = "lock";

/// Something is wrong with an authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// There is none.
    #[error("{} has no authority: `sheen auth init` makes one", .0.display())]
    None(PathBuf),
    /// There is one already.
    #[error("{} has an authority already", .0.display())]
    There(PathBuf),
    /// A file.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The list is damaged.
    #[error("{} is damaged: {reason}", .path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A key or certificate.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// No key has this name.
    #[error(
        "there is no key of the name {0} that is not revoked; `sheen auth list` and `sheen auth trust --list` show all"
    )]
    NoName(KeyName),
    /// What is no authority of a site, or no mapping beside others.
    #[error(transparent)]
    Site(#[from] BadSite),
    /// Nothing of that kind is trusted.
    #[error("no mapping and no authority of a site is that; `sheen auth trust --list` shows all")]
    NoSite,
    /// The last rotation is not over.
    #[error(
        "the authority before this one still holds: `sheen auth list` shows which hosts have keys of it only, \
         `sheen auth rotate-ca --now` withdraws it without them"
    )]
    Overlap,
    /// There is nothing to withdraw.
    #[error("only one authority holds: `sheen auth rotate-ca` without --now makes a new one")]
    Alone,
    /// A key is that of another owner.
    #[error("this key is that of another owner, or was revoked")]
    KeyTaken,
    /// The list is full.
    #[error("there are {KEYS_MAX} keys already")]
    Full,
    /// There are too many tokens.
    #[error(
        "there are {} tokens already: wait until some are used, or have expired",
        tokens::TOKENS_MAX
    )]
    Tokens,
}

/// A key that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issued {
    /// Name of its owner.
    pub name: String,
    /// `server`, `client` or `admin`.
    pub role: String,
    /// SHA-256 of the public key, hexadecimal.
    pub key: String,
    /// When it was made, seconds since 1970.
    pub issued: i64,
    /// When its certificate ends, seconds since 1970.
    pub expires: i64,
    /// NIDs that its certificate bears.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nids: Vec<String>,
    /// When it was revoked, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<i64>,
    /// SHA-256 of the certificate of the authority that signed it, hexadecimal; absent: that of the
    /// first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}

/// All keys of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyList {
    /// UUID of the cluster.
    pub cluster: String,
    /// NIDs of the MGS, which every key names.
    pub mgs: Vec<String>,
    /// Every key that was made, the oldest first.
    pub keys: Vec<Issued>,
}

impl KeyList {
    /// Hashes of the keys that are revoked, hexadecimal.
    pub fn revoked(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter(|key| key.revoked.is_some()).map(|key| &key.key[..])
    }
}

/// The authority in the folder of an MGT.
#[derive(Clone, Debug)]
pub struct AuthorityDir(PathBuf);

/// Held while the list is changed.
struct Lock(#[allow(dead_code, reason = "closing it lets go of the lock")] File);

/// Seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// The oldest keys that ended by then go, if there are too many.
fn forget_ended(keys: &mut Vec<Issued>, by: i64) {
    let is_ended = |key: &Issued| key.expires < by;
    let mut surplus = keys.iter().filter(|key| is_ended(key)).count().saturating_sub(ENDED_MAX);
    keys.retain(|key| {
        let goes = surplus > 0 && is_ended(key);
        surplus -= usize::from(goes);
        !goes
    });
}

/// The key's hash of its hexadecimal form.
pub fn key_hash(text: &str) -> Option<KeyHash> {
    let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
    let mut hash = [0; 32];
    for (at, place) in hash.iter_mut().enumerate() {
        *place = byte(at)?;
    }
    (text.len() == 64).then_some(KeyHash(hash))
}

impl AuthorityDir {
    /// That of the MGT in this folder.
    pub fn of(mgt: &Path) -> AuthorityDir {
        AuthorityDir(mgt.join(AUTHORITY_DIR))
    }

    /// True if there is one.
    pub fn exists(&self) -> bool {
        self.0.join(AUTHORITY).exists()
    }

    /// The file with the authority.
    pub fn authority_path(&self) -> PathBuf {
        self.0.join(AUTHORITY)
    }

    /// The file with the key of the host of the MGS.
    pub fn key_path(&self) -> PathBuf {
        self.0.join(MGS_KEY)
    }

    /// The file with the list.
    pub fn list_path(&self) -> PathBuf {
        self.0.join(LIST)
    }

    fn at(&self, name: &str) -> impl Fn(io::Error) -> AuthorityError + use<> {
        let path = self.0.join(name);
        move |source| AuthorityError::File { path: path.clone(), source }
    }

    fn lock(&self) -> Result<Lock, AuthorityError> {
        let path = self.0.join(LOCK);
        let open =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
        let file = open.map_err(self.at(LOCK))?;
        let locked =
            rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive));
        locked.map_err(|errno| self.at(LOCK)(errno.into()))?;
        Ok(Lock(file))
    }

    /// Makes the authority of a cluster, and the key of the host of its MGS, of this name.
    ///
    /// # Errors
    /// There is one already, or it cannot be written.
    pub fn make(
        &self,
        cluster: ClusterId,
        mgs: &[Nid],
        name: &KeyName,
        life: i64,
    ) -> Result<(), AuthorityError> {
        secret_file::make_dir(&self.0).map_err(self.at(""))?;
        let lock = self.lock()?;
        if self.exists() {
            return Err(AuthorityError::There(self.0.clone()));
        }
        let mgs = mgs.iter().map(Nid::to_string).collect();
        self.write_list(&KeyList { cluster: cluster.to_string(), mgs, keys: Vec::new() })?;
        let authority = Authority::make(cluster, now())?;
        let subject = Subject { role: Role::Server, name, nids: &[] };
        let key = self.issue_by(&authority, subject, life)?;
        secret_file::write(&self.0.join(MGS_KEY), &key.to_text()).map_err(self.at(MGS_KEY))?;
        // Last: with it, all is there.
        secret_file::write(&self.0.join(AUTHORITY), &authority.to_text())
            .map_err(self.at(AUTHORITY))?;
        drop(lock);
        Ok(())
    }

    /// A new key. `life`: how long it is good, seconds.
    ///
    /// # Errors
    /// There is no authority, or the list cannot be written.
    pub fn issue(&self, subject: Subject<'_>, life: i64) -> Result<Credentials, AuthorityError> {
        let (_lock, authority) = self.locked()?;
        self.issue_by(&authority, subject, life)
    }

    /// The authority, which stays as it is until the lock is gone.
    fn locked(&self) -> Result<(Lock, Authority), AuthorityError> {
        if !self.exists() {
            return Err(AuthorityError::None(self.0.parent().unwrap_or(&self.0).to_owned()));
        }
        let lock = self.lock()?;
        Ok((lock, self.authority()?))
    }

    fn authority(&self) -> Result<Authority, AuthorityError> {
        if !self.exists() {
            return Err(AuthorityError::None(self.0.parent().unwrap_or(&self.0).to_owned()));
        }
        let cluster = self.list()?.cluster;
        let damaged = |reason: &str| AuthorityError::List {
            path: self.list_path(),
            reason: reason.to_owned(),
        };
        let number = u128::from_str_radix(&cluster.replace('-', ""), 16)
            .map_err(|_| damaged("it names no cluster"))?;
        let text = secret_file::read(&self.0.join(AUTHORITY)).map_err(self.at(AUTHORITY))?;
        Ok(Authority::from_text(ClusterId(number), &text)?)
    }

    /// The list is locked.
    fn issue_by(
        &self,
        authority: &Authority,
        subject: Subject<'_>,
        life: i64,
    ) -> Result<Credentials, AuthorityError> {
        let mgs = self.list()?.mgs.iter().filter_map(|nid| nid.parse().ok()).collect();
        let issued = now();
        let key = authority.issue_key(subject, mgs, (issued, life))?;
        self.add(authority, subject, key.principal().key, (issued, key.expires()))?;
        Ok(key)
    }

    /// Adds a key that was made to the list, which is locked. Returns the NIDs of the MGS.
    fn add(
        &self,
        authority: &Authority,
        Subject { role, name, nids }: Subject<'_>,
        key: KeyHash,
        (issued, expires): (i64, i64),
    ) -> Result<Vec<String>, AuthorityError> {
        let mut list = self.list()?;
        let (key, role) = (key.to_string(), role.to_string());
        let is_owner = |known: &Issued| {
            known.revoked.is_none() && known.name == name.as_str() && known.role == role
        };
        if list.keys.iter().any(|known| known.key == key && !is_owner(known)) {
            return Err(AuthorityError::KeyTaken);
        }
        // Asked for again: the answer was lost.
        list.keys.retain(|known| known.key != key);
        forget_ended(&mut list.keys, issued - ENDED_SINCE);
        if list.keys.len() >= KEYS_MAX {
            return Err(AuthorityError::Full);
        }
        list.keys.push(Issued {
            name: name.to_string(),
            role,
            key,
            issued,
            expires,
            nids: nids.iter().map(NidPattern::to_string).collect(),
            revoked: None,
            authority: rotation::tag(authority),
        });
        self.write_list(&list)?;
        Ok(list.mgs)
    }

    /// Gives the host of the MGS a new key, under its name.
    ///
    /// # Errors
    /// There is no authority, or it cannot be written.
    pub fn renew_own(&self, life: i64) -> Result<Credentials, AuthorityError> {
        let (_lock, authority) = self.locked()?;
        self.renew_own_by(&authority, life)
    }

    /// The key of the host of the MGS.
    fn own(&self) -> Result<Credentials, AuthorityError> {
        let own = secret_file::read(&self.0.join(MGS_KEY)).map_err(self.at(MGS_KEY))?;
        Ok(Credentials::from_text(&own)?)
    }

    /// The list is locked.
    fn renew_own_by(
        &self,
        authority: &Authority,
        life: i64,
    ) -> Result<Credentials, AuthorityError> {
        let own = self.own()?.principal().clone();
        let subject = Subject { role: own.role, name: &own.name, nids: &own.nids };
        let key = self.issue_by(authority, subject, life)?;
        self.write_own(&key)?;
        Ok(key)
    }

    fn write_own(&self, key: &Credentials) -> Result<(), AuthorityError> {
        secret_file::write(&self.0.join(MGS_KEY), &key.to_text()).map_err(self.at(MGS_KEY))
    }

    /// Every key.
    ///
    /// # Errors
    /// There is no list, or it is damaged.
    pub fn list(&self) -> Result<KeyList, AuthorityError> {
        let path = self.list_path();
        let text = match secret_file::read_within(&path, LIST_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(AuthorityError::None(self.0.parent().unwrap_or(&self.0).to_owned()));
            }
            text => text.map_err(self.at(LIST))?,
        };
        serde_json::from_str(&text)
            .map_err(|error| AuthorityError::List { path, reason: error.to_string() })
    }

    fn write_list(&self, list: &KeyList) -> Result<(), AuthorityError> {
        let text = serde_json::to_string_pretty(list).expect("plain values");
        secret_file::write(&self.list_path(), &(text + "\n")).map_err(self.at(LIST))
    }

    /// Revokes all keys of this name; returns their number.
    ///
    /// # Errors
    /// There is none, or the list cannot be written.
    pub fn revoke(&self, name: &KeyName) -> Result<usize, AuthorityError> {
        if !self.exists() {
            return Err(AuthorityError::None(self.0.parent().unwrap_or(&self.0).to_owned()));
        }
        let _lock = self.lock()?;
        if name.is_of_site() {
            return self.bar(name);
        }
        let mut list = self.list()?;
        let mut revoked = 0;
        for key in
            list.keys.iter_mut().filter(|key| key.name == name.as_str() && key.revoked.is_none())
        {
            key.revoked = Some(now());
            revoked += 1;
        }
        if revoked == 0 {
            return Err(AuthorityError::NoName(name.clone()));
        }
        self.write_list(&list)?;
        Ok(revoked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::keys;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn subject(name: &KeyName) -> Subject<'_> {
        Subject { role: Role::Client, name, nids: &[] }
    }

    /// A list of so many keys that have ended, and as many that are good.
    fn filled(authority: &AuthorityDir, ended: usize, good: usize) {
        let mut list = authority.list().unwrap();
        let (now, mut number) = (now(), 0);
        let mut key = |expires| {
            number += 1;
            Issued {
                name: format!("host{number}"),
                role: "client".to_owned(),
                key: format!("{number:064x}"),
                issued: 1_000_000_000,
                expires,
                nids: vec!["*@tcp1".to_owned(); 4],
                revoked: (number % 2 == 0).then_some(1_000_000_000),
                authority: Some("0".repeat(64)),
            }
        };
        list.keys.extend((0..ended).map(|_| key(now - ENDED_SINCE - 100)));
        list.keys.extend((0..good).map(|_| key(now + 100)));
        authority.write_list(&list).unwrap();
    }

    #[test]
    fn keys_that_have_ended_do_not_fill_the_list() {
        let mgt = tempfile::tempdir().unwrap();
        let authority = AuthorityDir::of(mgt.path());
        let name = |text: &str| text.parse::<KeyName>().unwrap();
        authority.make(ClusterId(7), &[], &name("mgs"), 60).unwrap();
        let good = 10_000;
        filled(&authority, ENDED_MAX + 5, good);
        // It is longer than other files of its kind may be.
        assert!(fs::metadata(authority.list_path()).unwrap().len() > 4 << 20);
        authority.issue(subject(&name("new")), 60).unwrap();
        let keys = authority.list().unwrap().keys;
        assert_eq!(keys.len(), 1 + ENDED_MAX + good + 1);
        let names: Vec<&str> = keys.iter().map(|key| &key.name[..]).collect();
        assert_eq!((names[0], names[1]), ("mgs", "host6"), "the oldest went");
        assert_eq!(names.last(), Some(&"new"));
    }

    #[test]
    fn keys_are_made_listed_and_revoked() {
        let mgt = tempfile::tempdir().unwrap();
        let authority = AuthorityDir::of(mgt.path());
        let name = |text: &str| text.parse::<KeyName>().unwrap();
        assert!(matches!(authority.issue(subject(&name("a")), 60), Err(AuthorityError::None(_))));
        let nids = ["10.0.0.1@tcp".parse().unwrap()];
        authority.make(ClusterId(7), &nids, &name("mgs"), 60).unwrap();
        assert!(matches!(
            authority.make(ClusterId(7), &nids, &name("mgs"), 60),
            Err(AuthorityError::There(_))
        ));
        let own = keys::read(&mgt.path().join(AUTHORITY_DIR).join(MGS_KEY)).unwrap();
        assert_eq!((own.principal().role, own.mgs()), (Role::Server, &nids[..]));
        let renewed = authority.renew_own(120).unwrap();
        assert_eq!(
            (renewed.principal().name.as_str(), renewed.expires() - own.expires() >= 60),
            ("mgs", true)
        );
        assert_ne!(renewed.principal().key, own.principal().key);
        let own = keys::read(&mgt.path().join(AUTHORITY_DIR).join(MGS_KEY)).unwrap();
        assert_eq!(own.principal(), renewed.principal());
        let made = ["a", "b", "a"].map(|of| authority.issue(subject(&name(of)), 60).unwrap());
        assert_eq!(authority.revoke(&name("a")).unwrap(), 2);
        assert!(matches!(authority.revoke(&name("a")), Err(AuthorityError::NoName(_))));
        let list = authority.list().unwrap();
        assert_eq!(
            list.keys.iter().map(|key| &key.name[..]).collect::<Vec<_>>(),
            ["mgs", "mgs", "a", "b", "a"]
        );
        let revoked: Vec<KeyHash> = list.revoked().map(|key| key_hash(key).unwrap()).collect();
        assert_eq!(revoked, [&made[0], &made[2]].map(|key| key.principal().key));
        assert_eq!(key_hash("12"), None);
        for entry in std::fs::read_dir(mgt.path().join(AUTHORITY_DIR)).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o077, 0);
        }
    }
}
