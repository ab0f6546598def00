//! Given these locks, this event gives exactly these actions; the invariants hold after every event
//! (`model` drives random ones).

use super::*;
use Action::{Cancelled, Changing, Ready, Revoke};

pub(super) const A: ClientUuid = ClientUuid(0xa);
pub(super) const B: ClientUuid = ClientUuid(0xb);
pub(super) const C: ClientUuid = ClientUuid(0xc);
const LOOKUP: InodeBits = InodeBits::LOOKUP;
const UPDATE: InodeBits = InodeBits::UPDATE;
const DATA: InodeBits = InodeBits::DATA;
const OPEN: InodeBits = InodeBits::OPEN;
const BOTH: InodeBits = LOOKUP.union(UPDATE);
const NOW: Duration = Duration::from_secs(100);

pub(super) fn fid(n: u32) -> Fid {
    Fid { seq: Fid::SEQ_NORMAL, oid: n, ver: 0 }
}

pub(super) fn of(n: u32, bits: InodeBits) -> Change {
    Change { fid: fid(n), bits, names: Names::new() }
}

pub(super) fn name(n: u32, name: &str) -> Change {
    Change {
        fid: fid(n),
        bits: UPDATE,
        names: [Name::new(name.as_bytes()).unwrap()].into_iter().collect(),
    }
}

fn table() -> IbitsTable {
    let mut t = IbitsTable::default();
    [A, B, C].into_iter().for_each(|client| t.connect(client));
    t
}

impl IbitsTable {
    /// The invariants of the module, and that all indexes agree.
    pub(super) fn check(&self) {
        let mut locks = 0;
        for (fid, resource) in &self.resources {
            assert!(
                !resource.holders.is_empty() || !resource.entered.is_empty(),
                "{fid}: unused, but kept"
            );
            assert!(resource.holders.is_sorted());
            let held = |slot: u32| self.locks.get(slot).bits;
            for (client, slot) in &resource.holders {
                let lock = self.locks.get(*slot);
                assert_eq!((lock.fid, lock.client), (*fid, *client));
                assert!(!lock.is_over());
                assert_eq!(
                    lock.bits.contains(InodeBits::GAP),
                    self.gaps.of(*fid, *client).is_some()
                );
                if lock.bits.contains(InodeBits::WRITE) {
                    assert!(lock.bits.contains(UNDER_WRITE));
                    assert_eq!(self.writers.get(fid), Some(client));
                    let others = resource.holders.iter().filter(|(other, _)| other != client);
                    others.for_each(|(_, slot)| assert!(!held(*slot).intersects(EXCLUSIVE)));
                }
                locks += 1;
            }
            for modifier in &resource.entered {
                let entered = &self.modifiers[modifier];
                entered.check(*fid, self, &resource.holders, *modifier);
            }
        }
        assert_eq!(self.locks.len(), locks);
        let writes = |(fid, number): (&Fid, &u32)| {
            let slot = self.resources[fid].slot(*number).expect("a writer is a holder");
            assert!(self.locks.get(slot).bits.contains(InodeBits::WRITE));
        };
        self.writers.iter().for_each(writes);
        let holds = |(fid, number)| self.resources[&fid].slot(number).is_some();
        assert!(self.gaps.keys().all(holds));
    }

    fn give(&mut self, n: u32, client: ClientUuid, bits: InodeBits) -> InodeBits {
        let mut out = Vec::new();
        let granted = self.grant(fid(n), client, bits, NOW, &mut out);
        assert_eq!(out, []);
        self.check();
        granted
    }

    fn change(&mut self, modifier: u64, client: ClientUuid, changes: &[Change]) -> Vec<Action> {
        self.change_at(modifier, client, changes, NOW)
    }

    fn change_at(
        &mut self,
        modifier: u64,
        client: ClientUuid,
        changes: &[Change],
        now: Duration,
    ) -> Vec<Action> {
        let mut out = Vec::new();
        self.enter(Modifier(modifier), client, changes.to_vec(), now, &mut out);
        self.check();
        out
    }

