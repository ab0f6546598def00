//! Given these locks, this event gives exactly these actions; the invariants hold after every event.

use super::*;
use Action::{Ready, Revoke};
use proptest::prelude::*;

const A: ClientUuid = ClientUuid(0xa);
const B: ClientUuid = ClientUuid(0xb);
const C: ClientUuid = ClientUuid(0xc);
const LOOKUP: InodeBits = InodeBits::LOOKUP;
const UPDATE: InodeBits = InodeBits::UPDATE;
const BOTH: InodeBits = LOOKUP.union(UPDATE);

fn fid(n: u32) -> Fid {
    Fid { seq: Fid::SEQ_NORMAL, oid: n, ver: 0 }
}

impl IbitsTable {
    /// The invariants of the module, and that all indexes agree.
    fn check(&self) {
        let mut locks = 0;
        for (fid, resource) in &self.resources {
            assert!(!resource.holders.is_empty() || !resource.entered.is_empty(), "{fid}: unused, but kept");
            for (client, holding) in &resource.holders {
                assert!(!holding.bits.is_empty() && holding.bits.contains(holding.revoking));
                assert_eq!(self.by_turn[&holding.turn], (*client, *fid));
                assert_eq!(self.by_client[client][&holding.turn], *fid);
                locks += 1;
            }
            for (modifier, bits) in &resource.entered {
                let entered = &self.modifiers[modifier];
                for (client, holding) in resource.holders.iter().filter(|(c, _)| **c != entered.client) {
                    let clash = holding.bits.intersection(*bits);
                    assert!(holding.revoking.contains(clash), "{client} is not told of {clash:?}");
                    assert!(!entered.ready || clash.is_empty(), "{client} holds {clash:?} inside {modifier:?}");
                }
            }
        }
        assert_eq!((self.by_turn.len(), self.by_client.values().map(BTreeMap::len).sum()), (locks, locks));
        assert!(self.by_client.values().all(|own| own.len() <= self.per_client_max && !own.is_empty()));
        assert!(locks <= self.all_max);
        for (modifier, entered) in &self.modifiers {
            assert!(entered.ready || self.in_the_way(*modifier, entered), "{modifier:?} was not told");
        }
    }

    fn give(&mut self, n: u32, client: ClientUuid, bits: InodeBits) -> InodeBits {
        let mut out = Vec::new();
        let granted = self.grant(fid(n), client, bits, &mut out);
        assert_eq!(out, []);
        self.check();
        granted
    }

    fn change(&mut self, modifier: u64, client: ClientUuid, changes: &[(Fid, InodeBits)]) -> Vec<Action> {
        let mut out = Vec::new();
        self.enter(Modifier(modifier), client, changes, &mut out);
        self.check();
        out
    }

    fn drop_bits(&mut self, n: u32, client: ClientUuid, bits: InodeBits) -> Vec<Action> {
        let mut out = Vec::new();
        self.released(fid(n), client, bits, &mut out);
        self.check();
        out
    }
}

#[test]
fn a_change_waits_for_all_other_holders() {
    let mut t = IbitsTable::default();
    for client in [A, B, C] {
        assert_eq!(t.give(1, client, BOTH), BOTH);
    }
    let told = t.change(1, A, &[(fid(1), UPDATE)]);
    assert_eq!(told, [Revoke(B, fid(1), UPDATE), Revoke(C, fid(1), UPDATE)]);
    assert_eq!(t.drop_bits(1, B, UPDATE), []);
    assert_eq!(t.drop_bits(1, C, UPDATE), [Ready(Modifier(1))]);
    assert_eq!((t.held(fid(1), A), t.held(fid(1), B)), (BOTH, LOOKUP));
}

#[test]
fn a_change_that_nobody_sees_is_ready_at_once() {
    let mut t = IbitsTable::default();
    t.give(1, A, BOTH);
    t.give(1, B, LOOKUP);
    assert_eq!(t.change(1, A, &[(fid(1), UPDATE), (fid(2), UPDATE)]), [Ready(Modifier(1))]);
}

#[test]
fn inside_a_change_readers_get_no_lock() {
    let mut t = IbitsTable::default();
    t.give(1, B, UPDATE);
    t.change(1, A, &[(fid(1), UPDATE)]);
    assert_eq!(t.give(1, B, BOTH), LOOKUP, "being revoked");
    assert_eq!(t.give(1, C, BOTH), LOOKUP, "closed");
    assert_eq!(t.give(1, A, BOTH), BOTH, "who changes it knows");
    assert_eq!(t.drop_bits(1, B, UPDATE), [Ready(Modifier(1))]);
    assert_eq!(t.give(1, C, UPDATE), InodeBits::NONE, "closed until it leaves");
    t.leave(Modifier(1));
    assert_eq!(t.give(1, C, UPDATE), UPDATE);
    t.check();
}

#[test]
fn two_changes_share_one_revoke() {
    let mut t = IbitsTable::default();
    t.give(1, C, BOTH);
    assert_eq!(t.change(1, A, &[(fid(1), UPDATE)]), [Revoke(C, fid(1), UPDATE)]);
    assert_eq!(t.change(2, B, &[(fid(1), BOTH)]), [Revoke(C, fid(1), LOOKUP)]);
    assert_eq!(t.drop_bits(1, C, UPDATE), [Ready(Modifier(1))]);
    t.leave(Modifier(1));
    assert_eq!(t.drop_bits(1, C, LOOKUP), [Ready(Modifier(2))]);
    t.leave(Modifier(2));
    assert!(t.is_empty() && t.resources.is_empty());
}

