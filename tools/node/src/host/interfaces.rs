//! Network interfaces of this host, their addresses, and where a process listens.

use crate::config::settings::{Listen, Settings};
use std::io;
use std::net::{IpAddr, SocketAddr};
use types::net::Net;
use types::nid::PORT_DEFAULT;

/// An interface with one of its addresses; it may be listed again with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// `eth0`
    pub name: String,
    /// An address of it.
    pub address: IpAddr,
}

/// All of them.
///
/// # Errors
/// The system cannot list them.
pub fn all() -> io::Result<Vec<Interface>> {
    let list = if_addrs::get_if_addrs()?;
    Ok(list
        .into_iter()
        .map(|interface| Interface { address: interface.ip(), name: interface.name })
        .collect())
}

/// The interface that has this address.
pub fn name_of(interfaces: &[Interface], address: IpAddr) -> Option<String> {
    let found = interfaces.iter().find(|interface| interface.address == address);
    found.map(|interface| interface.name.clone())
}

/// The address of an interface: its first one of IPv4, else its first one of IPv6 that holds beyond
/// the cable.
pub fn address_of(interfaces: &[Interface], name: &str) -> Option<IpAddr> {
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        // fe80::/10 needs an interface beside the address, which a NID has not.
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 != 0xfe80,
    };
    let of = interfaces.iter().filter(|interface| interface.name == name);
    let mut found: Vec<IpAddr> = of.map(|interface| interface.address).filter(usable).collect();
    found.sort_by_key(IpAddr::is_ipv6);
    found.first().copied()
}

/// A word names no address of this host.
#[derive(Debug, thiserror::Error)]
pub enum NoAddress {
    /// There is no such interface.
    #[error("{0}: no interface of this host, or it has no address")]
    Interface(String),
    /// Others could not reach it.
    #[error("{0}: a NID is made of the address, so name one that others can reach")]
    Unspecified(SocketAddr),
    /// The system's reason.
    #[error("cannot list the interfaces of this host: {0}")]
    List(#[from] io::Error),
}

/// The addresses that words mean: names of interfaces, addresses, addresses with a port.
///
/// # Errors
/// A word means none.
pub fn addresses(words: &[String], port: u16) -> Result<Vec<SocketAddr>, NoAddress> {
    let interfaces = all()?;
    let one = |word: &String| {
        let bare = word.trim_start_matches('[').trim_end_matches(']');
        let ip = bare.parse().ok().or_else(|| address_of(&interfaces, word));
        let address = match (word.parse::<SocketAddr>(), ip) {
            (Ok(address), _) => address,
            (Err(_), Some(ip)) => SocketAddr::new(ip, port),
            (Err(_), None) => return Err(NoAddress::Interface(word.clone())),
        };
        match address.ip().is_unspecified() {
            true => Err(NoAddress::Unspecified(address)),
            false => Ok(address),
        }
    };
    words.iter().map(one).collect()
}

/// Where a process with these settings accepts connections: at `listen`, or where its networks say.
///
/// # Errors
/// They name an address that this host does not have.
pub fn to_listen(settings: &Settings) -> Result<Vec<(Net, SocketAddr)>, NoAddress> {
    let Listen::At(listen) = settings.listen else { return Ok(Vec::new()) };
    if !settings.networks.name_addresses() {
        let net = settings.networks.names().first().copied().unwrap_or(Net::TCP);
        return Ok(vec![(net, listen)]);
    }
    let port = if settings.listen == Listen::default() { PORT_DEFAULT } else { listen.port() };
    let mut found = Vec::new();
    for setting in &settings.networks.0 {
        let of = addresses(&setting.on, port)?;
        found.extend(of.into_iter().map(|address| (setting.net, address)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_a_loopback() {
        let all = all().unwrap();
        assert_eq!(name_of(&all, "127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
        assert_eq!(address_of(&all, "lo"), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(address_of(&all, "none"), None);
    }

    #[test]
    fn networks_say_where_to_listen() {
        let listens = |listen: &str, networks: &str| {
            let (listen, networks) = (listen.parse().unwrap(), networks.parse().unwrap());
            let settings = Settings { listen, networks, ..Settings::default() };
            to_listen(&settings).map_err(|e| e.to_string())
        };
        let at = |net: &str, address: &str| (net.parse::<Net>().unwrap(), address.parse().unwrap());
        assert_eq!(listens("10.0.0.1:7", ""), Ok(vec![at("tcp", "10.0.0.1:7")]));
        assert_eq!(listens("10.0.0.1:7", "tcp1"), Ok(vec![at("tcp1", "10.0.0.1:7")]));
        assert_eq!(listens("none", "tcp1(lo)"), Ok(Vec::new()));
        let both = vec![at("tcp", "127.0.0.1:7"), at("o2ib", "10.0.0.1:7")];
        assert_eq!(listens("127.0.0.1:7", "tcp(lo),o2ib(10.0.0.1)"), Ok(both));
        let default = Listen::default().to_string();
        assert_eq!(listens(&default, "tcp1(10.0.0.1)"), Ok(vec![at("tcp1", "10.0.0.1:988")]));
        assert!(listens("127.0.0.1:7", "tcp(nosuch0)").unwrap_err().contains("nosuch0"));
        assert!(listens("127.0.0.1:7", "tcp(0.0.0.0)").unwrap_err().contains("reach"));
    }

    #[test]
    fn addresses_of_one_cable_only_are_left_out() {
        let interface =
            |address: &str| Interface { name: "e".into(), address: address.parse().unwrap() };
        let all = ["fe80::1", "fd00::1", "10.0.0.2", "10.0.0.1"].map(interface);
        assert_eq!(address_of(&all, "e"), Some("10.0.0.2".parse().unwrap()));
        assert_eq!(address_of(&all[..2], "e"), Some("fd00::1".parse().unwrap()));
        assert_eq!(address_of(&all[..1], "e"), None);
    }
}