    fn want(&mut self, modifier: u64, n: u32, client: ClientUuid, bits: InodeBits) -> Vec<Action> {
        let mut out = Vec::new();
        self.enter_lock(Modifier(modifier), client, fid(n), bits, &mut out);
        self.check();
        out
    }

    fn have(&mut self, modifier: u64) -> Vec<Action> {
        let mut out = Vec::new();
        assert!(self.take(Modifier(modifier), &mut out));
        self.check();
        self.leave(Modifier(modifier), &mut out);
        self.check();
        out
    }

    fn over(&mut self, modifier: u64) -> Vec<Action> {
        let mut out = Vec::new();
        self.leave(Modifier(modifier), &mut out);
        self.check();
        out
    }

    /// A lookup of a name of inode 1 that is not there: what of the gap is granted, as far as
    /// `next`.
    fn look_up(
        &mut self,
        client: ClientUuid,
        name: &str,
        next: &str,
        now: Duration,
    ) -> Option<(String, String)> {
        let mut out = Vec::new();
        let reach = self.gap_at(fid(1), client, name.as_bytes(), now);
        let reach = if next.is_empty() { Some(reach) } else { reach.below(next.as_bytes()) };
        let granted = self.grant_gap(fid(1), client, reach?, &mut out);
        assert_eq!(out, []);
        self.check();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        granted.map(|range| (text(range.start()), text(range.end())))
    }

    /// The client answers that it dropped these bits.
    fn drop_bits(&mut self, n: u32, client: ClientUuid, bits: InodeBits) -> Vec<Action> {
        let mut out = Vec::new();
        self.dropped(fid(n), client, bits, &mut out);
        self.check();
        out
    }

    /// The client answers that it dropped the directory of which it was told names.
    fn drop_dir(&mut self, n: u32, client: ClientUuid) -> Vec<Action> {
        let mut out = Vec::new();
        self.dropped_names(fid(n), client, &mut out);
        self.check();
        out
    }

    /// The client gives bits back by itself.
    fn give_back(&mut self, n: u32, client: ClientUuid, bits: InodeBits) -> Vec<Action> {
        let mut out = Vec::new();
        self.released(fid(n), client, bits, &mut out);
        self.check();
        out
    }
}

#[test]
fn a_change_waits_for_all_other_holders() {
    let mut t = table();
    for client in [A, B, C] {
        assert_eq!(t.give(1, client, BOTH), BOTH);
    }
    let told = t.change(1, A, &[of(1, UPDATE)]);
    assert_eq!(told, [Revoke(B, fid(1), UPDATE), Revoke(C, fid(1), UPDATE)]);
    assert_eq!(t.drop_bits(1, B, UPDATE), []);
    assert_eq!(t.drop_bits(1, C, UPDATE), [Ready(Modifier(1))]);
    assert_eq!((t.held(fid(1), A), t.held(fid(1), B)), (BOTH, LOOKUP));
}

#[test]
fn a_change_that_nobody_sees_is_ready_at_once() {
    let mut t = table();
    t.give(1, A, BOTH);
    t.give(1, B, LOOKUP);
    assert_eq!(t.change(1, A, &[of(1, UPDATE), of(2, UPDATE)]), [Ready(Modifier(1))]);
}

#[test]
fn inside_a_change_readers_get_no_lock() {
    let mut t = table();
    t.give(1, B, UPDATE);
    t.change(1, A, &[of(1, UPDATE)]);
    assert_eq!(t.give(1, B, BOTH), LOOKUP, "being revoked");
    assert_eq!(t.give(1, C, BOTH), LOOKUP, "closed");
    assert_eq!(t.give(1, A, BOTH), BOTH, "who changes it knows");
    assert_eq!(t.drop_bits(1, B, UPDATE), [Ready(Modifier(1))]);
    assert_eq!(t.give(1, C, UPDATE), InodeBits::NONE, "closed until it leaves");
    assert_eq!(t.over(1), []);
    assert_eq!(t.give(1, C, UPDATE), UPDATE);
    t.check();
}

