//! Networks that this process is on, and ways to others.
//!
//! A way to another network leads through a *gateway*, a router on a network of this process. Of
//! several the one of the lowest priority and the fewest hops is used, equal ones by turns. One
//! that failed comes after all others for [`AVOIDED`].

use crate::error::LinkError;
use crate::rails::{self, Path, Rail};
use env::clock::Monotonic;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::limits::ROUTES_MAX;
use types::net::Net;
use types::nid::Nid;

/// A gateway that failed is tried last for so long.
pub(crate) const AVOIDED: Duration = Duration::from_secs(10);

/// A way to another network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The network.
    pub net: Net,
    /// The router.
    pub gateway: Nid,
    /// Routers on the way; `None`: unknown, taken for 1.
    pub hops: Option<u8>,
    /// The lowest number goes first.
    pub priority: u32,
}

/// How a NID is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// It is on a network of this process, or on this host.
    Direct,
    /// Through one of these routers, best first.
    Through(Vec<Nid>),
    /// Not at all.
    None,
}

/// See the module. A process that names no network is on `tcp`.
pub(crate) struct Nets(Mutex<Known>);

struct Known {
    local: BTreeSet<Net>,
    /// Interfaces that were named for them.
    rails: Vec<Rail>,
    /// Peers are reached over one path only.
    single: bool,
    routes: Vec<Route>,
    /// Gateways that failed, and until when they are avoided.
    avoided: BTreeMap<Nid, Monotonic>,
    /// Whose turn it is among equal gateways.
    turn: usize,
}

impl Default for Nets {
    fn default() -> Nets {
        let local = BTreeSet::from([Net::TCP]);
        Nets(Mutex::new(Known {
            local,
            rails: Vec::new(),
            single: false,
            routes: Vec::new(),
            avoided: BTreeMap::new(),
            turn: 0,
        }))
    }
}

impl Nets {
    /// Networks of this process, in order.
    pub(crate) fn local(&self) -> Vec<Net> {
        self.0.lock().local.iter().copied().collect()
    }

    /// These, and no others.
    pub(crate) fn set(&self, nets: impl IntoIterator<Item = Net>) {
        self.0.lock().local = nets.into_iter().collect();
    }

    /// One more.
    pub(crate) fn join(&self, net: Net) {
        self.0.lock().local.insert(net);
    }

    /// One less. `false`: this process is not on it.
    pub(crate) fn leave(&self, net: Net) -> bool {
        self.0.lock().local.remove(&net)
    }

    /// Interfaces of this process on this network, in place of those named before.
    pub(crate) fn set_rails(&self, net: Net, rails: Vec<Rail>) {
        let mut known = self.0.lock();
        known.rails.retain(|rail| rail.net != net);
        known.rails.extend(rails.into_iter().filter(|rail| rail.net == net));
    }

    /// Peers are reached over one path each from now on, whatever they tell, or over all of them.
    pub(crate) fn set_single(&self, single: bool) {
        self.0.lock().single = single;
    }

    /// Interfaces that were named for this network.
    pub(crate) fn rails(&self, net: Net) -> Vec<Rail> {
        self.0.lock().rails.iter().filter(|rail| rail.net == net).copied().collect()
    }

    /// Paths to a peer that was found at `nid`, and says that it is at `told`, too. Those that are
    /// not on a network of this process, and those of one host only, do not count.
    pub(crate) fn paths(&self, nid: Nid, told: &[Nid]) -> Vec<Path> {
        let known = self.0.lock();
        let is_direct = |nid: &Nid| {
            !nid.is_loopback() && nid.net().is_some_and(|net| known.local.contains(&net))
        };
        if !is_direct(&nid) {
            return vec![Path::any(nid)];
        }
        let can_be = |nid: &&Nid| {
            is_direct(nid)
                && nid.address().is_some_and(|at| at.port() != 0 && !at.ip().is_unspecified())
        };
        let others = told.iter().filter(can_be).filter(|other| **other != nid);
        let nids: Vec<Nid> = std::iter::once(nid).chain(others.copied()).collect();
        let mut paths = rails::paths(&known.rails, &nids);
        paths.truncate(if known.single { 1 } else { paths.len() });
        paths
    }

    /// Routes, each with whether its gateway is not avoided.
    pub(crate) fn routes(&self, now: Monotonic) -> Vec<(Route, bool)> {
        let known = self.0.lock();
        known.routes.iter().map(|route| (*route, !known.is_avoided(route.gateway, now))).collect()
    }

    /// One more route; it replaces one to the same network by the same gateway. `false`: there are
    /// [`ROUTES_MAX`].
    pub(crate) fn add_route(&self, route: Route) -> bool {
        let mut known = self.0.lock();
        known.routes.retain(|old| (old.net, old.gateway) != (route.net, route.gateway));
        if known.routes.len() == ROUTES_MAX {
            return false;
        }
        known.routes.push(route);
        true
    }

