//! The network between machines: TCP as a program sees it.
//!
//! Bytes of one connection arrive in order. Each connection has its own delays, so messages
//! overtake each other between connections. A live connection loses nothing: what a partition holds
//! back comes after it is healed. A connection ends with a reset when its peer died, when a test
//! breaks it, or when a partition lasts longer than a sender waits for an acknowledgement. One that
//! is given up by its own end ([`Network::stall_between`]) still delivers what it was given.

mod connection;
pub mod cpu;
pub(crate) mod delivery;

use crate::executor::{Action, Executor};
use crate::hash::{self, Event};
use crate::machine::{Kill, MachineId, Process, cable_of};
use crate::rng::Rng;
use bytes::Bytes;
use connection::{Connection, End, Segment};
use cpu::{Cost, Cpu, Passing};
use delivery::Delivery;
use env::net::SILENCE;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::ReadBuf;

/// A sender gives up after this time without acknowledgement, as `env::real` sets it. Keepalives
/// find a dead peer on idle connections.
const USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which an idle end asks whether its peer is there, as `env::real` sets it. A machine
/// that was restarted answers that it does not know the connection.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// A message that was held back by a partition is sent again within this time after it.
const RETRANSMIT_MAX_US: u64 = 400_000;
/// Bytes on their way in one direction of a connection; beyond it the writer waits.
const SEND_BUFFER: usize = 256 << 10;

/// How long messages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// At least, microseconds.
    pub min_us: u64,
    /// At most, usually.
    pub max_us: u64,
    /// In this many of 1000 cases up to `late_us`.
    pub late: u64,
    /// See above, microseconds.
    pub late_us: u64,
    /// Bytes per microsecond.
    pub rate: u64,
}

impl Default for Delays {
    fn default() -> Delays {
        Delays { min_us: 30, max_us: 300, late: 10, late_us: 20_000, rate: 1000 }
    }
}

/// The cable that leads from a machine to itself.
const INSIDE: u8 = 255;

/// First of the ports that the network chooses.
const FIRST_PORT: u16 = 49152;

struct Listening {
    process: Arc<Process>,
    queue: VecDeque<(u64, SocketAddr)>,
    waker: Option<Waker>,
}

struct State {
    rng: Rng,
    delays: Delays,
    next: u64,
    port: u16,
    listening: BTreeMap<SocketAddr, Listening>,
    /// Where the processes of a machine listen for each other, by folder and name. It stays, as a
    /// file does, when the process is gone.
    local: BTreeMap<(MachineId, PathBuf, String), SocketAddr>,
    connections: BTreeMap<u64, Connection>,
    /// Cut directions, with the number of the cut.
    cut: BTreeMap<(MachineId, MachineId), u64>,
    /// Cables that are cut for all machines, with the number of the cut.
    dark: BTreeMap<u8, u64>,
    off: BTreeSet<MachineId>,
    cpus: BTreeMap<MachineId, Cpu>,
}

/// Wakers and timers that a change calls for, once the lock is free.
#[derive(Default)]
struct After {
    wake: Vec<Waker>,
    timers: Vec<(Duration, Delivery)>,
    notes: Vec<(Event, u64, u64)>,
}

impl After {
    fn run(self, executor: &Executor) {
        for (event, a, b) in self.notes {
            executor.note(event, a, b);
        }
        for (when, delivery) in self.timers {
            executor.at(when, Action::Deliver(delivery));
        }
        self.wake.into_iter().for_each(Waker::wake);
    }
}

/// All connections of a world.
pub(crate) struct Network {
    state: Mutex<State>,
}

impl State {
    fn delay(&mut self, bytes: usize) -> Duration {
        let most = if self.rng.chance(self.delays.late) {
            self.delays.late_us
        } else {
            self.delays.max_us
        };
        let line = bytes as u64 / self.delays.rate.max(1);
        Duration::from_micros(self.rng.between(self.delays.min_us, most) + line)
    }

    fn passes(&self, from: MachineId, to: MachineId, cable: u8) -> bool {
        let cut = self.cut.contains_key(&(from, to)) || self.dark.contains_key(&cable);
        !cut && !self.off.contains(&from) && !self.off.contains(&to)
    }

