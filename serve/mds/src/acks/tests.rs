use super::*;
use bytes::Bytes;
use types::limits::REDO_OF_OTHERS_BYTES_MAX;
use unacked::Look;
use volatile::BROUGHT_MAX;

const A: ClientUuid = ClientUuid(1);
const B: ClientUuid = ClientUuid(2);
const C: ClientUuid = ClientUuid(3);
/// The next request of each.
const A_NEXT: (ClientUuid, Xid) = (A, Xid(52));
const B_NEXT: (ClientUuid, Xid) = (B, Xid(71));
const C_NEXT: (ClientUuid, Xid) = (C, Xid(9));
const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
const FILE: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 2, ver: 0 };
const GRACE: Duration = Duration::from_millis(500);

impl Acks {
    fn tell(&mut self, event: AckEvent<'_>) -> Vec<AckAction> {
        let mut actions = Vec::new();
        self.apply(event, &mut actions);
        actions
    }

    fn told_known(&mut self, client: ClientUuid, known: u64, now: Duration) -> Vec<AckAction> {
        self.tell(AckEvent::Known { client, known: Xid(known), now })
    }

    fn made(&mut self, change: Applied) {
        self.tell(AckEvent::Committed(Transno(4)));
        self.tell(AckEvent::Applied(change));
    }

    fn told_answered(&mut self, client: ClientUuid, xid: u64, connection: u64) -> Vec<AckAction> {
        self.tell(AckEvent::Answered { client, xid: Xid(xid), connection })
    }

    fn concerns(&self, transno: u64, asks: (ClientUuid, Xid)) -> bool {
        self.volatile().concerns(Transno(transno), asks)
    }

    fn kept(&self, depends: &[u64], asks: (ClientUuid, Xid)) -> Option<Vec<u64>> {
        let depends: Vec<Transno> = depends.iter().map(|on| Transno(*on)).collect();
        let redo = self.volatile().to_keep(&depends, asks)?;
        assert!(redo.iter().all(|redo| redo.bytes == format!("change {}", redo.transno.0)));
        Some(redo.iter().map(|redo| redo.transno.0).collect())
    }

    /// The authors that `client` sees.
    fn authors(&self, client: ClientUuid, fid: Fid, look: Look<'_>) -> Vec<ClientUuid> {
        self.unacked().look(client, fid, look);
        self.unacked().take_seen().into_iter().map(|(author, _)| author).collect()
    }

    fn unlink(&mut self, client: ClientUuid, xid: u64, name: &[u8]) {
        let changes = [Change::name(DIR, name), Change::named(FILE, false)];
        self.tell(AckEvent::Changes { client, xid: Xid(xid), changes: &changes });
    }
}

fn change(transno: u64, client: ClientUuid, xid: Option<u64>, rests_on: &[u64]) -> Applied {
    let redo = xid.map(|_| Bytes::from(format!("change {transno}")));
    let rests_on = rests_on.iter().map(|on| Transno(*on)).collect();
    let (xid, data) = (xid.map(Xid), Pieces::new());
    Applied { transno: Transno(transno), client, xid, redo, data, rests_on }
}

/// Up to change 4 all is durable; three requests made 5 to 7.
fn three_changes() -> Acks {
    let mut acks = Acks::new(GRACE);
    for client in [A, B] {
        acks.tell(AckEvent::Connected { client });
    }
    acks.made(change(5, A, Some(50), &[]));
    acks.made(change(6, A, Some(50), &[]));
    acks.made(change(7, B, Some(70), &[]));
    acks
}

fn asked(fids: &[Fid]) -> BTreeMap<Fid, InodeBits> {
    fids.iter().map(|fid| (*fid, InodeBits::ALL)).collect()
}

#[test]
fn an_own_change_counts_until_its_answer_is_sent_anothers_until_it_is_durable() {
    let mut acks = three_changes();
    assert!(acks.concerns(5, A_NEXT) && acks.concerns(5, B_NEXT));
    assert_eq!(acks.told_answered(A, 50, 1), [AckAction::Wake]);
    assert_eq!(acks.told_answered(A, 51, 1), []);
    assert!(!acks.concerns(6, A_NEXT) && acks.concerns(6, B_NEXT));
    assert_eq!(acks.told_known(A, 50, GRACE), [], "below, not up to");
    assert_eq!(acks.told_known(A, 51, GRACE), [AckAction::Wake]);
    assert_eq!(acks.told_known(A, 52, GRACE), []);
    assert!(acks.concerns(5, B_NEXT) && acks.concerns(6, B_NEXT), "A may die with the MDT");
    acks.tell(AckEvent::Committed(Transno(6)));
    assert!(!acks.concerns(5, B_NEXT) && !acks.concerns(6, B_NEXT) && acks.concerns(7, A_NEXT));
}

