//! The peer at the other end of a connection, as its certificate proves.

use crate::nid::{Nid, NidPattern};
use crate::proof::Proof;
use crate::session::ClusterId;
use std::fmt;
use std::str::FromStr;

/// Longest name of a key, bytes.
pub const KEY_NAME_BYTES_MAX: usize = 64;

/// What a peer is believed to be. Operations name the roles that may send them (`wire::opcode`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Role {
    /// Any process, where no keys are asked for.
    Anonymous = 0,
    /// It mounts: the key of its host says so.
    Client = 1,
    /// It mounts, and changes the cluster: the key of its host says so.
    Administrator = 2,
    /// It serves a target of the cluster: by the key of its host, or, where none is asked for, by
    /// the key that servers share.
    Server = 3,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Anonymous, Role::Client, Role::Administrator, Role::Server];

    /// The one of this number; any other number has the fewest rights.
    pub const fn of_number(number: u8) -> Role {
        match number {
            1 => Role::Client,
            2 => Role::Administrator,
            3 => Role::Server,
            _ => Role::Anonymous,
        }
    }
}

/// Name of a key: 1 to 64 letters, digits, `-`, `_` or `.`. One cluster has no two keys of one
/// name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

/// SHA-256 of a public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 32]);

/// The owner of a key, as its certificate names it: `spiffe://CLUSTER/ROLE/NAME`.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Principal {
    /// The cluster whose authority signed the certificate.
    pub cluster: ClusterId,
    /// What it may be.
    pub role: Role,
    /// Its name.
    pub name: KeyName,
    /// Its key.
    pub key: KeyHash,
    /// NIDs that its certificate bears: behind routers it is seen under them, and under no others.
    pub nids: Vec<NidPattern>,
}

/// The owner of a session, as a target records it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Owner {
    /// An earlier version recorded none.
    Unknown,
    /// No key was asked for.
    Open,
    /// [`Principal::uri`] of its key. A new key of the same name is the same owner.
    Key(String),
}

/// What a client showed when it opened a session: a client that shows the same gets it back, also
/// from a restarted target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Proof that it is the same process.
    pub proof: Proof,
    /// Whose key its connection showed.
    pub owner: Owner,
}

impl Owner {
    /// That of a session whose client shows this key, or none.
    pub fn of(principal: Option<&Principal>) -> Owner {
        principal.map_or(Owner::Open, |principal| Owner::Key(principal.uri()))
    }

    /// True if a client that shows this key, or none, may be the owner.
    pub fn is(&self, principal: Option<&Principal>) -> bool {
        *self == Owner::Unknown || *self == Owner::of(principal)
    }
}

/// The text is no role of a key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no role of a key; use server, client or admin")]
pub struct BadRole(pub String);

/// The text is no name of a key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is no name of a key; use 1 to {KEY_NAME_BYTES_MAX} letters, digits, '-', '_' or '.'"
)]
pub struct BadKeyName(pub String);

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Anonymous => "anonymous",
            Role::Client => "client",
            Role::Administrator => "admin",
            Role::Server => "server",
        })
    }
}

impl FromStr for Role {
    type Err = BadRole;

    /// Those that a key can have: no key says that there is none.
    fn from_str(text: &str) -> Result<Role, BadRole> {
        match text {
            "server" => Ok(Role::Server),
            "client" => Ok(Role::Client),
            "admin" => Ok(Role::Administrator),
            _ => Err(BadRole(text.to_owned())),
        }
    }
}

impl FromStr for KeyName {
    type Err = BadKeyName;

    fn from_str(text: &str) -> Result<KeyName, BadKeyName> {
        let fits = (1..=KEY_NAME_BYTES_MAX).contains(&text.len());
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if fits && plain { Ok(KeyName(text.to_owned())) } else { Err(BadKeyName(text.to_owned())) }
    }
}

/// Between the label and the rest of a name that an authority of a site gave.
const OF_SITE: char = '+';

