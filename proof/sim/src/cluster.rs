//! A cluster of the real servers and clients on simulated machines.
//!
//! Machine 0 has the MGS, the next ones an MDT each, two an OST each, the others a client each.
//! Parts are put together by the same code as in a real process (`node::role`), with two
//! differences. The store's engine is its twin in memory, which keeps what was committed and
//! nothing else; and a task commits where a real process has a thread.

use crate::directories::Directories;
use crate::fault_profile::Commits;
use crate::twin::{Key, Twin};
use crate::went::Went;
use client::client::{Client, ClientOptions};
use client::read_ahead::ReadAheadLimits;
use env::tasks::Tasks;
use env::{BoxFuture, Env};
use idmap::nodemap::{Members, NodemapName};
use idmap::property::Property;
use idmap::set::NodemapChange;
use mds::mds::Mds;
use mds::recovery::window::Phase;
use mds::settings::MdsSettings;
use node::manage::security::{EVERY_FILE_SYSTEM, REVOKED, revoked_by};
use node::role::mdt::MdtRole;
use node::role::mgs::MgsRole;
use node::role::object_targets::Followed;
use node::role::ost::OstRole;
use node::role::parts::Parts;
use observe::registry::Value;
use oss::ost::Ost;
use oss::settings::OstSettings;
use parking_lot::Mutex;
use rpc::service::Service;
use rpc::{Rpc, RpcConfig};
use simenv::machine::{Kill, MachineId, Process};
use simenv::rng::Rng;
use simenv::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::batch::Batch;
use store::engine::{Engine, EngineSpace, Fence, Visit};
use store::error::StoreError;
use store::memory::Memory;
use store::store::{Committer, StoreOptions};
use stubs::mgc::Mgc;
use target::format::{Identity, format_over};
use target::superblock::Lock;
use target::{FormatSpec, Target, TargetOptions};
use types::attr::AccessTimes;
use types::errno::Errno;
use types::nid::Nid;
use types::principal::{KeyHash, Role};
use types::session::{ClusterId, Transno};
use types::target::{FsName, TargetIndex, TargetKind, TargetName};

/// Port of every server.
pub const PORT: u16 = 988;
/// Folder of a target on its machine.
const DIR: &str = "/target";
/// Room of a store, bytes.
const STORE_BYTES: u64 = 256 << 20;
/// Size of each disk, bytes.
const DISK_BYTES: u64 = 1 << 30;
/// Stripes of a file, and their size: small, so that files have several.
const STRIPES: u16 = 2;
/// See above, bytes.
pub const STRIPE_BYTES: u32 = 64 << 10;
/// Few, so that splitting a small directory takes many bundles.
const NAMES_PER_BUNDLE: usize = 4;

/// How long the MGS may keep a question for news waiting, ms; pause if it does not answer.
const FOLLOW_WAIT_MS: u32 = 30_000;
/// See above.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// A server's machine and what survives there.
pub struct Server {
    /// Kind of its target.
    pub kind: TargetKind,
    /// Its index among those of the kind.
    pub index: TargetIndex,
    /// Its machine.
    pub machine: MachineId,
    engine: Arc<Memory>,
    process: Mutex<Arc<Process>>,
    /// Tasks of the process.
    tasks: Mutex<Option<Arc<dyn Tasks>>>,
    /// Its target, once it is open.
    target: Arc<Mutex<Weak<Target>>>,
    /// The MDT that is served there.
    mds: Arc<Mutex<Weak<Mds>>>,
    /// Or the OST.
    ost: Arc<Mutex<Weak<Ost>>>,
    /// Keys that its processes know to be revoked: what a real one keeps in a file.
    revoked: Arc<Mutex<BTreeSet<KeyHash>>>,
}

