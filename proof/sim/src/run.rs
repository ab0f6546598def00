//! One seed: a cluster, programs, faults, and the verdict of the oracles.

mod filesets;
mod keys;
mod trouble;
mod verdict;

use crate::bytes_seen::Loss;
use crate::cluster::{Cluster, MdtRecord, Mount, Server};
use crate::contact::Contact;
use crate::fault_profile::{Fault, FaultProfile};
use crate::history::{Kind, Moment};
use crate::linear::{self, Blackout, Verdict};
use crate::program::Program;
use crate::program::recorder::Recorder;
use crate::program::tenants::{self, Place};
use crate::thefts::{self, Keys, KeysSeen};
use crate::tree::{SYNTHETIC, Tree};
use check::check::{Check, FIRST, THEN};
use client::client::Client;
use observe::fault::{self, Act, Planned, Point};
use observe::mutant::Mutant;
use parking_lot::Mutex;
use rpc::import::{Import, ImportState};
use simenv::machine::{DiskSpeed, Kill, MachineId, Skew};
use simenv::network::Delays;
use simenv::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    /// Clients of some seeds may not do everything, and show tickets.
    pub tenants: bool,
    /// Connections of some seeds show keys, of which some are renewed and revoked.
    pub keys: bool,
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
            ("tenants", self.tenants),
            ("keys", self.keys),
        ];
        let off = switches.iter().filter(|(_, on)| !on).map(|(what, _)| format!(" --no-{what}"));
        let mdts = match self.mdts {
            Mdts::Fixed(1) => String::new(),
            Mdts::Fixed(count) => format!(" --mdts {count}"),
            Mdts::BySeed => " --mdts seed".to_owned(),
        };
        off.chain([mdts]).collect()
    }

    /// These, with as many MDTs as each seed says if there is one and a mistake needs several to
    /// show.
    pub fn showing(self, mutant: Mutant) -> Faults {
        match self.mdts {
            Mdts::Fixed(1) if mutant.needs_mdts() => Faults { mdts: Mdts::BySeed, ..self },
            _ => self,
        }
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
            tenants: true,
            keys: true,
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
    /// Every second client might not do everything.
    pub tenants: bool,
    /// Two tenants had a fileset each: how often they asked for what is not theirs, or what is in
    /// one was given a name in the other, and how often that was refused. `None`: there were none.
    pub filesets: Option<(u64, u64)>,
    /// Connections showed keys. `None`: they did not.
    pub keys: Option<KeysSeen>,
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
/// A client that dies with the MDT has done something since a commit of it, and no more than
/// this: each of these answers may have been for nothing, and the judge tries both.
const UNTOLD_MAX: u64 = 8;
/// It does that within this time.
const BUSY_MAX: Duration = Duration::from_secs(1);
/// Usual time between two looks at the world.
const STEP: Duration = Duration::from_millis(5);
/// The same where single answers count.
const FINE_STEP: Duration = Duration::from_micros(200);
/// Two ranges, milliseconds: how long a client that falls silent is kept from its MDT before its
/// messages to the OSTs are held back, and how long those are held. It goes on writing under locks
/// that it trusts for 20 s. The messages arrive when the MDT has given it up (30 to 35 s) and
/// others have written, but sooner than TCP gives up (30 s).
const SILENT_MS: [(u64, u64); 2] = [(9_000, 15_000), (24_000, 29_000)];
/// As [`SILENT_MS`], but both begin at about the same time and last as long as TCP waits: messages
/// that were on their way to the OSTs arrive when others have the locks.
const LATE_MS: [(u64, u64); 2] = [(200, 1_000), (29_500, 29_950)];

/// In so many of 1000 seeds every second client may not do everything, and shows tickets.
const TENANTS: u64 = 200;
/// In so many of 1000 of these two tenants have a fileset each, and the other clients are free.
const FILESETS: u64 = 500;
/// For so long these are good, seconds: the clocks of machines differ by up to 4 s.
const TICKET_LIFE: (u64, u64) = (8, 20);
/// Machines on which clients may be.
const CLIENTS: u16 = 16;

/// Longest time for which the answer to a change is late, microseconds.
const ANSWER_LATE_MAX_US: u64 = 60_000;
/// So many of 1000 connections that end are given up by the mount, or the MDT that asked, and
/// deliver late what they were given.
const STALLED: u64 = 400;
/// Longest time after which they do, microseconds.
const STALL_MAX_US: u64 = 12_000_000;
/// Longest time for which any other reply is: programs ask several things meanwhile.
const REPLY_LATE_MAX_US: u64 = 200_000;

struct Run {
    cluster: Cluster,
    recorder: Recorder,
    rng: Rng,
    /// Draws how connections end.
    stalls: Rng,
    mounts: Vec<Mount>,
    /// Programs that have not come to their end, by process.
    running: Arc<AtomicUsize>,
    /// Programs of each living process.
    alive: Vec<Arc<Mutex<BTreeSet<usize>>>>,
    /// Its programs end with the operation that they are at.
    ends: Vec<Arc<AtomicBool>>,
    faults: u64,
    wrong: Vec<String>,
    /// Time of a client's last death.
    last_death: Duration,
    fault_profile: FaultProfile,
    /// Programs split and merge directories.
    splits: bool,
    /// Every second client may not do everything.
    tenants: bool,
    /// Two tenants have a fileset each.
    filesets: bool,
    /// What is done with keys, if connections show any.
    keys: Option<Keys>,
    /// The client that did not hear the last moments of an MDT.
    deaf: Option<usize>,
    /// Time of the power cut.
    blackout: Option<Moment>,
    /// Mounts that died or were evicted.
    losses: Vec<Loss>,
    /// Mounts that died with the MDT.
    untold: BTreeMap<usize, Untold>,
    /// The mount of each program.
    mount_of: Vec<usize>,
    /// Since when mounts may have been given up, and how often each was evicted.
    contact: Contact,
    evictions: BTreeMap<usize, u64>,
    /// Time at which evictions were last noted.
    looked: Moment,
}

/// What a mount did last before it died with the MDT: only the living can tell of it.
struct Untold {
    /// Everything that was answered by then is durable.
    since: Moment,
    /// Its end.
    until: Moment,
}

/// Runs a seed.
pub fn run(seed: u64, faults: Faults, trace: bool) -> Report {
    let mut rng = Rng::new(seed, "plan");
    let mdts = faults.mdts.of(seed);
    let fault_profile = FaultProfile::draw(seed, mdts, &mut rng, faults.workloads);
    // A generator of its own, as below.
    let keys =
        (faults.keys && Rng::new(seed, "keys").chance(thefts::OFTEN)).then(|| Keys::new(seed));
    let commits = fault_profile.commits;
    let cluster = Cluster::start_with((seed, mdts), commits, trace, keys.is_some());
    // What is left of an MDT after a blackout is judged by the MDTs of directories.
    let often = if fault_profile.workload.watched { 850 } else { 500 };
    let splits = mdts > 1 && !fault_profile.is_dark() && Rng::new(seed, "splits").chance(often);
    // A generator of its own: without them a seed is what it always was.
    let tenants = faults.tenants && Rng::new(seed, "tenants").chance(TENANTS);
    let filesets = tenants && Rng::new(seed, "filesets").chance(FILESETS);
    let mut run = Run {
        cluster,
        recorder: Recorder::default(),
        stalls: Rng::new(seed, "stalls"),
        mounts: Vec::new(),
        running: Arc::default(),
        alive: Vec::new(),
        ends: Vec::new(),
        faults: 0,
        wrong: Vec::new(),
        last_death: Duration::ZERO,
        fault_profile,
        splits,
        tenants,
        filesets,
        keys,
        deaf: None,
        blackout: None,
        losses: Vec::new(),
        untold: BTreeMap::new(),
        mount_of: Vec::new(),
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
    let answers = late_answers(seed, &run.fault_profile);
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
        tenants: run.tenants,
        filesets: run.filesets.then(|| run.recorder.realms.tries()),
        keys: run.keys.map(|keys| keys.seen),
        tangled,
    }
}

/// Some answers to changes, and some replies, are late.
fn late_answers(seed: u64, profile: &FaultProfile) -> Option<Planned> {
    let FaultProfile { unanswered, late_replies, .. } = *profile;
    let mut rng = Rng::new(seed, "answers");
    let plan = move |point: &'static Point| {
        let (often, longest) = match point.name {
            name if name == fault::MDS_BEFORE_ANSWER.name => (unanswered, ANSWER_LATE_MAX_US),
            name if name == fault::MDS_ALL_REPLY_NET.name => (late_replies, REPLY_LATE_MAX_US),
            _ => return None,
        };
        // If that is never so, nothing is drawn.
        let is_late = often > 0 && rng.chance(often);
        is_late.then(|| Act::Delay(Duration::from_micros(rng.between(100, longest))))
    };
    (unanswered > 0 || late_replies > 0).then(|| fault::plan(Box::new(plan)))
}

