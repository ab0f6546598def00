//! Network interfaces of this host, their addresses, and where a process listens.

use crate::config::networks::{NetSetting, Networks};
use crate::config::settings::{Listen, Settings};
use if_addrs::IfAddr;
use lnet::rails::Rail;
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
    /// Bits of the address that its subnet shares.
    pub prefix: u8,
}

/// All of them.
///
/// # Errors
/// The system cannot list them.
pub fn all() -> io::Result<Vec<Interface>> {
    let list = if_addrs::get_if_addrs()?;
    let prefix = |address: &IfAddr| match address {
        IfAddr::V4(v4) => v4.prefixlen,
        IfAddr::V6(v6) => v6.prefixlen,
    };
    let one = |interface: if_addrs::Interface| Interface {
        address: interface.ip(),
        prefix: prefix(&interface.addr),
        name: interface.name,
    };
    Ok(list.into_iter().map(one).collect())
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

/// The interfaces that words name for a network.
///
/// # Errors
/// A word means none.
pub fn rails(net: Net, words: &[String]) -> Result<Vec<Rail>, NoAddress> {
    let interfaces = all()?;
    let prefix = |address: IpAddr| {
        let of = interfaces.iter().find(|interface| interface.address == address);
        // An address that the host does not have yet is in no subnet.
        of.map_or(if address.is_ipv4() { 32 } else { 128 }, |interface| interface.prefix)
    };
    let rail = |address: SocketAddr| {
        let address = address.ip();
        Rail { net, address, prefix: prefix(address) }
    };
    Ok(addresses(words, PORT_DEFAULT)?.into_iter().map(rail).collect())
}

/// Those of all networks. An interface that is not there, or has no address yet, is left out: what
/// else is named works.
///
/// # Errors
/// The system cannot list the interfaces.
pub fn all_rails(networks: &Networks) -> Result<Vec<(Net, Vec<Rail>)>, NoAddress> {
    let of = |setting: &NetSetting| {
        let mut found = Vec::new();
        for word in &setting.on {
            match rails(setting.net, std::slice::from_ref(word)) {
                Ok(more) => found.extend(more),
                Err(error @ NoAddress::List(_)) => return Err(error),
                Err(error) => tracing::warn!(net = %setting.net, %error, "not used"),
            }
        }
        Ok((setting.net, found))
    };
    networks.0.iter().map(of).collect()
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
    fn networks_name_interfaces_with_their_subnets() {
        let rails = |networks: &str| all_rails(&networks.parse().unwrap()).unwrap();
        let tcp = rails("tcp(lo,10.255.0.9),o2ib");
        assert_eq!((tcp.len(), tcp[1].1.len()), (2, 0));
        let found: Vec<_> =
            tcp[0].1.iter().map(|rail| (rail.address.to_string(), rail.prefix)).collect();
        assert_eq!(found, [("127.0.0.1".into(), 8), ("10.255.0.9".into(), 32)]);
        assert_eq!(rails("tcp(nosuch0,lo)")[0].1.len(), 1, "the other one works");
    }

    #[test]
    fn addresses_of_one_cable_only_are_left_out() {
        let interface = |address: &str| Interface {
            name: "e".into(),
            address: address.parse().unwrap(),
            prefix: 64,
        };
        let all = ["fe80::1", "fd00::1", "10.0.0.2", "10.0.0.1"].map(interface);
        assert_eq!(address_of(&all, "e"), Some("10.0.0.2".parse().unwrap()));
        assert_eq!(address_of(&all[..2], "e"), Some("fd00::1".parse().unwrap()));
        assert_eq!(address_of(&all[..1], "e"), None);
    }
}
