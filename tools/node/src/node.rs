//! A node: settings assembled into running roles, and taken apart again.
//!
//! Start: listen, MGS, OSTs, MDTs (which need OSTs), mounts. Stop: the other way round, and every
//! step is taken even if one before it failed. A start that is given up in the middle is stopped
//! like any other.

use crate::config::client_file;
use crate::config::settings::{Settings, SettingsError};
use crate::error::NodeError;
use crate::host::announce::{Announce, Event};
use crate::host::descriptors::Bounds;
use crate::host::interfaces;
use crate::host::shared_log::{is_shared_mgt, members_of};
use crate::local;
use crate::manage::alive;
use crate::manage::persistent::Persistent;
use crate::manage::security::Secured;
use crate::role::mdt::MdtRole;
use crate::role::mgs::MgsRole;
use crate::role::mount::{self, MountRole};
use crate::role::object_targets::Followed;
use crate::role::ost::OstRole;
use crate::role::parts::{Parts, blocking};
use crate::role::router::RouterRole;
use crate::role::standby::{Place, Service, Standby};
use crate::watch::view::View;
use disk::superblock::Superblock;
use etcd::url::Members;
use futures_util::future::{BoxFuture, FutureExt, LocalBoxFuture, join_all, select_all};
use mds::settings::MdsSettings;
use oss::settings::OstSettings;
use rpc::error::RpcError;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::open_files::OpenFiles;
use store::volume::DEVICE;
use stubs::mgc::Mgc;
use target::room::Room;
use target::{Target, TargetOptions};
use types::nid::Nid;
use types::target::{FsName, TargetKind, TargetName};

/// Roles that run.
pub struct Node {
    settings: Settings,
    parts: Parts,
    mgc: Mgc,
    /// Of all targets.
    object_files: Arc<OpenFiles>,
    view: Arc<View>,
    secured: Option<Secured>,
    mgs: Option<MgsRole>,
    osts: Vec<OstRole>,
    followed: BTreeMap<FsName, Arc<Followed>>,
    persistent: Persistent,
    mdts: Vec<MdtRole>,
    standbys: Vec<Standby>,
    mounts: Vec<MountRole>,
    router: Option<RouterRole>,
}

impl Node {
    /// A node without a role yet. `secured`: its key; `None`: it asks for none.
    pub fn new(
        settings: Settings,
        bounds: Bounds,
        parts: Parts,
        view: Arc<View>,
        secured: Option<Secured>,
    ) -> Node {
        Node {
            object_files: Arc::new(OpenFiles::new(bounds.object_files)),
            mgc: parts.mgc(),
            settings,
            parts,
            view,
            secured,
            mgs: None,
            osts: Vec::new(),
            followed: BTreeMap::new(),
            persistent: Persistent::new(Vec::new()),
            mdts: Vec::new(),
            standbys: Vec::new(),
            mounts: Vec::new(),
            router: None,
        }
    }

