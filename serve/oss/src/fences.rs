//! Clients that MDTs have evicted and that have not come back: nothing is done for them
//! (docs/security.md, "The fence").
//!
//! Each MDT names them, as one list that replaces the one before. In memory only: after a
//! restart of the OST the MDTs say it again. Bounds: [`TARGETS_MAX`] MDTs, and `FENCED_MAX` clients
//! of each.
//!
//! [`TARGETS_MAX`]: types::limits::TARGETS_MAX

use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use types::session::ClientUuid;
use types::target::TargetIndex;
use wire::ost::FenceClients;

/// What MDTs have said.
#[derive(Default)]
pub(crate) struct Fences {
    /// False: there is no such client. Nearly always, and then nothing else is looked at.
    any: AtomicBool,
    told: RwLock<BTreeMap<TargetIndex, Told>>,
}

/// What one MDT has said.
#[derive(Default)]
struct Told {
    /// Boot number of the MDT, and number of the message.
    when: (u64, u64),
    clients: BTreeSet<ClientUuid>,
}

impl Fences {
    /// An MDT says which clients it has evicted, or asks. Returns those that hold for this MDT now.
    /// A message that is older than another one changes nothing.
    pub(crate) fn take(&self, fence: &FenceClients) -> Vec<ClientUuid> {
        let mut all = self.told.write();
        let when = (fence.boot, fence.number);
        if fence.number != 0 {
            let told = all.entry(fence.mdt).or_default();
            if told.when < when {
                *told = Told { when, clients: fence.clients.iter().copied().collect() };
            }
            let any = all.values().any(|told| !told.clients.is_empty());
            self.any.store(any, Ordering::SeqCst);
        }
        all.get(&fence.mdt).map_or(Vec::new(), |told| told.clients.iter().copied().collect())
    }

    /// True if an MDT has evicted this client and did not hear of it since.
    pub(crate) fn has(&self, client: ClientUuid) -> bool {
        self.any.load(Ordering::SeqCst)
            && self.told.read().values().any(|told| told.clients.contains(&client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);

    fn said(mdt: u16, (boot, number): (u64, u64), clients: &[ClientUuid]) -> FenceClients {
        FenceClients { mdt: TargetIndex(mdt), boot, number, clients: clients.to_vec() }
    }

    fn held(fences: &Fences) -> [bool; 2] {
        [A, B].map(|client| fences.has(client))
    }

    #[test]
    fn the_newest_list_of_each_mdt_holds() {
        let fences = Fences::default();
        assert_eq!(fences.take(&said(0, (5, 0), &[])), []);
        assert_eq!(held(&fences), [false, false]);
        assert_eq!(fences.take(&said(0, (5, 2), &[A])), [A]);
        assert_eq!(held(&fences), [true, false]);
        assert_eq!(fences.take(&said(0, (5, 1), &[B])), [A], "it was overtaken");
        assert_eq!(fences.take(&said(0, (4, 9), &[])), [A], "of an earlier life of the MDT");
        assert_eq!(fences.take(&said(1, (1, 1), &[A, B])), [A, B]);
        assert_eq!(fences.take(&said(0, (5, 3), &[])), []);
        assert_eq!(held(&fences), [true, true], "the other MDT has not lifted its own");
        assert_eq!(fences.take(&said(1, (1, 2), &[B])), [B]);
        assert_eq!(held(&fences), [false, true]);
    }

    #[test]
    fn a_new_life_of_an_mdt_changes_nothing_by_asking() {
        let fences = Fences::default();
        fences.take(&said(0, (5, 7), &[A, B]));
        assert_eq!(fences.take(&said(0, (6, 0), &[])), [A, B]);
        assert_eq!(held(&fences), [true, true]);
        assert_eq!(fences.take(&said(0, (6, 1), &[B])), [B]);
        assert_eq!(held(&fences), [false, true]);
    }
}
