//! One seed: a cluster, programs, faults, and the verdict of the oracles.

use crate::bytes_seen::Loss;
use crate::cluster::{Cluster, MdtRecord, Mount, Server};
use crate::contact::Contact;
use crate::fault_profile::{Fault, FaultProfile};
use crate::history::{Kind, Moment};
use crate::linear::{self, Blackout, Verdict};
use crate::program::{Program, Recorder};
use crate::tree::{SYNTHETIC, Tree};
use check::check::{Check, FIRST, THEN};
use client::client::Client;
use observe::fault::{self, Act, Planned, Point};
use parking_lot::Mutex;
use rpc::import::{Import, ImportState};
use simenv::machine::{DiskSpeed, Kill, MachineId, Skew};
use simenv::network::Delays;
use simenv::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use types::fid::Fid;
use types::target::TargetKind;

/// Faults of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Delays, broken connections, partitions.
    pub network: bool,
    /// Clients die.
    pub clients: bool,
    /// Disks stall, clocks differ.
    pub machines: bool,
    /// Servers die and come back.
    pub servers: bool,
    /// Programs of some seeds do one thing over and over ([`crate::workload`]).
    pub workloads: bool,
    /// Number of MDTs.
    pub mdts: Mdts,
}

/// How many MDTs a seed has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mdts {
    /// So many: 1 to [`MDTS_MAX`].
    Fixed(u16),
    /// As the seed says.
    BySeed,
}

impl Mdts {
    fn of(self, seed: u64) -> u16 {
        match self {
            Mdts::Fixed(mdts) => mdts,
            // A generator of its own: with one MDT a seed is what it always was.
            Mdts::BySeed => Rng::new(seed, "mdts").between(1, u64::from(MDTS_MAX)) as u16,
        }
    }
}

/// Most MDTs that a seed has.
pub const MDTS_MAX: u16 = 4;

impl Faults {
    /// The arguments of `sim` that choose these; empty for the default ones.
    pub fn arguments(&self) -> String {
        let switches = [
            ("network", self.network),
            ("clients", self.clients),
            ("machines", self.machines),
            ("servers", self.servers),
            ("workloads", self.workloads),
        ];
        let off = switches.iter().filter(|(_, on)| !on).map(|(what, _)| format!(" --no-{what}"));
        let mdts = match self.mdts {
            Mdts::Fixed(1) => String::new(),
            Mdts::Fixed(count) => format!(" --mdts {count}"),
            Mdts::BySeed => " --mdts seed".to_owned(),
        };
        off.chain([mdts]).collect()
    }
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            network: true,
            clients: true,
            machines: true,
            servers: true,
            workloads: true,
            mdts: Mdts::Fixed(1),
        }
    }
}

/// Result of a seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The errors; empty if all is well.
    pub wrong: Vec<String>,
    /// Hash of all events.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Virtual time.
    pub time: Duration,
    /// Operations that programs finished.
    pub answered: u64,
    /// Faults that were made.
    pub faults: u64,
    /// Extents of files that several clients wrote at once.
    pub extents: u64,
    /// Gaps of directories in which several clients made names at once: granted, and called back.
    pub gaps: (u64, u64),
    /// The name space could not be judged: too many operations without an answer.
    pub tangled: bool,
}

/// The servers must answer the first clients within this time.
const START_MAX: Duration = Duration::from_secs(60);
/// Servers have found each other after this time.
const SETTLE: Duration = Duration::from_secs(3);
/// After the last fault every program must come to its end within this time: a request may wait its
/// 100 s, and one behind it again.
const LIVENESS_MAX: Duration = Duration::from_secs(600);
/// This long after the last client has gone, nothing may be left of removed files.
const QUIET_MAX: Duration = Duration::from_secs(200);
/// An MDT dies no sooner than this after a client: what that did is durable then.
const ALONE: Duration = Duration::from_secs(5);
/// Two ranges, milliseconds: how long a client that falls silent is kept from its MDT before its
/// messages to the OSTs are held back, and how long those are held. It goes on writing under locks
/// that it trusts for 20 s. The messages arrive when the MDT has given it up (30 to 35 s) and
/// others have written, but sooner than TCP gives up (30 s).
const SILENT_MS: [(u64, u64); 2] = [(9_000, 15_000), (24_000, 29_000)];
/// As [`SILENT_MS`], but both begin at about the same time and last as long as TCP waits: messages
/// that were on their way to the OSTs arrive when others have the locks.
const LATE_MS: [(u64, u64); 2] = [(200, 1_000), (29_500, 29_950)];

