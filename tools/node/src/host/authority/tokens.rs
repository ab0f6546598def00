//! Tokens: a host that shows one gets a key, without its administrator's help.
//!
//! They are in `MGT/auth/tokens.json`, with their secrets, as long as they are good. A use is
//! counted durably before the key is made: of a token for one use, at most one key is made, also if
//! the MGS dies at any moment. Bounds: [`TOKENS_MAX`] tokens, [`TRIES_MAX`] wrong secrets each.

use super::{AuthorityDir, AuthorityError, now};
use crate::host::secret_file;
use observe::mutant::{Mutant, is_mutant};
use rustix::rand::{GetRandomFlags, getrandom};
use seal::authority::{PublicKey, Subject};
use seal::enrol::{Asked, Granted};
use seal::token::{TOKEN_NIDS_MAX, Token};
use serde::{Deserialize, Serialize};
use std::io;
use types::nid::{Nid, NidPattern};
use types::principal::{KeyName, Role};

/// Tokens that can be good at once.
pub const TOKENS_MAX: usize = 1024;
/// Wrong secrets after which a token is good no longer.
pub const TRIES_MAX: u32 = 8;
/// Longest life of a token, seconds.
pub const TOKEN_LIFE_MAX: i64 = 7 * 86_400;

const TOKENS: &str = "tokens.json";

/// What a token is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenSpec {
    /// Role of the keys.
    pub role: Role,
    /// Name of the key; `None`: the host says its own, which no good key may have.
    pub name: Option<KeyName>,
    /// NIDs that the keys bear.
    pub nids: Vec<NidPattern>,
    /// Keys that it is good for.
    pub uses: u32,
    /// How long it is good, seconds; at most [`TOKEN_LIFE_MAX`].
    pub life: i64,
    /// How long the keys are good, seconds.
    pub key_life: i64,
}

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    number: u64,
    secret: [u8; 16],
    role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    nids: Vec<String>,
    /// Keys that it is still good for.
    uses: u32,
    /// Wrong secrets that it still stands.
    tries: u32,
    /// When it ends, seconds since 1970.
    expires: i64,
    key_life: i64,
}

/// A token is not taken.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// There is none such.
    #[error(
        "this token is not known, was used, or has expired; `sheen auth token` where the MGS is prints another"
    )]
    Unknown,
    /// What the host calls itself.
    #[error("{0:?} is no name for a key; give another with --name")]
    Name(String),
    /// A good key has this name.
    #[error(
        "there is a key of the name {0} already: `sheen auth revoke --name {0}` where the MGS is ends it, and a token \
         made with --name {0} allows one more; or give another name with --name"
    )]
    NameTaken(KeyName),
    /// The authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// True if both are the same; the time it takes does not tell where they differ.
fn is_same(one: &[u8; 16], other: &[u8; 16]) -> bool {
    one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled +=
            rustix::io::retry_on_intr(|| getrandom(&mut bytes[filled..], GetRandomFlags::empty()))?;
    }
    Ok(bytes)
}

