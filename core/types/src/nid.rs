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
            Some((address, "tcp")) | Some((address, "tcp0")) => match address.parse::<SocketAddr>() {
                Ok(a) => Ok(Nid::Tcp(a)),
                Err(_) => {
                    let ip = address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
                    Ok(Nid::Tcp(SocketAddr::new(ip.map_err(|_| bad())?, PORT_DEFAULT)))
                }
            },
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
