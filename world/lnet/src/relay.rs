//! What a router forwards, and to which nodes it may: the table of its circuits.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use types::limits::{CIRCUITS_MAX, CIRCUITS_PER_ADDRESS_MAX};
use types::nid::Nid;

/// What a router did, and does.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RelayCounts {
    /// Circuits now.
    pub circuits: u64,
    /// Circuits since the start.
    pub made: u64,
    /// Circuits that were refused.
    pub refused: u64,
    /// Bytes forwarded, both ways together.
    pub bytes: u64,
}

/// See the module. A circuit is made and driven elsewhere ([`crate::circuit`]).
#[derive(Default)]
pub(crate) struct Relay {
    forwards: AtomicBool,
    /// What may be connected to, by the word under which it was named.
    allowed: Mutex<BTreeMap<String, Vec<Nid>>>,
    /// Circuits by the address that they come from.
    circuits: Mutex<BTreeMap<IpAddr, usize>>,
    pub(crate) made: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// A circuit's place in the table.
pub(crate) struct CircuitPlace {
    relay: Arc<Relay>,
    address: IpAddr,
}

impl Drop for CircuitPlace {
    fn drop(&mut self) {
        let mut circuits = self.relay.circuits.lock();
        if let Some(count) = circuits.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                circuits.remove(&self.address);
            }
        }
    }
}

impl Relay {
    /// From now on it forwards, or does not.
    pub(crate) fn forward(&self, on: bool) {
        self.forwards.store(on, Ordering::Release);
    }

    /// True if it forwards.
    pub(crate) fn forwards(&self) -> bool {
        self.forwards.load(Ordering::Acquire)
    }

    /// NIDs that may be connected to, in place of those that were named under the same word.
    pub(crate) fn allow(&self, word: &str, nids: Vec<Nid>) {
        self.allowed.lock().insert(word.to_owned(), nids);
    }

    pub(crate) fn counts(&self) -> RelayCounts {
        RelayCounts {
            circuits: self.circuits.lock().values().sum::<usize>() as u64,
            made: self.made.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn may_reach(&self, nid: Nid) -> bool {
        !nid.is_loopback() && self.allowed.lock().values().flatten().any(|known| *known == nid)
    }

    pub(crate) fn place(self: &Arc<Self>, address: IpAddr) -> Option<CircuitPlace> {
        let mut circuits = self.circuits.lock();
        let all: usize = circuits.values().sum();
        let of_address = circuits.get(&address).copied().unwrap_or_default();
        if all >= CIRCUITS_MAX || of_address >= CIRCUITS_PER_ADDRESS_MAX {
            return None;
        }
        *circuits.entry(address).or_default() += 1;
        Some(CircuitPlace { relay: self.clone(), address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let relay = Arc::<Relay>::default();
        let address = |n: u8| IpAddr::from([10, 0, 0, n]);
        let mut places: Vec<CircuitPlace> =
            (0..CIRCUITS_PER_ADDRESS_MAX).map(|_| relay.place(address(1)).unwrap()).collect();
        assert!(relay.place(address(1)).is_none());
        for n in 2.. {
            match relay.place(address(n)) {
                Some(place) => places.push(place),
                None => break,
            }
            let rest = (1..CIRCUITS_PER_ADDRESS_MAX).map_while(|_| relay.place(address(n)));
            places.extend(rest);
        }
        assert_eq!(relay.counts().circuits, CIRCUITS_MAX as u64);
        places.clear();
        assert_eq!(relay.counts(), RelayCounts::default());
        assert!(relay.place(address(1)).is_some());
    }

    #[test]
    fn only_what_was_named_is_reached() {
        let relay = Relay::default();
        let nid = |text: &str| text.parse::<Nid>().unwrap();
        relay.allow("mgs", vec![nid("10.0.0.1@tcp"), nid("127.0.0.1@tcp")]);
        relay.allow("sheen", vec![nid("10.0.0.2@tcp")]);
        assert!(relay.may_reach(nid("10.0.0.1@tcp")) && relay.may_reach(nid("10.0.0.2@tcp")));
        for other in ["10.0.0.3@tcp", "10.0.0.1:22@tcp", "10.0.0.1@tcp1", "127.0.0.1@tcp", "0@lo"] {
            assert!(!relay.may_reach(nid(other)), "{other}");
        }
        relay.allow("sheen", Vec::new());
        assert!(!relay.may_reach(nid("10.0.0.2@tcp")));
    }
}