#[test]
fn a_lock_dropped_by_itself_counts_as_an_answer() {
    let mut t = IbitsTable::default();
    t.give(1, B, UPDATE);
    t.change(1, A, &[(fid(1), UPDATE)]);
    assert_eq!(t.drop_bits(1, B, InodeBits(u32::MAX)), [Ready(Modifier(1))]);
    assert_eq!(t.drop_bits(1, B, UPDATE), [], "the answer to the callback comes late");
}

#[test]
fn a_client_that_is_gone_is_in_nobodys_way() {
    let mut t = IbitsTable::default();
    (1..=3).for_each(|n| _ = t.give(n, B, BOTH));
    t.give(3, C, BOTH);
    t.change(1, A, &[(fid(1), UPDATE), (fid(3), UPDATE)]);
    let mut out = Vec::new();
    t.gone(B, &mut out);
    t.check();
    assert_eq!(out, []);
    t.gone(C, &mut out);
    assert_eq!(out, [Ready(Modifier(1))]);
    assert!(t.is_empty());
}

#[test]
fn near_the_bound_the_oldest_go_and_at_the_bound_nothing_is_granted() {
    let mut t = IbitsTable::with_bounds(32, 1000);
    (0..30).for_each(|n| _ = t.give(n, A, LOOKUP));
    t.give(0, A, LOOKUP); // used again: 1 is the oldest now
    let mut out = Vec::new();
    assert_eq!(t.grant(fid(100), A, LOOKUP, &mut out), LOOKUP);
    assert_eq!(t.grant(fid(101), A, LOOKUP, &mut out), LOOKUP);
    assert_eq!(t.grant(fid(102), A, LOOKUP, &mut out), InodeBits::NONE, "32 are held");
    assert_eq!(out, [1, 2, 3].map(|n| Revoke(A, fid(n), LOOKUP)));
    assert_eq!(t.grant(fid(100), A, UPDATE, &mut out), UPDATE, "no new lock");
    t.check();
    t.released(fid(1), A, LOOKUP, &mut out);
    assert_eq!(t.grant(fid(102), A, LOOKUP, &mut out), LOOKUP);
    assert_eq!(t.give(1, B, LOOKUP), LOOKUP, "the bound of one client is not that of another");
}

#[test]
fn the_bound_in_all_takes_from_the_oldest_of_anybody() {
    let mut t = IbitsTable::with_bounds(100, 32);
    (0..15).for_each(|n| _ = t.give(n, A, LOOKUP));
    (0..15).for_each(|n| _ = t.give(n, B, LOOKUP));
    let mut out = Vec::new();
    assert_eq!(t.grant(fid(50), B, LOOKUP, &mut out), LOOKUP);
    assert_eq!(out, [Revoke(A, fid(0), LOOKUP)]);
    t.check();
}

#[test]
#[should_panic(expected = "enters twice")]
fn an_operation_enters_once() {
    let mut t = IbitsTable::default();
    t.change(1, A, &[]);
    t.change(1, A, &[]);
}

#[derive(Clone, Debug)]
enum Event {
    Grant(u32, u128, u32),
    Enter(u64, u128, Vec<(u32, u32)>),
    Leave(u64),
    Release(u32, u128, u32),
    Gone(u128),
}

fn event() -> impl Strategy<Value = Event> {
    let (n, client, bits, modifier) = (0..4u32, 0..3u128, 0..8u32, 0..4u64);
    prop_oneof![
        6 => (n.clone(), client.clone(), bits.clone()).prop_map(|(n, c, b)| Event::Grant(n, c, b)),
        3 => (modifier.clone(), client.clone(), prop::collection::vec((n.clone(), bits.clone()), 0..3))
            .prop_map(|(m, c, changes)| Event::Enter(m, c, changes)),
        3 => modifier.prop_map(Event::Leave),
        4 => (n, client.clone(), bits).prop_map(|(n, c, b)| Event::Release(n, c, b)),
        1 => client.prop_map(Event::Gone),
    ]
}

proptest! {
    #[test]
    fn the_invariants_hold_after_every_event(events in prop::collection::vec(event(), 1..80)) {
        let mut t = IbitsTable::with_bounds(3, 8);
        let mut ready = std::collections::BTreeSet::new();
        for event in events {
            let mut out = Vec::new();
            match event {
                Event::Grant(n, c, bits) => {
                    let granted = t.grant(fid(n), ClientUuid(c), InodeBits(bits), &mut out);
                    prop_assert!(InodeBits(bits).contains(granted));
                    prop_assert!(t.held(fid(n), ClientUuid(c)).contains(granted));
                }
                Event::Enter(m, c, changes) => {
                    t.leave(Modifier(m));
                    ready.remove(&Modifier(m));
                    let changes: Vec<_> = changes.into_iter().map(|(n, b)| (fid(n), InodeBits(b))).collect();
                    t.enter(Modifier(m), ClientUuid(c), &changes, &mut out);
                }
                Event::Leave(m) => {
                    t.leave(Modifier(m));
                    ready.remove(&Modifier(m));
                }
                Event::Release(n, c, bits) => t.released(fid(n), ClientUuid(c), InodeBits(bits), &mut out),
                Event::Gone(c) => t.gone(ClientUuid(c), &mut out),
            }
            for action in out {
                if let Ready(m) = action {
                    prop_assert!(ready.insert(m), "{m:?} is told twice");
                }
            }
            t.check();
        }
    }
}
