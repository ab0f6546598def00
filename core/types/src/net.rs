//! Networks by name: `tcp`, `tcp1`, `o2ib`.

use std::fmt;
use std::str::FromStr;

/// What kind of wires a network has, as its name says. Every network is used over TCP: on `o2ib`,
/// over the IP addresses of its cards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum NetKind {
    /// `tcp`
    Tcp,
    /// `o2ib`: InfiniBand or RoCE.
    O2ib,
}

/// A network. Nodes on networks of different names cannot reach each other, unless a router stands
/// between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Net {
    /// Kind.
    pub kind: NetKind,
    /// Tells several networks of a kind apart. 0 is not written: `tcp0` is `tcp`.
    pub number: u8,
}

impl Net {
    /// `tcp`: the network of a node that names none.
    pub const TCP: Net = Net { kind: NetKind::Tcp, number: 0 };
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            NetKind::Tcp => "tcp",
            NetKind::O2ib => "o2ib",
        })?;
        if self.number > 0 { write!(f, "{}", self.number) } else { Ok(()) }
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text names no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network; networks are tcp, tcp1 to tcp255, o2ib, o2ib1 to o2ib255")]
pub struct BadNet(pub String);

impl FromStr for Net {
    type Err = BadNet;

    fn from_str(s: &str) -> Result<Net, BadNet> {
        let (kind, number) = match (s.strip_prefix("tcp"), s.strip_prefix("o2ib")) {
            (Some(number), _) => (NetKind::Tcp, number),
            (None, Some(number)) => (NetKind::O2ib, number),
            (None, None) => return Err(BadNet(s.to_owned())),
        };
        let digits = number.bytes().all(|b| b.is_ascii_digit());
        let one_way = number.len() == 1 || !number.starts_with('0');
        match number {
            "" => Ok(Net { kind, number: 0 }),
            number if digits && one_way => {
                let number = number.parse().map_err(|_| BadNet(s.to_owned()))?;
                Ok(Net { kind, number })
            }
            _ => Err(BadNet(s.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for text in ["tcp", "tcp1", "tcp255", "o2ib", "o2ib10"] {
            assert_eq!(text.parse::<Net>().unwrap().to_string(), text);
        }
        assert_eq!("tcp0".parse::<Net>().unwrap(), Net::TCP);
        for bad in ["", "lo", "tcp256", "tcp-1", "tcp+1", "tcp01", "o2", "tcp 1", "TCP"] {
            assert!(bad.parse::<Net>().is_err(), "{bad}");
        }
    }
}