#[test]
fn an_answer_that_surely_came_counts_as_sent_also_over_a_lost_connection() {
    let mut acks = three_changes();
    acks.tell(AckEvent::Connected { client: A });
    assert_eq!(acks.told_answered(A, 50, 1), [], "over the one before");
    assert!(acks.concerns(6, A_NEXT));
    acks.told_known(A, 51, GRACE);
    assert!(!acks.concerns(6, A_NEXT) && acks.concerns(6, B_NEXT));
}

#[test]
fn a_client_that_is_told_of_a_change_keeps_it_and_what_it_rests_on() {
    let mut acks = three_changes();
    assert_eq!(acks.kept(&[6], C_NEXT), Some(vec![5, 6]), "its author made another before it");
    assert_eq!(acks.kept(&[7, 4], C_NEXT), Some(vec![7]));
    acks.made(change(8, B, Some(71), &[6]));
    assert_eq!(acks.kept(&[8], C_NEXT), Some(vec![5, 6, 7, 8]));
    assert_eq!(acks.kept(&[8], (A, Xid(50))), Some(vec![7, 8]), "answered together with its own");
    acks.told_answered(A, 50, 1);
    assert_eq!(acks.kept(&[8], A_NEXT), Some(vec![7, 8]), "its own are on their way");
    acks.told_known(B, 71, GRACE);
    assert_eq!(acks.kept(&[8], A_NEXT), Some(vec![7, 8]), "B may die with the MDT");
    acks.tell(AckEvent::Committed(Transno(5)));
    acks.made(change(9, B, Some(72), &[8]));
    assert_eq!(acks.kept(&[9], C_NEXT), Some(vec![6, 7, 8, 9]), "on its own, too");
    acks.tell(AckEvent::Committed(Transno(9)));
    assert_eq!(acks.kept(&[8], C_NEXT), Some(vec![]));
}

#[test]
fn what_no_client_can_bring_back_and_what_is_too_much_is_waited_for() {
    let mut acks = three_changes();
    acks.made(change(8, C, None, &[7]));
    acks.made(change(9, B, Some(71), &[8]));
    assert_eq!(acks.kept(&[9], A_NEXT), None);
    for n in 0..=BROUGHT_MAX as u64 {
        let rests_on: &[u64] = if n == 0 { &[] } else { &[9 + n] };
        acks.made(change(10 + n, ClientUuid(100 + u128::from(n)), Some(1), rests_on));
    }
    let newest = 10 + BROUGHT_MAX as u64;
    assert_eq!(acks.kept(&[newest - 1], B_NEXT).map(|all| all.len()), Some(BROUGHT_MAX));
    assert_eq!(acks.kept(&[newest], B_NEXT), None);
    let redo = Some(vec![0; REDO_OF_OTHERS_BYTES_MAX + 1].into());
    acks.made(Applied { redo, ..change(9999, C, Some(72), &[]) });
    assert_eq!(acks.volatile().to_keep(&[Transno(9999)], A_NEXT), None);
}

#[test]
fn an_answer_that_was_handed_to_an_earlier_connection_may_not_have_come() {
    let mut acks = three_changes();
    acks.tell(AckEvent::Connected { client: A });
    assert_eq!((acks.newest_volatile(A), acks.newest_volatile(C)), (Transno(6), Transno(0)));
    assert_eq!(acks.told_answered(A, 50, 1), []);
    assert!(acks.concerns(6, A_NEXT));
    assert_eq!(acks.told_answered(A, 50, acks.connection(A)), [AckAction::Wake]);
    assert!(!acks.concerns(6, A_NEXT));
    acks.tell(AckEvent::Gone { client: A, returns: false });
    assert_eq!((acks.connection(A), acks.newest_volatile(A)), (0, Transno(6)));
}

#[test]
fn what_is_answered_together_and_what_ends_together_does_not_wait_for_itself() {
    let mut acks = three_changes();
    assert!(!acks.concerns(5, (A, Xid(50))), "another part of the same request");
    assert!(acks.concerns(5, (A, Xid(51))) && acks.concerns(5, (B, Xid(50))));
    acks.made(change(8, B, None, &[]));
    assert!(!acks.concerns(8, B_NEXT), "it ends with this process");
    assert!(acks.concerns(8, A_NEXT));
    acks.told_known(B, 99, GRACE);
    assert!(acks.concerns(8, A_NEXT), "that it has the answer does not help");
}