    /// One route less. `false`: there is none.
    pub(crate) fn remove_route(&self, net: Net, gateway: Nid) -> bool {
        let mut known = self.0.lock();
        let before = known.routes.len();
        known.routes.retain(|route| (route.net, route.gateway) != (net, gateway));
        known.routes.len() < before
    }

    /// How to reach it.
    pub(crate) fn way(&self, nid: Nid, now: Monotonic) -> Way {
        let mut known = self.0.lock();
        let Some(net) = nid.net() else { return Way::None };
        if nid.is_loopback() || known.local.contains(&net) {
            return Way::Direct;
        }
        let rank = |route: &Route| {
            let hops = route.hops.unwrap_or(1);
            (known.is_avoided(route.gateway, now), route.priority, hops)
        };
        let mut routes: Vec<Route> =
            known.routes.iter().filter(|route| route.net == net).copied().collect();
        routes.sort_by_key(rank);
        let Some(first) = routes.first() else { return Way::None };
        let best = routes.iter().filter(|route| rank(route) == rank(first)).count();
        known.turn = known.turn.wrapping_add(1);
        let turn = known.turn % best;
        routes[..best].rotate_left(turn);
        Way::Through(routes.into_iter().map(|route| route.gateway).collect())
    }

    /// True if what comes from `nid` may have been forwarded for `origin`: there is a route to its
    /// network by a router at that address, and this process is not itself on that network.
    pub(crate) fn is_gateway(&self, nid: Nid, origin: Nid) -> bool {
        let known = self.0.lock();
        let (Some(at), Some(net)) = (nid.address(), origin.net()) else { return false };
        let is_it = |route: &Route| {
            let gateway = route.gateway.address().map(|at| at.ip().to_canonical());
            route.net == net
                && route.gateway.net() == nid.net()
                && gateway == Some(at.ip().to_canonical())
        };
        !known.local.contains(&net) && known.routes.iter().any(is_it)
    }

    /// NIDs in the order in which they are to be tried, without those that cannot be reached,
    /// unless that is true of all.
    pub(crate) fn sorted(&self, nids: Vec<Nid>) -> Vec<Nid> {
        let known = self.0.lock();
        let rank = |nid: &Nid| match nid.net() {
            _ if nid.is_loopback() => 0,
            Some(net) if known.local.contains(&net) => 0,
            Some(net) if known.routes.iter().any(|route| route.net == net) => 1,
            _ => 2,
        };
        let mut sorted: Vec<Nid> = nids.iter().copied().filter(|nid| rank(nid) < 2).collect();
        sorted.sort_by_key(rank);
        if sorted.is_empty() { nids } else { sorted }
    }

    /// A gateway failed; it is avoided for a while.
    pub(crate) fn failed(&self, gateway: Nid, now: Monotonic) {
        let mut known = self.0.lock();
        known.avoided.retain(|_, until| now < *until);
        known.avoided.insert(gateway, now + AVOIDED);
    }

    /// A gateway did what it was asked, and the node behind it proved its key, if it has one.
    pub(crate) fn answered(&self, gateway: Nid) {
        self.0.lock().avoided.remove(&gateway);
    }
}

impl Known {
    fn is_avoided(&self, gateway: Nid, now: Monotonic) -> bool {
        self.avoided.get(&gateway).is_some_and(|until| now < *until)
    }
}

