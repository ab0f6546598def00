//! One run: a cluster with so many MDTs, and ranks that work on it in phases.

use crate::costs::{Costs, Counted, Requests, of_machine};
use crate::ranks::{Phase, Rank};
use client::caller::Caller;
use client::client::Client;
use client::error::ClientError;
use client::node::NodeId;
use mds::settings::MdsSettings;
use parking_lot::Mutex;
use rpc::import::Import;
use rpc::service::Service;
use rpc::{Rpc, RpcConfig};
use sim::cluster::{Cluster, Mount};
use sim::fault_profile::Commits;
use simenv::machine::MachineId;
use simenv::network::Delays;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use types::dir_stripes::DirSpec;
use types::name::Name;
use types::nid::Nid;
use types::session::ClientUuid;
use types::target::{TargetIndex, TargetKind, TargetName};

/// Ranks of one client.
const RANKS_OF_CLIENT: usize = 2;
/// Commits as a server makes them.
const COMMITS: Commits = Commits { interval: Duration::from_secs(5), pace_ms: (20, 50) };
/// One direction of a network in one room, microseconds.
const DELAYS: Delays = Delays { min_us: 20, max_us: 60, late: 0, late_us: 0, rate: 1000 };
/// Virtual time in which servers start, and what a phase left to do is done.
const SETTLE: Duration = Duration::from_secs(10);
/// Virtual time in which all clients mount.
const MOUNT: Duration = Duration::from_secs(20);
/// Virtual time after which a phase is stuck.
const PHASE_MAX: Duration = Duration::from_secs(3600);

/// Where ranks work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Each in a directory of its own, as whole directories spread over the MDTs.
    Private,
    /// All in one directory with a stripe on each MDT.
    Shared,
    /// All in one directory of MDT0000, which is split by itself while files are made in it, if one
    /// MDT makes more than 1,000 in a second.
    Split,
    /// All in one directory of MDT0000: a control, whose efficiency is 1/N.
    OneMdt,
    /// As [`Place::Private`], and each create asks MDT0000 for something else: a control, whose
    /// efficiency must fall.
    AsksFirst,
}

impl Place {
    /// All of them.
    pub const ALL: [Place; 5] =
        [Place::Private, Place::Shared, Place::Split, Place::OneMdt, Place::AsksFirst];

    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Place::Private => "private",
            Place::Shared => "shared",
            Place::Split => "shared, split by itself",
            Place::OneMdt => "control: one MDT",
            Place::AsksFirst => "control: asks MDT0000",
        }
    }
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Repeats it.
    pub seed: u64,
    /// Number of MDTs.
    pub mdts: u16,
    /// Number of ranks.
    pub ranks: usize,
    /// Files, and then directories, of each rank.
    pub items: u32,
    /// Where.
    pub place: Place,
    /// What the MDTs' CPUs are charged.
    pub costs: Costs,
}

/// What came of a phase.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The phase.
    pub phase: Phase,
    /// Items per second of virtual time, from the first start to the last end.
    pub rate: f64,
    /// The same in the middle half of that time.
    pub steady: f64,
    /// Work of the busiest MDT's CPU to that of all, in the mean.
    pub busiest: f64,
    /// Share of the time in which the MDTs' CPUs worked, in the mean.
    pub busy: f64,
    /// Requests of clients for each item.
    pub of_clients: f64,
    /// Requests of MDTs to each other for each item.
    pub of_mdts: f64,
}

/// The cluster while it runs.
struct Site {
    cluster: Cluster,
    mdts: Vec<MachineId>,
    mounts: Vec<(Mount, Arc<Client>)>,
    counted: Counted,
    plan: Plan,
}