#[test]
fn what_is_durable_concerns_no_client() {
    let mut acks = three_changes();
    acks.tell(AckEvent::Committed(Transno(5)));
    assert!(!acks.concerns(5, B_NEXT) && acks.concerns(6, B_NEXT));
    acks.tell(AckEvent::Committed(Transno(9)));
    assert!(acks.volatile().is_empty());
    assert!(
        acks.clients.values().all(|client| client.answers.is_empty() && client.volatile.is_empty())
    );
    assert_eq!(acks.told_known(A, 99, GRACE), []);
    acks.tell(AckEvent::Applied(change(9, A, Some(51), &[])));
    assert!(acks.volatile().is_empty(), "durable already");
}

#[test]
fn the_last_change_of_a_name_is_known_until_it_is_durable() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let mut acks = three_changes();
    acks.name_changed(Transno(8), DIR, b"b");
    acks.name_changed(Transno(8), DIR, b"c");
    acks.made(change(8, A, Some(51), &[]));
    acks.name_changed(Transno(9), DIR, b"b");
    acks.made(change(9, C, Some(8), &[]));
    let of = |acks: &Acks, dir, range| {
        acks.volatile().names_in(dir, range).map(|by| by.0).collect::<Vec<_>>()
    };
    let by = |acks: &Acks, name| acks.volatile().named_by(DIR, name).map(|by| by.0);
    assert_eq!((by(&acks, b"a"), by(&acks, b"b"), by(&acks, b"c")), (None, Some(9), Some(8)));
    assert_eq!(of(&acks, DIR, (Unbounded, Unbounded)), [9, 8], "in the order of the names");
    assert_eq!(of(&acks, DIR, (Included(b"b"), Excluded(b"c"))), [9]);
    assert_eq!(of(&acks, DIR, (Excluded(b"b"), Unbounded)), [8]);
    assert_eq!(of(&acks, FILE, (Unbounded, Unbounded)), []);
    assert!(acks.concerns(9, B_NEXT) && acks.concerns(8, B_NEXT));
    acks.tell(AckEvent::Committed(Transno(8)));
    assert_eq!(
        of(&acks, DIR, (Unbounded, Unbounded)),
        [9],
        "the older change of that name is durable, not the last"
    );
    acks.tell(AckEvent::Committed(Transno(9)));
    assert!(acks.volatile().named_by(DIR, b"b").is_none() && acks.volatile().has_no_names());
}

#[test]
fn the_change_that_destroyed_an_inode_is_known_until_it_is_durable() {
    let mut acks = three_changes();
    assert_eq!(acks.volatile().destroyed_by(FILE), None);
    acks.destroyed(Transno(8), FILE);
    acks.made(change(8, A, Some(51), &[]));
    assert!(
        acks.volatile().destroyed_by(FILE).is_some_and(|by| acks.volatile().concerns(by, B_NEXT))
    );
    acks.tell(AckEvent::Committed(Transno(7)));
    assert_eq!(acks.volatile().destroyed_by(FILE), Some(Transno(8)));
    acks.tell(AckEvent::Committed(Transno(8)));
    assert_eq!(acks.volatile().destroyed_by(FILE), None);
}

#[test]
fn without_clients_on_the_network_no_change_is_volatile() {
    let mut acks = Acks::new(GRACE);
    acks.tell(AckEvent::Applied(change(5, A, None, &[])));
    assert!(acks.volatile().is_empty() && acks.clients.is_empty());
}

#[test]
fn a_client_that_looks_at_a_change_sees_its_author() {
    let mut acks = Acks::new(GRACE);
    acks.unlink(A, 7, b"a");
    assert_eq!(acks.authors(B, DIR, Look::Name(b"a")), [A]);
    assert_eq!(acks.authors(B, DIR, Look::Name(b"b")), [], "another name");
    assert_eq!(acks.authors(B, DIR, Look::Inode), [], "only its names changed");
    for (fid, look) in [(DIR, Look::Attr), (DIR, Look::Names), (FILE, Look::Inode)] {
        assert_eq!(acks.authors(B, fid, look), [A]);
    }
    assert_eq!(acks.authors(B, FILE, Look::Xattr), []);
    assert_eq!(acks.authors(A, DIR, Look::Names), [], "its own");
    assert_eq!(acks.authors(ClientUuid::default(), DIR, Look::Names), [], "the target itself");
    acks.unacked().look(B, DIR, Look::Names);
    let update = InodeBits::UPDATE.union(InodeBits::WRITE);
    let all = [(DIR, update), (FILE, InodeBits::LOOKUP.union(update))];
    assert_eq!(acks.unacked().take_seen()[0].1[..], all);
}

