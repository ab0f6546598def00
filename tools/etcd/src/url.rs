//! `etcd://HOST[:PORT][,HOST[:PORT]...][/NAME][?OPTION=VALUE[&...]][,s3://...]`: where the members
//! of an etcd are, and how a client proves its name. `etcds://` is with TLS. Behind a comma stands
//! where large entries and checkpoints go ([`crate::bucket`]).
//!
//! | option | what |
//! |---|---|
//! | `ca` | file with the certificates of the authorities that members are of (PEM); `etcds` needs it |
//! | `cert`, `key` | files with the own certificate and its private key (PEM), for `etcds` |
//! | `user`, `password-file` | name of a user of etcd, and a file whose first line is its password |
//!
//! Where etcd has users, `cert` must have no common name in its subject: etcd refuses others.

use crate::bucket::Bucket;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Port of etcd for clients.
const PORT_DEFAULT: u16 = 2379;
/// Members of one etcd.
const MEMBERS_MAX: usize = 9;
/// Longest name behind which keys are, bytes.
const NAME_BYTES_MAX: usize = 64;

/// The members of an etcd, and how to use it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    /// The members, as `HOST:PORT`.
    pub hosts: Vec<String>,
    /// Keys are under `/sheen/NAME/`; `None`: under `/sheen/`.
    pub name: Option<String>,
    /// With TLS.
    pub tls: Option<TlsFiles>,
    /// As this user.
    pub user: Option<UserFile>,
    /// The store of blobs beside it.
    pub blobs: Option<Bucket>,
}

/// Files for TLS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsFiles {
    /// Certificates of the authorities.
    pub ca: PathBuf,
    /// The own certificate and key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// A user of etcd.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserFile {
    /// Its name.
    pub user: String,
    /// File with its password.
    pub password_file: PathBuf,
}

/// The text names no etcd.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadMembers {
    /// It is of another form.
    #[error(
        "{0:?} names no etcd; use etcd://HOST:PORT,HOST:PORT,HOST:PORT (at most {MEMBERS_MAX}; port 2379 if none is given)"
    )]
    Form(String),
    /// An option.
    #[error("{option:?} of an etcd: {reason}")]
    Option {
        /// The option, or what stands in its place.
        option: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Members {
    /// What the keys of a target begin with, behind `/sheen/`.
    pub fn keys_of(&self, target: &str) -> String {
        self.name.as_ref().map_or_else(|| target.to_owned(), |name| format!("{name}/{target}"))
    }
}

fn member(text: &str) -> Option<String> {
    host_and_port(text, PORT_DEFAULT)
}

/// As `HOST:PORT`.
pub(crate) fn host_and_port(text: &str, port_default: u16) -> Option<String> {
    let (host, port): (_, u16) = match text.rsplit_once(':') {
        // The colons of an IPv6 address without a port.
        Some(_) if text.ends_with(']') => (text, port_default),
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, port_default),
    };
    let letter = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    (!host.is_empty() && host.chars().all(letter)).then(|| format!("{host}:{port}"))
}

fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(letter)
}

impl FromStr for Members {
    type Err = BadMembers;

    fn from_str(text: &str) -> Result<Members, BadMembers> {
        let (text, blobs) = match text.split_once(",s3://") {
            None => (text, None),
            Some((members, bucket)) => (members, Some(Bucket::parse(bucket)?)),
        };
        let form = || BadMembers::Form(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(form)?;
        let tls = match scheme {
            "etcd" => false,
            "etcds" => true,
            _ => return Err(form()),
        };
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, name) = match place.split_once('/') {
            Some((hosts, name)) => (hosts, Some(name.to_owned())),
            None => (place, None),
        };
        let hosts: Option<Vec<String>> = hosts.split(',').map(member).collect();
        let hosts = hosts.filter(|hosts| hosts.len() <= MEMBERS_MAX).ok_or_else(form)?;
        if name.as_deref().is_some_and(|name| !is_name(name)) {
            return Err(form());
        }
        Members { hosts, name, blobs, ..Members::default() }.with(options, tls)
    }
}