/// Why a NID cannot be reached.
pub(crate) fn no_way(nid: Nid) -> LinkError {
    let reason = match nid.net() {
        None => "there is no route from here into another process".to_owned(),
        Some(net) => format!(
            "this process is not on the network {net}, and has no route to it; networks = \"{net}(INTERFACE)\", the \
             mount option network={net} or lnetctl says that it is, lnetctl route add names a router"
        ),
    };
    LinkError::Connect { nid, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nid(text: &str) -> Nid {
        text.parse().unwrap()
    }

    fn route(net: &str, gateway: &str, priority: u32) -> Route {
        Route { net: net.parse().unwrap(), gateway: nid(gateway), hops: None, priority }
    }

    #[test]
    fn what_is_on_an_own_network_is_reached_directly() {
        let (nets, now) = (Nets::default(), Duration::ZERO);
        assert_eq!(nets.way(nid("10.0.0.1@tcp"), now), Way::Direct);
        assert_eq!(nets.way(nid("10.0.0.1@tcp1"), now), Way::None);
        nets.set(["tcp1".parse().unwrap()]);
        assert_eq!(nets.way(nid("10.0.0.1@tcp"), now), Way::None);
        assert_eq!(nets.way(nid("127.0.0.1@tcp"), now), Way::Direct, "it is on this host");
        assert_eq!(nets.way(nid("10.0.0.1@tcp1"), now), Way::Direct);
        assert_eq!(nets.way(Nid::Loopback, now), Way::None);
        let nids = ["10.0.0.1@tcp", "10.1.0.1@tcp1", "10.2.0.1@o2ib"].map(nid);
        assert_eq!(nets.sorted(nids.to_vec()), [nids[1]]);
        assert!(nets.add_route(route("o2ib", "10.1.0.9@tcp1", 0)));
        assert_eq!(nets.sorted(nids.to_vec()), [nids[1], nids[2]]);
        assert_eq!(
            nets.sorted(nids[..1].to_vec()),
            nids[..1],
            "a reason for the failure is needed"
        );
    }

    #[test]
    fn a_peer_that_tells_several_nids_is_reached_over_those_on_own_networks() {
        let nets = Nets::default();
        let [a, b, c] = ["10.0.0.1@tcp", "10.1.0.1@tcp1", "10.2.0.1@o2ib"].map(nid);
        let to = |nets: &Nets, nid, told: &[Nid]| {
            nets.paths(nid, told).into_iter().map(|path| path.to).collect::<Vec<_>>()
        };
        assert_eq!(to(&nets, a, &[b, a, c]), [a]);
        nets.join("o2ib".parse().unwrap());
        assert_eq!(to(&nets, a, &[b, a, c]), [a, c]);
        assert_eq!(to(&nets, b, &[a, c]), [b], "it is reached through a router, whatever it says");
        let nobody = ["127.0.0.1@tcp", "0.0.0.0@tcp", "10.0.0.9:0@tcp", "0@lo"].map(nid);
        assert_eq!(to(&nets, a, &nobody), [a]);
        let rail =
            |address: &str| Rail { net: Net::TCP, address: address.parse().unwrap(), prefix: 24 };
        nets.set_rails(Net::TCP, vec![rail("10.0.0.2"), rail("10.0.0.3")]);
        assert_eq!(nets.paths(a, &[]).len(), 2);
        nets.set_single(true);
        assert_eq!(nets.paths(a, &[c]).len(), 1);
        nets.set_single(false);
        nets.set_rails(Net::TCP, vec![rail("10.0.0.3")]);
        assert_eq!((nets.paths(a, &[]).len(), nets.rails(Net::TCP).len()), (1, 1));
    }

    #[test]
    fn equal_gateways_take_turns_and_those_that_failed_come_last() {
        let (nets, mut now) = (Nets::default(), Duration::ZERO);
        let [a, b, c] = ["10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"];
        for (gateway, priority) in [(c, 1), (a, 0), (b, 0)] {
            assert!(nets.add_route(route("tcp1", gateway, priority)));
        }
        let way = |now| match nets.way(nid("10.1.0.1@tcp1"), now) {
            Way::Through(gateways) => gateways,
            other => panic!("{other:?}"),
        };
        let (first, second) = (way(now), way(now));
        assert_eq!((first[2], second[2]), (nid(c), nid(c)));
        assert_ne!(first[0], second[0]);
        nets.failed(nid(a), now);
        assert_eq!(way(now), [b, c, a].map(nid));
        assert_eq!(nets.routes(now).iter().filter(|(_, up)| !up).count(), 1);
        now += AVOIDED;
        assert_eq!(way(now)[2], nid(c), "it is tried again");
        nets.failed(nid(a), now);
        nets.answered(nid(a));
        assert_eq!(way(now)[2], nid(c));
        assert!(nets.remove_route("tcp1".parse().unwrap(), nid(a)));
        assert!(!nets.remove_route("tcp1".parse().unwrap(), nid(a)));
        assert_eq!(way(now), [b, c].map(nid));
    }

    #[test]
    fn a_router_stands_for_the_networks_that_it_leads_to() {
        let nets = Nets::default();
        assert!(nets.add_route(route("tcp1", "10.0.0.9@tcp", 0)));
        let is = |from: &str, origin: &str| nets.is_gateway(nid(from), nid(origin));
        assert!(is("10.0.0.9:40000@tcp", "10.1.0.1@tcp1"));
        assert!(is("[::ffff:10.0.0.9]:40000@tcp", "10.1.0.1@tcp1"));
        assert!(!is("10.0.0.8@tcp", "10.1.0.1@tcp1"), "no router");
        assert!(!is("10.0.0.9@tcp2", "10.1.0.1@tcp1"), "another network");
        assert!(!is("10.0.0.9@tcp", "10.1.0.1@tcp2"), "it does not lead there");
        assert!(!is("10.0.0.9@tcp", "0@lo"));
        nets.join("tcp1".parse().unwrap());
        assert!(!is("10.0.0.9@tcp", "10.1.0.1@tcp1"), "who is there comes directly");
    }

    #[test]
    fn routes_are_bounded() {
        let nets = Nets::default();
        for n in 0..ROUTES_MAX as u16 {
            let gateway = format!("10.0.0.1:{}@tcp", n + 1);
            assert!(nets.add_route(route("tcp1", &gateway, 0)));
        }
        assert!(nets.add_route(route("tcp1", "10.0.0.1:1@tcp", 7)), "it replaces one");
        assert!(!nets.add_route(route("tcp2", "10.0.0.1:1@tcp", 0)));
    }
}