impl Run {
    /// Everything in its order; true if the history was too tangled.
    fn whole(&mut self, faults: Faults) -> bool {
        if faults.machines {
            self.worsen_machines();
        }
        let count = if self.filesets {
            if !self.divide(faults) {
                return false;
            }
            tenants::CLIENTS
        } else {
            if self.tenants && !self.restrict() {
                return false;
            }
            self.rng.between(2, 3) as usize
        };
        while self.mounts.len() < count {
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
        self.judge_keys();
        let tangled = self.judge(ended);
        self.wrong.extend(std::mem::take(&mut *self.recorder.found.lock()));
        tangled
    }

    /// For so many seconds tickets are good.
    fn ticket_life(&mut self) -> u32 {
        let (least, most) = TICKET_LIFE;
        Rng::new(self.rng.next_u64(), "life of tickets").between(least, most) as u32
    }

    /// Every second client, the first among them, may not do everything. `false`: that failed.
    fn restrict(&mut self) -> bool {
        let first = self.cluster.servers.len() as u16;
        let machines = (first..first + CLIENTS).step_by(2).map(|number| MachineId(number).ip());
        let clients: Vec<IpAddr> = machines.collect();
        let life = self.ticket_life();
        // Also that all servers are there.
        if !self.wait(START_MAX, |run| run.cluster.is_recovered()) {
            self.wrong.push(format!("the servers did not start within {START_MAX:?}"));
            return false;
        }
        let done = self.cluster.restrict(&clients, life);
        if !self.wait(START_MAX, |_| done.load(Ordering::Relaxed)) {
            self.wrong.push(format!("nodemaps could not be changed within {START_MAX:?}"));
            return false;
        }
        self.wait(SETTLE, |_| false);
        true
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
        self.wait_by(STEP, time, is_so)
    }

    /// As [`Run::wait`], and looks after each step of this length.
    fn wait_by(&mut self, step: Duration, time: Duration, is_so: impl Fn(&Run) -> bool) -> bool {
        self.note_evictions();
        let limit = self.cluster.world.now() + time;
        while !is_so(self) {
            let now = self.cluster.world.now();
            if now >= limit || !self.cluster.world.failures().is_empty() {
                return false;
            }
            self.cluster.world.run_until(now + step);
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
        self.ends.push(Arc::default());
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
        let number = self.mount_of.len();
        self.mount_of.push(mount);
        let rng = Rng::new(self.rng.next_u64(), "program");
        let recorder = self.recorder.clone();
        let machine = usize::from(at.machine.0);
        let workload = self.fault_profile.workload;
        let directories = at.directories.clone();
        let place = self.place(mount, number);
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
            place,
            ends: self.ends[mount].clone(),
            root: None,
            below: None,
            splits: self.splits,
        })
    }

