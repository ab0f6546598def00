//! Machines, processes, and the run of the whole.
//!
//! Owner of everything: the [`World`]. Dropping it drops every task and connection.

use crate::clock::SimClock;
pub use crate::clock::Skew;
use crate::disk::{SimDisk, Volume};
use crate::executor::{Executor, Step};
use crate::hash::{Event, EventHash};
use crate::net::{Network, SimNet};
use crate::random::SimRandom;
use crate::rng::Rng;
use crate::tasks::SimTasks;
use env::{BoxFuture, Env};
use parking_lot::Mutex;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of a machine, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u16);

impl MachineId {
    /// Its address.
    pub fn ip(self) -> IpAddr {
        let [high, low] = (self.0 + 1).to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(10, 0, high, low))
    }

    /// The machine with this address.
    pub(crate) fn of(ip: IpAddr) -> Option<MachineId> {
        match ip {
            IpAddr::V4(ip) => match ip.octets() {
                [10, 0, high, low] => u16::from_be_bytes([high, low]).checked_sub(1).map(MachineId),
                _ => None,
            },
            IpAddr::V6(_) => None,
        }
    }
}

/// How fast a disk answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpeed {
    /// Least time of a piece of blocking work, microseconds.
    pub min_us: u64,
    /// Most, usually.
    pub max_us: u64,
    /// In this many of 1000 cases it takes up to `stall_us`.
    pub stalls: u64,
    /// See above, microseconds.
    pub stall_us: u64,
}

impl Default for DiskSpeed {
    fn default() -> DiskSpeed {
        DiskSpeed { min_us: 20, max_us: 400, stalls: 5, stall_us: 20_000 }
    }
}

/// A machine: a disk, a clock, an address.
pub(crate) struct Machine {
    pub(crate) id: MachineId,
    pub(crate) volume: Arc<Volume>,
    skew: Mutex<Skew>,
    speed: Mutex<(DiskSpeed, Rng)>,
}

impl Machine {
    /// Duration of a piece of blocking work.
    pub(crate) fn delay(&self) -> Duration {
        let (speed, rng) = &mut *self.speed.lock();
        let most = if rng.chance(speed.stalls) { speed.stall_us } else { speed.max_us };
        Duration::from_micros(rng.between(speed.min_us, most))
    }
}

/// One run of a program on a machine.
pub struct Process {
    pub(crate) id: u64,
    pub(crate) machine: Arc<Machine>,
    pub(crate) began: Duration,
    pub(crate) skew: Skew,
    alive: AtomicBool,
}

impl Process {
    /// True if it has not been killed.
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> MachineId {
        self.machine.id
    }
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// The process dies; its machine's kernel keeps what was written, and tells its peers.
    Process,
    /// The machine loses power: what was not synced is lost, torn or kept as the seed says; peers
    /// hear nothing.
    Power,
}

pub(crate) struct Core {
    pub(crate) executor: Executor,
    pub(crate) network: Network,
    seed: u64,
    machines: Mutex<Vec<Arc<Machine>>>,
    processes: Mutex<Vec<Arc<Process>>>,
    crashes: Mutex<Rng>,
}

/// The future did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Nothing can happen any more. Holds the tasks that still live.
    Idle(String),
    /// The time is over; the tasks that live.
    Late(String),
    /// Something failed that must not.
    Failed(Vec<String>),
}

/// A simulated world.
pub struct World {
    core: Arc<Core>,
}

impl World {
    /// A world without machines.
    pub fn new(seed: u64) -> World {
        World::with_trace(seed, false)
    }

    /// A world that prints every event on standard error, to compare two runs that should be equal.
    pub fn with_trace(seed: u64, trace: bool) -> World {
        let core = Core {
            executor: Executor::new(seed, trace),
            network: Network::new(seed),
            seed,
            machines: Mutex::default(),
            processes: Mutex::default(),
            crashes: Mutex::new(Rng::new(seed, "crashes")),
        };
        World { core: Arc::new(core) }
    }

    /// Adds a machine whose disk has this many bytes.
    pub fn machine(&self, disk_bytes: u64) -> MachineId {
        let mut machines = self.core.machines.lock();
        let id = MachineId(machines.len() as u16);
        let speed = Mutex::new((DiskSpeed::default(), Rng::new(self.core.seed, &format!("disk speed {}", id.0))));
        let volume = Arc::new(Volume::new(disk_bytes));
        machines.push(Arc::new(Machine { id, volume, skew: Mutex::default(), speed }));
        id
    }

    fn of(&self, id: MachineId) -> Arc<Machine> {
        self.core.machines.lock()[usize::from(id.0)].clone()
    }

    /// Clocks of processes that start there from now on.
    pub fn set_skew(&self, id: MachineId, skew: Skew) {
        *self.of(id).skew.lock() = skew;
    }

    /// Speed of its disk from now on.
    pub fn set_disk_speed(&self, id: MachineId, speed: DiskSpeed) {
        self.of(id).speed.lock().0 = speed;
    }

    /// The machine's disk, for filling it up or looking inside.
    pub fn volume(&self, id: MachineId) -> Arc<Volume> {
        self.of(id).volume.clone()
    }