struct Run {
    cluster: Cluster,
    recorder: Recorder,
    rng: Rng,
    mounts: Vec<Mount>,
    programs: usize,
    /// Programs that have not come to their end, by process.
    running: Arc<AtomicUsize>,
    /// Programs of each living process.
    alive: Vec<Arc<Mutex<BTreeSet<usize>>>>,
    faults: u64,
    wrong: Vec<String>,
    /// Time of a client's last death.
    last_death: Duration,
    fault_profile: FaultProfile,
    /// The client that did not hear the last moments of an MDT.
    deaf: Option<usize>,
    /// Time of the power cut.
    blackout: Option<Moment>,
    /// Mounts that died or were evicted.
    losses: Vec<Loss>,
    /// Since when mounts may have been given up, and how often each was evicted.
    contact: Contact,
    evictions: BTreeMap<usize, u64>,
    /// Time at which evictions were last noted.
    looked: Moment,
}

/// Runs a seed.
pub fn run(seed: u64, faults: Faults, trace: bool) -> Report {
    let mut rng = Rng::new(seed, "plan");
    let fault_profile = FaultProfile::draw(seed, &mut rng, faults.workloads);
    let cluster = Cluster::start(seed, faults.mdts.of(seed), fault_profile.commits, trace);
    let mut run = Run {
        cluster,
        recorder: Recorder::default(),
        mounts: Vec::new(),
        programs: 0,
        running: Arc::default(),
        alive: Vec::new(),
        faults: 0,
        wrong: Vec::new(),
        last_death: Duration::ZERO,
        fault_profile,
        deaf: None,
        blackout: None,
        losses: Vec::new(),
        contact: Contact::default(),
        evictions: BTreeMap::new(),
        looked: 0,
        rng: rng.clone(),
    };
    if faults.network {
        run.cluster.world.network().set_delays(*rng.pick(&[
            Delays::default(),
            Delays { min_us: 10, max_us: 50, late: 1, late_us: 1_000, rate: 10_000 },
            Delays { min_us: 1_000, max_us: 40_000, late: 20, late_us: 300_000, rate: 100 },
        ]));
    }
    run.rng = rng;
    let answers = late_answers(seed, run.fault_profile.unanswered);
    let tangled = run.whole(faults);
    drop(answers);
    let world = &run.cluster.world;
    run.wrong.extend(world.failures());
    let (hash, time) = (world.hash(), world.now());
    let answered = *run.recorder.answered.lock();
    Report {
        seed,
        wrong: run.wrong,
        hash: hash.value(),
        events: hash.events(),
        time,
        answered,
        faults: run.faults,
        extents: run.cluster.counted("extents_granted"),
        gaps: (run.cluster.counted("gaps_granted"), run.cluster.counted("gaps_revoked")),
        tangled,
    }
}

/// So many of 1000 answers to changes are late.
fn late_answers(seed: u64, of_1000: u64) -> Option<Planned> {
    let mut rng = Rng::new(seed, "answers");
    let plan = move |point: &'static Point| {
        let is_late = point.name == fault::MDS_BEFORE_ANSWER.name && rng.chance(of_1000);
        is_late.then(|| Act::Delay(Duration::from_micros(rng.between(100, 60_000))))
    };
    (of_1000 > 0).then(|| fault::plan(Box::new(plan)))
}

impl Run {
    /// Everything in its order; true if the history was too tangled.
    fn whole(&mut self, faults: Faults) -> bool {
        if faults.machines {
            self.worsen_machines();
        }
        for _ in 0..self.rng.between(2, 3) {
            self.add_client(None);
        }
        let all = self.mounts.len();
        if !self.wait(START_MAX, |run| run.mounts.iter().all(|mount| mount.client.lock().is_some()))
        {
            self.wrong.push(format!("the {all} clients could not mount within {START_MAX:?}"));
            return false;
        }
        // A real mount waits for the OSTs, too.
        self.wait(SETTLE, |_| false);
        for number in 0..all {
            self.start_programs(number);
        }
        self.trouble(faults);
        self.heal();
        if !self.wait(LIVENESS_MAX, |run| run.running.load(Ordering::Relaxed) == 0) {
            let stuck: Vec<_> = self.alive.iter().map(|alive| alive.lock().clone()).collect();
            self.wrong.push(format!(
                "programs {stuck:?} did not end within {LIVENESS_MAX:?} after the last fault"
            ));
            return false;
        }
        let ended = self.end();
        let tangled = self.judge(ended);
        self.wrong.extend(std::mem::take(&mut *self.recorder.found.lock()));
        tangled
    }

