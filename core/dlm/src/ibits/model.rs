//! Random events, and clients that hear of questions and answer them in any order. Checked: no two
//! grants conflict, no client believes to hold what the table does not know of, no wake-up is lost,
//! every operation ends, requests for locks are served in the order they came, and no name is made
//! while another client believes that there is none.

use super::tests::{fid, name, of};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use types::names::NameRanges;

#[derive(Clone, Debug)]
enum Event {
    Grant(u32, u128, u32),
    /// A lookup that finds nothing: inode, client, name, the largest end of the gap.
    Gap(u32, u128, usize, usize),
    /// Inode, bits; bits below [`NAMES`] stand for that name of it.
    Change(u128, Vec<(u32, u32)>),
    /// A name of an inode is made if no client is in the way, else nothing happens.
    Make(u128, u32, usize),
    Lock(u32, u128, bool),
    /// A client is called back for what it changed itself.
    AskBack(u128, Vec<(u32, u32)>),
    /// The n-th callback reaches its client, if there is one; and whether the client keeps what may
    /// be kept.
    Hear(usize, bool),
    /// The n-th answer reaches the table.
    Answer(usize),
    /// The n-th operation that is ready goes on, and leaves.
    Go(usize),
    Release(u32, u128, u32),
    Gone(u128),
}

const CLIENTS: u128 = 3;
const NAMES: [&str; 6] = ["a", "b", "ba", "bb", "c", "d"];

fn event() -> impl Strategy<Value = Event> {
    let (n, client, bits, text) = (0..3u32, 0..CLIENTS, 0..0x400u32, 0..NAMES.len());
    let change =
        prop::collection::vec((n.clone(), prop_oneof![0..NAMES.len() as u32, bits.clone()]), 1..3);
    let asked = prop::collection::vec((n.clone(), bits.clone()), 1..3);
    prop_oneof![
        6 => (n.clone(), client.clone(), bits.clone()).prop_map(|(n, c, b)| Event::Grant(n, c, b)),
        6 => (n.clone(), client.clone(), text.clone(), 0..=NAMES.len()).prop_map(|(n, c, from, to)| Event::Gap(n, c, from, to)),
        4 => (client.clone(), n.clone(), text).prop_map(|(c, n, name)| Event::Make(c, n, name)),
        4 => (client.clone(), change).prop_map(|(c, changes)| Event::Change(c, changes)),
        3 => (n.clone(), client.clone(), any::<bool>()).prop_map(|(n, c, write)| Event::Lock(n, c, write)),
        3 => (client.clone(), asked).prop_map(|(c, asked)| Event::AskBack(c, asked)),
        8 => (0..8usize, any::<bool>()).prop_map(|(n, keeps)| Event::Hear(n, keeps)),
        8 => (0..8usize).prop_map(Event::Answer),
        6 => (0..8usize).prop_map(Event::Go),
        3 => (n, client.clone(), bits).prop_map(|(n, c, b)| Event::Release(n, c, b)),
        1 => client.prop_map(Event::Gone),
    ]
}

/// State of clients and messages outside the table.
#[derive(Default)]
struct World {
    asked: Vec<Action>,
    /// What clients have heard of, and whether they keep what may be kept.
    answers: Vec<(Action, bool)>,
    /// What clients believe to hold.
    believed: BTreeMap<(Fid, ClientUuid), InodeBits>,
    ready: Vec<Modifier>,
    waiting: BTreeSet<Modifier>,
    /// Requests for locks: inode, client, WRITE.
    locks: BTreeMap<Modifier, (Fid, ClientUuid, bool)>,
    /// Changes of names, with the client that makes them.
    names: BTreeMap<Modifier, (ClientUuid, Vec<Change>)>,
    /// Names that holders of UPDATE were told and have forgotten.
    told: BTreeMap<(Modifier, Fid, ClientUuid), BTreeSet<Name>>,
    /// The names that clients believe absent.
    gaps: BTreeMap<(Fid, ClientUuid), NameRanges>,
    last: u64,
}