/// A record of an MDT.
pub struct MdtRecord {
    /// The MDT.
    pub mdt: TargetIndex,
    /// Key.
    pub key: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

/// A client's machine.
pub struct Mount {
    /// Its machine.
    pub machine: MachineId,
    /// Its process; another one after each death.
    pub process: Arc<Process>,
    /// Its environment.
    pub env: Env,
    /// The client, once it is mounted.
    pub client: Arc<Mutex<Option<Arc<Client>>>>,
    /// The locks of its kernel.
    pub directories: Directories,
    /// Its seal, if connections show keys.
    pub twin: Option<Arc<Twin>>,
}

/// Clients of a nodemap of their own.
pub struct Tenant {
    /// Name of the nodemap.
    pub name: &'static str,
    /// Addresses of the clients.
    pub clients: Vec<IpAddr>,
    /// The directory that they mount, and beyond which they reach nothing; `None`: all.
    pub fileset: Option<String>,
}

/// The whole cluster.
pub struct Cluster {
    /// The world that it lives in.
    pub world: World,
    /// MGS, MDTs, OSTs.
    pub servers: Vec<Server>,
    /// Directories that went to other MDTs.
    pub went: Went,
    /// Connections show keys.
    keys: bool,
    /// Keys of each host so far.
    issued: Mutex<BTreeMap<u8, u8>>,
    seed: u64,
    commits: Commits,
    /// What a committed record costs the CPU of a server's machine, nanoseconds.
    record_cost: Arc<AtomicU64>,
    /// Names of a directory that pass to another stripe in one operation, at most.
    names_per_bundle: Arc<AtomicUsize>,
    /// The process of the MGS.
    mgs_parts: Arc<Mutex<Option<Parts>>>,
    /// Life of tickets, seconds; 0: the usual one.
    ticket_life: Arc<AtomicU32>,
    /// Messaging of all servers that ever ran: their services and sessions hold each other.
    started: Arc<Mutex<Vec<Arc<Rpc>>>>,
}

/// At the end of a run, not when a server dies: links that are freed say so to their peers, in no
/// certain order.
impl Drop for Cluster {
    fn drop(&mut self) {
        self.started.lock().drain(..).for_each(|rpc| rpc.abandon());
    }
}

/// An engine whose process may die: from then on it refuses everything, because its memory is gone.
struct Mortal {
    engine: Arc<Memory>,
    process: Arc<Process>,
    /// Charges the machine's CPU for so many records.
    charge: Box<dyn Fn(usize) + Send + Sync>,
    went: Went,
    _lock: Arc<Lock>,
}

impl Mortal {
    fn alive(&self) -> Result<(), StoreError> {
        if self.process.is_alive() {
            return Ok(());
        }
        Err(StoreError::Io { action: "reach", path: DIR.into(), errno: Errno::EIO })
    }
}

impl Engine for Mortal {
    fn get(&self, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.engine.get(key, f)
    }

    fn scan(&self, start: &[u8], end: &[u8], f: &mut Visit<'_>) -> Result<(), StoreError> {
        self.engine.scan(start, end, f)
    }

    fn commit(&self, batch: &Arc<Batch>, fence: Fence) -> Result<(), StoreError> {
        self.alive()?;
        (self.charge)(batch.len());
        for (key, value) in batch.iter() {
            value.inspect(|value| self.went.note(key, value));
        }
        self.engine.commit(batch, fence)
    }

    fn claim(&self, at_least: Fence) -> Result<Fence, StoreError> {
        self.alive()?;
        self.engine.claim(at_least)
    }

    fn last_transno(&self) -> Transno {
        self.engine.last_transno()
    }

    fn space(&self) -> Result<EngineSpace, StoreError> {
        self.engine.space()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.alive()?;
        self.engine.close()
    }
}

impl Cluster {
    /// Formats and starts all servers, among them so many MDTs. Connections show no keys.
    pub fn start(seed: u64, mdts: u16, commits: Commits, trace: bool) -> Cluster {
        Cluster::start_with((seed, mdts), commits, trace, false)
    }

    /// As [`Cluster::start`]; `keys`: every connection shows a key ([`Twin`]).
    pub fn start_with(
        (seed, mdts): (u64, u16),
        commits: Commits,
        trace: bool,
        keys: bool,
    ) -> Cluster {
        let world = World::with_trace(seed, trace);
        let mut kinds = vec![TargetKind::Mgt];
        kinds.extend((0..mdts).map(|_| TargetKind::Mdt));
        kinds.extend([TargetKind::Ost, TargetKind::Ost]);
        let mut servers = Vec::new();
        for kind in kinds {
            let machine = world.machine(DISK_BYTES);
            let (env, process) = world.start(machine);
            let mut spec = FormatSpec::new(FsName::default(), kind);
            let index =
                TargetIndex(servers.iter().filter(|s: &&Server| s.kind == kind).count() as u16);
            spec.index = (kind != TargetKind::Mgt).then_some(index);
            if let Err(error) =
                format_over(&env, Path::new(DIR), &spec, |store| Ok(Identity::of_store(store)))
            {
                panic!("format a simulated {kind:?}: {error}");
            }
            world.kill(&process, Kill::Process);
            servers.push(Server {
                kind,
                index,
                machine,
                engine: Memory::new(STORE_BYTES),
                process: Mutex::new(process),
                tasks: Mutex::default(),
                target: Arc::default(),
                mds: Arc::default(),
                ost: Arc::default(),
                revoked: Arc::default(),
            });
        }
        let (record_cost, mgs_parts, ticket_life, started, went) = Default::default();
        let cluster = Cluster {
            world,
            servers,
            went,
            keys,
            issued: Mutex::default(),
            seed,
            commits,
            record_cost,
            names_per_bundle: Arc::new(AtomicUsize::new(NAMES_PER_BUNDLE)),
            mgs_parts,
            ticket_life,
            started,
        };
        (0..cluster.servers.len()).for_each(|number| cluster.start_server(number));
        cluster
    }