#[test]
fn it_is_over_some_time_after_the_author_has_the_answer() {
    let mut acks = Acks::new(GRACE);
    let at = Duration::from_secs;
    acks.unlink(A, 7, b"a");
    for time in [10, 20] {
        acks.told_known(A, 7, at(time));
    }
    assert_eq!(acks.authors(B, DIR, Look::Names), [A], "7 itself is not answered");
    acks.told_known(A, 8, at(30));
    assert_eq!(acks.authors(B, DIR, Look::Names), [A], "a moment for its kernel");
    acks.told_known(A, 8, at(31));
    assert_eq!(acks.authors(B, DIR, Look::Names), []);
    assert!(acks.unacked().is_empty() && acks.clients[&A].unacked == 0);
}

#[test]
fn a_callback_ends_what_was_changed_before_it() {
    let mut acks = Acks::new(GRACE);
    acks.unlink(A, 7, b"a");
    let newest = acks.unacked().newest();
    acks.tell(AckEvent::Changes { client: A, xid: Xid(8), changes: &[Change::name(DIR, b"b")] });
    acks.tell(AckEvent::CalledBack { client: A, newest, asked: &asked(&[DIR, FILE]) });
    assert_eq!(acks.authors(B, DIR, Look::Name(b"a")), []);
    assert_eq!(acks.authors(B, DIR, Look::Name(b"b")), [A], "changed after the question");
    acks.tell(AckEvent::Gone { client: A, returns: true });
    assert!(acks.unacked().is_empty() && acks.clients.is_empty());
}

#[test]
fn a_callback_of_a_part_ends_no_change_that_has_more() {
    let mut acks = Acks::new(GRACE);
    acks.unlink(A, 7, b"a");
    let newest = acks.unacked().newest();
    acks.tell(AckEvent::CalledBack { client: A, newest, asked: &asked(&[DIR]) });
    assert_eq!(acks.authors(B, DIR, Look::Names), [A], "its mount still shows the file");
}

#[test]
fn a_destroyed_inode_is_over_when_its_authors_know() {
    let unlinked = || {
        let mut acks = Acks::new(GRACE);
        acks.unlink(A, 7, b"a");
        assert_eq!(acks.destroyed(Transno(1), FILE)[..], [A]);
        acks
    };
    let mut acks = unlinked();
    assert!(
        acks.destroyed(Transno(1), Fid { oid: 9, ..DIR }).is_empty(),
        "no client removed its name a moment ago"
    );
    assert_eq!(acks.told_known(A, 8, GRACE), []);
    let newest = acks.unacked().newest();
    let called_back = AckEvent::CalledBack { client: A, newest, asked: &asked(&[DIR, FILE]) };
    assert_eq!(acks.tell(called_back), [AckAction::Release(FILE)]);
    assert_eq!(acks.told_known(A, 8, 2 * GRACE), []);
    let mut acks = unlinked();
    assert_eq!(acks.tell(AckEvent::Gone { client: A, returns: false }), [AckAction::Release(FILE)]);
    assert!(acks.unacked().is_empty());
}

#[test]
fn unacked_changes_are_bounded() {
    let mut acks = Acks::new(GRACE);
    let of = |xid: u64| Fid { oid: xid as u32, ..DIR };
    for xid in 0..=UNACKED_MAX as u64 {
        let changes = [Change::of(of(xid), InodeBits::UPDATE)];
        acks.tell(AckEvent::Changes { client: A, xid: Xid(xid), changes: &changes });
    }
    assert_eq!(
        (acks.clients[&A].unacked, acks.clients[&A].answers.len()),
        (UNACKED_MAX, UNACKED_MAX)
    );
    assert_eq!(acks.authors(B, of(0), Look::Attr), [], "the oldest went");
    assert_eq!(acks.authors(B, of(1), Look::Attr), [A]);
    acks.told_known(A, UNACKED_MAX as u64, GRACE);
    let changes = [Change::of(of(0), InodeBits::UPDATE)];
    acks.tell(AckEvent::Changes { client: A, xid: Xid(UNACKED_MAX as u64), changes: &changes });
    assert_eq!(acks.clients[&A].unacked, UNACKED_MAX);
    assert_eq!(
        acks.authors(B, of(1), Look::Attr),
        [],
        "also of those that its kernel has time for"
    );
}

