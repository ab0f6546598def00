//! The next authority of a cluster (docs/security.md, "A new authority").
//!
//! Which authorities hold is decided by `authority.pem` alone, which is replaced as a whole. All
//! else follows from it ([`AuthorityDir::settle`]), at any later time, and may be done twice.
//!
//! | the process dies | left |
//! |---|---|
//! | before `authority.pem` is replaced | the old authority; nothing else was written |
//! | then, before the key of the MGS' host is | both: that key, of the old one, is taken by all |
//! | before the MGS tells processes | both: none has a new key yet, or it has one that all take |
//! | before a key is renewed, or its answer arrives | both: the host has its old key, and asks again |
//! | at the withdrawal, before `authority.pem` is replaced | both |
//! | then | the new one: the key of the MGS' host is of it, for that was made sure of before |

use super::standing::Standing;
use super::{AuthorityDir, AuthorityError, Issued, now};
use crate::host::secret_file;
use seal::authority::{Authority, KEY_LIFE, PublicKey, Subject};
use seal::enrol::{Given, Granted};
use types::nid::NidPattern;
use types::principal::{KeyHash, KeyName, Role};

/// Good keys of one name that the newest authority signs: hosts may share a key, and each renews
/// it, but no host may fill the list with them.
const RENEWED_MAX: usize = 64;

/// How the authority of a key is written into the list; `None`: it is the first one.
pub(super) fn tag(authority: &Authority) -> Option<String> {
    (authority.generation() > 1).then(|| authority.fingerprints()[0].to_string())
}

/// A key is not renewed.
#[derive(Debug, thiserror::Error)]
pub enum NotRenewed {
    /// It is none of the list, or no good one any more.
    #[error(
        "the authority has no such key in its list, or it was revoked or has expired; `sheen auth join` gets another"
    )]
    Unknown,
    /// It needs no renewal.
    #[error("this key is of the newest authority already")]
    Newest,
    /// Its owner has enough of them.
    #[error(
        "{RENEWED_MAX} keys of this name are of the new authority already; \
         `sheen auth revoke` ends them all, and `sheen auth join` gets another"
    )]
    Often,
    /// The authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

impl AuthorityDir {
    /// Which authorities hold.
    ///
    /// # Errors
    /// There is none, or a file is damaged.
    pub fn standing(&self) -> Result<Standing, AuthorityError> {
        let (_lock, authority) = self.locked()?;
        self.standing_of(&authority)
    }

    /// The list is locked. Hosts with keys of a site get the new authority by hand: in an overlap
    /// the mappings by which they come count as behind, until it is withdrawn.
    fn standing_of(&self, authority: &Authority) -> Result<Standing, AuthorityError> {
        let mut standing = Standing::of(authority, &self.list()?, now());
        if standing.is_in_overlap() {
            let sites = self.sites()?.unwrap_or_default();
            let maps = sites.sites.all().iter().flat_map(|site| site.maps());
            standing
                .behind
                .extend(maps.map(|map| (map.role().to_string(), format!("{}+*", map.label()))));
        }
        Ok(standing)
    }

    /// Makes the next authority, which signs all keys from now on; the one before holds until
    /// [`AuthorityDir::withdraw`].
    ///
    /// # Errors
    /// The one before this was not withdrawn yet, or a file cannot be written.
    pub fn rotate(&self) -> Result<Standing, AuthorityError> {
        let (_lock, authority) = self.locked()?;
        if authority.is_in_overlap() {
            return Err(AuthorityError::Overlap);
        }
        let next = authority.rotate(now())?;
        self.write_authority(&next)?;
        self.settle_by(&next)?;
        self.standing_of(&next)
    }

    /// Withdraws the authority before this one.
    ///
    /// # Errors
    /// There is none, or a file cannot be written.
    pub fn withdraw(&self) -> Result<Standing, AuthorityError> {
        let (_lock, authority) = self.locked()?;
        let alone = self.withdraw_by(authority)?;
        self.standing_of(&alone)
    }

    /// The list is locked.
    fn withdraw_by(&self, authority: Authority) -> Result<Authority, AuthorityError> {
        if !authority.is_in_overlap() {
            return Err(AuthorityError::Alone);
        }
        // First: without a key of the new authority the MGS would be shut out.
        self.settle_by(&authority)?;
        let alone = authority.withdraw();
        self.write_authority(&alone)?;
        self.settle_by(&alone)?;
        Ok(alone)
    }

