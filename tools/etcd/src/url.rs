//! `etcd://HOST[:PORT][,HOST[:PORT]...]`: where the members of an etcd are.

use std::fmt;
use std::str::FromStr;

/// Port of etcd for clients.
const PORT_DEFAULT: u16 = 2379;
/// Members of one etcd.
const MEMBERS_MAX: usize = 9;

/// The members of an etcd, as `HOST:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members(pub Vec<String>);

/// The text names no etcd.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} names no etcd; use etcd://HOST:PORT,HOST:PORT,HOST:PORT (at most {MEMBERS_MAX}; port 2379 if none is given)"
)]
pub struct BadMembers(pub String);

impl FromStr for Members {
    type Err = BadMembers;

    fn from_str(text: &str) -> Result<Members, BadMembers> {
        let bad = || BadMembers(text.to_owned());
        let list = text.strip_prefix("etcd://").ok_or_else(bad)?;
        let member = |text: &str| {
            let (host, port) = match text.rsplit_once(':') {
                // The colons of an IPv6 address without a port.
                Some(_) if text.ends_with(']') => (text, PORT_DEFAULT),
                Some((host, port)) => (host, port.parse().ok()?),
                None => (text, PORT_DEFAULT),
            };
            let letter = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
            (!host.is_empty() && host.chars().all(letter)).then(|| format!("{host}:{port}"))
        };
        let members: Option<Vec<String>> = list.split(',').map(member).collect();
        let members = members.filter(|members| members.len() <= MEMBERS_MAX);
        members.map(Members).ok_or_else(bad)
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd://{}", self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_hosts_and_ports() {
        let members: Members = "etcd://a,10.0.0.1:99,[::1]:7,[::2]".parse().unwrap();
        assert_eq!(members.0, ["a:2379", "10.0.0.1:99", "[::1]:7", "[::2]:2379"]);
        assert_eq!(members.to_string().parse(), Ok(members));
        for bad in
            ["", "a", "http://a", "etcd://", "etcd://a,,b", "etcd://a:x", "etcd://a b", "etcd://:1"]
        {
            let error = bad.parse::<Members>().unwrap_err().to_string();
            assert!(error.contains("names no etcd"), "{error}");
        }
        let many = format!("etcd://{}", ["a"; 10].join(","));
        assert!(many.parse::<Members>().is_err());
    }
}
