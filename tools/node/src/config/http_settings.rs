//! Address at which a process shows its metrics, and the MGS the page of the cluster.
//!
//! By default at loopback: servers at [`PORT`], mounts (of which a host may have many) at any free
//! port, which `sheen status` tells. Never for other hosts without a token.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Port of servers, unless another process of the host has it.
pub const PORT: u16 = 9988;

/// Address at which a process answers HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpListen {
    /// At loopback: a server at [`PORT`] if it is free, else at any free port.
    #[default]
    Auto,
    /// Nowhere.
    None,
    /// At this address; port 0: any free one.
    At(SocketAddr),
}

impl HttpListen {
    /// Where to listen, best first; a process that serves targets is a `server`.
    pub fn addresses(self, server: bool) -> Vec<SocketAddr> {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        match self {
            HttpListen::Auto if server => vec![loopback(PORT), loopback(0)],
            HttpListen::Auto => vec![loopback(0)],
            HttpListen::None => Vec::new(),
            HttpListen::At(addr) => vec![addr],
        }
    }

    /// True if other hosts can reach it.
    pub fn is_open(self) -> bool {
        matches!(self, HttpListen::At(addr) if !addr.ip().is_loopback())
    }
}

impl fmt::Display for HttpListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpListen::Auto => f.write_str("auto"),
            HttpListen::None => f.write_str("none"),
            HttpListen::At(addr) => write!(f, "{addr}"),
        }
    }
}

/// The text is no address for HTTP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no address for HTTP; use ADDRESS:PORT such as 127.0.0.1:9988 or [::1]:0, auto or none"
)]
pub struct BadHttpListen(pub String);

impl FromStr for HttpListen {
    type Err = BadHttpListen;

    fn from_str(s: &str) -> Result<HttpListen, BadHttpListen> {
        match s {
            "auto" => Ok(HttpListen::Auto),
            "none" => Ok(HttpListen::None),
            _ => s.parse().map(HttpListen::At).map_err(|_| BadHttpListen(s.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port() {
        assert_eq!("none".parse(), Ok(HttpListen::None));
        assert_eq!("auto".parse(), Ok(HttpListen::default()));
        assert_eq!(HttpListen::Auto.to_string(), "auto");
        for text in ["127.0.0.1:0", "[::1]:9988", "0.0.0.0:80"] {
            assert_eq!(text.parse::<HttpListen>().unwrap().to_string(), text);
        }
        for bad in ["", "127.0.0.1", "localhost:80", "127.0.0.1:99999"] {
            assert!(
                bad.parse::<HttpListen>().unwrap_err().to_string().contains("use ADDRESS:PORT"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_server_has_a_port_of_its_own_and_a_mount_any() {
        let texts = |http: HttpListen, server| {
            http.addresses(server).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(texts(HttpListen::Auto, true), ["127.0.0.1:9988", "127.0.0.1:0"]);
        assert_eq!(texts(HttpListen::Auto, false), ["127.0.0.1:0"]);
        assert_eq!(texts("[::1]:7".parse().unwrap(), true), ["[::1]:7"]);
        assert!(texts(HttpListen::None, true).is_empty());
    }

    #[test]
    fn only_loopback_is_closed() {
        assert!(!HttpListen::default().is_open());
        assert!(!HttpListen::None.is_open());
        assert!("0.0.0.0:80".parse::<HttpListen>().unwrap().is_open());
        assert!("10.0.0.1:80".parse::<HttpListen>().unwrap().is_open());
    }
}