fn opened(client: ClientUuid, slot: u16, xid: u64, fids: &[Fid]) -> KeptReply {
    KeptReply {
        client,
        slot,
        xid: Xid(xid),
        bytes: Bytes::from(format!("{slot}")),
        opened: fids.to_vec(),
    }
}

#[test]
fn an_open_is_in_doubt_until_all_clients_that_asked_for_it_have_their_answers() {
    let mut acks = Acks::new(GRACE);
    acks.restore(vec![opened(A, 0, 5, &[DIR]), opened(A, 1, 7, &[FILE]), opened(B, 0, 5, &[DIR])]);
    assert!(acks.may_be_open(DIR) && acks.may_be_open(FILE));
    assert_eq!(acks.told_known(A, 5, GRACE), [], "below, not up to");
    assert_eq!(acks.told_known(A, 6, GRACE), [], "B may have it");
    assert!(acks.may_be_open(DIR));
    assert_eq!(
        acks.tell(AckEvent::Gone { client: B, returns: true }),
        [],
        "it may go on with the next life"
    );
    assert_eq!(acks.tell(AckEvent::Gone { client: B, returns: false }), [AckAction::Close(DIR)]);
    assert_eq!(acks.told_known(A, 8, GRACE), [AckAction::Close(FILE)]);
    assert_eq!(acks.unconfirmed.len(), 0);
}

#[test]
fn a_request_that_comes_again_gets_the_same_answer_until_its_client_has_it() {
    let mut acks = Acks::new(GRACE);
    let Begin::Run { kept: None, .. } = acks.begin(A, Xid(5), 0) else { panic!("it is new") };
    assert!(matches!(acks.begin(A, Xid(5), 0), Begin::Again(_)));
    assert!(matches!(acks.begin(B, Xid(5), 0), Begin::Run { .. }), "another client's");
    acks.tell(AckEvent::Dropped { client: A, xid: Xid(5) });
    assert!(matches!(acks.begin(A, Xid(5), 0), Begin::Run { .. }), "it was never finished");
    acks.told_known(A, 6, GRACE);
    assert!(
        acks.clients.get(&A).is_none_or(|client| client.answers.is_empty() && client.replies == 0)
    );
    acks.begin(A, Xid(6), 0);
    acks.tell(AckEvent::Gone { client: A, returns: false });
    assert!(!acks.clients.contains_key(&A));
}

#[test]
fn a_kept_reply_is_for_its_own_request() {
    let mut acks = Acks::new(GRACE);
    acks.restore(vec![opened(A, 0, 5, &[]), opened(A, 1, 6, &[])]);
    let Begin::Run { kept: Some(kept), .. } = acks.begin(A, Xid(5), 0) else {
        panic!("it was done")
    };
    assert_eq!(kept, "0");
    let Begin::Run { kept: None, .. } = acks.begin(A, Xid(7), 1) else {
        panic!("the slot is used again")
    };
    let Begin::Run { kept: None, .. } = acks.begin(A, Xid(6), 1) else {
        panic!("its reply is gone")
    };
}

#[test]
fn a_kept_reply_goes_when_its_client_has_the_answer() {
    let mut acks = Acks::new(GRACE);
    acks.restore(vec![opened(A, 0, 5, &[]), opened(A, 1, 6, &[]), opened(B, 0, 5, &[])]);
    acks.told_known(A, 6, GRACE);
    let kept =
        |client| acks.clients[&client].kept.values().map(|(xid, _)| xid.0).collect::<Vec<_>>();
    assert_eq!((kept(A), kept(B)), (vec![6], vec![5]));
}

#[test]
fn unanswered_requests_are_bounded() {
    let mut acks = Acks::new(GRACE);
    for xid in 0..REQUESTS_IN_FLIGHT_MAX as u64 {
        assert!(matches!(acks.begin(A, Xid(xid), u16::MAX), Begin::Run { .. }));
    }
    assert!(matches!(acks.begin(A, Xid(9999), u16::MAX), Begin::Full));
    assert!(matches!(acks.begin(A, Xid(7), u16::MAX), Begin::Again(_)));
    acks.told_known(A, 1, GRACE);
    assert!(matches!(acks.begin(A, Xid(9999), u16::MAX), Begin::Run { .. }));
}