#[test]
fn two_changes_share_one_revoke() {
    let mut t = table();
    t.give(1, C, BOTH);
    assert_eq!(t.change(1, A, &[of(1, UPDATE)]), [Revoke(C, fid(1), UPDATE)]);
    assert_eq!(t.change(2, B, &[of(1, BOTH)]), [Revoke(C, fid(1), LOOKUP)]);
    assert_eq!(t.drop_bits(1, C, UPDATE), [Ready(Modifier(1))]);
    assert_eq!(t.over(1), []);
    assert_eq!(t.drop_bits(1, C, LOOKUP), [Ready(Modifier(2))]);
    assert_eq!(t.over(2), []);
    assert!(t.is_empty() && t.resources.is_empty());
}

#[test]
fn who_waits_for_a_lock_need_not_wait_for_the_answer_if_it_is_given_back() {
    let mut t = table();
    t.give(1, B, UPDATE);
    t.change(1, A, &[of(1, UPDATE)]);
    assert_eq!(t.give_back(1, B, InodeBits::ALL), [Ready(Modifier(1))]);
    assert_eq!(t.over(1), []);
    assert_eq!(t.give(1, B, BOTH), LOOKUP, "the answer would seem to speak of this grant");
    assert_eq!(t.drop_bits(1, B, UPDATE), [], "here it comes");
    assert_eq!(t.give(1, B, BOTH), BOTH);
}

/// As in seed 1795614140849 of the oracle.
#[test]
fn an_answer_takes_nothing_that_was_granted_after_its_question() {
    let mut t = table();
    t.give(1, A, BOTH.union(WRITE));
    // B is about to read, and C removes a name: A answers the second question first, and with
    // UPDATE gives up WRITE.
    assert_eq!(t.want(1, 1, B, UNDER_WRITE), [Revoke(A, fid(1), InodeBits::WRITE)]);
    assert_eq!(t.change(2, C, &[of(1, BOTH)]), [Revoke(A, fid(1), BOTH)]);
    assert_eq!(t.drop_bits(1, A, BOTH), [Ready(Modifier(2))]);
    assert_eq!(t.over(2), [Ready(Modifier(1))]);
    assert_eq!(t.have(1), []);
    // A writes again.
    assert_eq!(t.want(3, 1, A, WRITE), [Revoke(B, fid(1), UNDER_WRITE)]);
    assert_eq!(t.drop_bits(1, B, UNDER_WRITE), [], "an answer of A is on its way");
    assert_eq!(t.give(1, A, WRITE), UNDER_WRITE);
    assert_eq!(t.drop_bits(1, A, InodeBits::WRITE), [Ready(Modifier(3))]);
    assert_eq!(t.have(3), []);
    assert_eq!(t.writer(fid(1)), Some(A));
}

#[test]
fn update_is_granted_again_when_all_that_was_told_of_names_is_answered() {
    let mut t = table();
    t.give(1, B, BOTH);
    let change = name(1, "x");
    assert_eq!(
        t.change(1, A, std::slice::from_ref(&change)),
        [Changing(Modifier(1), B, fid(1), change.names.clone())]
    );
    assert_eq!(t.change(2, C, &[of(1, UPDATE)]), [Revoke(B, fid(1), UPDATE)]);
    assert_eq!(t.drop_bits(1, B, UPDATE), [Ready(Modifier(1)), Ready(Modifier(2))]);
    assert_eq!((t.over(1), t.over(2)), (vec![], vec![]));
    assert_eq!(
        t.give(1, B, BOTH),
        LOOKUP,
        "B may answer to the first question that it drops UPDATE"
    );
    assert_eq!(t.drop_dir(1, B), []);
    assert_eq!(t.give(1, B, BOTH), BOTH);
}

#[test]
fn a_client_that_is_gone_is_in_nobodys_way() {
    let mut t = table();
    (1..=3).for_each(|n| _ = t.give(n, B, BOTH));
    t.give(3, C, BOTH);
    t.change(1, A, &[of(1, UPDATE), of(3, UPDATE)]);
    let mut out = Vec::new();
    assert_eq!(t.gone(B, &mut out), [1, 2, 3].map(|n| (fid(n), BOTH)));
    t.check();
    assert_eq!(out, []);
    t.gone(C, &mut out);
    assert_eq!(out, [Ready(Modifier(1))]);
    assert!(t.is_empty());
}