    /// Withdraws the authority before this one, if all names have a key of this one since a while.
    /// Returns true if it did.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn withdraw_if_over(&self) -> Result<bool, AuthorityError> {
        let (_lock, authority) = self.locked()?;
        match self.standing_of(&authority)?.is_over(now()) {
            true => self.withdraw_by(authority).map(|_| true),
            false => Ok(false),
        }
    }

    /// Does what follows from the authority as it is: the key of the MGS' host is of it.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn settle(&self) -> Result<Standing, AuthorityError> {
        let (_lock, authority) = self.locked()?;
        self.settle_by(&authority)?;
        self.standing_of(&authority)
    }

    /// The list is locked.
    fn settle_by(&self, authority: &Authority) -> Result<(), AuthorityError> {
        let own = self.own()?;
        if own.authority() != authority.fingerprints()[0] {
            let list = self.list()?;
            let life = list.keys.iter().find(|key| key.key == own.principal().key.to_string());
            let life = life.map_or(KEY_LIFE, |key| key.expires.saturating_sub(key.issued));
            self.renew_own_by(authority, life)?;
        } else if let Some(equipped) = authority.equip(&own) {
            self.write_own(&equipped)?;
        }
        Ok(())
    }

    fn write_authority(&self, authority: &Authority) -> Result<(), AuthorityError> {
        secret_file::write(&self.0.join(super::AUTHORITY), &authority.to_text())
            .map_err(self.at(super::AUTHORITY))
    }

    /// A certificate for the new key of a host that showed the key of this hash. It is as good as
    /// that one was, and for the same time. Asked again for the same new key, the list gets it
    /// once.
    ///
    /// # Errors
    /// [`NotRenewed`].
    pub fn renew(&self, shown: KeyHash, public: PublicKey) -> Result<Granted, NotRenewed> {
        let (_lock, authority) = self.locked()?;
        let (shown, now) = (shown.to_string(), now());
        let list = self.list()?;
        let is_good = |key: &&Issued| key.revoked.is_none() && key.expires > now;
        let key = list.keys.iter().find(|key| key.key == shown).filter(is_good);
        let key = key.ok_or(NotRenewed::Unknown)?;
        let newest = tag(&authority);
        if key.authority == newest {
            return Err(NotRenewed::Newest);
        }
        let new = public.hash().to_string();
        let is_renewed = |other: &&Issued| {
            is_good(other)
                && other.authority == newest
                && (&other.role, &other.name) == (&key.role, &key.name)
                && other.key != new
        };
        if list.keys.iter().filter(is_renewed).count() >= RENEWED_MAX {
            return Err(NotRenewed::Often);
        }
        let (role, name): (Result<Role, _>, Result<KeyName, _>) =
            (key.role.parse(), key.name.parse());
        let (Ok(role), Ok(name)) = (role, name) else { return Err(NotRenewed::Unknown) };
        let nids: Vec<NidPattern> = key.nids.iter().filter_map(|nid| nid.parse().ok()).collect();
        let subject = Subject { role, name: &name, nids: &nids };
        let life = key.expires.saturating_sub(key.issued);
        Ok(self.grant(&authority, subject, public, life)?)
    }

    /// Signs a key and adds it to the list, which is locked.
    pub(super) fn grant(
        &self,
        authority: &Authority,
        subject: Subject<'_>,
        public: PublicKey,
        life: i64,
    ) -> Result<Granted, AuthorityError> {
        let issued = now();
        let certificate = authority.issue(subject, public, (issued, life))?.to_vec();
        let expires = issued.saturating_add(life);
        let mgs = self.add(authority, subject, public.hash(), (issued, expires))?;
        let given =
            Given { certificate, authority: authority.certificate().to_vec(), mgs, expires };
        let overlap = authority.overlap().iter().map(|der| der.to_vec()).collect();
        Ok(Granted { given, overlap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::authority::key_hash;
    use crate::host::authority::standing::SETTLED;
    use crate::host::authority::tokens::TokenSpec;
    use crate::host::keys;
    use seal::credentials::Credentials;
    use seal::enrol::Asked;
    use std::fs;
    use std::path::Path;
    use types::session::ClusterId;

    const LIFE: i64 = 1_000;

    #[test]
    fn hosts_with_keys_of_a_site_keep_the_overlap_open() {
        let mgt = tempfile::tempdir().unwrap();
        let authority = AuthorityDir::of(mgt.path());
        authority.make(ClusterId(7), &[], &name("mgs"), 3600).unwrap();
        let map = "spiffe://a/x/*=client:physics".parse().unwrap();
        authority.trust(include_str!("site_ca.pem"), vec![map]).unwrap();
        assert!(authority.standing().unwrap().behind.is_empty(), "there is one authority only");
        let is_over = |standing: &Standing| standing.is_over(now() + SETTLED);
        let standing = authority.rotate().unwrap();
        assert_eq!(standing.names_behind(16), "physics+*");
        assert!(!is_over(&standing) && !authority.withdraw_if_over().unwrap());
        let removed = crate::host::authority::sites::Removed::Label(name("physics"));
        authority.distrust(&removed).unwrap();
        assert!(is_over(&authority.standing().unwrap()), "but for them it is over");
    }

    fn name(text: &str) -> KeyName {
        text.parse().unwrap()
    }

    fn client(name: &KeyName) -> Subject<'_> {
        Subject { role: Role::Client, name, nids: &[] }
    }

    fn made() -> (tempfile::TempDir, AuthorityDir) {
        let mgt = tempfile::tempdir().unwrap();
        let authority = AuthorityDir::of(mgt.path());
        let nids = ["10.0.0.1@tcp".parse().unwrap()];
        authority.make(ClusterId(7), &nids, &name("mgs"), LIFE).unwrap();
        (mgt, authority)
    }

    fn own(authority: &AuthorityDir) -> Credentials {
        keys::read(&authority.key_path()).unwrap()
    }

    fn behind(standing: &Standing) -> Vec<&str> {
        standing.behind.iter().map(|(_, name)| &name[..]).collect()
    }

    /// Changes every time of the list by so many seconds.
    fn later(authority: &AuthorityDir, seconds: i64) {
        let mut list = authority.list().unwrap();
        list.keys.iter_mut().for_each(|key| key.issued -= seconds);
        authority.write_list(&list).unwrap();
    }

    #[test]
    fn the_old_authority_holds_until_every_name_has_a_key_of_the_new_one() {
        let (_mgt, authority) = made();
        let before = fs::read_to_string(authority.list_path()).unwrap();
        assert!(!before.contains("authority"), "as earlier versions wrote it: {before}");
        let [a, b, gone] = ["a", "b", "gone"].map(name);
        let old = [&a, &b, &gone].map(|name| authority.issue(client(name), LIFE).unwrap());
        authority.revoke(&gone).unwrap();
        let first = authority.standing().unwrap();
        assert!(!first.was_rotated && !first.is_in_overlap() && first.behind.is_empty());
        assert!(matches!(authority.withdraw(), Err(AuthorityError::Alone)));

        let standing = authority.rotate().unwrap();
        assert_eq!(standing.holding[1..], first.holding[..]);
        assert_eq!(behind(&standing), ["a", "b"], "the host of the MGS has its key");
        assert_eq!(own(&authority).authority(), standing.holding[0]);
        assert!(matches!(authority.rotate(), Err(AuthorityError::Overlap)));
        let listed = authority.list().unwrap();
        let states: Vec<&str> = listed.keys.iter().map(|key| standing.of_key(key)).collect();
        let newer = ", of the old authority; its owner has a newer one";
        let missing = ", not renewed: of the old authority";
        assert_eq!(states, [newer, missing, missing, newer, ""]);

        // A renewed key is as good as the one before, whatever the answer's fate.
        let public = PublicKey([1; 32]);
        let granted = authority.renew(old[0].principal().key, public).unwrap();
        assert_eq!(granted.overlap.len(), 2);
        let number = authority.list().unwrap().keys.len();
        authority.renew(old[0].principal().key, public).unwrap();
        let list = authority.list().unwrap();
        assert_eq!(list.keys.len(), number, "the list has it once");
        let renewed = list.keys.last().unwrap();
        assert_eq!((&renewed.name[..], renewed.expires - renewed.issued), ("a", LIFE));
        assert_eq!(renewed.authority, Some(standing.holding[0].to_string()));
        // Not for another owner, and not for a key that the list does not have as a good one.
        let refused = authority.renew(old[1].principal().key, public);
        assert!(matches!(refused, Err(NotRenewed::Authority(AuthorityError::KeyTaken))));
        for shown in [old[2].principal().key, KeyHash([9; 32])] {
            let refused = authority.renew(shown, PublicKey([2; 32]));
            assert!(matches!(refused, Err(NotRenewed::Unknown)));
        }

        // A key of the new authority needs none, and no host fills the list.
        let shown = key_hash(&renewed.key).unwrap();
        assert!(matches!(authority.renew(shown, PublicKey([2; 32])), Err(NotRenewed::Newest)));
        let again = |n: u8| authority.renew(old[0].principal().key, PublicKey([n; 32]));
        let made = (100..200).filter(|n| again(*n).is_ok()).count();
        assert_eq!(made, RENEWED_MAX - 1);
        assert!(matches!(again(200), Err(NotRenewed::Often)));

        // Nothing ends while one is missing, and nothing at once.
        later(&authority, SETTLED);
        assert!(!authority.withdraw_if_over().unwrap());
        authority.renew(old[1].principal().key, PublicKey([3; 32])).unwrap();
        let standing = authority.standing().unwrap();
        assert!(standing.behind.is_empty() && !standing.is_over(now()));
        assert!(!authority.withdraw_if_over().unwrap());
        later(&authority, SETTLED);
        assert!(authority.withdraw_if_over().unwrap());
        let standing = authority.standing().unwrap();
        assert_eq!(standing.holding.len(), 1);
        assert_ne!(standing.holding, first.holding);
        let listed = authority.list().unwrap();
        assert_eq!(standing.of_key(&listed.keys[1]), ", of an authority that was withdrawn");
        assert!(!own(&authority).is_in_overlap());
        assert!(!authority.withdraw_if_over().unwrap());
        authority.rotate().unwrap();
    }

    #[test]
    fn a_token_of_before_is_taken_in_the_overlap() {
        let (_mgt, authority) = made();
        let spec = TokenSpec {
            role: Role::Client,
            name: None,
            nids: Vec::new(),
            uses: 1,
            life: 3600,
            key_life: LIFE,
        };
        let token = authority.make_token(&spec).unwrap();
        let old = authority.locked().unwrap().1;
        let standing = authority.rotate().unwrap();
        assert_eq!(token.authority, standing.holding[1].0);
        assert_eq!(authority.make_token(&spec).unwrap().authority, standing.holding[0].0);
        let asked = Asked {
            token: token.number,
            secret: token.secret,
            public: [1; 32],
            name: "a".to_owned(),
        };
        let granted = authority.redeem(&asked).unwrap();
        assert_eq!(granted.overlap[1], old.certificate().to_vec(), "the host knows this one");
        assert_eq!(authority.list().unwrap().keys.last().unwrap().name, "a");
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }

    /// The files as they are after each write of a command that replaced these.
    fn crash_states(before: &Path, after: &Path, order: &[&str]) -> Vec<tempfile::TempDir> {
        let state = |written: usize| {
            let dir = tempfile::tempdir().unwrap();
            let auth = dir.path().join("auth");
            copy(&before.join("auth"), &auth);
            for name in &order[..written] {
                fs::copy(after.join("auth").join(name), auth.join(name)).unwrap();
            }
            dir
        };
        (0..=order.len()).map(state).collect()
    }

    /// A rotation and a withdrawal that end after any of their writes: the process of the MGT
    /// starts again, and no host with a key of the list is out that should not be.
    #[test]
    fn the_process_dies_after_any_write_and_nobody_is_locked_out() {
        let (mgt, authority) = made();
        let old = authority.issue(client(&name("a")), LIFE).unwrap();
        let snapshot = || {
            let dir = tempfile::tempdir().unwrap();
            copy(&mgt.path().join("auth"), &dir.path().join("auth"));
            dir
        };
        let first = snapshot();
        let holding = authority.rotate().unwrap().holding;
        let both = snapshot();
        authority.renew(old.principal().key, PublicKey([1; 32])).unwrap();
        let renewed = snapshot();
        authority.withdraw().unwrap();
        let order = ["authority.pem", "keys.json", "key.pem"];
        for (written, dir) in crash_states(first.path(), both.path(), &order).iter().enumerate() {
            let authority = AuthorityDir::of(dir.path());
            // Before it is settled: hosts with old keys are known to the MGS, and it to them.
            assert!(trusts(&own(&authority), &old), "{written}");
            let standing = authority.settle().unwrap();
            assert_eq!(authority.settle().unwrap(), standing, "again: nothing");
            if written == 0 {
                assert_eq!(standing.holding, holding[1..]);
                continue;
            }
            assert_eq!(standing.holding, holding, "{written}");
            assert_eq!(own(&authority).authority(), holding[0], "{written}");
            assert!(trusts(&own(&authority), &old) && trusts(&old, &own(&authority)));
            authority.renew(old.principal().key, PublicKey([1; 32])).unwrap();
        }
        let order = ["authority.pem", "key.pem"];
        let states = crash_states(renewed.path(), mgt.path(), &order);
        for (written, dir) in states.iter().enumerate() {
            let authority = AuthorityDir::of(dir.path());
            let standing = authority.settle().unwrap();
            let expected = if written == 0 { &holding[..] } else { &holding[..1] };
            assert_eq!(standing.holding, expected, "{written}");
            assert!(standing.behind.is_empty());
            assert_eq!(own(&authority).authority(), holding[0]);
            assert_eq!(trusts(&own(&authority), &old), written == 0, "{written}");
        }
    }

    /// True if the owner of `one` believes `other`.
    fn trusts(one: &Credentials, other: &Credentials) -> bool {
        one.believes(other, now())
    }
}
