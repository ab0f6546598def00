//! Given these locks, this event gives exactly these actions. A byte map serves as the second
//! opinion about which owner may hold what.

use super::*;
use FlockAction::{Granted, Refused};
use FlockFlavor::{Bsd, Group, Posix};
use FlockKind::{Read, Unlock, Write};
use proptest::prelude::*;

const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
const OTHER: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 2, ver: 0 };
const A: ClientUuid = ClientUuid(0xa);
const B: ClientUuid = ClientUuid(0xb);
const C: ClientUuid = ClientUuid(0xc);

fn lock(flavor: FlockFlavor, kind: FlockKind, start: u64, end: u64) -> Flock {
    Flock { flavor, kind, owner: 1, pid: 100, start, end }
}

fn posix(kind: FlockKind, start: u64, end: u64) -> Flock {
    lock(Posix, kind, start, end)
}

fn bsd(kind: FlockKind) -> Flock {
    lock(Bsd, kind, 0, u64::MAX)
}

/// A table whose tickets count up from 1.
#[derive(Default)]
struct Desk {
    table: FlockTable,
    ticket: u64,
}

impl Desk {
    fn ask(&mut self, fid: Fid, client: ClientUuid, lock: Flock, wait: bool) -> Vec<FlockAction> {
        let mut out = Vec::new();
        self.ticket += 1;
        self.table.set(fid, (client, &lock), wait, FlockTicket(self.ticket), &mut out);
        self.table.check();
        out
    }

    fn set(&mut self, client: ClientUuid, lock: Flock) -> Vec<FlockAction> {
        self.ask(FID, client, lock, false)
    }

    fn wait(&mut self, client: ClientUuid, lock: Flock) -> Vec<FlockAction> {
        self.ask(FID, client, lock, true)
    }
}

impl FlockTable {
    /// The invariants of the module, and that the index of waits is exact.
    fn check(&self) {
        let mut waits = BTreeMap::new();
        for (fid, r) in &self.resources {
            assert!(r.len() > 0, "{fid}: empty resource kept");
            assert_eq!(r.granted_count, r.granted.values().map(Ranges::len).sum());
            for (owner, ranges) in &r.granted {
                assert!(ranges.len() > 0);
                for held in ranges.overlapping(0, u64::MAX) {
                    assert!(held.start <= held.end && held.kind != Unlock);
                    let rival = r.conflicts(*owner, *held).next();
                    assert!(rival.is_none(), "{owner:?} {held:?} against {rival:?}");
                    for beside in ranges.touching(held.start, held.end).filter(|h| *h != held) {
                        assert!(!beside.overlaps(held.start, held.end), "{beside:?} in {held:?}");
                        assert!(beside.kind != held.kind, "{beside:?} beside {held:?}");
                    }
                }
            }
            for w in &r.waiting {
                assert!(
                    r.conflicts(w.owner, w.wanted).next().is_some(),
                    "{:?} waits for nothing",
                    w.ticket
                );
                if w.owner.flavor == Posix {
                    *waits.entry((w.owner, *fid)).or_default() += 1;
                }
            }
        }
        assert_eq!(self.waits, waits);
    }
}

#[test]
fn readers_share_and_writers_do_not() {
    let mut d = Desk::default();
    assert_eq!(d.set(A, posix(Read, 0, 9)), [Granted(FlockTicket(1))]);
    assert_eq!(d.set(B, posix(Read, 5, 15)), [Granted(FlockTicket(2))]);
    assert_eq!(d.set(B, posix(Write, 0, 0)), [Refused(FlockTicket(3), Errno::EAGAIN)]);
    assert_eq!(d.set(B, posix(Write, 10, 15)), [Granted(FlockTicket(4))]);
    assert_eq!(d.set(A, posix(Read, 0, 10)), [Refused(FlockTicket(5), Errno::EAGAIN)]);
}

#[test]
fn the_flavours_do_not_see_each_other() {
    let mut d = Desk::default();
    assert_eq!(d.set(A, posix(Write, 0, u64::MAX)), [Granted(FlockTicket(1))]);
    assert_eq!(d.set(B, bsd(Write)), [Granted(FlockTicket(2))]);
    assert_eq!(d.table.test(FID, C, &bsd(Read)).unwrap().flavor, Bsd);
}

#[test]
fn clients_of_one_group_share_and_another_group_waits_for_the_last() {
    let of = |group, kind| Flock { owner: group, ..lock(Group, kind, 0, u64::MAX) };
    let mut d = Desk::default();
    assert_eq!(d.set(A, of(7, Write)), [Granted(FlockTicket(1))]);
    assert_eq!(d.set(B, of(7, Write)), [Granted(FlockTicket(2))]);
    assert_eq!(d.set(A, of(8, Write)), [Refused(FlockTicket(3), Errno::EAGAIN)]);
    assert_eq!(d.wait(C, of(8, Write)), []);
    assert_eq!(d.table.group_members(FID), [A, B]);
    assert_eq!(d.set(A, of(7, Unlock)), [Granted(FlockTicket(5))]);
    assert_eq!(d.set(B, of(7, Unlock)), [Granted(FlockTicket(6)), Granted(FlockTicket(4))]);
    assert_eq!(d.table.group_members(FID), [C]);
}