/// Runs it.
///
/// # Errors
/// What failed, in words.
pub fn run(plan: Plan) -> Result<Vec<Measured>, String> {
    let site = Site::start(plan)?;
    let dirs = site.make_directories()?;
    let each = Phase::ALL.iter().map(|phase| site.measure(*phase, &dirs));
    each.collect()
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

impl Site {
    fn start(plan: Plan) -> Result<Site, String> {
        let cluster = Cluster::start(plan.seed, plan.mdts, COMMITS, false);
        cluster.world.network().set_delays(DELAYS);
        cluster.charge_records(plan.costs.record);
        cluster.set_names_per_bundle(MdsSettings::default().names_per_bundle);
        let of_mdts = cluster.servers.iter().filter(|server| server.kind == TargetKind::Mdt);
        let mdts: Vec<MachineId> = of_mdts.map(|server| server.machine).collect();
        let addresses: Arc<[IpAddr]> = mdts.iter().map(|machine| machine.ip()).collect();
        let counted = Counted::default();
        for machine in &mdts {
            let cost = of_machine(plan.costs, addresses.clone(), counted.clone());
            cluster.world.set_cpu(*machine, cost);
        }
        let run_for = |time| cluster.world.run_until(cluster.world.now() + time);
        run_for(SETTLE);
        // Elsewhere what is measured is where directories are put by hand.
        let served = (0..plan.mdts).filter_map(|mdt| cluster.mdt(TargetIndex(mdt)));
        served.for_each(|mdt| mdt.set_auto_split(plan.place == Place::Split));
        let clients = plan.ranks.div_ceil(RANKS_OF_CLIENT);
        let mounts: Vec<Mount> = (0..clients).map(|_| cluster.mount(None)).collect();
        run_for(MOUNT);
        let mut mounted = Vec::new();
        for mount in mounts {
            let client = mount.client.lock().clone();
            mounted.push((
                mount,
                client.ok_or_else(|| format!("a client is not mounted after {MOUNT:?}"))?,
            ));
        }
        Ok(Site { cluster, mdts, mounts: mounted, counted, plan })
    }

    /// Runs this in a client's process, and the world until it is done.
    fn does<T: Send + 'static>(
        &self,
        mount: usize,
        work: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    ) -> Result<T, String> {
        let slot = Arc::new(Mutex::new(None));
        let to = slot.clone();
        let work = async move { *to.lock() = Some(work.await) };
        self.mounts[mount].0.env.tasks.spawn("work", Box::pin(work));
        self.until(|| slot.lock().is_some())?;
        let result = slot.lock().take();
        result.expect("it is done").map_err(|error| error.to_string())
    }

    fn until(&self, is_done: impl Fn() -> bool) -> Result<(), String> {
        let limit = self.cluster.world.now() + PHASE_MAX;
        while !is_done() {
            if !self.cluster.world.step(limit) {
                return Err(format!("not done in {PHASE_MAX:?} of virtual time"));
            }
        }
        match &self.cluster.world.failures()[..] {
            [] => Ok(()),
            failures => Err(failures.join("; ")),
        }
    }

    /// Makes the directories of all ranks: their names in the root.
    fn make_directories(&self) -> Result<Vec<Name>, String> {
        let Plan { mdts, ranks, place, .. } = self.plan;
        let shared = !matches!(place, Place::Private | Place::AsksFirst);
        let count = if shared { 1 } else { ranks };
        let names: Vec<Name> = (0..count).map(|n| name(&format!("dir{n}"))).collect();
        for (n, name) in names.iter().enumerate() {
            // Ranks of one client work on one MDT: what they send shares requests, however many
            // MDTs there are.
            let first = TargetIndex((n / RANKS_OF_CLIENT) as u16 % mdts);
            let stripes = if place == Place::Shared { mdts } else { 1 };
            let spec = DirSpec { count: stripes, mdts: vec![first], ..DirSpec::default() };
            let client = self.mounts[0].1.clone();
            let make = client.mkdir_placed(Caller::root(), NodeId::ROOT, name.clone(), 0o755, spec);
            self.does(0, make)?;
        }
        Ok((0..ranks).map(|n| names[n % count].clone()).collect())
    }

    /// A session of its own with MDT0000, in the process of a client.
    fn session_with_first(&self, mount: usize) -> Arc<Import> {
        let (env, number) = (self.mounts[mount].0.env.clone(), 1000 + mount as u128);
        let first = self.cluster.mdt(TargetIndex(0)).expect("a served MDT");
        let rpc = Rpc::new(env, RpcConfig { cluster: first.cluster(), checksums: true });
        let nid = Nid::Tcp(SocketAddr::new(self.mdts[0].ip(), sim::cluster::PORT));
        let target = TargetName::mdt(Default::default(), 0);
        rpc.import(target, vec![nid], ClientUuid(number), format!("extra {mount}"), None)
    }

    fn measure(&self, phase: Phase, dirs: &[Name]) -> Result<Measured, String> {
        let Plan { ranks, items, place, .. } = self.plan;
        // A stat asks for what a rank of another client made.
        let shift = if phase == Phase::Stat { RANKS_OF_CLIENT } else { 0 };
        let asks_more = place == Place::AsksFirst && phase == Phase::Create;
        let sessions: Vec<Option<Arc<Import>>> = (0..self.mounts.len())
            .map(|mount| asks_more.then(|| self.session_with_first(mount)))
            .collect();
        let mut works = Vec::new();
        for rank in 0..ranks {
            let (mount, of) = (rank / RANKS_OF_CLIENT, (rank + shift) % ranks);
            let (Mount { env, .. }, client) = &self.mounts[mount];
            let lookup = client.clone().lookup(Caller::root(), NodeId::ROOT, dirs[of].clone());
            let dir = self.does(mount, lookup)?.node;
            let extra = sessions[mount].clone();
            let (client, clock) = (client.clone(), env.clock.clone());
            works.push((mount, Rank { of, client, clock, dir, items, extra }));
        }
        // What the phase before left to do is not part of this one.
        self.cluster.world.run_until(self.cluster.world.now() + SETTLE);
        let before = self.works();
        let Requests { of_clients, of_mdts } = *self.counted.lock();
        let ended = Arc::new(Mutex::new(Vec::new()));
        for (mount, rank) in works {
            let slot = ended.clone();
            let work = async move {
                let result = rank.does(phase).await;
                slot.lock().push(result);
            };
            self.mounts[mount].0.env.tasks.spawn("rank", Box::pin(work));
        }
        self.until(|| ended.lock().len() == ranks)?;
        let (after, requests) = (self.works(), *self.counted.lock());
        let (mut began, mut times) = (Duration::MAX, Vec::new());
        for result in std::mem::take(&mut *ended.lock()) {
            let (first, ends) = result.map_err(|error| format!("{phase:?}: {error}"))?;
            began = began.min(first);
            times.extend(ends);
        }
        let end = times.iter().max().copied().unwrap_or(began);
        let took = end.saturating_sub(began).as_secs_f64();
        let (from, to) = (began.as_secs_f64() + took / 4.0, began.as_secs_f64() + took * 0.75);
        let within =
            times.iter().filter(|time| (from..to).contains(&time.as_secs_f64())).count() as f64;
        let count = times.len() as f64;
        let worked: Vec<f64> =
            after.iter().zip(&before).map(|(a, b)| (*a - *b).as_secs_f64()).collect();
        let mean = worked.iter().sum::<f64>() / worked.len() as f64;
        Ok(Measured {
            phase,
            rate: count / took,
            steady: within / (to - from),
            busiest: worked.iter().copied().fold(0.0, f64::max) / mean,
            busy: mean / took,
            of_clients: (requests.of_clients - of_clients) as f64 / count,
            of_mdts: (requests.of_mdts - of_mdts) as f64 / count,
        })
    }

    fn works(&self) -> Vec<Duration> {
        self.mdts.iter().map(|machine| self.cluster.world.busy(*machine)).collect()
    }
}