    /// From now on each record that a server commits costs its machine's CPU this much.
    pub fn charge_records(&self, cost: Duration) {
        self.record_cost.store(cost.as_nanos() as u64, Ordering::Relaxed);
    }

    /// So many names pass to another stripe in one operation, at most, at MDTs that start from now
    /// on. A simulation has few, so that splitting a small directory takes many operations.
    pub fn set_names_per_bundle(&self, names: usize) {
        self.names_per_bundle.store(names, Ordering::Relaxed);
    }

    /// From now on the clients at these addresses may not do everything, though their root is root:
    /// MDTs check what they ask, and targets ask for tickets, which are good for `ticket_life`
    /// seconds. True when the MGS has it.
    pub fn restrict(&self, clients: &[IpAddr], ticket_life: u32) -> Arc<AtomicBool> {
        let all = Tenant { name: "tenants", clients: clients.to_vec(), fileset: None };
        self.restrict_tenants(&[all], ticket_life)
    }

    /// As [`Cluster::restrict`], for clients of several tenants, of which each may have a fileset.
    pub fn restrict_tenants(&self, tenants: &[Tenant], ticket_life: u32) -> Arc<AtomicBool> {
        self.ticket_life.store(ticket_life, Ordering::Relaxed);
        for mds in self.servers.iter().filter_map(|server| server.mds.lock().upgrade()) {
            set_life(&mds, ticket_life);
        }
        let name = |text: &str| text.parse::<NodemapName>().expect("a good name");
        let others = NodemapName::of_default();
        let mut changes = vec![
            NodemapChange::Modify(others.clone(), Property::Trusted(true)),
            NodemapChange::Modify(others, Property::Admin(true)),
        ];
        for tenant in tenants {
            let called = name(tenant.name);
            changes.push(NodemapChange::Add(called.clone()));
            changes.push(NodemapChange::Modify(called.clone(), Property::Admin(true)));
            changes.extend(tenant.clients.iter().map(|ip| {
                let members: Members = format!("{ip}@tcp").parse().expect("a range of NIDs");
                NodemapChange::AddMembers(called.clone(), members)
            }));
            changes.extend(
                tenant
                    .fileset
                    .iter()
                    .map(|fileset| NodemapChange::SetFileset(called.clone(), fileset.clone())),
            );
        }
        changes.push(NodemapChange::Activate(true));
        let change = move |mgc: Mgc| async move {
            for change in changes {
                if let Err(error) = mgc.change_nodemaps(change.clone()).await {
                    panic!("{change:?}: {error}");
                }
            }
        };
        self.at_the_mgs("change nodemaps", change)
    }

    /// True if the nodemaps hold at all MDTs. A client that mounts while one does not know of them
    /// is let in as the administrator had said before.
    pub fn nodemaps_hold(&self) -> bool {
        let mut mdts = self.servers.iter().filter(|server| server.kind == TargetKind::Mdt);
        mdts.all(|mdt| mdt.mds.lock().upgrade().is_some_and(|mds| mds.nodemaps().active))
    }

    /// Asks the MGS for something, from its own process, which is in service; true when it is done.
    fn at_the_mgs<F: Future<Output = ()> + Send + 'static>(
        &self,
        what: &'static str,
        ask: impl FnOnce(Mgc) -> F + Send + 'static,
    ) -> Arc<AtomicBool> {
        let (parts, done) = (self.mgs_parts.lock().clone(), Arc::<AtomicBool>::default());
        let (parts, is_done) = (parts.expect("the MGS is in service"), done.clone());
        let work = async move {
            ask(parts.mgc()).await;
            is_done.store(true, Ordering::Relaxed);
        };
        let tasks = self.servers[0].tasks.lock().clone().expect("the MGS is in service");
        tasks.spawn(what, Box::pin(work));
        done
    }