    /// Starts everything that the settings name.
    ///
    /// # Errors
    /// The error of the first part that cannot start. Parts that have started run on until
    /// [`Node::stop`].
    pub fn start<'a>(
        &'a mut self,
        announce: &'a mut dyn Announce,
    ) -> LocalBoxFuture<'a, Result<(), NodeError>> {
        Box::pin(self.start_parts(announce))
    }

    async fn start_parts(&mut self, announce: &mut dyn Announce) -> Result<(), NodeError> {
        let mut step = |what: String| {
            tracing::info!("{what}");
            announce.event(Event::Step { what });
        };
        let dirs = self.look_at_targets().await?;
        // Before the first session: the MGS shows some things to servers only.
        if let Some((_, block)) = dirs.iter().find(|(_, block)| block.key.is_known()) {
            self.parts.rpc.set_server_key(block.key);
        }
        self.persistent = Persistent::new(self.own_params()?);
        self.parts.rpc.set_nets(&self.settings.networks.names());
        for (net, rails) in interfaces::all_rails(&self.settings.networks)? {
            self.parts.rpc.set_rails(net, rails);
        }
        if self.settings.local {
            self.parts.rpc.set_local(Some(local::socket_dir()));
        }
        for route in self.settings.routes.each() {
            self.parts.rpc.add_route(route);
        }
        for (net, addr) in interfaces::to_listen(&self.settings)? {
            let nid = Nid::new(net, addr);
            step(format!("listening at {nid}"));
            match self.parts.rpc.listen_on(net, addr).await {
                Ok(bound) => {
                    if !nid.is_loopback() && self.secured.is_none() {
                        tracing::warn!(%bound, "open: no key is asked for; only on a network you trust");
                    }
                    self.view.set_listen(bound);
                }
                Err(error) => {
                    let (addr, reason) = match error {
                        RpcError::Listen { addr, reason } => (addr, reason),
                        other => (addr, other.to_string()),
                    };
                    let router = !self.settings.forwards.is_empty();
                    return Err(NodeError::Listen { addr, reason, router });
                }
            }
        }
        if !self.settings.forwards.is_empty() {
            step("forwarding between networks".to_owned());
            self.router = Some(RouterRole::start(&self.parts, &self.settings.forwards));
        }
        for (dir, _) in dirs.iter().filter(|(_, block)| block.kind == TargetKind::Mgt) {
            step(format!("starting the MGS ({})", dir.display()));
            if let Some(members) = members_of(dir)? {
                if let Some(secured) = &self.secured {
                    secured.follow_list(&self.view, dir);
                }
                self.stand_by(dir, TargetName::mgs(), members, Service::Mgs);
                continue;
            }
            let target = self.open(dir, TargetKind::Mgt).await?;
            self.view.add_target(TargetName::mgs(), dir);
            let mgs = MgsRole::start(&self.parts, target).await?;
            self.view.alive().add_mgs(mgs.mgs(), mgs.target());
            if let Some(secured) = &self.secured {
                secured.follow_list(&self.view, dir);
            }
            self.mgs = Some(mgs);
        }
        // A limit of its own decides how much there is; without one the OSTs of a volume share it.
        let mut rooms: HashMap<Option<u64>, Arc<Room>> = HashMap::new();
        for (dir, _) in dirs.iter().filter(|(_, block)| block.kind == TargetKind::Ost) {
            step(format!("starting the OST in {}", dir.display()));
            let target = self.open(dir, TargetKind::Ost).await?;
            let (volume_sharers, room) = match self.settings.ost_bytes(dir) {
                Some(_) => (1, Arc::default()),
                None => (sharers(dir, &dirs), rooms.entry(volume(dir)).or_default().clone()),
            };
            let settings = OstSettings { volume_sharers, ..OstSettings::default() };
            let ost = OstRole::start(&self.parts, &self.mgc, target, settings, room).await?;
            self.view.add_target(ost.name(), dir);
            alive::list_commits(self.parts.rpc.metrics(), ost.target());
            self.view.alive().add_ost(ost.ost(), ost.target());
            self.osts.push(ost);
        }
        for (_, block) in dirs.iter().filter(|(_, block)| block.kind != TargetKind::Mgt) {
            self.persistent.follow(&self.view, block.fsname);
        }
        for (dir, block) in dirs.iter().filter(|(_, block)| block.kind == TargetKind::Mdt) {
            step(format!("starting the MDT in {}", dir.display()));
            if !self.followed.contains_key(&block.fsname) {
                let followed = Followed::start(&self.parts, block.fsname).await?;
                self.followed.insert(block.fsname, Arc::new(followed));
            }
            let followed = &self.followed[&block.fsname];
            let stripe_count = self.settings.stripe_count as u16;
            let dom_bytes = self.settings.dom_bytes;
            let settings = MdsSettings { stripe_count, dom_bytes, ..MdsSettings::default() };
            if let Some(members) = members_of(dir)? {
                let service = Service::Mdt(followed.clone(), Box::new(settings));
                let name = block.name().ok_or_else(|| NodeError::Unnamed(dir.clone()))?;
                self.stand_by(dir, name, members, service);
                continue;
            }
            let target = self.open(dir, TargetKind::Mdt).await?;
            let mdt = MdtRole::start(&self.parts, &self.mgc, target, followed, settings).await?;
            self.view.add_target(mdt.name(), dir);
            alive::list_commits(self.parts.rpc.metrics(), mdt.target());
            self.view.alive().add_mdt(mdt.mds(), mdt.target());
            self.mdts.push(mdt);
        }
        if !self.settings.mounts.is_empty() {
            self.persistent.follow(&self.view, self.settings.fsname);
        }
        self.persistent.apply_now(&self.view).await;
        for settings in &self.settings.mounts {
            step(format!("mounting {} at {}", self.settings.fsname, settings.at.display()));
            let mount = MountRole::start(&self.parts, self.settings.fsname, settings).await?;
            self.view.alive().add_mount(mount.client(), mount.waiting(), &settings.at);
            self.view.add_mount(
                settings,
                mount::source(&self.parts.mgs, self.settings.fsname, settings),
                mount.ended(),
            );
            self.mounts.push(mount);
            self.persistent.apply_now(&self.view).await;
        }
        Ok(())
    }

    fn stand_by(&mut self, dir: &Path, name: TargetName, members: Members, service: Service) {
        let options = TargetOptions { shared: true, ..self.target_options(dir, name.kind) };
        let place = Place { name, dir: dir.to_owned(), members, options, service };
        self.standbys.push(Standby::start(&self.parts, &self.view, place));
    }

    /// Parameters of this host's file. A process without a mount reads none.
    fn own_params(&self) -> Result<Vec<(String, String)>, NodeError> {
        let Some(first) = self.settings.mounts.first() else { return Ok(Vec::new()) };
        let named = self.settings.mounts.iter().find_map(|mount| mount.options.config.as_deref());
        client_file::read(named)
            .map(|file| file.params)
            .map_err(|e| NodeError::ClientFile { at: first.at.clone(), source: Box::new(e) })
    }

    /// Ready when the kernel has let go of a mount; never if there is none.
    pub fn mount_ended(&self) -> BoxFuture<'static, ()> {
        if self.mounts.is_empty() {
            return std::future::pending().boxed();
        }
        select_all(self.mounts.iter().map(|m| m.ended().boxed())).map(|_| ()).boxed()
    }

    /// Stops everything that runs. Everything is durable when this returns without an error.
    ///
    /// # Errors
    /// The first of the parts that could not be stopped in order; the others were stopped all the
    /// same.
    pub fn stop(self) -> LocalBoxFuture<'static, Result<(), NodeError>> {
        Box::pin(self.stop_parts())
    }

    async fn stop_parts(self) -> Result<(), NodeError> {
        let mut first = Ok(());
        let mut note = |result: Result<(), NodeError>| {
            if let Err(error) = &result {
                tracing::error!(%error, "stopping");
            }
            if first.is_ok() {
                first = result;
            }
        };
        self.persistent.stop();
        if let Some(router) = &self.router {
            router.stop(&self.parts);
        }
        for mount in self.mounts {
            note(mount.stop(&self.parts).await);
        }
        for followed in self.followed.values() {
            followed.stop();
        }
        // All of a kind at once: each may wait for its disk, and for an MGS that is gone.
        let (parts, mgc) = (&self.parts, &self.mgc);
        join_all(self.standbys.into_iter().map(Standby::stop))
            .await
            .into_iter()
            .for_each(&mut note);
        join_all(self.mdts.into_iter().map(|mdt| mdt.stop(parts, mgc)))
            .await
            .into_iter()
            .for_each(&mut note);
        join_all(self.osts.into_iter().map(|ost| ost.stop(parts, mgc)))
            .await
            .into_iter()
            .for_each(&mut note);
        if let Some(mgs) = self.mgs {
            note(mgs.stop(&self.parts).await);
        }
        self.parts.rpc.shutdown().await;
        first
    }

    /// Reads the targets' folders before anything is touched.
    async fn look_at_targets(&self) -> Result<Vec<(PathBuf, Superblock)>, NodeError> {
        let (env, dirs) = (self.parts.env.clone(), self.settings.targets.clone());
        let read =
            move |dir: PathBuf| target::superblock::read(&env, &dir).map(|block| (dir, block));
        let targets = blocking(&self.parts.env, "read superblocks", move || {
            dirs.into_iter().map(read).collect::<Result<Vec<_>, _>>()
        })
        .await??;
        let mut mgts =
            targets.iter().filter(|(_, block)| block.kind == TargetKind::Mgt).map(|(dir, _)| dir);
        match (mgts.next(), mgts.next()) {
            (Some(first), Some(second)) => {
                return Err(NodeError::TwoMgts { first: first.clone(), second: second.clone() });
            }
            (None, _) if self.settings.mgs.is_empty() => {
                let lost = targets.first().map_or_else(PathBuf::new, |(dir, _)| dir.clone());
                return Err(SettingsError::NoMgs(lost).into());
            }
            (None, _) => {
                targets.iter().try_for_each(|(dir, _)| self.settings.check_reachable(dir))?
            }
            (Some(dir), None) if is_shared_mgt(dir) => {
                if self.parts.mgs == [Nid::Loopback] {
                    return Err(SettingsError::MgsHosts(dir.clone()).into());
                }
                self.settings.check_reachable(dir)?;
            }
            (Some(_), None) => {}
        }
        Ok(targets)
    }

    fn target_options(&self, dir: &Path, kind: TargetKind) -> TargetOptions {
        let mut options = TargetOptions { kind: Some(kind), ..TargetOptions::default() };
        options.objects.open = self.object_files.clone();
        if kind == TargetKind::Ost {
            options.objects.bytes_max = self.settings.ost_bytes(dir);
        }
        options
    }

    async fn open(&self, dir: &Path, kind: TargetKind) -> Result<Arc<Target>, NodeError> {
        let (env, options) = (self.parts.env.clone(), self.target_options(dir, kind));
        let dir = dir.to_owned();
        Ok(blocking(&self.parts.env, "opened a target", move || Target::open(&env, &dir, options))
            .await??)
    }
}

/// The volume that a folder is on.
fn volume(dir: &Path) -> Option<u64> {
    std::fs::metadata(dir).map(|m| m.dev()).ok()
}

/// Number of OSTs of this process whose files share the volume of `dir`.
fn sharers(dir: &Path, targets: &[(PathBuf, Superblock)]) -> u32 {
    let here = volume(dir);
    let osts = targets.iter().filter(|(_, block)| block.kind == TargetKind::Ost);
    let files = osts.filter(|(other, _)| !other.join(DEVICE).exists());
    files.filter(|(other, _)| volume(other) == here).count().max(1) as u32
}