impl AuthorityDir {
    /// Tokens that are still good. The list is locked.
    fn tokens(&self) -> Result<Vec<Kept>, AuthorityError> {
        let path = self.0.join(TOKENS);
        let text = match secret_file::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(self.at(TOKENS))?,
        };
        let mut tokens: Vec<Kept> = serde_json::from_str(&text)
            .map_err(|error| AuthorityError::List { path, reason: error.to_string() })?;
        let now = now();
        tokens.retain(|token| token.uses > 0 && token.tries > 0 && token.expires > now);
        Ok(tokens)
    }

    fn write_tokens(&self, tokens: &[Kept]) -> Result<(), AuthorityError> {
        let text = serde_json::to_string_pretty(tokens).expect("plain values");
        secret_file::write(&self.0.join(TOKENS), &(text + "\n")).map_err(self.at(TOKENS))
    }

    /// Makes a token.
    ///
    /// # Errors
    /// There is no authority, there are too many tokens, or it cannot be written.
    pub fn make_token(&self, wanted: &TokenSpec) -> Result<Token, AuthorityError> {
        let (_lock, authority) = self.locked()?;
        let mut tokens = self.tokens()?;
        if tokens.len() >= TOKENS_MAX {
            return Err(AuthorityError::Tokens);
        }
        let number = u64::from_le_bytes(random().map_err(self.at(TOKENS))?);
        let secret = random().map_err(self.at(TOKENS))?;
        tokens.push(Kept {
            number,
            secret,
            role: wanted.role.to_string(),
            name: wanted.name.as_ref().map(KeyName::to_string),
            nids: wanted.nids.iter().map(NidPattern::to_string).collect(),
            uses: wanted.uses,
            tries: TRIES_MAX,
            expires: now().saturating_add(wanted.life.min(TOKEN_LIFE_MAX)),
            key_life: wanted.key_life,
        });
        self.write_tokens(&tokens)?;
        let list = self.list()?;
        let mgs = list.mgs.iter().filter_map(|nid| nid.parse().ok());
        let mgs = mgs.filter(|nid: &Nid| nid.address().is_some()).take(TOKEN_NIDS_MAX).collect();
        Ok(Token { number, secret, authority: authority.fingerprint(), mgs })
    }

    /// Makes the key that a token is for.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub fn redeem(&self, asked: &Asked) -> Result<Granted, NotTaken> {
        let (_lock, authority) = self.locked()?;
        let mut tokens = self.tokens()?;
        let token = tokens.iter_mut().find(|token| token.number == asked.token);
        let token = token.ok_or(NotTaken::Unknown)?;
        if !is_same(&token.secret, &asked.secret) {
            token.tries -= 1;
            self.write_tokens(&tokens)?;
            return Err(NotTaken::Unknown);
        }
        let (role, life) = (token.role.parse().map_err(|_| NotTaken::Unknown)?, token.key_life);
        let name = match &token.name {
            Some(name) => name.parse().map_err(|_| NotTaken::Name(name.clone()))?,
            None => {
                let name: KeyName =
                    asked.name.parse().map_err(|_| NotTaken::Name(asked.name.clone()))?;
                let is_good = |key: &super::Issued| key.revoked.is_none() && key.expires > now();
                let mut keys = self.list()?.keys.into_iter();
                // A key's name is its owner's: another host must not become that owner.
                if keys.any(|key| key.name == name.as_str() && is_good(&key)) {
                    return Err(NotTaken::NameTaken(name));
                }
                name
            }
        };
        let nids: Vec<NidPattern> = token.nids.iter().filter_map(|nid| nid.parse().ok()).collect();
        token.uses -= u32::from(!is_mutant(Mutant::TokenForEver));
        self.write_tokens(&tokens)?;
        let subject = Subject { role, name: &name, nids: &nids };
        Ok(self.grant(&authority, subject, PublicKey(asked.public), life)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seal::credentials::Credentials;
    use types::session::ClusterId;

    fn made() -> (tempfile::TempDir, AuthorityDir) {
        let mgt = tempfile::tempdir().unwrap();
        let authority = AuthorityDir::of(mgt.path());
        let nids = ["10.0.0.1@tcp".parse().unwrap(), Nid::Loopback];
        authority.make(ClusterId(7), &nids, &"mgs".parse().unwrap(), 60).unwrap();
        (mgt, authority)
    }

    fn spec(uses: u32, name: Option<&str>) -> TokenSpec {
        let name = name.map(|name| name.parse().unwrap());
        let nids = vec!["*@tcp1".parse().unwrap()];
        TokenSpec { role: Role::Client, name, nids, uses, life: 3600, key_life: 86_400 }
    }

    fn asks(token: &Token, name: &str, key: u8) -> Asked {
        let Token { number, secret, .. } = *token;
        Asked { token: number, secret, public: [key; 32], name: name.to_owned() }
    }

    #[test]
    fn a_token_is_good_for_as_many_keys_as_it_says() {
        let (mgt, authority) = made();
        let token = authority.make_token(&spec(2, None)).unwrap();
        assert_eq!(token.mgs, ["10.0.0.1@tcp".parse().unwrap()]);
        let given = authority.redeem(&asks(&token, "a", 1)).unwrap();
        assert_eq!(given.given.mgs, ["10.0.0.1@tcp", "0@lo"]);
        assert!(matches!(authority.redeem(&asks(&token, "a", 2)), Err(NotTaken::NameTaken(_))));
        assert!(matches!(authority.redeem(&asks(&token, "a b", 2)), Err(NotTaken::Name(_))));
        assert!(matches!(authority.redeem(&asks(&token, "mgs", 2)), Err(NotTaken::NameTaken(_))));
        // Nor does it help that the MGS starts again.
        let authority = AuthorityDir::of(mgt.path());
        authority.redeem(&asks(&token, "b", 2)).unwrap();
        assert!(matches!(authority.redeem(&asks(&token, "c", 3)), Err(NotTaken::Unknown)));
        let names: Vec<String> =
            authority.list().unwrap().keys.into_iter().map(|key| key.name).collect();
        assert_eq!(names, ["mgs", "a", "b"]);
        let bears: Vec<usize> =
            authority.list().unwrap().keys.into_iter().map(|key| key.nids.len()).collect();
        assert_eq!(bears, [0, 1, 1]);
        // One that names its host gives a key of that name, whatever the host says.
        let token = authority.make_token(&spec(1, Some("a"))).unwrap();
        authority.redeem(&asks(&token, "mgs", 4)).unwrap();
        assert_eq!(authority.list().unwrap().keys.last().unwrap().name, "a");
        assert_eq!(authority.revoke(&"a".parse().unwrap()).unwrap(), 2);
        let text = secret_file::read(&mgt.path().join("auth/key.pem")).unwrap();
        assert!(Credentials::from_text(&text).is_ok());
    }

    /// The files are written one after the other, each as a whole. The MGS that dies before one of
    /// them is as one that cannot write it, and starts again.
    #[test]
    fn wherever_redeeming_stops_there_are_no_more_keys_than_uses() {
        for (blocked, keys) in [("tokens.new", 1), ("keys.new", 0)] {
            let (mgt, authority) = made();
            let token = authority.make_token(&spec(1, None)).unwrap();
            // What stands in the way of the new file.
            let blocked = mgt.path().join("auth").join(blocked);
            std::fs::create_dir(&blocked).unwrap();
            let stopped = authority.redeem(&asks(&token, "a", 1));
            assert!(matches!(stopped, Err(NotTaken::Authority(_))), "{blocked:?}");
            std::fs::remove_dir(&blocked).unwrap();
            let authority = AuthorityDir::of(mgt.path());
            let listed = || authority.list().unwrap().keys.len() - 1;
            assert_eq!(listed(), 0, "{blocked:?}: nobody was answered");
            for (key, name) in (2..).zip(["b", "c", "d"]) {
                let answered = authority.redeem(&asks(&token, name, key)).is_ok();
                assert_eq!(answered, keys == 1 && key == 2, "{blocked:?} {name}");
            }
            assert_eq!(listed(), keys, "{blocked:?}");
        }
    }

    #[test]
    fn wrong_secrets_are_bounded_and_old_tokens_are_gone() {
        let (_mgt, authority) = made();
        let token = authority.make_token(&spec(1, None)).unwrap();
        let wrong = |asked: Asked| Asked { secret: [0; 16], ..asked };
        for _ in 0..TRIES_MAX {
            let refused = authority.redeem(&wrong(asks(&token, "a", 1)));
            assert!(matches!(refused, Err(NotTaken::Unknown)));
        }
        assert!(matches!(authority.redeem(&asks(&token, "a", 1)), Err(NotTaken::Unknown)));
        let short = TokenSpec { life: 0, ..spec(1, None) };
        let token = authority.make_token(&short).unwrap();
        assert!(matches!(authority.redeem(&asks(&token, "a", 1)), Err(NotTaken::Unknown)));
        for _ in 0..TOKENS_MAX {
            authority.make_token(&spec(1, None)).unwrap();
        }
        assert!(matches!(authority.make_token(&spec(1, None)), Err(AuthorityError::Tokens)));
    }
}