#[test]
fn one_client_can_have_many_owners() {
    let mut d = Desk::default();
    d.set(A, bsd(Write));
    assert_eq!(d.set(A, Flock { owner: 2, ..bsd(Read) }), [Refused(FlockTicket(2), Errno::EAGAIN)]);
}

#[test]
fn getlk_names_the_process_in_the_way() {
    let mut d = Desk::default();
    d.set(A, Flock { pid: 7, ..posix(Read, 10, 19) });
    d.set(B, Flock { pid: 8, ..posix(Read, 5, 29) });
    assert_eq!(d.table.test(FID, C, &posix(Read, 0, 99)), None);
    let in_the_way = d.table.test(FID, C, &posix(Write, 0, 99)).unwrap();
    assert_eq!(
        (in_the_way.pid, in_the_way.kind, in_the_way.start, in_the_way.end),
        (8, Read, 5, 29)
    );
    assert_eq!(d.table.test(FID, B, &posix(Write, 0, 9)), None, "own locks are never in the way");
    assert_eq!(d.table.test(OTHER, C, &posix(Write, 0, 99)), None);
}

#[test]
fn what_an_owner_holds_is_clipped_to_what_is_asked() {
    let mut table = FlockTable::new();
    let held = posix(Write, 10, 19);
    table.set(FID, (A, &held), false, FlockTicket(1), &mut Vec::new());
    let owner = |client| LockOwner { client, flavor: Posix, owner: held.owner };
    let owned = |client, start, end| {
        table.owned(FID, owner(client), &posix(Unlock, start, end)).collect::<Vec<_>>()
    };
    assert_eq!(owned(A, 0, 14), [Flock { end: 14, ..held }]);
    assert_eq!(owned(A, 15, u64::MAX), [Flock { start: 15, ..held }]);
    assert!(owned(A, 0, 9).is_empty() && owned(B, 0, 99).is_empty());
}

#[test]
fn waiters_are_served_oldest_first() {
    let mut d = Desk::default();
    d.set(A, posix(Write, 0, 9));
    assert_eq!(d.wait(B, posix(Write, 0, 9)), []);
    assert_eq!(d.wait(C, posix(Write, 5, 5)), []);
    assert_eq!(d.set(A, posix(Unlock, 0, 4)), [Granted(FlockTicket(4))]);
    assert_eq!(d.set(A, posix(Unlock, 5, 9)), [Granted(FlockTicket(5)), Granted(FlockTicket(2))]);
    assert_eq!(d.set(B, posix(Unlock, 0, 9)), [Granted(FlockTicket(6)), Granted(FlockTicket(3))]);
}

#[test]
fn all_readers_come_in_together_when_the_writer_downgrades() {
    let mut d = Desk::default();
    d.set(A, posix(Write, 0, 9));
    d.wait(B, posix(Read, 0, 9));
    d.wait(C, posix(Read, 3, 3));
    assert_eq!(
        d.set(A, posix(Read, 0, 9)),
        [Granted(FlockTicket(4)), Granted(FlockTicket(2)), Granted(FlockTicket(3))]
    );
}

#[test]
fn posix_upgrade_keeps_the_old_lock_while_it_waits() {
    let mut d = Desk::default();
    d.set(A, posix(Read, 0, 9));
    d.set(B, posix(Read, 0, 9));
    assert_eq!(d.wait(A, posix(Write, 0, 9)), []);
    assert_eq!(d.wait(B, posix(Write, 0, 9)), [Refused(FlockTicket(4), Errno::EDEADLK)]);
    assert_eq!(d.set(C, posix(Write, 0, 9)), [Refused(FlockTicket(5), Errno::EAGAIN)]);
    assert_eq!(d.set(B, posix(Unlock, 0, 9)), [Granted(FlockTicket(6)), Granted(FlockTicket(3))]);
}

#[test]
fn bsd_upgrade_loses_the_old_lock_at_a_conflict() {
    let mut d = Desk::default();
    d.set(A, bsd(Read));
    d.set(B, bsd(Read));
    assert_eq!(d.wait(A, bsd(Write)), []);
    assert_eq!(
        d.set(B, bsd(Write)),
        [Granted(FlockTicket(4))],
        "A's shared lock went when it began to wait"
    );
    assert_eq!(d.set(B, bsd(Unlock)), [Granted(FlockTicket(5)), Granted(FlockTicket(3))]);
    assert_eq!(d.set(B, bsd(Read)), [Refused(FlockTicket(6), Errno::EAGAIN)]);
}