#[test]
fn near_the_bound_the_oldest_go_and_at_the_bound_nothing_is_granted() {
    let mut t = IbitsTable::with_bounds(32, 1000);
    [A, B].into_iter().for_each(|client| t.connect(client));
    (0..29).for_each(|n| _ = t.give(n, A, LOOKUP));
    t.give(0, A, LOOKUP); // used again: 1 is the oldest now
    t.give(29, A, LOOKUP);
    let mut out = Vec::new();
    assert_eq!(t.grant(fid(100), A, LOOKUP, NOW, &mut out), LOOKUP);
    assert_eq!(out, [1, 2].map(|n| Revoke(A, fid(n), LOOKUP)), "a batch");
    assert_eq!(t.grant(fid(101), A, LOOKUP, NOW, &mut out), LOOKUP);
    assert_eq!(t.grant(fid(102), A, LOOKUP, NOW, &mut out), InodeBits::NONE, "32 are held");
    assert_eq!(out, [1, 2, 3, 4].map(|n| Revoke(A, fid(n), LOOKUP)));
    assert_eq!(t.grant(fid(100), A, UPDATE, NOW, &mut out), UPDATE, "no new lock");
    t.check();
    t.dropped(fid(1), A, LOOKUP, &mut out);
    assert_eq!(t.grant(fid(102), A, LOOKUP, NOW, &mut out), LOOKUP);
    assert_eq!(t.give(1, B, LOOKUP), LOOKUP, "the bound of one client is not that of another");
}

#[test]
fn the_bound_in_all_takes_from_who_has_most() {
    let mut t = IbitsTable::with_bounds(100, 32);
    [A, B].into_iter().for_each(|client| t.connect(client));
    (0..16).for_each(|n| _ = t.give(n, A, LOOKUP));
    (0..14).for_each(|n| _ = t.give(n, B, LOOKUP));
    let mut out = Vec::new();
    assert_eq!(t.grant(fid(50), B, LOOKUP, NOW, &mut out), LOOKUP);
    assert_eq!(out, [0, 1].map(|n| Revoke(A, fid(n), LOOKUP)));
    t.check();
}

#[test]
#[should_panic(expected = "enters twice")]
fn an_operation_enters_once() {
    let mut t = table();
    t.change(1, A, &[]);
    t.change(1, A, &[]);
}

const WRITE: InodeBits = EXCLUSIVE;

#[test]
fn write_excludes_what_others_see_of_data_and_attributes() {
    let mut t = table();
    let opened = BOTH.union(WRITE).union(InodeBits::LAYOUT);
    assert_eq!(t.give(1, A, opened), opened);
    assert_eq!((t.writer(fid(1)), t.writer(fid(2))), (Some(A), None));
    assert_eq!(t.give(1, B, opened), LOOKUP.union(InodeBits::LAYOUT));
    assert_eq!(t.drop_bits(1, A, InodeBits::WRITE), []);
    assert_eq!(t.give(1, B, opened), opened.difference(InodeBits::WRITE), "A reads still");
    assert_eq!(t.give(1, A, opened), opened.difference(InodeBits::WRITE), "B reads");
    assert_eq!(t.give(2, A, InodeBits::WRITE.union(DATA)), DATA, "no WRITE without UPDATE");
    assert_eq!(t.give(2, A, WRITE), WRITE);
    assert_eq!(t.drop_bits(2, A, UPDATE), []);
    assert_eq!((t.writer(fid(2)), t.held(fid(2), A)), (None, DATA), "WRITE goes with UPDATE");
}

#[test]
fn attributes_change_only_when_the_writer_has_told_what_it_knows() {
    let mut t = table();
    t.give(1, A, BOTH.union(WRITE));
    let told = UPDATE.union(InodeBits::WRITE);
    assert_eq!(t.change(1, B, &[of(1, UPDATE)]), [Revoke(A, fid(1), told)]);
    assert_eq!(t.drop_bits(1, A, told), [Ready(Modifier(1))]);
    assert_eq!(t.held(fid(1), A), LOOKUP.union(DATA));
}