    fn worsen_machines(&mut self) {
        for server in &self.cluster.servers {
            let rate_ppm = self.rng.between(0, 2_000) as i32 - 1_000;
            let wall_ms = self.rng.between(0, 4_000) as i64 - 2_000;
            self.cluster.world.set_skew(server.machine, Skew { wall_ms, rate_ppm });
            if self.rng.chance(300) {
                let slow =
                    DiskSpeed { min_us: 1_000, max_us: 20_000, stalls: 30, stall_us: 1_500_000 };
                self.cluster.world.set_disk_speed(server.machine, slow);
            }
        }
    }

    /// Lets the world go on until something is so; `false`: it is not within `time`, or something
    /// failed.
    fn wait(&mut self, time: Duration, is_so: impl Fn(&Run) -> bool) -> bool {
        self.note_evictions();
        let limit = self.cluster.world.now() + time;
        while !is_so(self) {
            let now = self.cluster.world.now();
            if now >= limit || !self.cluster.world.failures().is_empty() {
                return false;
            }
            self.cluster.world.run_until(now + Duration::from_millis(5));
            self.note_evictions();
        }
        true
    }

    /// Data that an evicted mount had not stored is lost.
    fn note_evictions(&mut self) {
        for (number, mount) in self.mounts.iter().enumerate() {
            let Some(client) = mount.client.lock().clone() else { continue };
            let count = imports(&client).map(|import| import.evictions()).sum();
            if self.evictions.insert(number, count).unwrap_or(0) < count {
                let (from, until) = (self.contact.since(number), self.recorder.history.moment());
                self.losses.push(Loss { mount: number, from, told: self.looked, until });
            }
        }
        self.looked = self.recorder.history.now();
    }

    /// A mount may be given up from now on: since when it may have been.
    fn lost_contact(&mut self, mount: usize) -> Moment {
        let at = self.recorder.history.moment();
        let Mount { machine, client, .. } = &self.mounts[mount];
        self.recorder.locks.lost_contact(usize::from(machine.0), at);
        let in_service = |import: &Import| import.state() == ImportState::Full;
        let heard = client.lock().as_deref().and_then(|client| {
            let answered =
                imports(client).map(|import| import.proved_at().filter(|_| in_service(&import)));
            answered.min().flatten()
        });
        self.contact.lost(mount, at, heard)
    }

    /// Nothing is cut any more.
    fn heal(&mut self) {
        self.cluster.world.network().heal();
        for (number, mount) in self.mounts.iter().enumerate() {
            self.contact.healed(number, mount.env.clock.now());
        }
    }

    fn add_client(&mut self, instead_of: Option<usize>) -> usize {
        let machine = instead_of.map(|number| self.mounts[number].machine);
        let mount = self.cluster.mount(machine);
        self.mounts.push(mount);
        self.alive.push(Arc::default());
        self.mounts.len() - 1
    }

    fn start_programs(&mut self, mount: usize) {
        for _ in 0..self.rng.between(1, 2) {
            let Some(program) = self.program(mount) else { return };
            let (running, alive, number) =
                (self.running.clone(), self.alive[mount].clone(), program.number);
            running.fetch_add(1, Ordering::Relaxed);
            alive.lock().insert(number);
            let life = async move {
                program.run().await;
                if alive.lock().remove(&number) {
                    running.fetch_sub(1, Ordering::Relaxed);
                }
            };
            self.mounts[mount].env.tasks.spawn("program", Box::pin(life));
        }
    }

    fn program(&mut self, mount: usize) -> Option<Program> {
        let at = &self.mounts[mount];
        let client = at.client.lock().clone()?;
        let number = self.programs;
        self.programs += 1;
        let rng = Rng::new(self.rng.next_u64(), "program");
        let recorder = self.recorder.clone();
        let machine = usize::from(at.machine.0);
        let workload = self.fault_profile.workload;
        let directories = at.directories.clone();
        Some(Program {
            number,
            machine,
            mount,
            client,
            env: at.env.clone(),
            rng,
            workload,
            directories,
            recorder,
        })
    }