impl Members {
    fn with(mut self, options: &str, tls: bool) -> Result<Members, BadMembers> {
        let [mut ca, mut cert, mut key, mut user, mut password] = [const { None }; 5];
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let bad = |reason| Err(BadMembers::Option { option: option.to_owned(), reason });
            let Some((name, value)) = option.split_once('=') else {
                return bad("it has no value");
            };
            let is_file = name != "user";
            let place = match name {
                "ca" => &mut ca,
                "cert" => &mut cert,
                "key" => &mut key,
                "user" => &mut user,
                "password-file" => &mut password,
                _ => return bad("there is no such option"),
            };
            if is_file && !value.starts_with('/') || value.is_empty() {
                return bad("it needs a whole path, from / on");
            }
            if value.chars().any(|c| c.is_whitespace() || c.is_control()) {
                return bad("it has a space");
            }
            if place.replace(value.to_owned()).is_some() {
                return bad("it stands there twice");
            }
        }
        let lacks = |option: &str, reason| BadMembers::Option { option: option.to_owned(), reason };
        let own = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert.into(), key.into())),
            (None, None) => None,
            _ => return Err(lacks("cert, key", "one of them is missing")),
        };
        self.tls = match (tls, ca) {
            (true, Some(ca)) => Some(TlsFiles { ca: ca.into(), own }),
            (true, None) => return Err(lacks("ca", "etcds needs it")),
            (false, None) if own.is_none() => None,
            (false, _) => return Err(lacks("ca, cert, key", "they are for etcds://")),
        };
        self.user = match (user, password) {
            (Some(user), Some(file)) => Some(UserFile { user, password_file: file.into() }),
            (None, None) => None,
            _ => return Err(lacks("user, password-file", "one of them is missing")),
        };
        Ok(self)
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        write!(f, "{scheme}://{}", self.hosts.join(","))?;
        if let Some(name) = &self.name {
            write!(f, "/{name}")?;
        }
        let mut options = Vec::new();
        if let Some(TlsFiles { ca, own }) = &self.tls {
            options.push(format!("ca={}", ca.display()));
            if let Some((cert, key)) = own {
                options.push(format!("cert={}", cert.display()));
                options.push(format!("key={}", key.display()));
            }
        }
        if let Some(UserFile { user, password_file }) = &self.user {
            options.push(format!("user={user}"));
            options.push(format!("password-file={}", password_file.display()));
        }
        if !options.is_empty() {
            write!(f, "?{}", options.join("&"))?;
        }
        match &self.blobs {
            Some(bucket) => write!(f, ",{bucket}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_hosts_and_ports() {
        let members: Members = "etcd://a,10.0.0.1:99,[::1]:7,[::2]".parse().unwrap();
        assert_eq!(members.hosts, ["a:2379", "10.0.0.1:99", "[::1]:7", "[::2]:2379"]);
        assert_eq!(members.to_string().parse(), Ok(members));
        for bad in [
            "",
            "a",
            "http://a",
            "etcd://",
            "etcd://a,,b",
            "etcd://a:x",
            "etcd://a b",
            "etcd://:1",
            "etcd://a/",
            "etcd://a/b/c",
            "etcd://a/b c",
        ] {
            let error = bad.parse::<Members>().unwrap_err().to_string();
            assert!(error.contains("names no etcd"), "{error}");
        }
        let many = format!("etcd://{}", ["a"; 10].join(","));
        assert!(many.parse::<Members>().is_err());
    }

    #[test]
    fn options_say_how_it_is_used() {
        let text = "etcds://a:1,b:2/site?ca=/c/ca.pem&cert=/c/own.pem&key=/c/own.key&user=sheen&password-file=/c/pw";
        let members: Members = text.parse().unwrap();
        assert_eq!(members.to_string(), text);
        assert_eq!(members.keys_of("MGS"), "site/MGS");
        assert_eq!("etcd://a".parse::<Members>().unwrap().keys_of("MGS"), "MGS");
        for (options, word) in [
            ("", "ca"),
            ("?ca=ca.pem", "whole path"),
            ("?ca=/a&ca=/b", "twice"),
            ("?ca=/a&cert=/b", "missing"),
            ("?ca=/a&user=x", "missing"),
            ("?ca=/a&colour=red", "no such option"),
            ("?ca", "no value"),
            ("?ca=/a b", "space"),
        ] {
            let error = format!("etcds://a{options}").parse::<Members>().unwrap_err().to_string();
            assert!(error.contains(word), "{options}: {error}");
        }
        assert!("etcd://a?ca=/a".parse::<Members>().is_err());
    }
}
