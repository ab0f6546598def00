//! Random events, and members that answer in any order: no two extents conflict, no request waits
//! for ever, and none overtakes another.

use super::tests::range;
use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Request(u32, u128, u64, u64, bool),
    /// Answers the n-th open callback, if there is one.
    Answer(usize),
    /// Gives some bytes back without being asked.
    Release(u32, u128, u64, u64),
    /// Gives the n-th request that waits up.
    Cancel(usize),
    CallBack(u32),
    Forget(u32),
    Gone(u128),
    Later(u64),
}

const CLIENTS: u128 = 3;

fn event() -> impl Strategy<Value = Event> {
    let (n, client, start, len) = (0..2u32, 0..CLIENTS, 0..40u64, 1..12u64);
    prop_oneof![
        12 => (n.clone(), client.clone(), start.clone(), len.clone(), any::<bool>())
            .prop_map(|(n, c, s, l, w)| Event::Request(n, c, s, l, w)),
        8 => (0..8usize).prop_map(Event::Answer),
        1 => (n.clone(), client.clone(), start, len).prop_map(|(n, c, s, l)| Event::Release(n, c, s, l)),
        1 => (0..8usize).prop_map(Event::Cancel),
        1 => n.clone().prop_map(Event::CallBack),
        1 => n.prop_map(Event::Forget),
        1 => client.prop_map(Event::Gone),
        1 => (0..1500u64).prop_map(Event::Later),
    ]
}

fn fid(n: u32) -> Fid {
    Fid { seq: Fid::SEQ_NORMAL, oid: n, ver: 0 }
}

#[derive(Clone, Copy)]
struct Asked {
    fid: Fid,
    client: ClientUuid,
    needs: ByteRange,
    write: bool,
}

/// State of clients and messages outside the table.
#[derive(Default)]
struct World {
    questions: Vec<(ClientUuid, Fid, ByteRange)>,
    waiting: BTreeMap<ExtentTicket, Asked>,
    /// What members believe they hold: for reading, for writing.
    held: BTreeMap<(Fid, ClientUuid), (Ranges, Ranges)>,
    last: u64,
}

impl World {
    fn hear(&mut self, t: &ExtentTable, out: Vec<ExtentAction>) {
        for action in out {
            match action {
                ExtentAction::Revoke(client, fid, range) => {
                    self.questions.push((client, fid, range))
                }
                ExtentAction::Again(ticket) => {
                    assert!(self.waiting.remove(&ticket).is_some(), "{ticket:?} is not under way")
                }
                ExtentAction::Granted(ticket, ranges) => {
                    let own = self.waiting.remove(&ticket).expect("it is under way");
                    assert!(ranges[0].contains(own.needs) && ranges.len() <= EXTENTS_PER_REPLY_MAX);
                    let (read, write) = self.held.entry((own.fid, own.client)).or_default();
                    let set = if own.write { write } else { read };
                    ranges.iter().for_each(|range| set.insert(*range));
                    let before = |other: &Asked| {
                        other.fid == own.fid
                            && other.client != own.client
                            && (other.write || own.write)
                            && other.needs.overlaps(own.needs)
                    };
                    let stuck: Vec<_> =
                        self.waiting.range(..ticket).filter(|(_, other)| before(other)).collect();
                    assert!(stuck.is_empty(), "{ticket:?} overtakes {} others", stuck.len());
                }
                ExtentAction::Over(fid) => assert!(!t.files.contains_key(&fid)),
            }
        }
    }
}

impl World {
    /// A member has answered, or gave something back: it no longer works with it.
    fn drops(&mut self, fid: Fid, client: ClientUuid, range: ByteRange) {
        let (read, write) = self.held.entry((fid, client)).or_default();
        read.remove(range);
        write.remove(range);
    }
}