    fn is_mounted(&self, mount: usize) -> bool {
        self.mounts[mount].process.is_alive() && self.mounts[mount].client.lock().is_some()
    }

    /// Faults at random instants, as long as programs run.
    fn trouble(&mut self, faults: Faults) {
        let until = self.cluster.world.now() + self.fault_profile.faults_for;
        let mut waiting_to_start = Vec::new();
        let mut down: Vec<(usize, Duration)> = Vec::new();
        loop {
            let pause = Duration::from_micros(self.rng.between(1_000, self.fault_profile.pause_us));
            if self.wait(pause, |run| run.running.load(Ordering::Relaxed) == 0)
                || self.cluster.world.now() >= until
                || !self.cluster.world.failures().is_empty()
            {
                break;
            }
            self.start_servers(&mut down, false);
            waiting_to_start.retain(|mount| {
                let ready = self.is_mounted(*mount);
                if ready {
                    self.start_programs(*mount);
                }
                !ready
            });
            let fault = self.fault_profile.fault(&mut self.rng);
            // A client that is kept from a recovering MDT is evicted: it is told, and that is no
            // fault.
            let recovered = self.cluster.is_recovered();
            match fault {
                Fault::Break if faults.network => self.break_something(),
                Fault::Cut if faults.network && recovered => self.cut_something(),
                Fault::Silence if faults.network && recovered => self.silence_a_client(),
                Fault::Heal if faults.network => self.heal(),
                Fault::Client if faults.clients && recovered => {
                    waiting_to_start.extend(self.kill_a_client())
                }
                Fault::Server if faults.servers => self.kill_a_server(&mut down),
                Fault::Blackout if faults.servers && recovered => {
                    self.black_out(&mut down);
                    self.faults += 1;
                    break;
                }
                _ => continue,
            }
            self.faults += 1;
        }
        self.start_servers(&mut down, true);
    }

    /// A server dies, by kill or power cut, and comes back a while later.
    fn kill_a_server(&mut self, down: &mut Vec<(usize, Duration)>) {
        let is_mdt = |server: &Server| server.kind == TargetKind::Mdt;
        let wanted = self.rng.chance(self.fault_profile.mdt);
        let able: Vec<usize> = (0..self.cluster.servers.len())
            .filter(|n| is_mdt(&self.cluster.servers[*n]) == wanted)
            .collect();
        let number = *self.rng.pick(&able);
        let kind = self.cluster.servers[number].kind;
        let now = self.cluster.world.now();
        // What a client does in its last moments may be lost if its MDT dies as well, and with it
        // the changes of others that rest on it.
        let alone = kind != TargetKind::Mdt || now >= self.last_death + ALONE;
        if down.iter().any(|(other, _)| *other == number) || !alone {
            return;
        }
        // A client that is kept from a recovering target is given up.
        if kind != TargetKind::Mgt {
            self.heal();
        }
        if kind == TargetKind::Mdt && self.rng.chance(self.fault_profile.unheard) {
            self.leave_unheard(number);
        }
        let power = self.rng.chance(500);
        self.cluster.kill_server(number, if power { Kill::Power } else { Kill::Process });
        if kind == TargetKind::Mdt {
            self.heal();
        }
        let pause = Duration::from_micros(self.rng.between(10_000, self.fault_profile.down_us));
        down.push((number, now + pause));
    }

    /// For a moment a client does not hear an MDT, which hears the client.
    fn leave_unheard(&mut self, mdt: usize) {
        let mount = self.rng.below(self.mounts.len() as u64) as usize;
        let (deaf, mdt) = (self.mounts[mount].machine, self.cluster.servers[mdt].machine);
        self.cluster.world.network().cut(mdt, deaf);
        let moment = Duration::from_micros(self.rng.between(500, 60_000));
        self.wait(moment, |_| false);
        self.deaf = Some(mount);
    }

    /// All machines lose their power at once: clients, too. Servers come back, all of them soon.
    fn black_out(&mut self, down: &mut Vec<(usize, Duration)>) {
        let at = self.recorder.history.moment();
        self.blackout = Some(at);
        self.heal();
        for (mount, alive) in self.mounts.iter().zip(&self.alive) {
            self.recorder.locks.lost_contact(usize::from(mount.machine.0), at);
            self.cluster.world.kill(&mount.process, Kill::Power);
            let dead = std::mem::take(&mut *alive.lock());
            self.running.fetch_sub(dead.len(), Ordering::Relaxed);
        }
        for number in 0..self.cluster.servers.len() {
            self.cluster.kill_server(number, Kill::Power);
        }
        down.clear();
        for number in 0..self.cluster.servers.len() {
            let pause = Duration::from_micros(self.rng.between(1_000, 1_000_000));
            let now = self.cluster.world.now();
            down.push((number, now + pause));
        }
    }