    /// The network, for delays, partitions and broken connections.
    pub fn network(&self) -> NetworkHandle<'_> {
        NetworkHandle { core: &self.core }
    }

    /// Starts a process on a machine, which is powered on if need be.
    pub fn start(&self, id: MachineId) -> (Env, Arc<Process>) {
        let machine = self.of(id);
        let (skew, began) = (*machine.skew.lock(), self.core.executor.now());
        let process = {
            let mut processes = self.core.processes.lock();
            let number = processes.len() as u64 + 1;
            let process = Arc::new(Process { id: number, machine, began, skew, alive: AtomicBool::new(true) });
            processes.push(process.clone());
            process
        };
        self.core.executor.note(Event::Process, process.id, 1);
        self.core.network.power(&self.core, id, true);
        let (core, shared) = (self.core.clone(), process.clone());
        let env = Env {
            clock: Arc::new(SimClock { core: core.clone(), process: shared.clone() }),
            random: Arc::new(SimRandom {
                rng: Mutex::new(Rng::new(self.core.seed, &format!("process {}", process.id))),
            }),
            tasks: Arc::new(SimTasks { core: core.clone(), process: shared.clone() }),
            net: Arc::new(SimNet { core: core.clone(), process: shared.clone() }),
            disk: Arc::new(SimDisk { core, process: shared }),
        };
        (env, process)
    }

    /// Ends a process at this instant. Its tasks are dropped; nothing that they do while being
    /// dropped reaches another process. A power cut ends every process of the machine.
    pub fn kill(&self, process: &Arc<Process>, how: Kill) {
        let victims: Vec<Arc<Process>> = match how {
            Kill::Process => vec![process.clone()],
            Kill::Power => {
                let all = self.core.processes.lock();
                all.iter().filter(|p| p.machine.id == process.machine.id && p.is_alive()).cloned().collect()
            }
        };
        if how == Kill::Power {
            self.core.network.power(&self.core, process.machine.id, false);
        }
        for victim in &victims {
            if !victim.alive.swap(false, Ordering::Relaxed) {
                continue;
            }
            self.core.executor.note(Event::Process, victim.id, 2 + how as u64);
            self.core.network.died(&self.core, victim, how);
            victim.machine.volume.unlock(victim.id);
        }
        if how == Kill::Power {
            process.machine.volume.crash(&mut self.core.crashes.lock());
        }
        for victim in &victims {
            self.core.executor.bury(victim);
        }
    }

    /// Runs something that belongs to no machine: the test itself.
    pub fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.core.executor.spawn(name, None, future);
    }

    /// A clock that shows true time, for tests: they belong to no machine.
    pub fn sleep_until(&self, when: Duration) -> BoxFuture<'static, ()> {
        let core = self.core.clone();
        let mut timer = None;
        Box::pin(std::future::poll_fn(move |cx| {
            if core.executor.now() >= when {
                return std::task::Poll::Ready(());
            }
            let action = crate::executor::Action::Wake(cx.waker().clone());
            timer.get_or_insert_with(|| core.executor.at(when, action));
            std::task::Poll::Pending
        }))
    }

    /// Makes one step. `false`: nothing happens before `limit`, which is then the time.
    pub fn step(&self, limit: Duration) -> bool {
        match self.core.executor.step(limit) {
            Step::Done => true,
            Step::Deliver(delivery) => {
                self.core.network.deliver(&self.core, delivery);
                true
            }
            Step::Idle => false,
        }
    }

    /// Runs until virtual time is `limit`.
    pub fn run_until(&self, limit: Duration) {
        while self.step(limit) {}
    }

    /// Runs until the future is ready.
    ///
    /// # Errors
    /// Nothing is left to do, it takes longer than `time`, or something failed.
    pub fn block_on<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        time: Duration,
    ) -> Result<T, Stuck> {
        let answer = Arc::new(Mutex::new(None));
        let slot = answer.clone();
        self.spawn("test", Box::pin(async move { *slot.lock() = Some(future.await) }));
        let limit = self.now() + time;
        loop {
            let answered = answer.lock().take();
            if let Some(answered) = answered {
                return Ok(answered);
            }
            let went = self.step(limit);
            if self.core.executor.has_failed() {
                return Err(Stuck::Failed(self.failures()));
            }
            if !went {
                let living = format!("{:?}", self.core.executor.living());
                return Err(if self.now() >= limit { Stuck::Late(living) } else { Stuck::Idle(living) });
            }
        }
    }

    /// True time since the beginning.
    pub fn now(&self) -> Duration {
        self.core.executor.now()
    }

    /// Everything so far, as one number.
    pub fn hash(&self) -> EventHash {
        self.core.executor.hash()
    }

    /// Puts something of the test into the hash.
    pub fn note(&self, a: u64, b: u64) {
        self.core.executor.note(Event::Note, a, b);
    }

    /// Panics of tasks and the like.
    pub fn failures(&self) -> Vec<String> {
        self.core.executor.failures()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let living: Vec<Arc<Process>> = self.core.processes.lock().clone();
        living.iter().for_each(|process| process.alive.store(false, Ordering::Relaxed));
        self.core.executor.clear();
        self.core.network.clear();
    }
}

/// Changes of the network.
pub struct NetworkHandle<'a> {
    core: &'a Arc<Core>,
}

impl NetworkHandle<'_> {
    /// Delays from now on.
    pub fn set_delays(&self, delays: crate::net::Delays) {
        self.core.network.set_delays(delays);
    }

    /// Nothing arrives from `from` at `to` until it is healed.
    pub fn cut(&self, from: MachineId, to: MachineId) {
        self.core.network.cut(self.core, from, to);
    }

    /// Heals all cuts.
    pub fn heal(&self) {
        self.core.network.heal(self.core);
    }

    /// Every connection between the two ends at once; bytes under way are lost.
    pub fn break_connections(&self, a: MachineId, b: MachineId) {
        self.core.network.break_between(self.core, a, b);
    }

    /// Connections that exist now.
    pub fn connections(&self) -> usize {
        self.core.network.count()
    }
}