impl KeyName {
    /// The name of a key that an authority of a site made: `LABEL+PART`. No key of the cluster
    /// itself has such a name.
    ///
    /// # Errors
    /// A part is no name, or both together are too long.
    pub fn of_site(label: &KeyName, part: &str) -> Result<KeyName, BadKeyName> {
        let name = format!("{label}{OF_SITE}{part}");
        let bad = || BadKeyName(name.clone());
        let is_plain = !label.is_of_site() && part.parse::<KeyName>().is_ok();
        let fits = name.len() <= KEY_NAME_BYTES_MAX;
        if is_plain && fits { Ok(KeyName(name)) } else { Err(bad()) }
    }

    /// A name of either kind.
    ///
    /// # Errors
    /// The text is none.
    pub fn of_any(text: &str) -> Result<KeyName, BadKeyName> {
        match text.split_once(OF_SITE) {
            Some((label, part)) => KeyName::of_site(&label.parse()?, part),
            None => text.parse(),
        }
    }

    /// True if [`KeyName::of_site`] made it.
    pub fn is_of_site(&self) -> bool {
        self.0.contains(OF_SITE)
    }

    /// The label of such a name.
    pub fn label(&self) -> Option<&str> {
        self.0.split_once(OF_SITE).map(|(label, _)| label)
    }

    /// True if a name may begin so.
    pub fn is_start(text: &str) -> bool {
        let whole = text.strip_suffix(OF_SITE).unwrap_or(text);
        KeyName::of_any(whole).is_ok_and(|name| whole.len() == text.len() || !name.is_of_site())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role, self.name)
    }
}

impl Principal {
    /// As its certificate has it.
    pub fn uri(&self) -> String {
        format!("spiffe://{}/{}/{}", self.cluster, self.role, self.name)
    }

    /// True if its certificate bears this NID, whatever the port.
    pub fn bears(&self, nid: Nid) -> bool {
        self.nids.iter().any(|pattern| pattern.matches(nid))
    }

    /// True if both are of one owner, perhaps with another key.
    pub fn is_same_owner(&self, other: &Principal) -> bool {
        (self.cluster, self.role, &self.name) == (other.cluster, other.role, &other.name)
    }