#[test]
fn requests_for_locks_take_turns() {
    let mut t = table();
    t.give(1, A, WRITE);
    assert_eq!(t.want(1, 1, B, WRITE), [Revoke(A, fid(1), WRITE)]);
    assert_eq!(t.want(2, 1, C, WRITE), [], "behind B");
    assert_eq!(t.want(3, 1, A, DATA.union(UPDATE)), []);
    assert_eq!(t.drop_bits(1, A, WRITE), [Ready(Modifier(1))]);
    assert_eq!(t.give(1, C, WRITE.union(LOOKUP)), LOOKUP, "B's turn");
    assert_eq!(t.have(1), [Revoke(B, fid(1), WRITE)]);
    assert_eq!(t.drop_bits(1, B, WRITE), [Ready(Modifier(2))]);
    assert_eq!(t.have(2), [Revoke(C, fid(1), InodeBits::WRITE)], "a reader is next");
    assert_eq!(t.drop_bits(1, C, InodeBits::WRITE), [Ready(Modifier(3))]);
    assert_eq!(t.have(3), []);
    assert_eq!((t.held(fid(1), A), t.held(fid(1), C)), (UNDER_WRITE, UNDER_WRITE.union(LOOKUP)));
}

#[test]
fn readers_do_not_wait_for_each_other() {
    let mut t = table();
    t.give(1, A, WRITE);
    assert_eq!(t.want(1, 1, B, UNDER_WRITE), [Revoke(A, fid(1), InodeBits::WRITE)]);
    assert_eq!(t.want(2, 1, C, UNDER_WRITE), []);
    assert_eq!(t.drop_bits(1, A, InodeBits::WRITE), [Ready(Modifier(1)), Ready(Modifier(2))]);
    assert_eq!((t.have(2), t.have(1)), (vec![], vec![]));
}

#[test]
fn a_request_for_a_lock_waits_until_changes_are_over() {
    let mut t = table();
    t.give(1, C, UPDATE);
    t.change(1, B, &[of(1, UPDATE)]);
    assert_eq!(t.want(2, 1, A, UNDER_WRITE), []);
    assert_eq!(t.drop_bits(1, C, UPDATE), [Ready(Modifier(1))]);
    assert_eq!(t.over(1), [Ready(Modifier(2))]);
    // An operation that comes in between finds no holder and is applied at once.
    assert_eq!(t.change(3, B, &[of(1, UPDATE)]), [Ready(Modifier(3))]);
    let mut out = Vec::new();
    assert!(!t.take(Modifier(2), &mut out), "B is changing it");
    assert_eq!(out, []);
    assert_eq!(t.over(3), [Ready(Modifier(2))]);
    assert_eq!(t.have(2), []);
}

#[test]
fn a_request_for_a_lock_ends_with_its_client() {
    let mut t = table();
    t.give(1, B, WRITE);
    t.want(1, 1, A, WRITE);
    t.want(2, 1, C, WRITE);
    let mut out = Vec::new();
    t.gone(A, &mut out);
    assert_eq!(out, [Cancelled(Modifier(1))]);
    assert_eq!(t.drop_bits(1, B, WRITE), [Ready(Modifier(2))], "whose turn it is now");
    assert_eq!(t.over(1), []);
    assert_eq!(t.have(2), []);
}

#[test]
fn a_name_is_told_and_the_rest_of_the_directory_stays() {
    let mut t = table();
    [A, B, C].into_iter().for_each(|client| _ = t.give(1, client, BOTH));
    let change = name(1, "x");
    let told = |client| Changing(Modifier(1), client, fid(1), name(1, "x").names);
    assert_eq!(t.change(1, A, &[change]), [told(B), told(C)]);
    assert_eq!(t.give(1, B, UPDATE), InodeBits::NONE, "what it reads now may be old in a moment");
    let mut out = Vec::new();
    t.forgot(Modifier(1), B, fid(1), &mut out);
    assert_eq!((out, t.held(fid(1), B)), (vec![], BOTH));
    assert_eq!(t.drop_dir(1, C), [Ready(Modifier(1))], "C drops it as a whole");
    assert!(
        t.is_free(A, Some(Modifier(1)), [(fid(1), UPDATE)]),
        "B keeps its lock, but not that name"
    );
    assert!(!t.is_free(A, None, [(fid(1), UPDATE)]));
    assert_eq!(t.over(1), []);
    assert_eq!(t.give(1, B, UPDATE), UPDATE);
}

