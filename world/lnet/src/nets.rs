//! Networks that this process is on.

use crate::error::LinkError;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use types::net::Net;
use types::nid::Nid;

/// See the module. A process that names no network is on `tcp`.
pub(crate) struct Nets {
    local: Mutex<BTreeSet<Net>>,
}

impl Default for Nets {
    fn default() -> Nets {
        Nets { local: Mutex::new(BTreeSet::from([Net::TCP])) }
    }
}

impl Nets {
    /// Networks of this process, in order.
    pub(crate) fn local(&self) -> Vec<Net> {
        self.local.lock().iter().copied().collect()
    }

    /// These, and no others.
    pub(crate) fn set(&self, nets: impl IntoIterator<Item = Net>) {
        *self.local.lock() = nets.into_iter().collect();
    }

    /// One more.
    pub(crate) fn join(&self, net: Net) {
        self.local.lock().insert(net);
    }

    /// One less. `false`: this process is not on it.
    pub(crate) fn leave(&self, net: Net) -> bool {
        self.local.lock().remove(&net)
    }

    /// True if this process can connect to it: what is on this host needs no network.
    pub(crate) fn reaches(&self, nid: Nid) -> bool {
        nid.is_loopback() || nid.net().is_some_and(|net| self.local.lock().contains(&net))
    }

    /// NIDs without those that cannot be reached, unless that is true of all.
    pub(crate) fn sorted(&self, nids: Vec<Nid>) -> Vec<Nid> {
        let reached: Vec<Nid> = nids.iter().copied().filter(|nid| self.reaches(*nid)).collect();
        if reached.is_empty() { nids } else { reached }
    }
}

/// Why a NID cannot be reached.
pub(crate) fn no_way(nid: Nid) -> LinkError {
    let reason = match nid.net() {
        None => "there is no route from here into another process".to_owned(),
        Some(net) => format!(
            "this process is not on the network {net}: the setting networks, or the mount option network={net}, says that \
             it is"
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

    #[test]
    fn only_own_networks_and_this_host_are_reached() {
        let nets = Nets::default();
        assert!(nets.reaches(nid("10.0.0.1@tcp")) && !nets.reaches(nid("10.0.0.1@tcp1")));
        nets.set(["tcp1".parse().unwrap(), "o2ib".parse().unwrap()]);
        assert!(!nets.reaches(nid("10.0.0.1@tcp")) && nets.reaches(nid("10.0.0.1@tcp1")));
        assert!(nets.reaches(nid("127.0.0.1@tcp")), "it is on this host");
        let nids = ["10.0.0.1@tcp", "10.1.0.1@tcp1", "10.2.0.1@o2ib"].map(nid);
        assert_eq!(nets.sorted(nids.to_vec()), nids[1..]);
        assert!(nets.leave("o2ib".parse().unwrap()) && !nets.leave("o2ib".parse().unwrap()));
        assert_eq!(nets.sorted(nids.to_vec()), [nids[1]]);
        assert_eq!(nets.sorted(nids[..1].to_vec()), nids[..1], "a failure needs a reason");
        nets.join(Net::TCP);
        assert_eq!(nets.local(), [Net::TCP, "tcp1".parse().unwrap()]);
    }
}
