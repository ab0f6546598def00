//! Networks and routes as settings say them, in the words of Lustre's module options: `tcp0(eth0),
//! tcp1(eth1,eth2),o2ib(ib0)` and `tcp1 10.0.0.9@tcp; o2ib 2 10.0.0.8@tcp 10.0.0.9@tcp:1`.

use lnet::nets::Route;
use std::fmt;
use std::str::FromStr;
use types::limits::{NETS_MAX, ROUTES_MAX};
use types::net::{BadNet, Net};
use types::nid::{BadNid, Nid};

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

/// A way to another network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteSetting {
    /// The network.
    pub net: Net,
    /// Routers on the way; `None`: it is not said.
    pub hops: Option<u8>,
    /// Each with its priority: the lowest number goes first.
    pub gateways: Vec<(Nid, u32)>,
}

/// All routes of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Routes(pub Vec<RouteSetting>);

impl Routes {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One by one.
    pub fn each(&self) -> impl Iterator<Item = Route> + '_ {
        self.0.iter().flat_map(|RouteSetting { net, hops, gateways }| {
            gateways.iter().map(|(gateway, priority)| Route {
                net: *net,
                gateway: *gateway,
                hops: *hops,
                priority: *priority,
            })
        })
    }
}

/// The text says no networks, or no routes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadNetworks {
    /// A bad name.
    #[error(transparent)]
    Net(#[from] BadNet),
    /// A bad NID.
    #[error(transparent)]
    Nid(#[from] BadNid),
    /// Brackets without an end, or nothing in them.
    #[error(
        "{0:?} is no network of a host; write tcp1(eth1) or tcp1(eth1,eth2), commas between several"
    )]
    Form(String),
    /// The same twice.
    #[error("the network {0} is named twice")]
    Twice(Net),
    /// A route without a gateway.
    #[error("{0:?} is no route; write NET [HOPS] NID [NID...], semicolons between several")]
    Route(String),
    /// Too many.
    #[error("there are at most {NETS_MAX} networks and {ROUTES_MAX} routes")]
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

impl FromStr for Routes {
    type Err = BadNetworks;

    fn from_str(s: &str) -> Result<Routes, BadNetworks> {
        let mut all = Vec::new();
        let mut count = 0;
        for text in s.split(';').map(str::trim).filter(|text| !text.is_empty()) {
            let mut words = text.split_whitespace().peekable();
            let net = words.next().unwrap_or_default().parse()?;
            let hops = words.peek().and_then(|word| word.parse::<u8>().ok());
            if hops.is_some() {
                words.next();
            }
            let gateways = words.map(gateway).collect::<Result<Vec<_>, _>>()?;
            if gateways.is_empty() || hops == Some(0) {
                return Err(BadNetworks::Route(text.to_owned()));
            }
            count += gateways.len();
            if count > ROUTES_MAX {
                return Err(BadNetworks::Many);
            }
            all.push(RouteSetting { net, hops, gateways });
        }
        Ok(Routes(all))
    }
}

/// `10.0.0.9@tcp:1`: a router and its priority.
fn gateway(word: &str) -> Result<(Nid, u32), BadNid> {
    let bad = || BadNid(word.to_owned());
    let (address, net) = word.rsplit_once('@').ok_or_else(bad)?;
    let (net, priority) = match net.split_once(':') {
        Some((net, priority)) => (net, priority.parse().map_err(|_| bad())?),
        None => (net, 0),
    };
    let nid: Nid = format!("{address}@{net}").parse()?;
    if nid.address().is_some() { Ok((nid, priority)) } else { Err(bad()) }
}

impl fmt::Display for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, RouteSetting { net, hops, gateways }) in self.0.iter().enumerate() {
            write!(f, "{}{net}", if n == 0 { "" } else { "; " })?;
            if let Some(hops) = hops {
                write!(f, " {hops}")?;
            }
            for (nid, priority) in gateways {
                write!(f, " {nid}")?;
                if *priority > 0 {
                    write!(f, ":{priority}")?;
                }
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

    #[test]
    fn routes_round_trip() {
        for text in
            ["", "tcp1 10.0.0.9@tcp", "o2ib 2 10.0.0.8:7988@tcp [::1]:7@tcp1:3; tcp 10.0.0.1@o2ib"]
        {
            assert_eq!(text.parse::<Routes>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("tcp1", "no route"),
            ("tcp1 0 10.0.0.1@tcp", "no route"),
            ("10.0.0.1@tcp", "no network;"),
            ("tcp1 0@lo", "no NID"),
            ("tcp1 10.0.0.1@tcp:x", "no NID"),
            ("tcp1 10.0.0.1", "no NID"),
        ] {
            let error = text.parse::<Routes>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let many = vec!["10.0.0.1@tcp"; ROUTES_MAX + 1].join(" ");
        assert_eq!(format!("tcp1 {many}").parse::<Routes>(), Err(BadNetworks::Many));
    }
}