/// As a rename within a directory whose inode is on another MDT asks for them: each apart.
#[test]
fn all_names_that_one_operation_changes_are_told() {
    let mut t = table();
    t.give(1, B, BOTH);
    let names = SmallVec::from_iter([&name(1, "a"), &name(1, "b")].map(|n| n.names[0].clone()));
    let told = Changing(Modifier(1), B, fid(1), names);
    assert_eq!(t.change(1, A, &[name(1, "a"), name(1, "b")]), [told]);
    let mut out = Vec::new();
    t.forgot(Modifier(1), B, fid(1), &mut out);
    assert_eq!(out, [Ready(Modifier(1))]);
    assert_eq!(t.over(1), []);
    // If the directory changes as a whole, no name is told.
    for changes in [[name(1, "a"), of(1, UPDATE)], [of(1, UPDATE), name(1, "a")]] {
        t.give(1, B, BOTH);
        assert_eq!(t.change(2, A, &changes), [Revoke(B, fid(1), UPDATE)]);
        assert_eq!(t.drop_bits(1, B, UPDATE), [Ready(Modifier(2))]);
        assert_eq!(t.over(2), []);
    }
}

#[test]
fn two_names_of_one_directory_are_told_at_once() {
    let mut t = table();
    [A, B].into_iter().for_each(|client| _ = t.give(1, client, UPDATE));
    assert_eq!(
        t.change(1, A, &[name(1, "a")]),
        [Changing(Modifier(1), B, fid(1), name(1, "a").names)]
    );
    let later = NOW + BUSY;
    let told = t.change_at(2, B, &[name(1, "b")], later);
    assert_eq!(told, [Changing(Modifier(2), A, fid(1), name(1, "b").names)]);
    let mut out = Vec::new();
    t.forgot(Modifier(2), A, fid(1), &mut out);
    t.forgot(Modifier(1), B, fid(1), &mut out);
    assert_eq!(out, [Ready(Modifier(2)), Ready(Modifier(1))]);
    assert_eq!((t.over(1), t.over(2)), (vec![], vec![]));
    assert_eq!((t.held(fid(1), A), t.held(fid(1), B)), (UPDATE, UPDATE));
}

#[test]
fn a_directory_with_authors_in_turn_is_locked_by_nobody() {
    let mut t = table();
    t.give(1, C, BOTH);
    let step = BUSY / 4;
    assert_eq!(t.change_at(1, A, &[name(1, "a")], NOW).len(), 1);
    assert_eq!(
        t.change_at(2, B, &[name(1, "b")], NOW + step),
        [Revoke(C, fid(1), UPDATE)],
        "now it is busy"
    );
    let mut out = Vec::new();
    t.dropped(fid(1), C, UPDATE, &mut out);
    t.dropped_names(fid(1), C, &mut out);
    (1..=2).for_each(|m| _ = t.over(m));
    assert_eq!(t.grant(fid(1), C, BOTH, NOW + step, &mut out), LOOKUP);
    (2..=6).for_each(|n| t.names_change(fid(1), B, [], NOW + step * n));
    assert_eq!(
        t.grant(fid(1), B, BOTH, NOW + step + BUSY, &mut out),
        BOTH,
        "one author for a second"
    );
    t.names_change(fid(1), A, [], NOW + step * 7);
    assert_eq!(t.grant(fid(1), C, UPDATE, NOW + step * 8, &mut out), InodeBits::NONE);
    assert_eq!(
        t.grant(fid(1), C, UPDATE, NOW + step * 11, &mut out),
        UPDATE,
        "no author for a second"
    );
}

