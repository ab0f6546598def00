//! The view of the control socket on a node while it starts, runs and stops.

use crate::config::settings::{MountSettings, Settings};
use crate::home::Home;
use crate::host::authority::AuthorityDir;
use crate::host::authority::standing::Standing;
use crate::manage::alive::Alive;
use crate::role::parts::{Parts, blocking};
use crate::watch::logs::WatchedLog;
use crate::watch::status::{ClientStatus, MountStatus, NodeState, NodeStatus, Space, TargetStatus};
use crate::watch::waits;
use dash::access::Token;
use env::clock::Monotonic;
use futures_util::future::join_all;
use parking_lot::Mutex;
use rpc::error::RpcError;
use seal::keys::Due;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stubs::mdc::Mdc;
use stubs::osc::Osc;
use types::attr::Statfs;
use types::credentials::Credentials;
use types::nid::Nid;
use types::target::{TargetKind, TargetName};
use types::time::Timestamp;

/// A target that does not answer within this time is reported as trouble.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
/// Names of hosts without a key of the new authority that are told.
const NAMES_BEHIND_MAX: usize = 16;

/// The HTTP server of the process.
#[derive(Clone, Debug)]
pub struct Served {
    /// Its address.
    pub addr: SocketAddr,
    /// What readers must know.
    pub token: Token,
    /// Fingerprint of its certificate; `None`: it speaks plain HTTP.
    pub fingerprint: Option<String>,
}

/// Shared between a node and its control socket.
pub struct View {
    home: Option<Home>,
    settings: Settings,
    parts: Parts,
    started: Monotonic,
    since: Timestamp,
    alive: Alive,
    live: Mutex<Live>,
    standing: Mutex<Option<Standing>>,
}

struct Live {
    state: NodeState,
    listen: Option<SocketAddr>,
    http: Option<Served>,
    targets: Vec<(TargetName, String)>,
    logs: Vec<Arc<WatchedLog>>,
    mounts: Vec<(MountStatus, Arc<AtomicBool>)>,
}

impl View {
    /// Of a node that starts now.
    pub fn new(home: Option<Home>, settings: Settings, parts: Parts) -> View {
        let started = parts.env.clock.now();
        let state = NodeState::Starting;
        let live = Live {
            state,
            listen: None,
            http: None,
            targets: Vec::new(),
            logs: Vec::new(),
            mounts: Vec::new(),
        };
        let since = parts.env.clock.wall();
        View {
            home,
            settings,
            parts,
            started,
            since,
            alive: Alive::default(),
            live: Mutex::new(live),
            standing: Mutex::default(),
        }
    }

    /// Settings it runs with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// State that all roles share.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The devices of this process.
    pub fn alive(&self) -> &Alive {
        &self.alive
    }

    /// Time at which the process began to count.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Notes that it goes on to another state.
    pub fn set_state(&self, state: NodeState) {
        self.live.lock().state = state;
    }

    /// Notes that it listens; the first address is shown.
    pub fn set_listen(&self, addr: SocketAddr) {
        self.live.lock().listen.get_or_insert(addr);
    }

    /// Notes that it answers HTTP, and the token that readers need.
    pub fn set_http(&self, http: Served) {
        self.live.lock().http = Some(http);
    }

    /// Notes how far the keys of the cluster are, whose authority is here.
    pub fn set_standing(&self, standing: Standing) {
        *self.standing.lock() = Some(standing);
    }

    /// How far the keys of the cluster are, as it was seen last; `None`: the authority is not here,
    /// or was not read yet. Changes are seen within a second.
    pub fn standing(&self) -> Option<Standing> {
        self.standing.lock().clone()
    }

    /// Notes that it serves another target.
    pub fn add_target(&self, name: TargetName, dir: &Path) {
        let mut live = self.live.lock();
        // A target on a shared log may be taken over several times.
        if !live.targets.iter().any(|(known, _)| *known == name) {
            live.targets.push((name, dir.display().to_string()));
        }
    }

    /// Notes that another host serves this target now.
    pub fn remove_target(&self, name: TargetName) {
        self.live.lock().targets.retain(|(known, _)| *known != name);
    }

    /// Notes that it watches a log that other hosts share.
    pub fn add_log(&self, log: Arc<WatchedLog>) {
        self.live.lock().logs.push(log);
    }

    /// Logs that other hosts share.
    pub fn logs(&self) -> Vec<Arc<WatchedLog>> {
        self.live.lock().logs.clone()
    }

