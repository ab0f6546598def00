//! Networks as settings say them, in the words of Lustre's module option:
//! `tcp0(eth0),tcp1(eth1,eth2),o2ib(ib0)`.

use std::fmt;
use std::str::FromStr;
use types::limits::NETS_MAX;
use types::net::{BadNet, Net};

/// A network of this host, and where it is on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetSetting {
    /// The network.
    pub net: Net,
    /// Interfaces, or addresses; none: as `listen` says, and every interface for connections that
    /// this process makes.
    pub on: Vec<String>,
}

/// All networks of a process; none: it is on `tcp`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Networks(pub Vec<NetSetting>);

/// The text says no networks, or no routes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadNetworks {
    /// A bad name.
    #[error(transparent)]
    Net(#[from] BadNet),
    /// Brackets without an end, or nothing in them.
    #[error("{0:?} is no network of a host; write tcp1(eth1) or tcp1(eth1,eth2), commas between several")]
    Form(String),
    /// The same twice.
    #[error("the network {0} is named twice")]
    Twice(Net),
    /// Too many.
    #[error("there are at most {NETS_MAX} networks")]
    Many,
}

impl Networks {
    /// True if none is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if they say where to listen.
    pub fn name_addresses(&self) -> bool {
        self.0.iter().any(|setting| !setting.on.is_empty())
    }

    /// Their names; those of a process that names none.
    pub fn names(&self) -> Vec<Net> {
        match self.0.is_empty() {
            true => vec![Net::TCP],
            false => self.0.iter().map(|setting| setting.net).collect(),
        }
    }
}

impl FromStr for Networks {
    type Err = BadNetworks;

    fn from_str(s: &str) -> Result<Networks, BadNetworks> {
        let mut all: Vec<NetSetting> = Vec::new();
        let mut rest = s.trim();
        while !rest.is_empty() {
            let end = rest.find([',', '(']).unwrap_or(rest.len());
            let net: Net = rest[..end].trim().parse()?;
            let form = || BadNetworks::Form(rest.to_owned());
            let (on, after) = match rest[end..].strip_prefix('(') {
                None => (Vec::new(), &rest[end..]),
                Some(inside) => {
                    let (inside, after) = inside.split_once(')').ok_or_else(form)?;
                    let on: Vec<String> =
                        inside.split(',').map(|word| word.trim().to_owned()).collect();
                    if on.iter().any(String::is_empty) {
                        return Err(form());
                    }
                    (on, after.trim_start())
                }
            };
            rest = match after.strip_prefix(',') {
                Some(more) if !more.trim().is_empty() => more.trim_start(),
                None if after.is_empty() => "",
                _ => return Err(form()),
            };
            if all.iter().any(|known| known.net == net) {
                return Err(BadNetworks::Twice(net));
            }
            all.push(NetSetting { net, on });
            if all.len() > NETS_MAX {
                return Err(BadNetworks::Many);
            }
        }
        Ok(Networks(all))
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, NetSetting { net, on }) in self.0.iter().enumerate() {
            write!(f, "{}{net}", if n == 0 { "" } else { "," })?;
            if !on.is_empty() {
                write!(f, "({})", on.join(","))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_round_trip() {
        for text in ["", "tcp", "tcp1(eth1)", "tcp(eth0,eth2),tcp1(10.0.0.1),o2ib3"] {
            assert_eq!(text.parse::<Networks>().unwrap().to_string(), text);
        }
        let spaced = " tcp0(eth0 , eth1) , o2ib".parse::<Networks>().unwrap();
        assert_eq!(spaced.to_string(), "tcp(eth0,eth1),o2ib");
        assert_eq!(Networks::default().names(), [Net::TCP]);
        assert_eq!(spaced.names().len(), 2);
        for (text, why) in [
            ("eth0", "no network;"),
            ("tcp(eth0", "no network of a host"),
            ("tcp()", "no network of a host"),
            ("tcp(eth0)x", "no network of a host"),
            ("tcp,", "no network of a host"),
            ("tcp,tcp0", "named twice"),
        ] {
            let error = text.parse::<Networks>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