impl World {
    fn next(&mut self) -> Modifier {
        self.last += 1;
        self.waiting.insert(Modifier(self.last));
        Modifier(self.last)
    }

    fn hear(&mut self, out: Vec<Action>) {
        for action in out {
            match action {
                Action::Ready(modifier) => {
                    assert!(self.waiting.remove(&modifier), "{modifier:?} is told twice");
                    self.ready.push(modifier);
                }
                Action::Cancelled(modifier) => {
                    self.waiting.remove(&modifier);
                    self.ready.retain(|ready| *ready != modifier);
                    self.ready.push(modifier);
                }
                ask => self.asked.push(ask),
            }
        }
    }

    /// A client sends a change: from then on it does not answer for these names itself.
    fn send(&mut self, author: ClientUuid, changes: &[Change]) {
        for change in changes {
            if let Some(gaps) = self.gaps.get_mut(&(change.fid, author)) {
                change.names.iter().for_each(|name| gaps.cut(name));
            }
        }
    }

    /// A reply brings a gap. Only the part after the names of the client's own changes under way
    /// remains.
    fn learn(&mut self, fid: Fid, client: ClientUuid, gap: NameRange) {
        let own = self
            .names
            .values()
            .filter(|(author, _)| *author == client)
            .flat_map(|(_, changes)| changes);
        let mut names = own.filter(|change| change.fid == fid).flat_map(|change| &change.names);
        if let Some(left) = names.try_fold(gap, |left, name| left.behind(name)) {
            self.gaps.entry((fid, client)).or_default().add(left);
        }
    }

    /// A change is applied: no client may believe that these names are absent.
    fn make(&mut self, t: &mut IbitsTable, author: ClientUuid, change: &Change) {
        for ((fid, client), gaps) in self.gaps.iter().filter(|((fid, _), _)| *fid == change.fid) {
            for name in &change.names {
                assert!(!gaps.contains(name), "{client:?} misses {name} in {fid}");
            }
        }
        t.names_change(change.fid, author, change.names.iter().map(|name| &**name), Duration::ZERO);
    }

    /// Before a change is applied, each client that still holds UPDATE has forgotten the names that
    /// change.
    fn check_told(&self, modifier: Modifier, author: ClientUuid, change: &Change) {
        let holds = |bits: &InodeBits| bits.contains(InodeBits::UPDATE);
        let holders = self
            .believed
            .iter()
            .filter(|((fid, client), bits)| *fid == change.fid && *client != author && holds(bits));
        for ((fid, client), _) in holders.filter(|_| holds(&change.bits)) {
            let told = self.told.get(&(modifier, *fid, *client)).cloned().unwrap_or_default();
            assert!(!change.names.is_empty(), "{client:?} keeps {fid}, which changes as a whole");
            let missed: Vec<_> = change.names.iter().filter(|name| !told.contains(*name)).collect();
            assert!(missed.is_empty(), "{client:?} was not told {missed:?} of {fid}");
        }
    }

    /// A client is granted bits.
    fn granted(&mut self, fid: Fid, client: ClientUuid, bits: InodeBits) {
        let believed = self.believed.entry((fid, client)).or_default();
        *believed = believed.union(bits);
    }

    /// A client drops bits, and gaps with GAP, and WRITE with DATA or UPDATE.
    fn drops(&mut self, fid: Fid, client: ClientUuid, bits: InodeBits) {
        if bits.contains(InodeBits::GAP) {
            self.gaps.remove(&(fid, client));
        }
        let write = if bits.intersects(UNDER_WRITE) { InodeBits::WRITE } else { InodeBits::NONE };
        let believed = self.believed.entry((fid, client)).or_default();
        *believed = believed.difference(bits.union(write));
    }