#[test]
fn an_inode_that_is_used_is_kept() {
    let mut t = table();
    t.give(1, B, BOTH.union(OPEN));
    let gone = BOTH.union(OPEN);
    assert_eq!(t.change(1, A, &[of(1, gone)]), [Revoke(B, fid(1), gone)]);
    let mut out = Vec::new();
    t.kept(fid(1), B, &mut out);
    assert_eq!(out, []);
    assert_eq!(t.drop_bits(1, B, BOTH), [Ready(Modifier(1))]);
    assert!(t.is_free(A, Some(Modifier(1)), [(fid(1), gone)]));
    assert!(t.is_held(fid(1), OPEN));
    assert_eq!(t.over(1), []);
    assert_eq!(t.drop_bits(1, B, OPEN), []);
    assert!(!t.is_held(fid(1), OPEN) && t.resources.is_empty());
}

#[test]
fn a_destroyed_inode_has_no_locks() {
    let mut t = table();
    t.give(1, B, BOTH.union(DATA));
    t.change(1, A, &[of(1, BOTH)]);
    let mut out = Vec::new();
    t.destroyed(fid(1), |_| false, &mut out);
    t.check();
    assert_eq!((out, t.len()), (vec![Ready(Modifier(1))], 0));
    assert_eq!(t.drop_bits(1, B, BOTH), [], "its answer comes late");
}

#[test]
fn who_shows_a_destroyed_inode_is_waited_for() {
    let mut t = table();
    t.give(1, B, BOTH.union(DATA).union(WRITE));
    t.give(1, C, LOOKUP);
    t.change(1, A, &[of(1, BOTH)]);
    let mut out = Vec::new();
    t.destroyed(fid(1), |client| client == B, &mut out);
    t.check();
    assert_eq!((out, t.shown(fid(1), B), t.shown(fid(1), C)), (vec![], BOTH, InodeBits::NONE));
    assert_eq!(t.drop_bits(1, B, BOTH.union(InodeBits::WRITE)), [Ready(Modifier(1))]);
    assert_eq!(t.over(1), []);
    assert!(t.is_empty() && t.resources.is_empty());
}

#[test]
fn who_is_not_connected_gets_nothing() {
    let mut t = table();
    let other = ClientUuid(99);
    assert_eq!(t.give(1, other, BOTH), InodeBits::NONE);
    assert!(t.resources.is_empty());
    t.give(1, A, BOTH);
    assert_eq!(
        t.change(1, other, &[of(1, UPDATE)]),
        [Revoke(A, fid(1), UPDATE)],
        "the target itself, for example"
    );
}

const GAP: InodeBits = InodeBits::GAP;

fn between(start: &str, end: &str) -> Option<(String, String)> {
    Some((start.to_owned(), end.to_owned()))
}

#[test]
fn a_gap_is_called_back_for_a_name_in_it_and_for_no_other() {
    let mut t = table();
    assert_eq!(t.look_up(A, "b", "d", NOW), between("b", "d"));
    assert_eq!((t.held(fid(1), A), t.len()), (GAP, 1));
    let free = |t: &IbitsTable, client, name: &str| {
        t.is_free_with_names(client, None, [(fid(1), UPDATE, [Some(name.as_bytes()), None])])
    };
    assert!(
        free(&t, B, "a")
            && free(&t, B, "d")
            && !free(&t, B, "b")
            && !free(&t, B, "c")
            && free(&t, A, "c")
    );
    assert!(!t.is_free(B, None, [(fid(1), UPDATE)]), "any name may change");
    assert!(t.is_free(B, None, [(fid(1), LOOKUP)]));
    assert_eq!(t.change(1, B, &[name(1, "d")]), [Ready(Modifier(1))]);
    assert_eq!(t.change(2, B, &[name(1, "c")]), [Revoke(A, fid(1), GAP)]);
    assert_eq!(t.change(3, C, &[name(1, "bb")]), [], "asked already");
    assert_eq!(t.look_up(A, "e", "", NOW), None, "asked to drop it");
    assert_eq!(t.drop_bits(1, A, GAP), [Ready(Modifier(2)), Ready(Modifier(3))]);
    (1..=3).for_each(|m| _ = t.over(m));
    assert!(t.is_empty() && t.resources.is_empty());
}