    /// From its certificate, without its NIDs; `None`: it is no principal of ours.
    pub fn from_uri(uri: &str, key: KeyHash) -> Option<Principal> {
        let mut parts = uri.strip_prefix("spiffe://")?.split('/');
        let (cluster, role, name) =
            (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let cluster = ClusterId(u128::from_str_radix(&cluster.replace('-', ""), 16).ok()?);
        let principal = Principal { cluster, role, name, key, nids: Vec::new() };
        // One spelling each, and nothing behind.
        (principal.uri() == uri).then_some(principal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_site_are_none_of_the_cluster() {
        let label: KeyName = "physics".parse().unwrap();
        let name = KeyName::of_site(&label, "node-7.x").unwrap();
        assert_eq!((name.as_str(), name.label()), ("physics+node-7.x", Some("physics")));
        assert_eq!(KeyName::of_any(name.as_str()), Ok(name.clone()));
        assert!(name.is_of_site() && !label.is_of_site() && label.label().is_none());
        assert!(name.as_str().parse::<KeyName>().is_err(), "no key of the cluster has it");
        let longest = "x".repeat(KEY_NAME_BYTES_MAX - "physics+".len());
        assert!(KeyName::of_site(&label, &longest).is_ok());
        for part in ["", "a+b", "a/b", "a b", "*", "\u{e9}", &format!("{longest}x")] {
            assert!(KeyName::of_site(&label, part).is_err(), "{part}");
        }
        assert!(KeyName::of_site(&name, "x").is_err());
        for text in ["", "+", "a+", "+a", "a+b+c"] {
            assert!(KeyName::of_any(text).is_err(), "{text}");
        }
        for (text, starts) in
            [("a", true), ("a+", true), ("a+b", true), ("", false), ("+", false), ("a+b+", false)]
        {
            assert_eq!(KeyName::is_start(text), starts, "{text}");
        }
        let uri = format!("spiffe://{}/client/physics+node7", ClusterId(7));
        assert_eq!(Principal::from_uri(&uri, KeyHash([0; 32])), None, "in no certificate of ours");
    }

    #[test]
    fn a_principal_is_written_one_way() {
        let principal = Principal {
            cluster: ClusterId(0xabc),
            role: Role::Client,
            name: "node7.site".parse().unwrap(),
            key: KeyHash([7; 32]),
            nids: Vec::new(),
        };
        let uri = principal.uri();
        assert_eq!(uri, "spiffe://00000000-0000-0000-0000-000000000abc/client/node7.site");
        assert_eq!(Principal::from_uri(&uri, principal.key), Some(principal.clone()));
        assert_eq!(principal.to_string(), "client node7.site");
        let wrong = [
            uri.replace("client", "anonymous"),
            uri.replace("abc", "ABC"),
            uri.replace("spiffe", "https"),
            format!("{uri}/more"),
            uri.replace("node7.site", ""),
            uri.replace("node7.site", "a b"),
            uri.replace("00000000-0000-", "000000000000-"),
        ];
        for wrong in wrong {
            assert_eq!(Principal::from_uri(&wrong, principal.key), None, "{wrong}");
        }
    }

    #[test]
    fn an_owner_is_known_by_role_and_name() {
        let of = |name: &str, role, key| Principal {
            cluster: ClusterId(1),
            role,
            name: name.parse().unwrap(),
            key: KeyHash([key; 32]),
            nids: Vec::new(),
        };
        let node7 = of("node7", Role::Client, 1);
        let owner = Owner::of(Some(&node7));
        assert!(owner.is(Some(&node7)) && owner.is(Some(&of("node7", Role::Client, 2))));
        assert!(!owner.is(Some(&of("node8", Role::Client, 1))));
        assert!(!owner.is(Some(&of("node7", Role::Administrator, 1))) && !owner.is(None));
        assert!(Owner::of(None).is(None) && !Owner::of(None).is(Some(&node7)));
        assert!(Owner::Unknown.is(None) && Owner::Unknown.is(Some(&node7)));
    }

    #[test]
    fn a_key_bears_the_nids_of_its_certificate_and_no_others() {
        let uri = "spiffe://00000000-0000-0000-0000-000000000abc/client/a";
        let mut key = Principal::from_uri(uri, KeyHash([1; 32])).unwrap();
        let bears = |key: &Principal, nid: &str| key.bears(nid.parse().unwrap());
        assert!(!bears(&key, "10.0.0.1@tcp1"));
        key.nids = ["10.0.0.1@tcp1", "*@o2ib"].map(|text| text.parse().unwrap()).to_vec();
        assert!(bears(&key, "10.0.0.1@tcp1") && bears(&key, "10.0.0.1:4711@tcp1"));
        assert!(bears(&key, "10.9.9.9@o2ib"));
        assert!(!bears(&key, "10.0.0.1@tcp") && !bears(&key, "10.0.0.2@tcp1"));
        assert!(!bears(&key, "0@lo"));
    }

    #[test]
    fn names_and_roles_are_plain() {
        for bad in ["", "a/b", "\u{e4}", &"x".repeat(KEY_NAME_BYTES_MAX + 1)] {
            assert!(bad.parse::<KeyName>().is_err(), "{bad}");
        }
        for role in Role::ALL {
            assert_eq!(
                role.to_string().parse::<Role>().ok(),
                (role != Role::Anonymous).then_some(role)
            );
            assert_eq!(Role::of_number(role as u8), role);
        }
        assert_eq!(Role::of_number(4), Role::Anonymous);
    }
}