    /// File systems that it serves or mounts.
    pub fn fsnames(&self) -> Vec<String> {
        let served: Vec<String> = {
            let live = self.live.lock();
            let targets = live.targets.iter().filter(|(name, _)| name.kind != TargetKind::Mgt);
            targets.map(|(name, _)| name.fsname.to_string()).collect()
        };
        let mounted = (!self.settings.mounts.is_empty()).then(|| self.settings.fsname.to_string());
        // An MGS serves whatever registers.
        let kept = self.alive.mgs().map_or_else(Vec::new, |(mgs, _)| {
            mgs.configs().keys().map(ToString::to_string).collect()
        });
        served.into_iter().chain(mounted).chain(kept).collect()
    }

    /// Notes that it has another mount, which ends with `ended`.
    pub fn add_mount(
        &self,
        settings: &MountSettings,
        source: String,
        ended: impl Future<Output = ()> + Send + 'static,
    ) {
        let gone = Arc::new(AtomicBool::new(false));
        let status = MountStatus {
            at: settings.at.display().to_string(),
            source,
            options: settings.options.to_string(),
            mounted: true,
        };
        self.live.lock().mounts.push((status, gone.clone()));
        let watch = async move {
            ended.await;
            gone.store(true, Ordering::Release);
        };
        self.parts.env.tasks.spawn("watch mount", Box::pin(watch));
    }

    /// Name of the state.
    pub fn state(&self) -> NodeState {
        self.live.lock().state
    }

    /// Address at which it answers HTTP.
    pub fn http(&self) -> Option<SocketAddr> {
        self.live.lock().http.as_ref().map(|http| http.addr)
    }

    /// The address of its HTTP server with the token in it.
    pub fn page(&self) -> Option<String> {
        let live = self.live.lock();
        let Served { addr, token, fingerprint } = live.http.as_ref()?;
        let scheme = if fingerprint.is_some() { "https" } else { "http" };
        Some(format!("{scheme}://{addr}/?token={}", token.text()))
    }

    /// The home, if it has one.
    pub fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    /// Home, or the first mount point.
    pub fn place(&self) -> String {
        let mount = || self.settings.mounts.first().map(|mount| mount.at.display().to_string());
        self.home
            .as_ref()
            .map(|home| home.dir().display().to_string())
            .or_else(mount)
            .unwrap_or_default()
    }

    /// NIDs beyond this host at which no key is asked for.
    fn open(&self) -> Vec<String> {
        match self.parts.keys {
            Some(_) => Vec::new(),
            None => self
                .parts
                .rpc
                .nids()
                .iter()
                .filter(|nid| !nid.is_loopback())
                .map(Nid::to_string)
                .collect(),
        }
    }