#[test]
fn a_gap_ends_before_what_is_about_to_change() {
    let mut t = table();
    t.give(1, C, UPDATE);
    t.change(1, B, &[name(1, "d")]);
    assert_eq!(t.look_up(A, "b", "f", NOW), between("b", "d"));
    assert_eq!(t.look_up(A, "d", "f", NOW), None, "in a moment it is there");
    assert_eq!(t.look_up(A, "e", "f", NOW), between("e", "f"));
    assert_eq!(t.look_up(B, "c", "f", NOW), between("c", "f"), "its own change");
    t.change(2, B, &[of(1, UPDATE)]);
    assert_eq!(t.look_up(C, "g", "", NOW), None, "who knows which name");
}

#[test]
fn own_names_cut_a_gap() {
    let mut t = table();
    t.look_up(A, "b", "", NOW);
    t.names_change(fid(1), A, [&b"c"[..], b"a"], NOW);
    assert_eq!(t.change(1, B, &[name(1, "bb"), name(1, "c")]), [Ready(Modifier(1))]);
    assert_eq!(t.change(2, B, &[name(1, "cc")]), [Revoke(A, fid(1), GAP)]);
    t.names_change(fid(1), B, [&b"cd"[..]], NOW);
    assert_eq!(t.change(3, B, &[name(1, "cd")]), [], "a foreign name leaves it as it is");
}

#[test]
fn a_gap_and_update_are_asked_for_each_in_its_way() {
    let mut t = table();
    t.look_up(A, "b", "", NOW);
    t.give(1, A, UPDATE);
    let told = t.change(1, B, &[name(1, "c")]);
    assert_eq!(
        told,
        [Changing(Modifier(1), A, fid(1), name(1, "c").names), Revoke(A, fid(1), GAP)]
    );
    let mut out = Vec::new();
    t.forgot(Modifier(1), A, fid(1), &mut out);
    assert_eq!((out, t.drop_bits(1, A, GAP)), (vec![], vec![Ready(Modifier(1))]));
    assert_eq!(t.held(fid(1), A), UPDATE);
}

#[test]
fn who_met_part_so_far_that_they_do_not_meet_again() {
    let mut t = table();
    t.look_up(A, "c1-7", "", NOW);
    assert_eq!(t.change(1, B, &[name(1, "c2-1")]), [Revoke(A, fid(1), GAP)]);
    t.drop_bits(1, A, GAP);
    t.over(1);
    assert_eq!(t.look_up(A, "c1-8", "", NOW), between("c1-8", "c2"));
    assert_eq!(t.look_up(B, "c2-2", "", NOW), between("c2-2", ""), "nobody met that one");
    assert_eq!(t.change(1, B, &[name(1, "c2-2")]), [Ready(Modifier(1))]);
    t.over(1);
    // Names in turns: in the end each has its own only.
    assert_eq!(t.change(2, B, &[name(1, "c1-9")]), [Revoke(A, fid(1), GAP)]);
    t.drop_bits(1, A, GAP);
    t.over(2);
    assert_eq!(t.look_up(A, "c1-10", "", NOW), between("c1-10", "c1-2"));
    assert_eq!(t.look_up(A, "c1", "", NOW), between("c1", "c1\0"));
    let later = NOW + Duration::from_secs(10);
    assert_eq!(t.look_up(A, "c1-12", "", later), between("c1-12", ""), "long ago");
}

#[test]
fn gaps_of_a_client_in_a_directory_are_bounded() {
    let mut t = table();
    for n in 0..GAPS_PER_DIRECTORY_MAX {
        let (from, to) = (format!("{n:03}"), format!("{n:03}x"));
        assert_eq!(t.look_up(A, &from, &to, NOW), between(&from, &to));
    }
    let mut out = Vec::new();
    for _ in 0..2 {
        assert_eq!(t.grant_gap(fid(1), A, NameRange::at(b"y", 0), &mut out), None);
        t.check();
    }
    assert_eq!(out, [Revoke(A, fid(1), GAP)], "once");
    t.drop_bits(1, A, GAP);
    assert_eq!(t.look_up(A, "y", "", NOW), between("y", ""));
    let mut out = Vec::new();
    assert_eq!(t.gone(A, &mut out), [(fid(1), GAP)]);
    t.check();
}