    fn mgs(&self) -> Vec<Nid> {
        vec![Nid::Tcp(SocketAddr::new(self.servers[0].machine.ip(), PORT))]
    }

    /// Starts a server on its machine, with what survived there.
    pub fn start_server(&self, number: usize) {
        let server = &self.servers[number];
        let (env, process) = self.world.start(server.machine);
        *server.process.lock() = process.clone();
        let (kind, engine, mgs) = (server.kind, server.engine.clone(), self.mgs());
        let addr = SocketAddr::new(server.machine.ip(), PORT);
        let pace = Rng::new(self.seed, &format!("commits of {number} from {:?}", self.world.now()));
        let tasks = env.tasks.clone();
        *server.tasks.lock() = Some(tasks.clone());
        let commits = self.commits;
        let (charger, cost) = (self.world.charger(server.machine), self.record_cost.clone());
        let names_per_bundle = self.names_per_bundle.clone();
        let charge = Box::new(move |records| {
            charger(Duration::from_nanos(cost.load(Ordering::Relaxed) * records as u64));
        });
        let went = self.went.clone();
        let (mds, ost, started) = (server.mds.clone(), server.ost.clone(), self.started.clone());
        let (mgs_parts, ticket_life) = (self.mgs_parts.clone(), self.ticket_life.clone());
        let twin = self.keys.then(|| {
            let host = number as u8; // a handful
            Twin::new(Key { role: Role::Server, host, serial: 0 }, server.revoked.clone())
        });
        let opened = server.target.clone();
        *opened.lock() = Weak::new();
        *mds.lock() = Weak::new();
        *ost.lock() = Weak::new();
        let life = async move {
            let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
            started.lock().push(rpc.clone());
            if let Some(twin) = &twin {
                assert!(rpc.set_seal(twin.clone()), "it was made just now");
            }
            let parts = Parts::on_host(
                env.clone(),
                rpc.clone(),
                mgs,
                format!("server{number}"),
                Path::new(DIR),
            );
            rpc.listen(addr).await.unwrap_or_else(|error| panic!("listen: {error}"));
            let tasks = env.tasks.clone();
            let follow = |parts: Parts| {
                let follow = twin.map(|twin| follow_revoked(parts, twin));
                follow.map(|follow| tasks.spawn("follow revoked keys", Box::pin(follow)))
            };
            let store = StoreOptions {
                committer: Committer::Caller,
                commit_interval: commits.interval,
                ..StoreOptions::default()
            };
            let options = TargetOptions { kind: Some(kind), store, ..TargetOptions::default() };
            let over = |_: &_, lock| {
                Ok(Arc::new(Mortal { engine, process, charge, went, _lock: lock })
                    as Arc<dyn Engine>)
            };
            // What the MGS asks itself does not travel, once it is there.
            let follow = match kind {
                TargetKind::Mgt => Some(follow),
                _ => {
                    follow(parts.clone());
                    None
                }
            };
            let target = Target::open_over(&env, Path::new(DIR), options, over);
            let target = target
                .unwrap_or_else(|error| panic!("open the target of server {number}: {error}"));
            *opened.lock() = Arc::downgrade(&target);
            env.tasks.spawn("commit", Box::pin(commit(env.clone(), target.clone(), commits, pace)));
            let failed = |error: node::error::NodeError| panic!("start server {number}: {error}");
            match kind {
                TargetKind::Mgt => {
                    let _role = MgsRole::start(&parts, target).await.unwrap_or_else(failed);
                    follow.map(|follow| follow(parts.clone()));
                    *mgs_parts.lock() = Some(parts);
                    std::future::pending::<()>().await;
                }
                TargetKind::Ost => {
                    let settings = OstSettings::default();
                    let role =
                        OstRole::start(&parts, &parts.mgc(), target, settings, Arc::default())
                            .await;
                    let role =
                        role.unwrap_or_else(|error| panic!("start server {number}: {error}"));
                    *ost.lock() = Arc::downgrade(role.ost());
                    std::future::pending::<()>().await;
                }
                TargetKind::Mdt => {
                    let followed = Followed::start(&parts, FsName::default()).await;
                    let followed =
                        followed.unwrap_or_else(|error| panic!("start server {number}: {error}"));
                    let settings = MdsSettings {
                        stripe_count: STRIPES,
                        stripe_size: STRIPE_BYTES,
                        names_per_bundle: names_per_bundle.load(Ordering::Relaxed),
                        ..MdsSettings::default()
                    };
                    let role =
                        MdtRole::start(&parts, &parts.mgc(), target, &followed, settings).await;
                    let role =
                        role.unwrap_or_else(|error| panic!("start server {number}: {error}"));
                    set_life(role.mds(), ticket_life.load(Ordering::Relaxed));
                    *mds.lock() = Arc::downgrade(role.mds());
                    std::future::pending::<()>().await;
                }
            }
        };
        tasks.spawn("server", Box::pin(life));
    }