    /// Which processes may connect: `secured`, `open` or `local`.
    pub fn security(&self) -> &'static str {
        match self.parts.keys {
            Some(_) => "secured",
            None if self.open().is_empty() => "local",
            None => "open",
        }
    }

    /// Time since its start.
    pub fn uptime(&self) -> Duration {
        self.parts.env.clock.now().saturating_sub(self.started)
    }

    /// Its state, with the space of every target.
    pub async fn status(&self) -> NodeStatus {
        let (state, listen, http, targets, mounts) = {
            let live = self.live.lock();
            let mounted = |(status, gone): &(MountStatus, Arc<AtomicBool>)| MountStatus {
                mounted: !gone.load(Ordering::Acquire),
                ..status.clone()
            };
            let mounts = live.mounts.iter().map(mounted).collect();
            (live.state, live.listen, live.http.clone(), live.targets.clone(), mounts)
        };
        let mut trouble = self.store_trouble();
        let (standing, now) = (self.ask_standing().await, self.parts.env.clock.wall().sec);
        let spaces =
            join_all(targets.iter().map(|(name, _)| self.limited(*name, self.space(*name)))).await;
        let mut rows = Vec::new();
        for ((name, dir), space) in targets.iter().zip(spaces) {
            let space = space.unwrap_or_else(|error| {
                trouble.push(error.to_string());
                None
            });
            let kind = if name.kind == TargetKind::Mgt { "mgt" } else { name.kind.word() };
            rows.push(TargetStatus {
                name: name.to_string(),
                kind: kind.to_lowercase(),
                dir: dir.clone(),
                space: space.map(to_space),
            });
        }
        rows.sort_by_key(|row| {
            let order = ["mgt", "mdt", "ost"];
            (order.iter().position(|kind| *kind == row.kind), row.name.clone())
        });
        NodeStatus {
            home: self.home.as_ref().map(|h| h.dir().display().to_string()).unwrap_or_default(),
            state,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.uptime().as_secs(),
            fsname: self.settings.fsname.to_string(),
            nids: self.parts.rpc.nids().iter().map(Nid::to_string).collect(),
            listen: listen.map(|addr| addr.to_string()),
            open: self.open(),
            secured: self.secured(standing.as_ref()),
            keys: standing.map(|standing| standing.status(NAMES_BEHIND_MAX, now)),
            http: http.as_ref().map(|http| http.addr.to_string()),
            https: http.and_then(|http| http.fingerprint),
            clients: self.clients(&targets, &mut trouble).await,
            targets: rows,
            logs: self.logs().iter().map(|log| log.seen()).collect(),
            mounts,
            waits_for: waits::awaited(self),
            trouble,
        }
    }

    /// What is wrong with the stores of its targets.
    fn store_trouble(&self) -> Vec<String> {
        let alive = self.alive();
        let mdts = alive.mdts().into_iter().map(|(_, target)| target);
        let osts = alive.osts().into_iter().map(|(_, target)| target);
        let all = mdts.chain(osts).chain(alive.mgs().map(|(_, target)| target));
        all.filter_map(|target| Some(format!("{}: {}", target.name()?, target.store().trouble()?)))
            .collect()
    }

    /// How far the keys of the cluster are now, if the authority is here.
    async fn ask_standing(&self) -> Option<Standing> {
        let dirs = self.settings.targets.iter().map(|dir| AuthorityDir::of(dir));
        let authority = dirs.into_iter().find(AuthorityDir::exists)?;
        let ask = move || authority.standing();
        blocking(&self.parts.env, "asked for the authority", ask).await.ok()?.ok()
    }

    /// About its key, for people, and at the authority about those of others.
    fn secured(&self, standing: Option<&Standing>) -> Option<String> {
        let keys = self.parts.keys.as_ref()?;
        let days = (keys.expires() - self.parts.env.clock.wall().sec).div_euclid(86_400);
        let mut text = format!("key of {}, good for {days} days", keys.principal());
        if keys.due() == Due::Renewal {
            text += ", not renewed: of the old authority";
        }
        if let Some(standing) = standing.filter(|standing| standing.is_in_overlap()) {
            text += &match (standing.behind.len(), standing.names()) {
                (0, all) => {
                    format!("; two authorities hold, all {all} names have keys of the new one")
                }
                (behind, all) => format!(
                    "; two authorities hold, {behind} of {all} names have keys of the old one only: {}",
                    standing.names_behind(NAMES_BEHIND_MAX)
                ),
            };
        }
        Some(text)
    }

    async fn space(&self, name: TargetName) -> Result<Option<Statfs>, RpcError> {
        // One that can be taken over is used over the network, also here.
        let import = || self.parts.session(name, &self.parts.rpc.nids());
        match name.kind {
            TargetKind::Mgt => Ok(None),
            TargetKind::Mdt => Mdc::new(import()).statfs(&Credentials::root()).await.map(Some),
            TargetKind::Ost => Osc::new(import()).statfs().await.map(Some),
        }
    }

    async fn clients(
        &self,
        targets: &[(TargetName, String)],
        trouble: &mut Vec<String>,
    ) -> Vec<ClientStatus> {
        if !targets.iter().any(|(name, _)| name.kind == TargetKind::Mgt) {
            return Vec::new();
        }
        let mgc = self.parts.mgc();
        match self.limited(TargetName::mgs(), mgc.clients()).await {
            Ok(clients) => clients
                .into_iter()
                .map(|(description, nid)| ClientStatus { description, nid })
                .collect(),
            Err(error) => {
                trouble.push(error.to_string());
                Vec::new()
            }
        }
    }

    /// An answer in time, or an error.
    async fn limited<T>(
        &self,
        target: TargetName,
        ask: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<T, RpcError> {
        tokio::select! {
            answer = ask => answer,
            () = self.parts.env.clock.sleep(ASK_TIMEOUT) => {
                Err(RpcError::Timeout { target, seconds: ASK_TIMEOUT.as_secs() })
            }
        }
    }
}

fn to_space(statfs: Statfs) -> Space {
    Space {
        bytes_total: statfs.bytes_total,
        bytes_free: statfs.bytes_free,
        bytes_available: statfs.bytes_available,
        files_total: statfs.files_total,
        files_free: statfs.files_free,
    }
}