    /// Puts a segment on its way from `side`.
    fn send(&mut self, id: u64, side: usize, segment: Segment, now: Duration, after: &mut After) {
        let bytes = segment.len();
        let delay = self.delay(bytes);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let cpu = self.cpus.get_mut(&connection.machines[side]);
        let leaves = match (cpu, &segment) {
            (Some(cpu), Segment::Data(bytes)) => {
                cpu.serve(Passing { connection: id, side, sent: true, bytes }, now)
            }
            _ => now,
        };
        let when = connection.pipes[side].send(segment, leaves + delay);
        after.timers.push((when, Delivery::Segments { connection: id, side }));
    }

    fn reset(&mut self, id: u64, after: &mut After) {
        if let Some(connection) = self.connections.get_mut(&id) {
            after.notes.push((Event::Connection, id, 9));
            connection.reset(&mut after.wake);
        }
    }
}

impl Network {
    pub(crate) fn new(seed: u64) -> Network {
        let state = State {
            rng: Rng::new(seed, "network"),
            delays: Delays::default(),
            next: 1,
            port: FIRST_PORT,
            listening: BTreeMap::new(),
            local: BTreeMap::new(),
            connections: BTreeMap::new(),
            cut: BTreeMap::new(),
            dark: BTreeMap::new(),
            off: BTreeSet::new(),
            cpus: BTreeMap::new(),
        };
        Network { state: Mutex::new(state) }
    }

