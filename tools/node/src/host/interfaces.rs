//! Network interfaces of this host, and their addresses.

use std::io;
use std::net::IpAddr;

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
    fn addresses_of_one_cable_only_are_left_out() {
        let interface =
            |address: &str| Interface { name: "e".into(), address: address.parse().unwrap() };
        let all = ["fe80::1", "fd00::1", "10.0.0.2", "10.0.0.1"].map(interface);
        assert_eq!(address_of(&all, "e"), Some("10.0.0.2".parse().unwrap()));
        assert_eq!(address_of(&all[..2], "e"), Some("fd00::1".parse().unwrap()));
        assert_eq!(address_of(&all[..1], "e"), None);
    }
}
