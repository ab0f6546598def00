//! Paths to a peer that is reached over several networks or interfaces (Lustre: Multi-Rail). Pure.
//!
//! A path leads from an interface of this process to a NID of the peer. Where this process has
//! named one interface of a network, or none, the host's own routes choose it. Where it has named
//! several, a connection is bound to the address of one: of those in the NID's subnet, if there is
//! one, else of any.

use std::net::IpAddr;
use types::net::Net;
use types::nid::Nid;

/// Paths to one peer, at most.
pub(crate) const PATHS_MAX: usize = 8;

/// An interface that this process has named for a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rail {
    /// The network.
    pub net: Net,
    /// Its address.
    pub address: IpAddr,
    /// Bits of the address that its subnet shares.
    pub prefix: u8,
}

/// A way to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    /// Address of the interface that it begins at; `None`: as the host's routes say.
    pub(crate) from: Option<IpAddr>,
    /// The peer's NID.
    pub(crate) to: Nid,
}

impl Path {
    /// The one that the host's routes say.
    pub(crate) fn any(to: Nid) -> Path {
        Path { from: None, to }
    }
}

/// All paths to these NIDs of one peer, those to the first one first; PATHS_MAX at most.
pub(crate) fn paths(rails: &[Rail], nids: &[Nid]) -> Vec<Path> {
    let mut all: Vec<Path> = Vec::new();
    for nid in nids {
        let new = from(rails, *nid).into_iter().map(|from| Path { from, to: *nid });
        all.extend(new.filter(|path| !all.contains(path)).collect::<Vec<_>>());
    }
    all.truncate(PATHS_MAX);
    all
}

/// Where connections to a NID begin.
fn from(rails: &[Rail], nid: Nid) -> Vec<Option<IpAddr>> {
    let (Some(net), Some(address)) = (nid.net(), nid.address()) else { return vec![None] };
    let ip = address.ip();
    let of = |rail: &&Rail| rail.net == net && rail.address.is_ipv6() == ip.is_ipv6();
    let named: Vec<&Rail> = rails.iter().filter(of).collect();
    if nid.is_loopback() || named.len() < 2 {
        return vec![None];
    }
    let near = |rail: &&&Rail| share_subnet(rail.address, ip, rail.prefix);
    let near: Vec<&Rail> = named.iter().filter(near).copied().collect();
    let best = if near.is_empty() { named } else { near };
    best.into_iter().map(|rail| Some(rail.address)).collect()
}

fn share_subnet(a: IpAddr, b: IpAddr, prefix: u8) -> bool {
    let differ = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    differ >= u32::from(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nid(text: &str) -> Nid {
        text.parse().unwrap()
    }

    fn rail(net: &str, address: &str, prefix: u8) -> Rail {
        Rail { net: net.parse().unwrap(), address: address.parse().unwrap(), prefix }
    }

    fn shown(rails: &[Rail], nids: &[&str]) -> Vec<String> {
        let nids: Vec<Nid> = nids.iter().map(|text| nid(text)).collect();
        let one = |Path { from, to }| {
            let from = from.map_or("any".to_owned(), |from| from.to_string());
            format!("{from} -> {to}")
        };
        paths(rails, &nids).into_iter().map(one).collect()
    }

    #[test]
    fn a_host_that_names_no_interfaces_leaves_the_choice_to_its_routes() {
        let both = ["10.0.0.1@tcp", "10.1.0.1@tcp1"];
        let ways = ["any -> 10.0.0.1@tcp", "any -> 10.1.0.1@tcp1"];
        assert_eq!(shown(&[], &both), ways);
        let one = [rail("tcp", "10.0.0.2", 24), rail("tcp1", "10.1.0.2", 24)];
        assert_eq!(shown(&one, &both), ways, "one each");
        assert_eq!(shown(&one, &[both[0], both[0]]), ways[..1], "told twice");
    }

    #[test]
    fn interfaces_reach_what_is_in_their_subnet() {
        let rails = [rail("tcp", "10.0.0.2", 24), rail("tcp", "10.1.0.2", 24)];
        assert_eq!(
            shown(&rails, &["10.1.0.1@tcp", "10.0.0.1@tcp"]),
            ["10.1.0.2 -> 10.1.0.1@tcp", "10.0.0.2 -> 10.0.0.1@tcp"]
        );
        assert_eq!(
            shown(&rails, &["10.9.0.1@tcp"]),
            ["10.0.0.2 -> 10.9.0.1@tcp", "10.1.0.2 -> 10.9.0.1@tcp"],
            "behind a gateway of the subnet: by both"
        );
        assert_eq!(shown(&rails, &["10.0.0.1@tcp1"]), ["any -> 10.0.0.1@tcp1"], "another network");
        assert_eq!(shown(&rails, &["127.0.0.1@tcp"]), ["any -> 127.0.0.1@tcp"]);
    }

    #[test]
    fn in_one_subnet_each_interface_reaches_each_nid() {
        let rails = [rail("o2ib", "fd00::a", 64), rail("o2ib", "fd00::b", 64)];
        let all = shown(&rails, &["[fd00::1]:988@o2ib", "[fd00::2]:988@o2ib"]);
        assert_eq!(all.len(), 4, "{all:?}");
        assert_eq!(shown(&rails, &["10.0.0.1@o2ib"]), ["any -> 10.0.0.1@o2ib"], "no IPv4 here");
        let many: Vec<String> = (1..20).map(|n| format!("[fd00::1]:{n}@o2ib")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(shown(&rails, &many).len(), PATHS_MAX);
    }
}