    /// Starts the servers that have been down long enough, or all.
    fn start_servers(&mut self, down: &mut Vec<(usize, Duration)>, all: bool) {
        let now = self.cluster.world.now();
        let (due, later) =
            std::mem::take(down).into_iter().partition(|(_, when)| all || *when <= now);
        *down = later;
        let due: Vec<(usize, Duration)> = due;
        for (number, _) in due {
            self.cluster.start_server(number);
            let is_mdt = self.cluster.servers[number].kind == TargetKind::Mdt;
            // Without lateness nothing is drawn.
            if is_mdt
                && !all
                && self.fault_profile.late > 0
                && self.rng.chance(self.fault_profile.late)
            {
                self.make_late(number);
            }
        }
    }

    /// A client does not hear an MDT for a moment, during or after its recovery. That is far
    /// shorter than the time it is waited for.
    fn make_late(&mut self, mdt: usize) {
        let before = Duration::from_micros(self.rng.below(300_000));
        self.wait(before, |_| false);
        let number =
            self.deaf.take().unwrap_or_else(|| self.rng.below(self.mounts.len() as u64) as usize);
        let (late, mdt) = (self.mounts[number].machine, self.cluster.servers[mdt].machine);
        self.cluster.world.network().cut(mdt, late);
        if self.rng.chance(400) {
            self.cluster.world.network().cut(late, mdt);
        }
        let moment = Duration::from_micros(self.rng.between(1_000, 800_000));
        self.wait(moment, |_| false);
        self.heal();
    }

    fn pair(&mut self) -> (usize, usize) {
        let mount = self.rng.below(self.mounts.len() as u64) as usize;
        (mount, self.rng.below(self.cluster.servers.len() as u64) as usize)
    }

    fn break_something(&mut self) {
        let (mount, server) = self.pair();
        let (a, b) = match self.rng.chance(800) {
            true => (self.mounts[mount].machine, self.cluster.servers[server].machine),
            false => (self.an_mdt(), self.cluster.servers[server].machine),
        };
        self.cluster.world.network().break_connections(a, b);
    }

    /// Machine of an MDT. If there is only one, nothing is drawn.
    fn an_mdt(&mut self) -> MachineId {
        let mdts = self.cluster.servers.iter().filter(|server| server.kind == TargetKind::Mdt);
        let machines: Vec<MachineId> = mdts.map(|server| server.machine).collect();
        if machines.len() == 1 { machines[0] } else { *self.rng.pick(&machines) }
    }

    fn cut_something(&mut self) {
        let (mount, server) = self.pair();
        let (a, b) = (self.mounts[mount].machine, self.cluster.servers[server].machine);
        // Until it is healed the client may lose its lease, and with it its locks.
        self.lost_contact(mount);
        match self.rng.below(3) {
            0 => self.cluster.world.network().cut(a, b),
            1 => self.cluster.world.network().cut(b, a),
            _ => {
                self.cluster.world.network().cut(a, b);
                self.cluster.world.network().cut(b, a);
            }
        }
    }

    /// The messages of a client are held back until others have its locks: first those to and from
    /// the MDT, then those to the OSTs, which it sends while it still trusts the locks.
    fn silence_a_client(&mut self) {
        let mount = self.rng.below(self.mounts.len() as u64) as usize;
        let silent = self.mounts[mount].machine;
        self.lost_contact(mount);
        let both = [self.rng.chance(900), self.rng.chance(200)];
        let times = if self.rng.chance(500) { SILENT_MS } else { LATE_MS }
            .map(|(least, most)| Duration::from_millis(self.rng.between(least, most)));
        for ((kind, both), time) in
            [TargetKind::Mdt, TargetKind::Ost].into_iter().zip(both).zip(times)
        {
            for server in self.cluster.servers.iter().filter(|server| server.kind == kind) {
                self.cluster.world.network().cut(silent, server.machine);
                if both {
                    self.cluster.world.network().cut(server.machine, silent);
                }
            }
            self.wait(time, |_| false);
        }
        self.heal();
    }