    fn is_mounted(&self, mount: usize) -> bool {
        self.mounts[mount].process.is_alive() && self.mounts[mount].client.lock().is_some()
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

    /// All clients go. A last one reads everything, then goes, too; after it one of each tenant
    /// reads its fileset. `false`: one could not.
    fn end(&mut self) -> bool {
        let mut readers = vec![self.add_client(None)];
        if self.filesets {
            readers.extend(tenants::OF_TENANTS.map(|mount| self.add_client(Some(mount))));
        }
        let are_mounted =
            |run: &Run| readers.iter().all(|last| run.mounts[*last].client.lock().is_some());
        if !self.wait(START_MAX, are_mounted) {
            self.wrong.push("no client can mount after the faults".to_owned());
            return false;
        }
        self.look_for_kept();
        let done = Arc::new(AtomicUsize::new(0));
        for mount in (0..self.mounts.len()).filter(|mount| !readers.contains(mount)) {
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
        readers.into_iter().all(|reader| self.read_all(reader))
    }

    /// A client reads everything that it sees, and goes. `false`: it could not.
    fn read_all(&mut self, last: usize) -> bool {
        let Some(program) = self.program(last) else { return false };
        let (client, done) = (program.client.clone(), Arc::new(AtomicUsize::new(1)));
        let ended = done.clone();
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
}

/// Sessions of a mount with its MDTs and OSTs.
fn imports(client: &Client) -> impl Iterator<Item = Arc<Import>> {
    let mdts = client.session().mdts().into_iter().map(|mdc| mdc.import().clone());
    mdts.chain(client.session().osts().into_iter().map(|osc| osc.import().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_over_several_mdts_are_looked_for_there() {
        let shown = |mutant, mdts| Faults { mdts, ..Faults::default() }.showing(mutant).arguments();
        assert_eq!(shown(Mutant::CursorStays, Mdts::Fixed(1)), " --mdts seed");
        assert_eq!(shown(Mutant::CursorStays, Mdts::Fixed(3)), " --mdts 3");
        assert_eq!(shown(Mutant::ReplyApart, Mdts::Fixed(1)), "");
    }
}
