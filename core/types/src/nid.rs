//! NIDs: the address of a node on a network, `10.0.0.1@tcp`, `10.1.0.1@tcp1` or `0@lo`.

use crate::net::Net;
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
    /// The same on a network of another name, never `tcp`: `ADDRESS@tcp1`, `ADDRESS:PORT@o2ib`.
    On(Net, SocketAddr),
}

impl Nid {
    /// The NID of an address on a network.
    pub fn new(net: Net, address: SocketAddr) -> Nid {
        if net == Net::TCP { Nid::Tcp(address) } else { Nid::On(net, address) }
    }

    /// Address and port; `None`: it is `0@lo`.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Nid::Loopback => None,
            Nid::Tcp(address) | Nid::On(_, address) => Some(address),
        }
    }

    /// The network; `None`: it is `0@lo`.
    pub fn net(self) -> Option<Net> {
        match self {
            Nid::Loopback => None,
            Nid::Tcp(_) => Some(Net::TCP),
            Nid::On(net, _) => Some(net),
        }
    }

    /// True if it means this host only: `0@lo`, 127.0.0.0/8 or `::1`.
    pub fn is_loopback(self) -> bool {
        self.address().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

impl fmt::Display for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address(), self.net()) {
            (Some(a), Some(net)) if a.port() == PORT_DEFAULT => write!(f, "{}@{net}", a.ip()),
            (Some(a), Some(net)) => write!(f, "{a}@{net}"),
            _ => f.write_str("0@lo"),
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
#[error("{0:?} is no NID; a NID looks like 10.0.0.1@tcp, 10.0.0.1:7988@tcp1 or 0@lo")]
pub struct BadNid(pub String);

impl FromStr for Nid {
    type Err = BadNid;

    fn from_str(s: &str) -> Result<Nid, BadNid> {
        let bad = || BadNid(s.to_owned());
        let (address, net) = s.rsplit_once('@').ok_or_else(bad)?;
        if (address, net) == ("0", "lo") {
            return Ok(Nid::Loopback);
        }
        let net: Net = net.parse().map_err(|_| bad())?;
        if let Ok(address) = address.parse::<SocketAddr>() {
            return Ok(Nid::new(net, address));
        }
        let ip = address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        Ok(Nid::new(net, SocketAddr::new(ip.map_err(|_| bad())?, PORT_DEFAULT)))
    }
}

/// The NIDs that a rule covers: `*` all; `*@tcp1` all of a network; `10.0.0.1@tcp` every port of an
/// address (a connecting peer has an arbitrary one); `10.0.0.1:7988@tcp` exactly one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NidPattern {
    /// All NIDs.
    Any,
    /// All NIDs of a network.
    Net(Net),
    /// Every port of an address.
    Address(Net, IpAddr),
    /// One address and port.
    Exact(Net, SocketAddr),
}

impl NidPattern {
    /// True if the rule covers this NID. `0@lo` is never covered: nothing is sent there.
    pub fn matches(self, nid: Nid) -> bool {
        let (Some(address), Some(net)) = (nid.address(), nid.net()) else { return false };
        match self {
            NidPattern::Any => true,
            NidPattern::Net(wanted) => net == wanted,
            NidPattern::Address(wanted, ip) => net == wanted && address.ip() == ip,
            NidPattern::Exact(wanted, exact) => net == wanted && address == exact,
        }
    }
}

impl fmt::Display for NidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NidPattern::Any => f.write_str("*@*"),
            NidPattern::Net(net) => write!(f, "*@{net}"),
            NidPattern::Address(net, ip) => write!(f, "{ip}@{net}"),
            NidPattern::Exact(net, addr) => write!(f, "{addr}@{net}"),
        }
    }
}

impl FromStr for NidPattern {
    type Err = BadNid;

    fn from_str(s: &str) -> Result<NidPattern, BadNid> {
        let bad = || BadNid(s.to_owned());
        if matches!(s, "*" | "*@*") {
            return Ok(NidPattern::Any);
        }
        if let Some(net) = s.strip_prefix("*@") {
            return Ok(NidPattern::Net(net.parse().map_err(|_| bad())?));
        }
        let address = s.rsplit_once('@').map_or(s, |(address, _)| address);
        let nid: Nid = s.parse()?;
        let (Some(at), Some(net)) = (nid.address(), nid.net()) else { return Err(bad()) };
        Ok(match address.parse::<SocketAddr>() {
            Ok(exact) => NidPattern::Exact(net, exact),
            Err(_) => NidPattern::Address(net, at.ip()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_ports_and_addresses() {
        let nid = |text: &str| text.parse::<Nid>().unwrap();
        let pattern = |text: &str| text.parse::<NidPattern>().unwrap();
        for text in ["*@*", "*@tcp", "*@o2ib1", "10.0.0.1@tcp1", "10.0.0.1:7988@tcp", "::1@tcp"] {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert!(
            pattern("*").matches(nid("10.0.0.1:40000@tcp")) && !pattern("*").matches(Nid::Loopback)
        );
        assert!(pattern("10.0.0.1@tcp").matches(nid("10.0.0.1:40000@tcp")));
        assert!(!pattern("10.0.0.1@tcp").matches(nid("10.0.0.2@tcp")));
        assert!(!pattern("10.0.0.1:988@tcp").matches(nid("10.0.0.1:40000@tcp")));
        assert!(pattern("10.0.0.1:988@tcp").matches(nid("10.0.0.1@tcp")));
        assert!(pattern("*@tcp1").matches(nid("10.0.0.1@tcp1")));
        assert!(!pattern("*@tcp").matches(nid("10.0.0.1@tcp1")));
        assert!(!pattern("10.0.0.1@tcp").matches(nid("10.0.0.1@tcp1")));
        for bad in ["", "10.0.0.*@tcp", "0@lo", "*@elan"] {
            assert!(bad.parse::<NidPattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn text_round_trips() {
        for text in
            ["0@lo", "10.0.0.1@tcp", "10.0.0.1:7988@tcp1", "[::1]:7988@tcp", "10.0.0.1@o2ib3"]
        {
            assert_eq!(text.parse::<Nid>().unwrap().to_string(), text);
        }
        assert_eq!("::1@tcp".parse::<Nid>().unwrap(), Nid::Tcp("[::1]:988".parse().unwrap()));
        assert_eq!("10.0.0.1@tcp0".parse::<Nid>(), "10.0.0.1@tcp".parse());
        assert_ne!("10.0.0.1@tcp1".parse::<Nid>(), "10.0.0.1@tcp".parse());
        for bad in ["", "10.0.0.1", "10.0.0.1@elan", "10.0.0.1@tcp256", "x@tcp", "1@lo"] {
            assert!(bad.parse::<Nid>().is_err(), "{bad}");
        }
    }
}
