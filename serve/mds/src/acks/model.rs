//! [`Acks`] beside a naive specification: flat lists of facts, each with a flag for each way in
//! which it ends, searched from end to end. Once every order of the events of two clients with
//! three requests each, once random events.

use super::*;
use foldhash::HashSet;
use proptest::prelude::*;
use std::collections::BTreeSet;
use unacked::Look;
use volatile::BROUGHT_MAX;

/// Clients: two on the network, then one in this process.
const CLIENTS: [ClientUuid; 3] = [ClientUuid(1), ClientUuid(2), ClientUuid(3)];
const GRACE: Duration = Duration::from_secs(2);

const fn fid(oid: u32) -> Fid {
    Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }
}

/// Inodes that are changed, and then those that earlier lives opened.
const CHANGED: [Fid; 2] = [fid(1), fid(2)];
const OPENED: [Fid; 2] = [fid(11), fid(12)];

/// An event; clients by their index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Connect(usize),
    Begin(usize, u64),
    /// A request changes some of the inodes that its author has locks of: bit 0 the first, bit 1
    /// the second; bit 2: and destroys one of them. It rests on the newest change of others.
    Change(usize, u64, u8),
    /// Over the newest connection, or the one before it.
    Answer(usize, u64, u64),
    Drop(usize, u64),
    Known(usize, u64),
    /// The oldest `n` of the changes that are not durable become so.
    Commit(u64),
    /// The author is called back from all inodes, or from the first.
    CallBack(usize, bool),
    Gone(usize, bool),
    /// Half of the grace goes by.
    Wait,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Made {
    transno: u64,
    client: usize,
    /// 0: its client is in this process.
    xid: u64,
    rests_on: Vec<u64>,
    held: bool,
    known: bool,
    durable: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Noted {
    number: u64,
    client: usize,
    xid: u64,
    fids: Vec<Fid>,
    known_at: Option<Duration>,
    over: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Opened {
    client: usize,
    xid: u64,
    fid: Fid,
    over: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Begun {
    client: usize,
    xid: u64,
    over: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Spec {
    watched: bool,
    connections: [u64; 3],
    made: Vec<Made>,
    noted: Vec<Noted>,
    opened: Vec<Opened>,
    begun: Vec<Begun>,
    /// Client, slot, request; the bytes are the request's number.
    kept: Vec<(usize, u16, u64)>,
    /// Destroyed inodes that an author still shows.
    shown: Vec<Fid>,
    /// Destroyed inodes, and the change that did it, as long as it is not durable.
    destroyed: Vec<(Fid, u64)>,
}

impl Spec {
    fn is_volatile(&self, transno: u64) -> Option<&Made> {
        self.made.iter().find(|made| made.transno == transno && !made.durable)
    }

    fn concerns(&self, transno: u64, client: usize, xid: u64) -> bool {
        self.is_volatile(transno)
            .is_some_and(|made| made.client != client || made.held && made.xid != xid)
    }

    fn to_keep(&self, depends: &[u64], client: usize, xid: u64) -> Option<Vec<u64>> {
        let mut all: BTreeSet<u64> = BTreeSet::new();
        let mut next: Vec<u64> = depends.to_vec();
        while let Some(transno) = next.pop() {
            if let Some(made) =
                self.is_volatile(transno).filter(|_| self.concerns(transno, client, xid))
            {
                all.insert(transno);
                next.extend(&made.rests_on);
            }
        }
        let brought_back =
            |transno: &u64| self.is_volatile(*transno).is_some_and(|made| made.xid != 0);
        (all.len() <= BROUGHT_MAX && all.iter().all(brought_back))
            .then(|| all.into_iter().collect())
    }

    fn newest(&self, client: usize) -> u64 {
        let own =
            self.made.iter().filter(|made| made.client == client && !made.known && !made.durable);
        own.map(|made| made.transno).max().unwrap_or(0)
    }

    fn authors(&self, client: usize, fid: Fid) -> Vec<ClientUuid> {
        let seen =
            |noted: &&Noted| !noted.over && noted.client != client && noted.fids.contains(&fid);
        self.noted.iter().filter(seen).map(|noted| CLIENTS[noted.client]).collect()
    }

    fn may_be_open(&self, fid: Fid) -> bool {
        self.opened.iter().any(|opened| opened.fid == fid && !opened.over)
    }

    /// Ends what `ends` says; the inodes that are not in doubt any more.
    fn close(&mut self, ends: impl Fn(&Opened) -> bool) -> Vec<AckAction> {
        let before = OPENED.map(|fid| self.may_be_open(fid));
        self.opened.iter_mut().filter(|opened| ends(opened)).for_each(|opened| opened.over = true);
        let closed =
            OPENED.into_iter().zip(before).filter(|(fid, was)| *was && !self.may_be_open(*fid));
        closed.map(|(fid, _)| AckAction::Close(fid)).collect()
    }

    /// Destroyed inodes that no author shows any more.
    fn release(&mut self) -> Vec<AckAction> {
        let is_shown =
            |fid: &Fid| self.noted.iter().any(|noted| !noted.over && noted.fids.contains(fid));
        let (stay, over) = self.shown.iter().partition(|fid| is_shown(fid));
        self.shown = stay;
        over.into_iter().map(AckAction::Release).collect::<Vec<_>>()
    }

    /// Without what is over, and with small numbers: states that behave alike are equal.
    fn key(&self) -> Spec {
        let mut key = self.clone();
        key.made.retain(|made| !made.durable);
        key.noted.retain(|noted| !noted.over);
        key.opened.retain(|opened| !opened.over);
        key.begun.retain(|begun| !begun.over);
        key.begun.sort_unstable();
        key.kept.sort_unstable();
        let live: Vec<u64> = key.made.iter().map(|made| made.transno).collect();
        let rank = |transno: &u64| live.iter().position(|live| live == transno).map(|at| at as u64);
        for made in &mut key.made {
            made.transno = rank(&made.transno).unwrap_or_default();
            made.rests_on = made.rests_on.iter().filter_map(rank).collect();
            made.rests_on.sort_unstable();
        }
        key.destroyed.iter_mut().for_each(|(_, by)| *by = rank(by).unwrap_or(99));
        key.noted.iter_mut().zip(0..).for_each(|(noted, number)| noted.number = number);
        key
    }
}

/// Both, fed with the same events.
#[derive(Clone)]
struct World {
    acks: Acks,
    spec: Spec,
    now: Duration,
    last: u64,
    durable: u64,
    /// Inodes that were destroyed.
    destroyed: Vec<Fid>,
}

impl World {
    /// The clients are connected; each on the network has three requests, of which an earlier life
    /// did the third: it opened an inode of its own, and the inode that both opened.
    fn new() -> World {
        let (mut acks, mut spec) = (Acks::new(GRACE), Spec::default());
        let mut replies = Vec::new();
        for (client, own) in [(0, &OPENED[..1]), (1, &OPENED[..])] {
            spec.kept.push((client, 3, 3));
            spec.opened.extend(own.iter().map(|fid| Opened {
                client,
                xid: 3,
                fid: *fid,
                over: false,
            }));
            let (slot, xid, bytes) = (3, Xid(3), Bytes::from_static(b"3"));
            replies.push(KeptReply {
                client: CLIENTS[client],
                slot,
                xid,
                bytes,
                opened: own.to_vec(),
            });
        }
        acks.restore(replies);
        World { acks, spec, now: Duration::ZERO, last: 0, durable: 0, destroyed: vec![] }
    }

    fn tell(&mut self, event: AckEvent<'_>) -> Vec<AckAction> {
        let mut actions = Vec::new();
        self.acks.apply(event, &mut actions);
        actions.sort_unstable();
        actions
    }

    /// One event: both must answer with the same actions, and show the same afterwards.
    fn step(&mut self, step: Step) {
        let (mut expected, got) = match step {
            Step::Connect(client) => {
                self.spec.watched = true;
                self.spec.connections[client] += 1;
                (vec![], self.tell(AckEvent::Connected { client: CLIENTS[client] }))
            }
            Step::Begin(client, xid) => {
                self.begin(client, xid);
                (vec![], vec![])
            }
            Step::Change(client, xid, what) => self.change(client, xid, what),
            Step::Answer(client, xid, connection) => {
                let counts = self.spec.connections[client] == connection;
                let of = |made: &&mut Made| {
                    made.client == client && made.xid == xid && !made.known && !made.durable
                };
                let sent: Vec<_> =
                    self.spec.made.iter_mut().filter(of).filter(|_| counts).collect();
                let wakes = if sent.is_empty() { vec![] } else { vec![AckAction::Wake] };
                sent.into_iter().for_each(|made| made.held = false);
                (
                    wakes,
                    self.tell(AckEvent::Answered {
                        client: CLIENTS[client],
                        xid: Xid(xid),
                        connection,
                    }),
                )
            }
            Step::Drop(client, xid) => {
                let of = |begun: &&mut Begun| begun.client == client && begun.xid == xid;
                self.spec.begun.iter_mut().filter(of).for_each(|begun| begun.over = true);
                (vec![], self.tell(AckEvent::Dropped { client: CLIENTS[client], xid: Xid(xid) }))
            }
            Step::Known(client, known) => self.known(client, known),
            Step::Commit(n) => {
                self.durable = (self.durable + n).min(self.last);
                let durable = self.durable;
                self.spec
                    .made
                    .iter_mut()
                    .filter(|made| made.transno <= durable)
                    .for_each(|made| made.durable = true);
                self.spec.destroyed.retain(|(_, by)| *by > durable);
                (vec![], self.tell(AckEvent::Committed(Transno(durable))))
            }
            Step::CallBack(client, all) => {
                let asked: Vec<Fid> = if all { CHANGED.to_vec() } else { CHANGED[..1].to_vec() };
                let covered = |noted: &&mut Noted| {
                    noted.client == client
                        && noted.fids.iter().all(|changed| asked.contains(changed))
                };
                self.spec.noted.iter_mut().filter(covered).for_each(|noted| noted.over = true);
                let newest = self.acks.unacked().newest();
                let asked = asked.iter().map(|fid| (*fid, InodeBits::ALL)).collect();
                (
                    vec![],
                    self.tell(AckEvent::CalledBack {
                        client: CLIENTS[client],
                        newest,
                        asked: &asked,
                    }),
                )
            }
            Step::Gone(client, returns) => {
                let spec = &mut self.spec;
                spec.connections[client] = 0;
                spec.begun
                    .iter_mut()
                    .filter(|begun| begun.client == client)
                    .for_each(|begun| begun.over = true);
                spec.noted
                    .iter_mut()
                    .filter(|noted| noted.client == client)
                    .for_each(|noted| noted.over = true);
                let mut closed = vec![];
                if !returns {
                    spec.kept.retain(|(of, ..)| *of != client);
                    closed = spec.close(|opened| opened.client == client);
                }
                (closed, self.tell(AckEvent::Gone { client: CLIENTS[client], returns }))
            }
            Step::Wait => {
                self.now += GRACE / 2;
                (vec![], vec![])
            }
        };
        expected.extend(self.spec.release());
        expected.sort_unstable();
        assert_eq!(got, expected, "{step:?} of {:?}", self.spec);
        self.look(step);
    }

    fn begin(&mut self, client: usize, xid: u64) {
        let again = self
            .spec
            .begun
            .iter()
            .any(|begun| (begun.client, begun.xid, begun.over) == (client, xid, false));
        let slot = xid as u16;
        match self.acks.begin(CLIENTS[client], Xid(xid), slot) {
            Begin::Run { kept, .. } => {
                assert!(!again, "{xid} of {client} runs twice: {:?}", self.spec);
                let done = self.spec.kept.contains(&(client, slot, xid));
                assert_eq!(
                    kept,
                    done.then(|| Bytes::from(format!("{xid}"))),
                    "{xid} of {client}: {:?}",
                    self.spec
                );
                self.spec.kept.retain(|(of, kept, _)| (*of, *kept) != (client, slot));
                self.spec.begun.push(Begun { client, xid, over: false });
            }
            Begin::Again(_) => assert!(again, "{xid} of {client} did not run: {:?}", self.spec),
            Begin::Full => panic!("there is room"),
        }
    }

    fn change(&mut self, client: usize, xid: u64, what: u8) -> (Vec<AckAction>, Vec<AckAction>) {
        self.last += 1;
        let transno = self.last;
        let fids: Vec<Fid> = (0..2).filter(|n| what & (1 << n) != 0).map(|n| CHANGED[n]).collect();
        let changes: Vec<Change<'_>> =
            fids.iter().map(|fid| Change::of(*fid, InodeBits::UPDATE)).collect();
        let mut got = Vec::new();
        if !fids.is_empty() {
            got = self.tell(AckEvent::Changes {
                client: CLIENTS[client],
                xid: Xid(xid),
                changes: &changes,
            });
            let number = self.acks.unacked().newest();
            self.spec.noted.push(Noted {
                number,
                client,
                xid,
                fids: fids.clone(),
                known_at: None,
                over: false,
            });
        }
        // An inode is destroyed once.
        if what & 4 != 0 && !self.destroyed.contains(&fids[0]) {
            let destroyed = fids[0];
            self.destroyed.push(destroyed);
            let mut show = self.acks.destroyed(Transno(transno), destroyed);
            let of = |noted: &&Noted| !noted.over && noted.fids.contains(&destroyed);
            let mut shown: Vec<ClientUuid> =
                self.spec.noted.iter().filter(of).map(|noted| CLIENTS[noted.client]).collect();
            show.sort_unstable();
            shown.sort_unstable();
            assert_eq!(show[..], shown[..], "{:?}", self.spec);
            self.spec.shown.push(destroyed);
            if self.spec.watched {
                self.spec.destroyed.push((destroyed, transno));
            }
        }
        // In this process no request of the network.
        let number = if client == 2 { 0 } else { xid };
        let others =
            self.spec.made.iter().filter(|made| self.spec.concerns(made.transno, client, xid));
        let rests_on: Vec<u64> = others.map(|made| made.transno).max().into_iter().collect();
        let applied = Applied {
            transno: Transno(transno),
            client: CLIENTS[client],
            xid: (number != 0).then_some(Xid(xid)),
            redo: (number != 0).then(|| Bytes::from(format!("{transno}"))),
            data: Default::default(),
            rests_on: rests_on.iter().map(|on| Transno(*on)).collect(),
        };
        got.extend(self.tell(AckEvent::Applied(applied)));
        if self.spec.watched {
            let mut rests_on = rests_on;
            rests_on.extend(Some(self.spec.newest(client)).filter(|newest| *newest != 0));
            let (held, xid) = (number != 0, number);
            self.spec.made.push(Made {
                transno,
                client,
                xid,
                rests_on,
                held,
                known: false,
                durable: false,
            });
        }
        (vec![], got)
    }

    fn known(&mut self, client: usize, known: u64) -> (Vec<AckAction>, Vec<AckAction>) {
        let (spec, now) = (&mut self.spec, self.now);
        let mut expected = spec.close(|opened| opened.client == client && opened.xid < known);
        let news = |made: &&mut Made| {
            made.client == client
                && made.xid != 0
                && made.xid < known
                && !made.known
                && !made.durable
        };
        let news: Vec<_> = spec.made.iter_mut().filter(news).collect();
        expected.extend((!news.is_empty()).then_some(AckAction::Wake));
        news.into_iter().for_each(|made| (made.known, made.held) = (true, false));
        let begun = |begun: &&mut Begun| begun.client == client && begun.xid < known;
        spec.begun.iter_mut().filter(begun).for_each(|begun| begun.over = true);
        for noted in spec.noted.iter_mut().filter(|noted| noted.client == client && !noted.over) {
            if noted.xid < known {
                noted.known_at.get_or_insert(now);
            }
            noted.over = noted.known_at.is_some_and(|at| now - at >= GRACE);
        }
        self.spec.kept.retain(|(of, _, xid)| *of != client || *xid >= known);
        (expected, self.tell(AckEvent::Known { client: CLIENTS[client], known: Xid(known), now }))
    }

    /// Everything that can be asked.
    fn look(&self, step: Step) {
        let (acks, spec) = (&self.acks, &self.spec);
        assert_eq!(
            acks.volatile().is_empty(),
            (1..=self.last).all(|transno| spec.is_volatile(transno).is_none())
        );
        for fid in CHANGED {
            let by = spec
                .destroyed
                .iter()
                .find(|(destroyed, _)| *destroyed == fid)
                .map(|(_, by)| Transno(*by));
            assert_eq!(acks.volatile().destroyed_by(fid), by, "{fid} after {step:?}: {spec:?}");
        }
        for fid in OPENED {
            assert_eq!(
                acks.may_be_open(fid),
                spec.may_be_open(fid),
                "{fid} after {step:?}: {spec:?}"
            );
        }
        for (client, uuid) in CLIENTS.into_iter().enumerate() {
            assert_eq!(acks.connection(uuid), spec.connections[client]);
            assert_eq!(
                acks.newest_volatile(uuid),
                Transno(spec.newest(client)),
                "{client} after {step:?}: {spec:?}"
            );
            for fid in CHANGED {
                acks.unacked().look(uuid, fid, Look::Attr);
                let authors: Vec<ClientUuid> =
                    acks.unacked().take_seen().into_iter().map(|(author, _)| author).collect();
                assert_eq!(
                    authors,
                    spec.authors(client, fid),
                    "{client} looks at {fid} after {step:?}: {spec:?}"
                );
            }
            for xid in if client == 2 { 1..=1 } else { 1..=4 } {
                for transno in self.durable + 1..=self.last {
                    let concerns = acks.volatile().concerns(Transno(transno), (uuid, Xid(xid)));
                    assert_eq!(
                        concerns,
                        spec.concerns(transno, client, xid),
                        "{transno} after {step:?}: {spec:?}"
                    );
                    let kept = acks.volatile().to_keep(&[Transno(transno)], (uuid, Xid(xid)));
                    let kept =
                        kept.map(|kept| kept.iter().map(|redo| redo.transno.0).collect::<Vec<_>>());
                    assert_eq!(
                        kept,
                        spec.to_keep(&[transno], client, xid),
                        "{transno} after {step:?}: {spec:?}"
                    );
                }
            }
        }
    }
}

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    New,
    Done,
    Answered,
}

/// A world, and what its clients do next: the requests of each are done in any order, and answered
/// in any order. At any time a client says which answers it has, and commits come.
#[derive(Clone)]
struct Run {
    world: World,
    phases: [[Phase; 3]; 2],
    /// Connections that the requests came over.
    over: [[u64; 3]; 2],
    known: [u64; 2],
    /// Number of times that the first client may still lose its connection, or its session.
    breaks: u32,
    /// Number of times that half of the grace may still go by.
    waits: u32,
    /// Authors have locks of what they change, second requests destroy an inode, and authors are
    /// called back. Then no change is watched.
    locks: bool,
}

impl Run {
    /// What may happen next.
    fn next(&self) -> Vec<Step> {
        let mut all = Vec::new();
        for client in 0..2 {
            for ((phase, xid), over) in
                self.phases[client].into_iter().zip(1..).zip(self.over[client])
            {
                match phase {
                    Phase::New => all.push(Step::Begin(client, xid)),
                    Phase::Done => all.push(Step::Answer(client, xid, over)),
                    Phase::Answered => {}
                }
            }
            let answered =
                self.phases[client].iter().position(|phase| *phase != Phase::Answered).unwrap_or(3)
                    as u64
                    + 1;
            // The same once more is a ping that brings no other news.
            let first = self.known[client] + u64::from(!self.locks);
            all.extend((first..=answered).map(|known| Step::Known(client, known)));
        }
        all.extend(self.locks.then_some(Step::CallBack(0, true)));
        all.extend((self.world.durable < self.world.last).then_some(Step::Commit(1)));
        all.extend((self.waits > 0).then_some(Step::Wait));
        if self.breaks > 0 {
            all.extend([Step::Connect(0), Step::Gone(0, false), Step::Gone(0, true)]);
        }
        all
    }

    fn step(&mut self, step: Step) {
        self.world.step(step);
        match step {
            Step::Begin(client, xid) => {
                self.over[client][xid as usize - 1] = self.world.spec.connections[client];
                // The third was done in an earlier life, and opened a file.
                let what = if xid == 2 { 7 } else { 1 };
                if xid != 3 {
                    self.world.step(Step::Change(client, xid, if self.locks { what } else { 0 }));
                }
                self.phases[client][xid as usize - 1] = Phase::Done;
            }
            Step::Answer(client, xid, _) => self.phases[client][xid as usize - 1] = Phase::Answered,
            Step::Known(client, known) => self.known[client] = known,
            Step::Wait => self.waits -= 1,
            Step::Connect(_) | Step::Gone(..) => self.breaks -= 1,
            Step::Change(..) | Step::Drop(..) | Step::Commit(_) | Step::CallBack(..) => {}
        }
    }

    /// Every order of events. Returns the number of states, and that of events tried.
    fn explore(breaks: u32, waits: u32, locks: bool) -> (usize, usize) {
        let mut phases = [[Phase::New; 3]; 2];
        // Where more can happen there are fewer requests.
        if breaks > 0 || locks {
            phases[1][1] = Phase::Answered;
        }
        if locks {
            phases.iter_mut().for_each(|of| of[2] = Phase::Answered);
        }
        let mut world = World::new();
        (0..if locks { 0 } else { 2 }).for_each(|client| world.step(Step::Connect(client)));
        let start = Run { world, phases, over: [[0; 3]; 2], known: [1; 2], breaks, waits, locks };
        let (mut seen, mut tried, mut todo) = (HashSet::default(), 0, vec![start]);
        while let Some(run) = todo.pop() {
            for step in run.next() {
                tried += 1;
                let mut next = run.clone();
                next.step(step);
                let key = (
                    next.world.spec.key(),
                    next.phases,
                    next.over,
                    next.known,
                    next.breaks,
                    next.waits,
                    next.world.destroyed.len(),
                );
                if seen.insert(key) {
                    todo.push(next);
                }
            }
        }
        (seen.len(), tried)
    }
}

#[test]
fn every_order_of_two_clients_with_three_requests_each() {
    let (states, events) = Run::explore(0, 0, false);
    assert!(states > 10_000 && events > states, "{states} states, {events} events: there are more");
}

#[test]
fn every_order_with_a_client_that_loses_its_connection_or_its_session() {
    let (states, events) = Run::explore(1, 0, false);
    assert!(states > 1_000 && events > states, "{states} states, {events} events: there are more");
}

#[test]
fn every_order_with_time_callbacks_and_inodes_that_are_destroyed() {
    let (states, events) = Run::explore(0, 2, true);
    assert!(states > 1_000 && events > states, "{states} states, {events} events: there are more");
}

fn step() -> impl Strategy<Value = Step> {
    let (client, on_network, xid) = (0..3usize, 0..2usize, 1..6u64);
    let what = prop_oneof![1..4u8, Just(5), Just(7)];
    prop_oneof![
        1 => on_network.clone().prop_map(Step::Connect),
        4 => (on_network.clone(), xid.clone()).prop_map(|(client, xid)| Step::Begin(client, xid)),
        8 => (client.clone(), xid.clone(), what).prop_map(|(client, xid, what)| Step::Change(client, xid, what)),
        4 => (on_network.clone(), xid.clone(), 0..3u64).prop_map(|(client, xid, over)| Step::Answer(client, xid, over)),
        1 => (on_network, xid.clone()).prop_map(|(client, xid)| Step::Drop(client, xid)),
        6 => (client.clone(), 1..7u64).prop_map(|(client, known)| Step::Known(client, known)),
        2 => (1..4u64).prop_map(Step::Commit),
        1 => (client.clone(), any::<bool>()).prop_map(|(client, all)| Step::CallBack(client, all)),
        1 => (client, any::<bool>()).prop_map(|(client, returns)| Step::Gone(client, returns)),
        2 => Just(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn random_events(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        for client in 0..3 {
            world.step(Step::Gone(client, false));
        }
        world.step(Step::Commit(99));
        prop_assert!(world.acks.clients.is_empty() && world.acks.unacked.is_empty(), "something stays behind");
        prop_assert_eq!(world.acks.unconfirmed.len(), 0);
    }
}
