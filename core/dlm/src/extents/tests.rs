//! One rule per test.

use super::*;

pub(super) const A: ClientUuid = ClientUuid(1);
pub(super) const B: ClientUuid = ClientUuid(2);
const C: ClientUuid = ClientUuid(3);
const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
const START: Duration = Duration::from_secs(100);

pub(super) fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end)
}

#[derive(Default)]
struct Rig {
    table: ExtentTable,
    last: u64,
    now: Duration,
}

impl Rig {
    fn new() -> Rig {
        Rig { now: START, ..Rig::default() }
    }

    fn asks(&mut self, client: ClientUuid, start: u64, end: u64, write: bool) -> Vec<ExtentAction> {
        self.last += 1;
        let mut out = Vec::new();
        let wanted = ExtentRequest { fid: FID, client, needs: range(start, end), write };
        self.table.request(ExtentTicket(self.last), wanted, self.now, &mut out);
        out
    }

    fn released(&mut self, client: ClientUuid, start: u64, end: u64) -> Vec<ExtentAction> {
        let mut out = Vec::new();
        self.table.released(FID, client, range(start, end), self.now, &mut out);
        out
    }
}

fn granted(ticket: u64, start: u64, end: u64) -> ExtentAction {
    ExtentAction::Granted(ExtentTicket(ticket), [range(start, end)].into_iter().collect())
}

fn revoke(client: ClientUuid, start: u64, end: u64) -> ExtentAction {
    ExtentAction::Revoke(client, FID, range(start, end))
}

#[test]
fn who_is_alone_gets_all_and_who_comes_gets_what_it_needs_when_it_is_back() {
    let mut rig = Rig::new();
    assert_eq!(rig.asks(A, 10, 20, true), [granted(1, 0, u64::MAX)]);
    assert_eq!(rig.asks(B, 30, 40, true), [revoke(A, 0, u64::MAX)]);
    assert_eq!(rig.asks(A, 10, 20, true), [], "it must give back first");
    assert_eq!(rig.released(A, 0, u64::MAX), [granted(2, 20, 40 + REACH), granted(3, 0, 20)]);
    assert!(rig.table.is_writer(FID, A) && rig.table.is_writer(FID, B));
    assert_eq!(rig.table.writers(FID).collect::<Vec<_>>(), [A, B]);
}

#[test]
fn who_writes_by_turns_soon_holds_just_that_and_nobody_is_asked() {
    let mut rig = Rig::new();
    let (mut revokes, len) = (0, 47_008);
    for turn in 0..400u64 {
        let (client, other) = if turn.is_multiple_of(2) { (A, B) } else { (B, A) };
        let mut out = rig.asks(client, turn * len, (turn + 1) * len, true);
        while let Some(action) = out.pop() {
            if let ExtentAction::Revoke(asked, _, held) = action {
                assert!(
                    asked == other || held.end <= turn * len,
                    "{held:?} of {asked:?} in turn {turn}"
                );
                revokes += 1;
                out.append(&mut rig.released(asked, held.start, held.end));
            }
        }
    }
    assert!(revokes <= 3, "{revokes} extents were called back");
    assert_eq!(rig.table.waiting(), 0);
}