    /// A process by hand on a machine, with this key, and its messaging; `None`: the first MDT is
    /// not in service.
    pub fn process(&self, machine: MachineId, key: Key) -> Option<(Env, Arc<Process>, Arc<Rpc>)> {
        let cluster = self.mdt(TargetIndex(0))?.cluster();
        let (env, process) = self.world.start(machine);
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster, checksums: true });
        assert!(rpc.set_seal(Twin::new(key, Arc::default())), "it was made just now");
        self.started.lock().push(rpc.clone());
        Some((env, process, rpc))
    }

    /// Names and addresses of all MDTs and OSTs.
    pub fn targets(&self) -> Vec<(TargetName, Nid)> {
        let name = |server: &Server| match server.kind {
            TargetKind::Mgt => None,
            TargetKind::Mdt => Some(TargetName::mdt(FsName::default(), server.index.0)),
            TargetKind::Ost => Some(TargetName::ost(FsName::default(), server.index.0)),
        };
        let nid = |server: &Server| Nid::Tcp(SocketAddr::new(server.machine.ip(), PORT));
        self.servers.iter().filter_map(|server| Some((name(server)?, nid(server)))).collect()
    }

    /// Value of a counter of MDTs, over all their lives.
    pub fn counted(&self, name: &str) -> u64 {
        let started = self.started.lock();
        let samples = started.iter().flat_map(|rpc| rpc.metrics().snapshot(|_| true));
        let counted = samples.filter(|sample| sample.metric.name == name);
        counted.map(|sample| if let Value::Counter(count) = sample.value { count } else { 0 }).sum()
    }

    /// True if every MDT and OST is in service and its recovery over.
    pub fn is_recovered(&self) -> bool {
        self.servers.iter().all(|server| match server.kind {
            TargetKind::Mgt => true,
            TargetKind::Mdt => {
                server.mds.lock().upgrade().is_some_and(|mds| mds.recovery().phase == Phase::Open)
            }
            TargetKind::Ost => server.ost.lock().upgrade().is_some_and(|ost| ost.is_recovered()),
        })
    }

    /// Makes durable what a server has done so far; `false`: it is not in service.
    pub fn commit(&self, number: usize) -> bool {
        let target = self.servers[number].target.lock().upgrade();
        target.is_some_and(|target| target.store().commit_blocking().is_ok())
    }

    /// Ends a server at this instant.
    pub fn kill_server(&self, number: usize, how: Kill) {
        let process = self.servers[number].process.lock().clone();
        *self.servers[number].mds.lock() = Weak::new();
        *self.servers[number].ost.lock() = Weak::new();
        self.world.kill(&process, how);
    }

    /// Starts a client on a machine (a new one, or where one died).
    pub fn mount(&self, machine: Option<MachineId>) -> Mount {
        let machine = machine.unwrap_or_else(|| self.world.machine(0));
        let (env, process) = self.world.start(machine);
        let slot = Arc::new(Mutex::new(None));
        let directories = Directories::default();
        let twin = self.keys.then(|| Twin::new(self.issue(machine), Arc::default()));
        let seal = twin.clone();
        let mount =
            Mount { machine, process, env: env.clone(), client: slot.clone(), directories, twin };
        let options = ClientOptions {
            mgs: self.mgs(),
            fsname: FsName::default(),
            directory: Default::default(),
            description: format!("client{}", machine.0),
            opens: true,
            soft: false,
            access_times: AccessTimes::default(),
            nodiratime: false,
        };
        let tasks = env.tasks.clone();
        let reach = async move {
            let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
            if let Some(seal) = seal {
                assert!(rpc.set_seal(seal), "it was made just now");
            }
            loop {
                match Client::mount(env.clone(), rpc.clone(), options.clone()).await {
                    Ok(client) => {
                        // Files are small here: so any read has its file fetched ahead.
                        let limits =
                            ReadAheadLimits { eager: true, ..client.read_ahead().limits() };
                        client.read_ahead().set_limits(limits);
                        break *slot.lock() = Some(client);
                    }
                    Err(error) => tracing::debug!(%error, "not yet"),
                }
                env.clock.sleep(Duration::from_millis(200)).await;
            }
        };
        tasks.spawn("mount", Box::pin(reach));
        mount
    }

    /// A new key for a client on this machine.
    pub fn issue(&self, machine: MachineId) -> Key {
        let host = machine.0 as u8; // a handful
        let mut issued = self.issued.lock();
        let serial = issued.entry(host).or_default();
        *serial += 1;
        Key { role: Role::Client, host, serial: *serial }
    }

    /// Revokes all keys of a host of clients so far, as `sheen auth revoke` does: the MGS keeps
    /// each as a persistent parameter, of which all processes hear. True when the MGS has them.
    pub fn revoke(&self, host: u8) -> Arc<AtomicBool> {
        let last = self.issued.lock().get(&host).copied().unwrap_or(0);
        let keys = (1..=last).map(move |serial| Key { role: Role::Client, host, serial });
        self.at_the_mgs("revoke keys", move |mgc| async move {
            for key in keys {
                let (every, value) = (EVERY_FILE_SYSTEM.to_owned(), Some("1".to_owned()));
                let name = format!("{REVOKED}{}", key.hash());
                if let Err(error) = mgc.set_param(every, name.clone(), value).await {
                    panic!("{name}: {error}");
                }
            }
        })
    }

    /// An MDT, while it is served.
    pub fn mdt(&self, index: TargetIndex) -> Option<Arc<Mds>> {
        let mut mdts = self.servers.iter().filter(|server| server.kind == TargetKind::Mdt);
        mdts.find(|server| server.index == index).and_then(|server| server.mds.lock().upgrade())
    }

    /// Runs something in the process of an MDT, which is to be served.
    pub fn spawn_at(&self, mdt: TargetIndex, work: BoxFuture<'static, ()>) {
        let mut mdts = self.servers.iter().filter(|server| server.kind == TargetKind::Mdt);
        let tasks =
            mdts.find(|server| server.index == mdt).and_then(|server| server.tasks.lock().clone());
        tasks.expect("a served MDT").spawn("work at an MDT", work);
    }

    /// Records of all MDTs that are durable, by MDT.
    pub fn mdt_records(&self) -> Vec<MdtRecord> {
        let mut records = Vec::new();
        for server in self.servers.iter().filter(|server| server.kind == TargetKind::Mdt) {
            let each = &mut |key: &[u8], value: &[u8]| {
                records.push(MdtRecord {
                    mdt: server.index,
                    key: key.to_vec(),
                    value: value.to_vec(),
                });
                ControlFlow::Continue(())
            };
            if let Err(error) = server.engine.scan(&[0], &[0xff; 64], each) {
                panic!("read the records of an MDT: {error}");
            }
        }
        records
    }

    /// Names of all object files of all OSTs.
    pub fn objects(&self) -> Vec<String> {
        let osts = self.servers.iter().filter(|server| server.kind == TargetKind::Ost);
        let files = osts.flat_map(|ost| {
            self.world.volume(ost.machine).files_below(&Path::new(DIR).join("objects"))
        });
        files
            .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
            .collect()
    }
}

fn set_life(mds: &Mds, ticket_life: u32) {
    if ticket_life != 0
        && let Err(errno) = mds.set_ticket_life(ticket_life)
    {
        panic!("tickets that are good for {ticket_life} s: {errno}");
    }
}

/// What a real process does about keys that are revoked, by the word of the MGS.
async fn follow_revoked(parts: Parts, twin: Arc<Twin>) {
    let (mgc, mut version) = (parts.mgc(), 0);
    loop {
        match mgc.config(FsName::default().to_string(), version, FOLLOW_WAIT_MS).await {
            Ok(config) => {
                version = config.version;
                if twin.revoke(revoked_by(&config.params)) {
                    parts.rpc.end_revoked(&*twin);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the MGS does not answer");
                parts.env.clock.sleep(FOLLOW_PAUSE).await;
            }
        }
    }
}

/// Does the work of a real process' commit thread, at times that the seed chooses.
async fn commit(env: Env, target: Arc<Target>, commits: Commits, mut pace: Rng) {
    loop {
        let pause = pace.between(commits.pace_ms.0, commits.pace_ms.1);
        env.clock.sleep(Duration::from_millis(pause)).await;
        target.store().commit_if_due();
    }
}