#[test]
fn a_refused_bsd_conversion_lets_waiters_in() {
    let mut d = Desk::default();
    d.set(A, bsd(Read));
    d.set(B, bsd(Read));
    d.wait(C, bsd(Write));
    d.set(A, bsd(Unlock));
    assert_eq!(
        d.set(A, bsd(Read)),
        [Granted(FlockTicket(5))],
        "a request does not wait for waiters"
    );
    assert_eq!(d.set(A, bsd(Write)), [Refused(FlockTicket(6), Errno::EAGAIN)]);
    assert_eq!(d.set(B, bsd(Unlock)), [Granted(FlockTicket(7)), Granted(FlockTicket(3))]);
}

#[test]
fn a_circle_of_three_over_two_files_is_a_deadlock() {
    let mut d = Desk::default();
    d.ask(FID, A, posix(Write, 0, 0), false);
    d.ask(FID, B, posix(Write, 1, 1), false);
    d.ask(OTHER, C, posix(Write, 0, 0), false);
    assert_eq!(d.ask(FID, A, posix(Write, 1, 1), true), []);
    assert_eq!(d.ask(OTHER, B, posix(Read, 0, 0), true), []);
    assert_eq!(d.ask(FID, C, posix(Read, 0, 0), true), [Refused(FlockTicket(6), Errno::EDEADLK)]);
    assert_eq!(
        d.ask(OTHER, C, posix(Unlock, 0, 0), false),
        [Granted(FlockTicket(7)), Granted(FlockTicket(5))]
    );
}

#[test]
fn bsd_locks_wait_for_ever_as_linux_does() {
    let mut d = Desk::default();
    d.ask(FID, A, bsd(Write), false);
    d.ask(OTHER, B, bsd(Write), false);
    assert_eq!(d.ask(OTHER, A, bsd(Write), true), []);
    assert_eq!(d.ask(FID, B, bsd(Write), true), []);
}

#[test]
fn a_cancelled_waiter_is_told_and_forgotten() {
    let mut d = Desk::default();
    let mut out = Vec::new();
    d.set(A, posix(Write, 0, 9));
    d.wait(B, posix(Write, 0, 9));
    d.table.cancel(FID, B, &posix(Write, 0, 8), &mut out);
    assert_eq!(out, [], "another lock than the one it waits for");
    d.table.cancel(FID, B, &posix(Write, 0, 9), &mut out);
    d.table.cancel(FID, B, &posix(Write, 0, 9), &mut out);
    assert_eq!(out, [Refused(FlockTicket(2), Errno::EINTR)]);
    d.table.check();
    assert_eq!(d.set(A, posix(Unlock, 0, 9)), [Granted(FlockTicket(3))]);
    assert!(d.table.is_empty());
}

#[test]
fn what_goes_frees_its_locks_and_its_waits() {
    let mut d = Desk::default();
    let mut out = Vec::new();
    d.set(A, posix(Write, 0, 4));
    d.set(A, Flock { owner: 2, ..posix(Write, 5, 9) });
    d.wait(A, Flock { owner: 2, ..posix(Write, 0, 0) });
    d.wait(B, posix(Write, 5, 5));
    d.wait(B, posix(Write, 0, 0));
    d.table.release_owner(FID, LockOwner { client: A, flavor: Posix, owner: 2 }, &mut out);
    assert_eq!(out, [Refused(FlockTicket(3), Errno::EINTR), Granted(FlockTicket(4))]);
    out.clear();
    d.table.release_client(A, &mut out);
    assert_eq!(out, [Granted(FlockTicket(5))]);
    d.table.check();
    d.table.release_client(B, &mut out);
    assert!(d.table.is_empty());
}

#[test]
fn an_empty_range_is_refused() {
    assert_eq!(Desk::default().set(A, posix(Read, 5, 4)), [Refused(FlockTicket(1), Errno::EINVAL)]);
}

#[test]
fn a_resource_has_a_bound_and_release_always_works() {
    let mut d = FlockTable::new();
    let mut out = Vec::new();
    for n in 0..FLOCKS_PER_RESOURCE_MAX as u64 {
        d.set(FID, (A, &posix(Read, n * 2, n * 2)), false, FlockTicket(n), &mut out);
    }
    assert!(out.iter().all(|a| matches!(a, Granted(_))));
    out.clear();
    let beyond = FLOCKS_PER_RESOURCE_MAX as u64 * 2;
    d.set(FID, (A, &posix(Read, beyond, beyond)), false, FlockTicket(0), &mut out);
    d.set(FID, (B, &posix(Write, 0, 0)), true, FlockTicket(1), &mut out);
    d.set(FID, (A, &posix(Read, 0, 2)), false, FlockTicket(2), &mut out);
    d.set(FID, (A, &posix(Unlock, 0, u64::MAX)), false, FlockTicket(3), &mut out);
    let no_locks = |t| Refused(FlockTicket(t), Errno::ENOLCK);
    assert_eq!(out, [no_locks(0), no_locks(1), Granted(FlockTicket(2)), Granted(FlockTicket(3))]);
    assert!(d.is_empty());
}

