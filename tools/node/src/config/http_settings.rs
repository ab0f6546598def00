//! Address at which a process shows its metrics, and the MGS the page of the cluster.
//!
//! By default at loopback and any free port, which `sheen status` tells; never for other hosts
//! without a token.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Address at which a process answers HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpListen {
    /// Nowhere.
    None,
    /// At this address; port 0: any free one.
    At(SocketAddr),
}

impl Default for HttpListen {
    /// Loopback, any free port.
    fn default() -> HttpListen {
        HttpListen::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))
    }
}

impl HttpListen {
    /// True if other hosts can reach it.
    pub fn is_open(self) -> bool {
        matches!(self, HttpListen::At(addr) if !addr.ip().is_loopback())
    }
}

impl fmt::Display for HttpListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpListen::None => f.write_str("none"),
            HttpListen::At(addr) => write!(f, "{addr}"),
        }
    }
}

/// The text is no address for HTTP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no address for HTTP; use ADDRESS:PORT such as 127.0.0.1:9988 or [::1]:0, or none"
)]
pub struct BadHttpListen(pub String);

impl FromStr for HttpListen {
    type Err = BadHttpListen;

    fn from_str(s: &str) -> Result<HttpListen, BadHttpListen> {
        match s {
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
    fn only_loopback_is_closed() {
        assert!(!HttpListen::default().is_open());
        assert!(!HttpListen::None.is_open());
        assert!("0.0.0.0:80".parse::<HttpListen>().unwrap().is_open());
        assert!("10.0.0.1:80".parse::<HttpListen>().unwrap().is_open());
    }
}