    /// A question reaches its client, which drops what it was asked for.
    fn question(&mut self, n: usize, keeps: bool) {
        if self.asked.is_empty() {
            return;
        }
        let action = self.asked.remove(n % self.asked.len());
        match &action {
            Action::Revoke(client, fid, bits) if keeps => {
                self.drops(*fid, *client, bits.difference(InodeBits::OPEN))
            }
            Action::Revoke(client, fid, bits) => self.drops(*fid, *client, *bits),
            Action::Changing(modifier, client, dir, names) if keeps => {
                self.told.entry((*modifier, *dir, *client)).or_default().extend(names.clone());
            }
            Action::Changing(_, client, dir, _) => self.drops(*dir, *client, InodeBits::UPDATE),
            Action::Ready(_) | Action::Cancelled(_) => unreachable!("these are no questions"),
        }
        self.answers.push((action, keeps));
    }

    fn answer(&mut self, t: &mut IbitsTable, n: usize) {
        if self.answers.is_empty() {
            return;
        }
        let mut out = Vec::new();
        match self.answers.remove(n % self.answers.len()) {
            (Action::Revoke(client, fid, bits), keeps) => {
                let keeps = keeps && bits.contains(InodeBits::OPEN);
                if keeps {
                    t.kept(fid, client, &mut out);
                }
                t.dropped(
                    fid,
                    client,
                    if keeps { bits.difference(InodeBits::OPEN) } else { bits },
                    &mut out,
                );
            }
            (Action::Changing(modifier, client, dir, _), true) => {
                t.forgot(modifier, client, dir, &mut out)
            }
            (Action::Changing(_, client, dir, _), false) => {
                _ = t.dropped_names(dir, client, &mut out)
            }
            (Action::Ready(_) | Action::Cancelled(_), _) => unreachable!("these are no questions"),
        }
        self.hear(out);
    }

    /// The table knows of all that clients believe to hold.
    fn check(&self, t: &IbitsTable) {
        for ((fid, client), bits) in &self.believed {
            assert!(
                t.shown(*fid, *client).contains(*bits),
                "{client:?} believes to hold {bits:?} of {fid}"
            );
        }
    }