    /// A client dies; another one comes on the same machine.
    fn kill_a_client(&mut self) -> Option<usize> {
        let living: Vec<usize> =
            (0..self.mounts.len()).filter(|mount| self.is_mounted(*mount)).collect();
        if living.len() < 2 {
            return None;
        }
        let victim = *self.rng.pick(&living);
        let from = self.lost_contact(victim);
        let until = self.recorder.history.moment();
        self.losses.push(Loss { mount: victim, from, told: until, until });
        self.last_death = self.cluster.world.now();
        let how = if self.rng.chance(500) { Kill::Process } else { Kill::Power };
        self.cluster.world.kill(&self.mounts[victim].process, how);
        let dead = std::mem::take(&mut *self.alive[victim].lock());
        self.running.fetch_sub(dead.len(), Ordering::Relaxed);
        Some(self.add_client(Some(victim)))
    }

    /// No program has a file open any more, but the clients are still there: none of them keeps a
    /// removed inode.
    fn look_for_kept(&mut self) {
        let orphans = |run: &Run| -> Vec<Fid> {
            let marks = run
                .cluster
                .mdt_records()
                .into_iter()
                .filter(|record| record.key.first() == Some(&b'P'));
            marks.filter_map(|record| disk::key::fid_of(&record.key)).collect()
        };
        if !self.wait(QUIET_MAX, |run| orphans(run).is_empty())
            && self.cluster.world.failures().is_empty()
        {
            let kept: Vec<String> = orphans(self).iter().map(Fid::to_string).collect();
            self.wrong.push(format!(
                "removed inodes {} are kept, and no program has them open",
                kept.join(", ")
            ));
        }
    }

    /// All clients go. A last one reads everything, then goes, too. `false`: it could not.
    fn end(&mut self) -> bool {
        let last = self.add_client(None);
        if !self.wait(START_MAX, |run| run.mounts[last].client.lock().is_some()) {
            self.wrong.push("no client can mount after the faults".to_owned());
            return false;
        }
        self.look_for_kept();
        let done = Arc::new(AtomicUsize::new(0));
        for mount in (0..self.mounts.len()).filter(|mount| *mount != last) {
            let client = self.mounts[mount].client.lock().clone();
            if let (true, Some(client)) = (self.mounts[mount].process.is_alive(), client) {
                let ended = done.clone();
                let leave = async move {
                    client.unmount().await;
                    ended.fetch_sub(1, Ordering::Relaxed);
                };
                done.fetch_add(1, Ordering::Relaxed);
                self.mounts[mount].env.tasks.spawn("unmount", Box::pin(leave));
            }
        }
        let gone = done.clone();
        if !self.wait(LIVENESS_MAX, |_| gone.load(Ordering::Relaxed) == 0) {
            self.wrong.push("clients could not unmount".to_owned());
            return false;
        }
        let Some(program) = self.program(last) else { return false };
        let (client, ended) = (program.client.clone(), done.clone());
        done.store(1, Ordering::Relaxed);
        let read = async move {
            program.read_all().await;
            client.unmount().await;
            ended.store(0, Ordering::Relaxed);
        };
        self.mounts[last].env.tasks.spawn("read all", Box::pin(read));
        if !self.wait(LIVENESS_MAX, |_| done.load(Ordering::Relaxed) == 0) {
            self.wrong.push("the last client could not read everything".to_owned());
            return false;
        }
        true
    }

    fn judge(&mut self, ended: bool) -> bool {
        self.wrong.extend(self.recorder.bytes.check(self.blackout, &self.losses));
        self.wrong.extend(self.recorder.locks.check());
        // An evicted mount has lost its open files.
        let kept = |mount: usize| !self.losses.iter().any(|loss| loss.mount == mount);
        let gone: Vec<_> =
            self.recorder.gone.lock().iter().filter(|(mount, _)| kept(*mount)).cloned().collect();
        self.wrong.extend(gone.into_iter().map(|(_, text)| text));
        let records = self.recorder.history.records();
        let synced = self.recorder.durable.lock().clone();
        let mdts = self.cluster.servers.iter().filter(|server| server.kind == TargetKind::Mdt);
        let durable: BTreeMap<u16, Moment> =
            mdts.map(|mdt| (mdt.index.0, synced.get(&mdt.index.0).copied().unwrap_or(0))).collect();
        let blackout = self.blackout.map(|at| Blackout { at, durable });
        let states = match linear::check(Tree::new(Fid::ROOT.ino()), &records, blackout) {
            Verdict::Explained(states) => states,
            Verdict::Violation(text) => {
                self.wrong.push(text);
                return false;
            }
            Verdict::TooTangled => return true,
        };
        if ended && self.wrong.is_empty() {
            self.look_for_leaks(&states);
        }
        let _end: Moment = self.recorder.history.moment();
        false
    }