    /// The shortest round trip that messages can have.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_micros(2 * self.state.lock().delays.min_us)
    }

    fn change<T>(
        &self,
        executor: &Executor,
        change: impl FnOnce(&mut State, Duration, &mut After) -> T,
    ) -> T {
        let now = executor.now();
        let mut after = After::default();
        let result = change(&mut self.state.lock(), now, &mut after);
        after.run(executor);
        result
    }

    pub(crate) fn set_delays(&self, delays: Delays) {
        self.state.lock().delays = delays;
    }

    pub(crate) fn count(&self) -> usize {
        self.state.lock().connections.len()
    }

    pub(crate) fn set_cpu(&self, machine: MachineId, cost: Cost) {
        self.state.lock().cpus.insert(machine, Cpu::new(cost));
    }

    pub(crate) fn charge(&self, executor: &Executor, machine: MachineId, cost: Duration) {
        if let Some(cpu) = self.state.lock().cpus.get_mut(&machine) {
            cpu.charge(cost, executor.now());
        }
    }

    pub(crate) fn busy(&self, machine: MachineId) -> Duration {
        self.state.lock().cpus.get(&machine).map_or(Duration::ZERO, Cpu::busy)
    }

    pub(crate) fn clear(&self) {
        let dropped = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.connections), std::mem::take(&mut state.listening))
        };
        drop(dropped);
    }

    pub(crate) fn cut(&self, executor: &Executor, from: MachineId, to: MachineId) {
        self.change(executor, |state, now, after| {
            let since = state.next;
            state.next += 1;
            if state.cut.insert((from, to), since).is_none() {
                let ends = |watched| Delivery::CutTooLong { from, to, since, watched };
                after.timers.push((now + SILENCE, ends(true)));
                after.timers.push((now + USER_TIMEOUT, ends(false)));
            }
        });
    }

    /// Nothing passes on a cable, whichever machines it joins.
    pub(crate) fn cut_cable(&self, executor: &Executor, cable: u8) {
        self.change(executor, |state, now, after| {
            let since = state.next;
            state.next += 1;
            if state.dark.insert(cable, since).is_none() {
                let ends = |watched| Delivery::DarkTooLong { cable, since, watched };
                after.timers.push((now + SILENCE, ends(true)));
                after.timers.push((now + USER_TIMEOUT, ends(false)));
            }
        });
    }

    /// The connection ends when its machines are cut off from each other for [`SILENCE`].
    pub(crate) fn watch(&self, executor: &Executor, id: u64) {
        self.change(executor, |state, _, _| {
            if let Some(connection) = state.connections.get_mut(&id) {
                connection.watched = true;
            }
        });
    }

    pub(crate) fn heal(&self, executor: &Executor) {
        self.change(executor, |state, now, after| {
            state.cut.clear();
            state.dark.clear();
            state.retransmit(now, after);
        });
    }

    /// A machine goes on or off.
    pub(crate) fn power(&self, executor: &Executor, machine: MachineId, on: bool) {
        self.change(executor, |state, now, after| {
            if on && state.off.remove(&machine) {
                state.retransmit(now, after);
                let severed = |c: &Connection| c.has_dead_end_at(machine);
                let ids: Vec<u64> = state
                    .connections
                    .iter()
                    .filter(|(_, c)| severed(c))
                    .map(|(id, _)| *id)
                    .collect();
                for connection in ids {
                    let asked =
                        Duration::from_micros(state.rng.below(KEEPALIVE.as_micros() as u64));
                    after.timers.push((now + asked, Delivery::Silent { connection }));
                }
            } else if !on {
                state.off.insert(machine);
            }
        });
    }

    /// A process is gone: its sockets with it.
    pub(crate) fn died(&self, executor: &Executor, process: &Arc<Process>, how: Kill) {
        self.change(executor, |state, now, after| {
            state.listening.retain(|_, listening| !Arc::ptr_eq(&listening.process, process));
            let ids: Vec<u64> = state.connections.keys().copied().collect();
            for id in ids {
                let Some(connection) = state.connections.get_mut(&id) else { continue };
                let Some(side) = connection.side_of(process) else { continue };
                connection.pipes[side].write_closed = true;
                connection.pipes[1 - side].read_closed = true;
                match how {
                    // The kernel either sends what was written and then the end, or a reset that
                    // overtakes it.
                    Kill::Process if state.rng.chance(500) => {
                        state.send(id, side, Segment::Fin, now, after)
                    }
                    Kill::Process => {
                        connection.pipes[side].lose();
                        state.send(id, side, Segment::Reset, now, after);
                    }
                    Kill::Power => {
                        connection.pipes[side].lose();
                        after
                            .timers
                            .push((now + USER_TIMEOUT, Delivery::Silent { connection: id }));
                    }
                }
            }
        });
    }

    pub(crate) fn break_between(&self, executor: &Executor, a: MachineId, b: MachineId) {
        self.change(executor, |state, _, after| {
            let between = |c: &Connection| c.is_between(a, b);
            let ids: Vec<u64> =
                state.connections.iter().filter(|(_, c)| between(c)).map(|(id, _)| *id).collect();
            ids.into_iter().for_each(|id| state.reset(id, after));
        });
    }

    /// Nothing passes on the connections between the two for some time; the end that connected
    /// gives them up after [`SILENCE`], `late` before what it had sent arrives. So it is behind a
    /// router, or with one of two cables: the machines reach each other meanwhile.
    pub(crate) fn stall_between(
        &self,
        executor: &Executor,
        (a, b): (MachineId, MachineId),
        late: Duration,
    ) {
        self.change(executor, |state, now, after| {
            for (id, connection) in &mut state.connections {
                if connection.is_between(a, b) && !connection.stalled {
                    connection.stalled = true;
                    let (given_up, resumed) = (now + SILENCE, now + SILENCE + late);
                    after.timers.push((given_up, Delivery::GivenUp { connection: *id }));
                    after.timers.push((resumed, Delivery::Resumed { connection: *id }));
                }
            }
        });
    }

    pub(crate) fn deliver(&self, executor: &Executor, delivery: Delivery) {
        self.change(executor, |state, now, after| match delivery {
            Delivery::Segments { connection, side } => state.arrive(connection, side, now, after),
            Delivery::CutTooLong { from, to, since, watched } => {
                if state.cut.get(&(from, to)) == Some(&since) {
                    let ids: Vec<u64> = state
                        .connections
                        .iter()
                        .filter(|(_, c)| c.is_between(from, to) && (c.watched || !watched))
                        .map(|(id, _)| *id)
                        .collect();
                    ids.into_iter().for_each(|id| state.reset(id, after));
                }
            }
            Delivery::DarkTooLong { cable, since, watched } => {
                if state.dark.get(&cable) == Some(&since) {
                    let on_it = |c: &Connection| c.cable == cable && (c.watched || !watched);
                    let all = state.connections.iter();
                    let ids: Vec<u64> = all.filter(|(_, c)| on_it(c)).map(|(id, _)| *id).collect();
                    ids.into_iter().for_each(|id| state.reset(id, after));
                }
            }
            Delivery::Silent { connection } => state.reset(connection, after),
            Delivery::GivenUp { connection: id } => {
                let Some(connection) = state.connections.get_mut(&id) else { return };
                after.notes.push((Event::Connection, id, 10));
                let is_closed = connection.pipes[0].write_closed;
                connection.give_up(0, &mut after.wake);
                if !is_closed {
                    state.send(id, 0, Segment::Fin, now, after);
                }
            }
            Delivery::Resumed { connection: id } => {
                let Some(connection) = state.connections.get_mut(&id) else { return };
                connection.stalled = false;
                let timers = [0, 1].map(|side| (now, Delivery::Segments { connection: id, side }));
                after.timers.extend(timers);
            }
        });
    }

    pub(crate) fn listen(
        &self,
        executor: &Executor,
        process: &Arc<Process>,
        addr: SocketAddr,
    ) -> io::Result<SocketAddr> {
        self.change(executor, |state, _, _| {
            let mut addr = addr;
            if addr.ip().is_unspecified() {
                addr.set_ip(process.machine().ip());
            }
            if MachineId::of(addr.ip()) != Some(process.machine()) {
                return Err(io::ErrorKind::AddrNotAvailable.into());
            }
            if addr.port() == 0 {
                addr.set_port(state.next_port());
            }
            if state.listening.contains_key(&addr) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let listening =
                Listening { process: process.clone(), queue: VecDeque::new(), waker: None };
            state.listening.insert(addr, listening);
            Ok(addr)
        })
    }

    /// Listens for processes of the same machine. The last one that does so has the name.
    pub(crate) fn listen_local(
        &self,
        executor: &Executor,
        process: &Arc<Process>,
        (folder, name): (&Path, &str),
    ) -> io::Result<SocketAddr> {
        let inside = SocketAddr::new(process.machine().ip_on(INSIDE), 0);
        let addr = self.listen(executor, process, inside)?;
        let name = (process.machine(), folder.to_owned(), name.to_owned());
        self.state.lock().local.insert(name, addr);
        Ok(addr)
    }

    /// Where processes of this machine listen under a name.
    pub(crate) fn local(
        &self,
        process: &Arc<Process>,
        (folder, name): (&Path, &str),
    ) -> Option<SocketAddr> {
        let name = (process.machine(), folder.to_owned(), name.to_owned());
        self.state.lock().local.get(&name).copied()
    }

    pub(crate) fn unlisten(&self, executor: &Executor, process: &Arc<Process>, addr: SocketAddr) {
        self.change(executor, |state, _, after| {
            if state
                .listening
                .get(&addr)
                .is_some_and(|listening| Arc::ptr_eq(&listening.process, process))
            {
                let gone = state
                    .listening
                    .remove(&addr)
                    .map(|listening| listening.queue)
                    .unwrap_or_default();
                gone.into_iter().for_each(|(id, _)| state.reset(id, after));
            }
        });
    }

    pub(crate) fn poll_accept(
        &self,
        executor: &Executor,
        addr: SocketAddr,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(u64, SocketAddr)>> {
        self.change(executor, |state, _, _| match state.listening.get_mut(&addr) {
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Some(listening) => match listening.queue.pop_front() {
                Some(connection) => Poll::Ready(Ok(connection)),
                None => {
                    listening.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            },
        })
    }

    /// Delay in one direction, and whether a message would arrive.
    pub(crate) fn travel(&self, from: MachineId, to: MachineId, cable: u8) -> (Duration, bool) {
        let mut state = self.state.lock();
        (state.delay(0), state.passes(from, to, cable))
    }

    /// The listener takes a connection. `None` if there is no listener.
    pub(crate) fn open(
        &self,
        executor: &Executor,
        process: &Arc<Process>,
        to: SocketAddr,
    ) -> Option<(u64, SocketAddr)> {
        self.change(executor, |state, _, after| {
            let port = state.next_port();
            let listening = state.listening.get_mut(&to)?;
            let id = state.next;
            state.next += 1;
            let cable = cable_of(to.ip());
            let from = SocketAddr::new(process.machine().ip_on(cable), port);
            listening.queue.push_back((id, from));
            after.wake.extend(listening.waker.take());
            let ends = [process.clone(), listening.process.clone()];
            state.connections.insert(id, Connection::new(ends, cable));
            after.notes.push((Event::Connection, id, 1));
            Some((id, from))
        })
    }

    pub(crate) fn poll_read(
        &self,
        executor: &Executor,
        id: u64,
        side: usize,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.change(executor, |state, _, after| {
            let Some(connection) = state.connections.get_mut(&id) else {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            };
            connection.pipes[1 - side].poll_read(cx, buf, &mut after.wake)
        })
    }

    pub(crate) fn poll_write(
        &self,
        executor: &Executor,
        id: u64,
        side: usize,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.change(executor, |state, now, after| {
            let Some(connection) = state.connections.get_mut(&id) else {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            };
            let pipe = &mut connection.pipes[side];
            if let Some(error) = pipe.write_error() {
                return Poll::Ready(Err(error.into()));
            }
            let room = SEND_BUFFER.saturating_sub(pipe.bytes());
            if room == 0 {
                pipe.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let mut data = Vec::with_capacity(room.min(bufs.iter().map(|b| b.len()).sum()));
            for buf in bufs {
                data.extend_from_slice(&buf[..buf.len().min(room - data.len())]);
            }
            let (len, sum) = (data.len(), hash::sum(data.iter().copied()));
            after.notes.push((Event::Send, id * 2 + side as u64, sum));
            state.send(id, side, Segment::Data(Bytes::from(data)), now, after);
            Poll::Ready(Ok(len))
        })
    }

    /// One half of an end is dropped.
    pub(crate) fn close(&self, executor: &Executor, id: u64, side: usize, read: bool, write: bool) {
        self.change(executor, |state, now, after| {
            let Some(connection) = state.connections.get_mut(&id) else { return };
            let fin = write && !std::mem::replace(&mut connection.pipes[side].write_closed, true);
            if read {
                connection.pipes[1 - side].read_closed = true;
                after.wake.extend(connection.pipes[1 - side].writer.take());
            }
            let over = connection.is_over();
            if over {
                state.connections.remove(&id);
                after.notes.push((Event::Connection, id, 2));
            } else if fin {
                state.send(id, side, Segment::Fin, now, after);
            }
        });
    }
}

impl State {
    fn next_port(&mut self) -> u16 {
        self.port = self.port.checked_add(1).unwrap_or(FIRST_PORT);
        self.port
    }

    /// Sends the messages that were held back.
    fn retransmit(&mut self, now: Duration, after: &mut After) {
        let held: Vec<(u64, usize)> = self
            .connections
            .iter()
            .flat_map(|(id, c)| {
                [0, 1].into_iter().filter(|side| c.pipes[*side].is_held()).map(|side| (*id, side))
            })
            .collect();
        for (connection, side) in held {
            let delay = Duration::from_micros(self.rng.below(RETRANSMIT_MAX_US));
            after.timers.push((now + delay, Delivery::Segments { connection, side }));
        }
    }

    fn arrive(&mut self, id: u64, side: usize, now: Duration, after: &mut After) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (from, to) = (connection.machines[side], connection.machines[1 - side]);
        if connection.stalled || !self.passes(from, to, connection.cable) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(cpu) = self.cpus.get_mut(&to) {
            let served = connection.pipes[side].serve(now, |bytes| {
                cpu.serve(Passing { connection: id, side, sent: false, bytes }, now)
            });
            let delivery = Delivery::Segments { connection: id, side };
            after.timers.extend(served.into_iter().map(|when| (when, delivery)));
        }
        let (bytes, end, refused) = connection.pipes[side].arrive(now);
        if bytes > 0 || end.is_some() {
            after.notes.push((Event::Arrive, id * 2 + side as u64, bytes as u64));
        }
        after.wake.extend(connection.pipes[side].reader.take());
        if end == Some(End::Reset) {
            connection.reset(&mut after.wake);
        } else if refused {
            // There is no reader at that end any more: the sender is told.
            self.send(id, 1 - side, Segment::Reset, now, after);
        }
    }
}