#[test]
fn who_writes_equal_pieces_at_equal_distances_gets_the_next_ones_ahead() {
    let mut rig = Rig::new();
    let (mut asked, mut revokes, len) = (0, 0, 47_008);
    let mut held: BTreeMap<ClientUuid, Ranges> = BTreeMap::new();
    for turn in 0..400u64 {
        let client = [A, B][(turn % 2) as usize];
        let piece = range(turn * len, (turn + 1) * len);
        if held.entry(client).or_default().covers(piece) {
            continue;
        }
        asked += 1;
        let mut out = rig.asks(client, piece.start, piece.end, true);
        while let Some(action) = out.pop() {
            match action {
                ExtentAction::Revoke(member, _, range) => {
                    revokes += 1;
                    held.entry(member).or_default().remove(range);
                    out.append(&mut rig.released(member, range.start, range.end));
                }
                ExtentAction::Granted(_, ranges) => {
                    assert!(ranges.len() <= EXTENTS_PER_REPLY_MAX && ranges[0].contains(piece));
                    ranges.iter().for_each(|range| held.entry(client).or_default().insert(*range));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(asked <= 50 && revokes <= 3, "400 pieces: {asked} requests, {revokes} callbacks");
}

#[test]
fn what_is_ahead_ends_where_others_are() {
    let mut rig = Rig::new();
    // The members meet twice, so nothing grows.
    rig.asks(A, 0, 10, true);
    rig.asks(B, 20, 30, true);
    let met = rig.released(A, 0, u64::MAX);
    assert!(matches!(&met[..], [ExtentAction::Granted(..)]), "{met:?}");
    rig.asks(A, 0, 10, true);
    rig.released(B, 0, u64::MAX);
    rig.asks(B, 100, 110, true);
    for (n, ahead) in [(40, vec![]), (60, vec![]), (80, vec![])] {
        let got = rig.asks(A, n, n + 10, true);
        let Some(ExtentAction::Granted(_, ranges)) = got.first() else { panic!("{got:?}") };
        assert_eq!(
            (ranges[0], &ranges[1..]),
            (range(n, n + 10), &ahead[..]),
            "the next but one is B's"
        );
    }
    assert!(rig.table.is_writer(FID, B));
}

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let mut rig = Rig::new();
    assert_eq!(rig.asks(A, 0, 10, false), [granted(1, 0, u64::MAX)]);
    assert_eq!(rig.asks(B, 0, 10, false), [granted(2, 0, u64::MAX)]);
    assert_eq!(rig.asks(C, 5, 6, true), [revoke(A, 0, u64::MAX), revoke(B, 0, u64::MAX)]);
    assert_eq!(rig.asks(A, 20, 30, false), [], "what it was asked for is not its any more");
    assert_eq!(rig.released(B, 0, u64::MAX), []);
    let all = rig.released(A, 0, u64::MAX);
    assert_eq!(all, [granted(3, 0, 20), granted(4, 20, 30 + REACH)]);
}

#[test]
fn nobody_overtakes_whom_it_conflicts_with() {
    let mut rig = Rig::new();
    rig.asks(A, 0, 100, true);
    assert_eq!(rig.asks(B, 10, 20, true), [revoke(A, 0, u64::MAX)]);
    assert_eq!(rig.asks(C, 15, 30, false), []);
    assert_eq!(rig.asks(A, 18, 19, true), []);
    let all = rig.released(A, 0, u64::MAX);
    assert_eq!(all, [granted(2, 0, 20), revoke(B, 0, 20)], "the next one asks for it at once");
    assert_eq!(rig.released(B, 0, 20), [granted(3, 15, 30), revoke(C, 15, 30)]);
    assert_eq!(rig.released(C, 15, 30), [granted(4, 18, 19), ExtentAction::Over(FID)][..1]);
}

#[test]
fn the_shared_owner_gives_the_file_up() {
    let mut rig = Rig::new();
    rig.asks(A, 0, 10, true);
    rig.asks(B, 10, 20, true);
    rig.released(A, 0, u64::MAX);
    rig.asks(C, 10, 20, true);
    let mut out = Vec::new();
    rig.table.call_back(FID, &mut out);
    assert_eq!(out, [ExtentAction::Again(ExtentTicket(3))], "it was asked already");
    assert_eq!(rig.asks(A, 0, 1, true), [ExtentAction::Again(ExtentTicket(4))]);
    assert_eq!(rig.released(B, 0, u64::MAX), [ExtentAction::Over(FID)]);
    assert!(rig.table.is_empty() && rig.table.members.is_empty() && rig.table.tickets.is_empty());
    out.clear();
    rig.table.call_back(FID, &mut out);
    assert_eq!(out, [ExtentAction::Over(FID)]);
}

#[test]
fn who_is_gone_holds_nothing_and_what_it_wrote_is_told() {
    let mut rig = Rig::new();
    rig.asks(A, 0, 10, true);
    rig.asks(B, 0, 10, true);
    rig.asks(A, 0, 10, true);
    let mut out = Vec::new();
    assert_eq!(rig.table.gone(A, rig.now, &mut out), [FID]);
    assert_eq!(out, [ExtentAction::Again(ExtentTicket(3)), granted(2, 0, 10 + REACH)]);
    out.clear();
    rig.table.forget(FID, &mut out);
    assert!(rig.table.is_empty() && rig.table.members.is_empty() && out.is_empty());
}

#[test]
fn what_was_held_before_a_restart_is_held_again_and_no_more() {
    let mut rig = Rig::new();
    let mut out = Vec::new();
    assert!(rig.table.restore(FID, A, (range(0, 10), true), rig.now, &mut out));
    assert!(!rig.table.restore(FID, B, (range(9, 20), true), rig.now, &mut out));
    assert!(rig.table.restore(FID, B, (range(10, 20), true), rig.now, &mut out));
    assert_eq!(out, []);
    assert_eq!(rig.asks(C, 20, 21, true), [granted(1, 20, u64::MAX)]);
}

#[test]
fn what_is_held_again_of_a_file_that_is_called_back_is_called_back_too() {
    let mut rig = Rig::new();
    let mut out = Vec::new();
    assert!(rig.table.restore(FID, A, (range(0, 10), true), rig.now, &mut out));
    rig.table.call_back(FID, &mut out);
    assert!(rig.table.restore(FID, B, (range(10, 20), true), rig.now, &mut out));
    assert_eq!(out, [revoke(A, 0, 10), revoke(B, 10, 20)]);
    assert_eq!(rig.released(A, 0, 10), []);
    assert_eq!(rig.released(B, 10, 20), [ExtentAction::Over(FID)]);
}

#[test]
fn who_is_alone_for_some_time_may_have_the_whole() {
    let mut rig = Rig::new();
    rig.asks(A, 0, 10, true);
    assert!(!rig.table.is_alone(FID, A, rig.now) && rig.table.is_alone(FID, A, rig.now + ALONE));
    assert!(!rig.table.is_alone(FID, B, rig.now + ALONE));
}

#[test]
fn near_the_bound_far_extents_go_first_and_at_it_requests_wait() {
    let mut rig = Rig::new();
    // Two that write by turns, one of which answers nothing.
    rig.asks(A, 0, 1, true);
    rig.asks(B, 1, 2, true);
    rig.released(A, 0, u64::MAX);
    rig.asks(A, 2, 3, true);
    rig.released(B, 0, u64::MAX);
    let (mut asked, mut refused) = (Vec::new(), 0);
    for turn in 3..EXTENTS_PER_HOLDER_MAX as u64 + 8 {
        for action in rig.asks(A, 10 * turn, 10 * turn + 1, true) {
            match action {
                ExtentAction::Revoke(client, _, range) => asked.push((client, range)),
                ExtentAction::Granted(..) => refused -= 1,
                _ => {}
            }
        }
        refused += 1;
    }
    assert!(
        asked.len() == BATCH
            && asked.iter().all(|(client, range)| *client == A && range.end < 30 * BATCH as u64)
    );
    assert!(refused > 0 && rig.table.waiting() == refused as usize);
    for (_, back) in asked {
        rig.released(A, back.start, back.end);
    }
    assert_eq!(rig.table.waiting(), 0);
}