    /// Nothing is left of removed files: inodes, names, objects.
    fn look_for_leaks(&mut self, states: &[Tree]) {
        let clean = |run: &Run| states.iter().any(|tree| leaks(run, tree).is_empty());
        if !self.wait(QUIET_MAX, clean)
            && let Some(tree) = states.first()
        {
            self.wrong.extend(leaks(self, tree));
        }
    }
}

/// Sessions of a mount with its MDTs and OSTs.
fn imports(client: &Client) -> impl Iterator<Item = Arc<Import>> {
    let mdts = client.session().mdts().into_iter().map(|mdc| mdc.import().clone());
    mdts.chain(client.session().osts().into_iter().map(|osc| osc.import().clone()))
}

/// Differences between the stores and the tree.
fn leaks(run: &Run, tree: &Tree) -> Vec<String> {
    let living: BTreeSet<u64> = tree.living().map(|(ino, _)| ino).collect();
    let files: BTreeSet<u64> =
        tree.living().filter(|(_, kind)| *kind == Kind::File).map(|(ino, _)| ino).collect();
    let mut found = Vec::new();
    let (mut inodes, mut names) = (BTreeSet::new(), BTreeMap::<u64, Vec<String>>::new());
    for MdtRecord { key, value, .. } in run.cluster.mdt_records() {
        match key.first() {
            Some(b'E') => {
                if let (Ok((fid, _)), Some(name)) =
                    (disk::dirent::decode(&value), disk::key::name_of(&key))
                {
                    names
                        .entry(fid.ino())
                        .or_default()
                        .push(String::from_utf8_lossy(name).into_owned());
                }
            }
            Some(b'I') => inodes.extend(disk::key::fid_of(&key).map(Fid::ino)),
            Some(b'P') => found.push(format!("an orphan is left: {:?}", disk::key::fid_of(&key))),
            Some(b'D') => found.push(format!("objects wait for their destruction: {key:x?}")),
            _ => {}
        }
    }
    found.extend(unsound(run));
    // An inode that an unanswered operation made has an unknown number.
    let (untold, living): (BTreeSet<u64>, BTreeSet<u64>) =
        living.into_iter().partition(|ino| *ino >= SYNTHETIC);
    let unknown: Vec<u64> = inodes.difference(&living).copied().collect();
    let fits = unknown.len() == untold.len() && unknown.iter().all(|ino| names.contains_key(ino));
    found.extend(unknown.iter().filter(|_| !fits).map(|ino| {
        let names = names
            .get(ino)
            .map_or_else(|| "no name".to_owned(), |names| format!("the names {names:?}"));
        format!("inode {ino:x} is left that no program knows of; it has {names}")
    }));
    found.extend(
        living.difference(&inodes).map(|ino| format!("inode {ino:x} has a name and no record")),
    );
    // After a blackout objects may be left whose files were never durable: fsck finds those.
    for name in run.cluster.objects().into_iter().filter(|_| run.blackout.is_none()) {
        match store::objects::parse_name(&name) {
            Some(object) if files.contains(&object.fid.ino()) => {}
            Some(object) if fits && unknown.contains(&object.fid.ino()) => {}
            _ => found.push(format!("object {name} is left and has no file")),
        }
    }
    found
}

/// Findings of `fsck` in the records: the same rules.
fn unsound(run: &Run) -> Vec<String> {
    let records = run.cluster.mdt_records();
    let mut check = Check::default();
    for tag in FIRST.into_iter().chain(THEN) {
        let (start, end) = disk::key::all(tag);
        let these =
            records.iter().filter(|record| record.key[..] >= start[..] && record.key[..] < end[..]);
        for MdtRecord { mdt, key, value } in these {
            if check.record(mdt.0, key, value).is_err() {
                return vec!["more inodes than can be checked".to_owned()];
            }
        }
    }
    check.finish().0.iter().map(|finding| format!("fsck: {finding}")).collect()
}