const BYTES: usize = 12;

/// The owner and mode of each byte: the same rules, byte by byte.
#[derive(Default)]
struct ByteMap {
    held: BTreeMap<LockOwner, [Option<FlockKind>; BYTES]>,
}

impl ByteMap {
    fn free(&self, owner: LockOwner, lock: &Flock) -> bool {
        let apart = |o: &LockOwner| {
            o.owner != owner.owner || o.client != owner.client && owner.flavor != Group
        };
        let rivals = self.held.iter().filter(|(o, _)| o.flavor == owner.flavor && apart(o));
        let clash = |k: &Option<FlockKind>| k.is_some_and(|k| k == Write || lock.kind == Write);
        lock.kind == Unlock || !rivals.flat_map(|(_, b)| &b[range(lock)]).any(clash)
    }

    fn apply(&mut self, owner: LockOwner, lock: &Flock) {
        let bytes = self.held.entry(owner).or_default();
        bytes[range(lock)].fill((lock.kind != Unlock).then_some(lock.kind));
    }
}

fn range(lock: &Flock) -> std::ops::RangeInclusive<usize> {
    if lock.flavor != Posix {
        0..=BYTES - 1
    } else {
        lock.start as usize..=(lock.end as usize).min(BYTES - 1)
    }
}

#[derive(Clone, Debug)]
enum Event {
    Set(u128, Flock, bool),
    Cancel(u128, Flock),
    Gone(u128),
}

fn event() -> impl Strategy<Value = Event> {
    let flavor = prop_oneof![4 => Just(Posix), 1 => Just(Bsd), 2 => Just(Group)];
    let kind = prop_oneof![Just(Read), Just(Write), Just(Unlock)];
    let a_lock = (flavor, kind, 0..2u64, 0..BYTES as u64, 0..BYTES as u64).prop_map(
        |(flavor, kind, owner, a, b)| Flock {
            flavor,
            kind,
            owner,
            pid: owner as u32,
            start: a.min(b),
            end: a.max(b),
        },
    );
    prop_oneof![
        12 => (0..3u128, a_lock.clone(), any::<bool>()).prop_map(|(c, l, w)| Event::Set(c, l, w)),
        1 => (0..3u128, a_lock).prop_map(|(c, l)| Event::Cancel(c, l)),
        1 => (0..3u128).prop_map(Event::Gone),
    ]
}

proptest! {
    #[test]
    fn the_table_agrees_with_a_byte_map(events in prop::collection::vec(event(), 1..60)) {
        let mut table = FlockTable::new();
        let mut map = ByteMap::default();
        let mut asked: BTreeMap<FlockTicket, (LockOwner, Flock)> = BTreeMap::new();
        for (n, event) in events.into_iter().enumerate() {
            let ticket = FlockTicket(n as u64);
            let mut out = Vec::new();
            match event {
                Event::Set(c, lock, wait) => {
                    let (owner, _) = normal(ClientUuid(c), &lock);
                    let free = map.free(owner, &lock);
                    asked.insert(ticket, (owner, lock));
                    prop_assert_eq!(table.test(FID, ClientUuid(c), &lock).is_none(), free);
                    table.set(FID, (ClientUuid(c), &lock), wait, ticket, &mut out);
                    prop_assert_eq!(out.first() == Some(&Granted(ticket)), free);
                    if !free && owner.flavor == Bsd {
                        map.held.remove(&owner);
                    }
                }
                Event::Cancel(c, lock) => table.cancel(FID, ClientUuid(c), &lock, &mut out),
                Event::Gone(c) => {
                    table.release_client(ClientUuid(c), &mut out);
                    map.held.retain(|o, _| o.client.0 != c);
                }
            }
            for action in out {
                let (Granted(ticket) | Refused(ticket, _)) = action;
                let (owner, lock) = asked.remove(&ticket).expect("answered once");
                if let Granted(_) = action {
                    prop_assert!(map.free(owner, &lock));
                    map.apply(owner, &lock);
                }
            }
            table.check();
            let waiting: usize = table.resources.values().map(|r| r.waiting.len()).sum();
            prop_assert_eq!(waiting, asked.len());
            for (owner, lock) in asked.values() {
                prop_assert!(!map.free(*owner, lock), "a request waits although it could be granted");
            }
        }
    }
}
