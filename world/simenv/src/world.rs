//! The world as a test sees it: it adds machines, starts and kills processes, and runs the whole.
//!
//! Owner of everything: the [`World`]. Dropping it drops every task and connection.

use crate::clock::SimClock;
use crate::core::Core;
use crate::disk::SimDisk;
use crate::executor::{Action, Executor, Step};
use crate::hash::{Event, EventHash};
use crate::machine::{DiskSpeed, Kill, Machine, MachineId, Process, Skew};
use crate::net::SimNet;
use crate::network::cpu::Cost;
use crate::network::{Delays, Network};
use crate::random::SimRandom;
use crate::rng::Rng;
use crate::tasks::SimTasks;
use crate::volume::Volume;
use env::{BoxFuture, Env};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
        let speed = Mutex::new((
            DiskSpeed::default(),
            Rng::new(self.core.seed, &format!("disk speed {}", id.0)),
        ));
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

    /// Gives the machine one CPU, through which all that it sends and receives goes in turn.
    pub fn set_cpu(&self, id: MachineId, cost: Cost) {
        self.core.network.set_cpu(id, cost);
    }

    /// How long the CPU of this machine has worked.
    pub fn busy(&self, id: MachineId) -> Duration {
        self.core.network.busy(id)
    }

    /// Takes time of the CPU of this machine, if it has one, for other work than messages.
    pub fn charger(&self, id: MachineId) -> impl Fn(Duration) + Send + Sync + use<> {
        let core = self.core.clone();
        move |cost| core.network.charge(&core.executor, id, cost)
    }

    /// Starts a process on a machine, which is powered on if need be.
    pub fn start(&self, id: MachineId) -> (Env, Arc<Process>) {
        let machine = self.of(id);
        let (skew, began) = (*machine.skew.lock(), self.core.executor.now());
        let process = {
            let mut processes = self.core.processes.lock();
            let number = processes.len() as u64 + 1;
            let process = Arc::new(Process {
                id: number,
                machine,
                began,
                skew,
                alive: AtomicBool::new(true),
            });
            processes.push(process.clone());
            process
        };
        self.core.executor.note(Event::Process, process.id, 1);
        self.core.network.power(&self.core.executor, id, true);
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
                all.iter()
                    .filter(|p| p.machine.id == process.machine.id && p.is_alive())
                    .cloned()
                    .collect()
            }
        };
        if how == Kill::Power {
            self.core.network.power(&self.core.executor, process.machine.id, false);
        }
        for victim in &victims {
            if !victim.alive.swap(false, Ordering::Relaxed) {
                continue;
            }
            self.core.executor.note(Event::Process, victim.id, 2 + how as u64);
            self.core.network.died(&self.core.executor, victim, how);
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
            let action = Action::Wake(cx.waker().clone());
            timer.get_or_insert_with(|| core.executor.at(when, action));
            std::task::Poll::Pending
        }))
    }

    /// Makes one step. `false`: nothing happens before `limit`, which is then the time.
    pub fn step(&self, limit: Duration) -> bool {
        match self.core.executor.step(limit) {
            Step::Done => true,
            Step::Deliver(delivery) => {
                self.core.network.deliver(&self.core.executor, delivery);
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
                return Err(if self.now() >= limit {
                    Stuck::Late(living)
                } else {
                    Stuck::Idle(living)
                });
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
    pub fn set_delays(&self, delays: Delays) {
        self.core.network.set_delays(delays);
    }

    /// Nothing arrives from `from` at `to` until it is healed.
    pub fn cut(&self, from: MachineId, to: MachineId) {
        self.core.network.cut(&self.core.executor, from, to);
    }

    /// Nothing passes between addresses of this cable ([`MachineId::ip_on`]) until it is healed.
    pub fn cut_cable(&self, cable: u8) {
        self.core.network.cut_cable(&self.core.executor, cable);
    }

    /// Heals all cuts.
    pub fn heal(&self) {
        self.core.network.heal(&self.core.executor);
    }

    /// Every connection between the two ends at once; bytes under way are lost.
    pub fn break_connections(&self, a: MachineId, b: MachineId) {
        self.core.network.break_between(&self.core.executor, a, b);
    }

    /// Nothing passes on the connections that are there between the two, while new ones can be
    /// made. The ends that connected give them up, and what they had sent arrives `late` after
    /// that.
    pub fn stall_connections(&self, a: MachineId, b: MachineId, late: Duration) {
        self.core.network.stall_between(&self.core.executor, (a, b), late);
    }

    /// Connections that exist now.
    pub fn connections(&self) -> usize {
        self.core.network.count()
    }
}