    fn go(&mut self, t: &mut IbitsTable, n: usize) {
        if self.ready.is_empty() {
            return;
        }
        let modifier = self.ready.remove(n % self.ready.len());
        let mut out = Vec::new();
        if let Some((fid, client, write)) = self.locks.get(&modifier).copied() {
            if !t.take(modifier, &mut out) {
                let cancelled =
                    t.locks.number(client).is_none() || t.modifiers[&modifier].is_orphaned();
                if !cancelled {
                    self.waiting.insert(modifier);
                    self.hear(out);
                    return;
                }
            } else {
                let older = self
                    .locks
                    .range(..modifier)
                    .filter(|(_, (f, c, w))| *f == fid && *c != client && (*w || write));
                let stuck: Vec<_> = older.filter(|(m, _)| !t.modifiers[m].is_orphaned()).collect();
                assert!(stuck.is_empty(), "{modifier:?} overtakes {stuck:?}");
                self.granted(fid, client, if write { EXCLUSIVE } else { UNDER_WRITE });
            }
            self.locks.remove(&modifier);
        }
        if let Some((author, changes)) = self.names.remove(&modifier) {
            let is_there =
                t.locks.number(author).is_some() && !t.modifiers[&modifier].is_orphaned();
            for change in changes.iter().filter(|_| is_there) {
                self.check_told(modifier, author, change);
                self.make(t, author, change);
            }
        }
        t.leave(modifier, &mut out);
        self.hear(out);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8192, ..ProptestConfig::default() })]
    #[test]
    fn everybody_comes_to_an_end_and_nothing_conflicts(events in prop::collection::vec(event(), 1..120)) {
        let mut t = IbitsTable::with_bounds(16, 24);
        let mut world = World::default();
        (0..CLIENTS).for_each(|c| t.connect(ClientUuid(c)));
        for event in events {
            let mut out = Vec::new();
            match event {
                Event::Grant(n, c, bits) => {
                    let (fid, client) = (fid(n), ClientUuid(c));
                    let granted = t.grant(fid, client, InodeBits::from_bits_retain(bits), Duration::ZERO, &mut out);
                    prop_assert!(InodeBits::from_bits_retain(bits).contains(granted));
                    prop_assert!(t.held(fid, client).contains(granted));
                    world.granted(fid, client, granted);
                }
                Event::Gap(n, c, from, to) => {
                    let (fid, client) = (fid(n), ClientUuid(c));
                    let reach = t.gap_at(fid, client, NAMES[from].as_bytes(), Duration::ZERO);
                    let reach = NAMES.get(to).map_or(Some(reach.clone()), |to| reach.below(to.as_bytes()));
                    if let Some(granted) = reach.and_then(|reach| t.grant_gap(fid, client, reach, &mut out)) {
                        world.granted(fid, client, InodeBits::GAP);
                        world.learn(fid, client, granted);
                    }
                }
                Event::Change(c, changes) => {
                    let change = |(n, b): (u32, u32)| match NAMES.get(b as usize) {
                        Some(text) => name(n, text),
                        None => of(n, InodeBits::from_bits_retain(b)),
                    };
                    let changes: Vec<Change> = changes.into_iter().map(change).collect();
                    let modifier = world.next();
                    world.send(ClientUuid(c), &changes);
                    world.names.insert(modifier, (ClientUuid(c), changes.clone()));
                    t.enter(modifier, ClientUuid(c), changes, Duration::ZERO, &mut out);
                }
                Event::Make(c, n, text) => {
                    let (author, change) = (ClientUuid(c), name(n, NAMES[text]));
                    let names = [Some(NAMES[text].as_bytes()), None];
                    if t.is_free_with_names(author, None, [(change.fid, change.bits, names)]) {
                        world.send(author, std::slice::from_ref(&change));
                        world.make(&mut t, author, &change);
                    }
                }
                Event::Lock(n, c, write) => {
                    let modifier = world.next();
                    world.locks.insert(modifier, (fid(n), ClientUuid(c), write));
                    t.enter_lock(modifier, ClientUuid(c), fid(n), if write { EXCLUSIVE } else { UNDER_WRITE }, &mut out);
                }
                Event::AskBack(c, asked) => {
                    let asked = asked.into_iter().map(|(n, b)| (fid(n), InodeBits::from_bits_retain(b))).collect();
                    let modifier = world.next();
                    if !t.ask_back(modifier, ClientUuid(c), &asked, &mut out) {
                        world.waiting.remove(&modifier);
                    }
                }
                Event::Hear(n, keeps) => world.question(n, keeps),
                Event::Answer(n) => world.answer(&mut t, n),
                Event::Go(n) => world.go(&mut t, n),
                Event::Release(n, c, bits) => {
                    world.drops(fid(n), ClientUuid(c), InodeBits::from_bits_retain(bits));
                    t.released(fid(n), ClientUuid(c), InodeBits::from_bits_retain(bits), &mut out);
                }
                Event::Gone(c) => {
                    t.gone(ClientUuid(c), &mut out);
                    world.gaps.retain(|(_, client), _| *client != ClientUuid(c));
                    let of_it = |ask: &Action| matches!(ask, Action::Revoke(a, ..) | Action::Changing(_, a, ..) if *a == ClientUuid(c));
                    world.asked.retain(|ask| !of_it(ask));
                    world.answers.retain(|(ask, _)| !of_it(ask));
                    world.believed.retain(|(_, client), _| *client != ClientUuid(c));
                    t.connect(ClientUuid(c));
                }
            }
            world.hear(out);
            t.check();
            world.check(&t);
        }
        // From now on nothing new comes: everything under way ends.
        for _ in 0..10_000 {
            if world.asked.is_empty() && world.answers.is_empty() && world.ready.is_empty() {
                break;
            }
            world.question(0, true);
            world.answer(&mut t, 0);
            world.go(&mut t, 0);
            t.check();
            world.check(&t);
        }
        prop_assert_eq!(&world.waiting, &BTreeSet::new());
        prop_assert_eq!(t.entered(), 0);
    }
}
