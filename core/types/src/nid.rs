//! NIDs: the address of a node on a network, `10.0.0.1@tcp` or `0@lo`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Port that a NID means when it names none (Lustre's acceptor port).
pub const PORT_DEFAULT: u16 = 988;

/// Network identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Nid {
    /// `0@lo`: this process.
    Loopback,
    /// `ADDRESS@tcp`, or `ADDRESS:PORT@tcp` when the port is not 988.
    Tcp(SocketAddr),
}

impl Nid {
    /// True if it means this host only: `0@lo`, 127.0.0.0/8 or `::1`.
    pub fn is_loopback(self) -> bool {
        match self {
            Nid::Loopback => true,
            Nid::Tcp(address) => address.ip().to_canonical().is_loopback(),
        }
    }
}

impl fmt::Display for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nid::Loopback => f.write_str("0@lo"),
            Nid::Tcp(a) if a.port() == PORT_DEFAULT => write!(f, "{}@tcp", a.ip()),
            Nid::Tcp(a) => write!(f, "{a}@tcp"),
        }
    }
}

impl fmt::Debug for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no NID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no NID; a NID looks like 10.0.0.1@tcp, 10.0.0.1:7988@tcp or 0@lo")]
pub struct BadNid(pub String);

impl FromStr for Nid {
    type Err = BadNid;

    fn from_str(s: &str) -> Result<Nid, BadNid> {
        let bad = || BadNid(s.to_owned());
        match s.rsplit_once('@') {
            Some(("0", "lo")) => Ok(Nid::Loopback),
            Some((address, "tcp")) | Some((address, "tcp0")) => match address.parse::<SocketAddr>()
            {
                Ok(a) => Ok(Nid::Tcp(a)),
                Err(_) => {
                    let ip =
                        address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
                    Ok(Nid::Tcp(SocketAddr::new(ip.map_err(|_| bad())?, PORT_DEFAULT)))
                }
            },
            _ => Err(bad()),
        }
    }
}

/// The NIDs that a rule covers: `*@tcp` all; `10.0.0.1@tcp` every port of an address (a connecting
/// peer has an arbitrary one); `10.0.0.1:7988@tcp` exactly one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NidPattern {
    /// All NIDs.
    Any,
    /// Every port of an address.
    Address(IpAddr),
    /// One address and port.
    Exact(SocketAddr),
}

impl NidPattern {
    /// True if the rule covers this NID. `0@lo` is never covered: nothing is sent there.
    pub fn matches(self, nid: Nid) -> bool {
        match (self, nid) {
            (_, Nid::Loopback) => false,
            (NidPattern::Any, Nid::Tcp(_)) => true,
            (NidPattern::Address(ip), Nid::Tcp(addr)) => addr.ip() == ip,
            (NidPattern::Exact(wanted), Nid::Tcp(addr)) => wanted == addr,
        }
    }
}

impl fmt::Display for NidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NidPattern::Any => f.write_str("*@tcp"),
            NidPattern::Address(ip) => write!(f, "{ip}@tcp"),
            NidPattern::Exact(addr) => write!(f, "{addr}@tcp"),
        }
    }
}

impl FromStr for NidPattern {
    type Err = BadNid;

    fn from_str(s: &str) -> Result<NidPattern, BadNid> {
        if matches!(s, "*" | "*@tcp" | "*@tcp0" | "*@*") {
            return Ok(NidPattern::Any);
        }
        let address = s.rsplit_once('@').map_or(s, |(address, _)| address);
        match (s.parse()?, address.parse::<SocketAddr>()) {
            (Nid::Tcp(_), Ok(addr)) => Ok(NidPattern::Exact(addr)),
            (Nid::Tcp(addr), Err(_)) => Ok(NidPattern::Address(addr.ip())),
            (Nid::Loopback, _) => Err(BadNid(s.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_ports_and_addresses() {
        let nid = |text: &str| text.parse::<Nid>().unwrap();
        let pattern = |text: &str| text.parse::<NidPattern>().unwrap();
        for text in ["*@tcp", "10.0.0.1@tcp", "10.0.0.1:7988@tcp", "::1@tcp"] {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert!(
            pattern("*").matches(nid("10.0.0.1:40000@tcp")) && !pattern("*").matches(Nid::Loopback)
        );
        assert!(pattern("10.0.0.1@tcp").matches(nid("10.0.0.1:40000@tcp")));
        assert!(!pattern("10.0.0.1@tcp").matches(nid("10.0.0.2@tcp")));
        assert!(!pattern("10.0.0.1:988@tcp").matches(nid("10.0.0.1:40000@tcp")));
        assert!(pattern("10.0.0.1:988@tcp").matches(nid("10.0.0.1@tcp")));
        for bad in ["", "10.0.0.*@tcp", "0@lo", "*@o2ib"] {
            assert!(bad.parse::<NidPattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn text_round_trips() {
        for text in ["0@lo", "10.0.0.1@tcp", "10.0.0.1:7988@tcp", "[::1]:7988@tcp"] {
            assert_eq!(text.parse::<Nid>().unwrap().to_string(), text);
        }
        assert_eq!("::1@tcp".parse::<Nid>().unwrap(), Nid::Tcp("[::1]:988".parse().unwrap()));
        for bad in ["", "10.0.0.1", "10.0.0.1@o2ib", "x@tcp", "1@lo"] {
            assert!(bad.parse::<Nid>().is_err(), "{bad}");
        }
    }
}