impl ExtentTable {
    fn check(&self, world: &World) {
        for ((fid, client), (read, write)) in &world.held {
            let known = self.holder(*fid, *client);
            let none = Ranges::default();
            let (known_read, known_write) =
                known.map_or((&none, &none), |held| (&held.read, &held.write));
            assert_eq!((read, write), (known_read, known_write), "{client:?} believes what is so");
        }
        for file in self.files.values() {
            for (client, held) in &file.holders {
                assert!(!held.is_empty());
                let others = file.holders.iter().filter(|(other, _)| *other != client);
                for (_, other) in others {
                    assert!(
                        held.write.iter().all(
                            |range| !other.write.overlaps(range) && !other.read.overlaps(range)
                        )
                    );
                }
                assert!(
                    held.asked
                        .iter()
                        .all(|asked| held.read.overlaps(asked) || held.write.overlaps(asked))
                );
            }
            assert!(!file.closing || file.waiting.is_empty());
            assert!(!file.holders.is_empty() || !file.waiting.is_empty());
        }
        let waiting: usize = self.files.values().map(|file| file.waiting.len()).sum();
        assert_eq!(waiting, self.tickets.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]
    #[test]
    fn everybody_comes_to_an_end_and_nothing_conflicts(events in prop::collection::vec(event(), 1..120)) {
        let (mut t, mut world, mut now) = (ExtentTable::default(), World::default(), Duration::from_secs(9));
        for event in events {
            let mut out = Vec::new();
            match event {
                Event::Request(n, c, start, len, write) => {
                    world.last += 1;
                    let (ticket, needs) = (ExtentTicket(world.last), range(start, start + len));
                    world.waiting.insert(ticket, Asked { fid: fid(n), client: ClientUuid(c), needs, write });
                    t.request(ticket, ExtentRequest { fid: fid(n), client: ClientUuid(c), needs, write }, now, &mut out);
                }
                Event::Answer(n) if !world.questions.is_empty() => {
                    let (client, fid, range) = world.questions.remove(n % world.questions.len());
                    world.drops(fid, client, range);
                    t.released(fid, client, range, now, &mut out);
                }
                Event::Answer(_) => {}
                Event::Release(n, c, start, len) => {
                    let (fid, client, range) = (fid(n), ClientUuid(c), range(start, start + len));
                    // Bytes that the member was asked for it drops with its answer.
                    let mut rest: Ranges = [range].into_iter().collect();
                    let asked = world.questions.iter().filter(|(other, of, _)| *other == client && *of == fid);
                    asked.for_each(|(_, _, range)| rest.remove(*range));
                    rest.iter().for_each(|range| world.drops(fid, client, range));
                    t.given_back(fid, client, range, now, &mut out);
                }
                Event::Cancel(n) => {
                    let ticket = world.waiting.keys().nth(n).copied();
                    if let Some(ticket) = ticket {
                        world.waiting.remove(&ticket);
                        t.cancel(ticket, now, &mut out);
                    }
                }
                Event::CallBack(n) => t.call_back(fid(n), &mut out),
                Event::Forget(n) => {
                    t.forget(fid(n), &mut out);
                    world.questions.retain(|(_, other, _)| *other != fid(n));
                    world.held.retain(|(other, _), _| *other != fid(n));
                }
                Event::Gone(c) => {
                    t.gone(ClientUuid(c), now, &mut out);
                    world.questions.retain(|(client, ..)| *client != ClientUuid(c));
                    world.held.retain(|(_, client), _| *client != ClientUuid(c));
                    prop_assert!(!t.members.contains_key(&ClientUuid(c)));
                }
                Event::Later(ms) => now += Duration::from_millis(ms),
            }
            world.hear(&t, out);
            t.check(&world);
        }
        // From now on nothing new comes: everything under way ends.
        while let Some((client, fid, range)) = world.questions.pop() {
            let mut out = Vec::new();
            world.drops(fid, client, range);
            t.released(fid, client, range, now, &mut out);
            world.hear(&t, out);
            t.check(&world);
        }
        prop_assert_eq!(world.waiting.len(), 0);
        prop_assert_eq!(t.waiting(), 0);
    }
}
