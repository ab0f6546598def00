//! An MGS or MDT on a shared log, on one of the hosts that may serve it: it follows the log, takes
//! the target over when that has no owner, serves it, and follows again when it lost it
//! (docs/ownership.md).
//!
//! A host whose tree cannot be completed from the log gets that of the owner first
//! ([`fetch`]).
//!
//! Owner of one task, and of these threads: `follow log` while it stands by, `keep lease` and, with
//! a store of blobs, `keep blobs` ([`blobs`]) while it owns the target, `watch log` for people. All
//! end with [`Standby::stop`].

mod blobs;
mod fetch;
mod lease;

use crate::error::NodeError;
use crate::host::shared_log::{
    blobs_of, identity_of, identity_text, mgs_text, place_text, replica_of,
};
use crate::manage::alive;
use crate::role::mdt::MdtRole;
use crate::role::mgs::MgsRole;
use crate::role::object_targets::Followed;
use crate::role::parts::Parts;
use crate::watch::logs::WatchedLog;
use crate::watch::view::View;
use disk::superblock::Superblock;
use env::Env;
use env::clock::Monotonic;
use env::watch;
use etcd::client::Etcd;
use etcd::url::Members;
use mds::settings::MdsSettings;
use rpc::service::Ownership;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::error::StoreError;
use store::journalled::Journalled;
use store::kv::{Kv, LeaseId};
use store::lease::Lease;
use store::shared_log::SharedLog;
use store::store::Store;
use stubs::mgc::Mgc;
use target::superblock::Lock;
use target::{Target, TargetError, TargetOptions, superblock};
use tokio::sync::oneshot;
use types::nid::Nid;
use types::session::ClusterId;
use types::target::TargetName;

/// Time of an owner's lease. etcd grants no shorter one with its usual settings.
const LEASE: Duration = Duration::from_secs(2);
/// How often a host that stands by looks at the log, and one that owns the target at its clock.
const LOOK: Duration = Duration::from_millis(50);
/// Of a log of an earlier version.
const UNKNOWN_CLUSTER: &str =
    "it does not tell its cluster; start a host first that served the target before";
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// A target that this host serves, or may serve.
pub struct Standby {
    stop: watch::Sender<bool>,
    stopped: Arc<AtomicBool>,
    ended: oneshot::Receiver<Result<(), NodeError>>,
    unwatched: oneshot::Receiver<()>,
}

/// What one needs to serve it.
pub struct Place {
    /// Name of the target.
    pub name: TargetName,
    /// Folder of the target.
    pub dir: PathBuf,
    /// The etcd that has its log.
    pub members: Members,
    /// Settings of the target.
    pub options: TargetOptions,
    /// Which service.
    pub service: Service,
}

/// The service of a target on a shared log.
pub enum Service {
    /// The MGS.
    Mgs,
    /// An MDT, which has these OSTs and peers.
    Mdt(Arc<Followed>, Box<MdsSettings>),
}

/// A target in service.
enum Role {
    Mgs(MgsRole),
    Mdt(MdtRole),
}

impl Role {
    fn name(&self) -> TargetName {
        match self {
            Role::Mgs(_) => TargetName::mgs(),
            Role::Mdt(mdt) => mdt.name(),
        }
    }

    fn show(&self, view: &View, target: &Arc<Target>) {
        match self {
            Role::Mgs(mgs) => view.alive().add_mgs(mgs.mgs(), target),
            Role::Mdt(mdt) => {
                alive::list_commits(view.parts().rpc.metrics(), target);
                view.alive().add_mdt(mdt.mds(), target);
            }
        }
    }

    async fn stop(self, parts: &Parts, mgc: &Mgc) -> Result<(), NodeError> {
        match self {
            Role::Mgs(mgs) => mgs.stop(parts).await,
            Role::Mdt(mdt) => mdt.stop(parts, mgc).await,
        }
    }

    /// Ends the service without a word to others.
    async fn withdraw(self, parts: &Parts) -> Result<(), NodeError> {
        match self {
            Role::Mgs(mgs) => mgs.stop(parts).await,
            Role::Mdt(mdt) => mdt.withdraw(parts).await,
        }
    }
}

struct Life {
    parts: Parts,
    view: Arc<View>,
    place: Place,
    /// For people.
    log: Arc<WatchedLog>,
    stopped: Arc<AtomicBool>,
}

/// The target, taken over.
struct Taken {
    target: Arc<Target>,
    log: Arc<SharedLog>,
    lease: Arc<Lease>,
    id: LeaseId,
}

/// How it ended to stand by.
enum Stood {
    /// The target is this host's.
    Taken(Taken),
    /// The log cannot complete the tree, for this reason.
    Behind(StoreError),
    /// It is told to stop.
    Stopped,
}

/// An owner owns its target while its lease holds and no newer epoch began.
struct Owned {
    lease: Arc<Lease>,
    store: Arc<Store>,
}

impl Ownership for Owned {
    fn holds(&self, now: Monotonic) -> bool {
        self.lease.holds(now) && !self.store.is_fenced()
    }
}

impl Standby {
    /// Begins to stand by.
    pub fn start(parts: &Parts, view: &Arc<View>, place: Place) -> Standby {
        let (stop, ear) = watch::channel(false);
        let (done, ended) = oneshot::channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let replica = replica_of(&place.dir);
        let log = WatchedLog::new(place.name, place.members.clone(), replica);
        view.add_log(log.clone());
        let (seen, unwatched) = oneshot::channel();
        let (told, watched) = (stopped.clone(), log.clone());
        let watch = move || {
            watched.watch(&told);
            // The receiver is gone if the stop was given up.
            let _ = seen.send(());
        };
        parts.env.tasks.spawn_thread("watch log", Box::new(watch));
        let (parts, view) = (parts.clone(), view.clone());
        let env = parts.env.clone();
        let life = Life { parts, view, place, log, stopped: stopped.clone() };
        let run = async move {
            // The receiver is gone if the stop was given up.
            let _ = done.send(life.run(ear).await);
        };
        env.tasks.spawn("stand by", Box::pin(run));
        Standby { stop, stopped, ended, unwatched }
    }

    /// Ends it; everything of a target that it owned is durable, and another host may take it over
    /// at once.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub async fn stop(self) -> Result<(), NodeError> {
        self.stopped.store(true, Ordering::Release);
        self.stop.send_replace(true);
        let ended = self.ended.await.unwrap_or(Err(NodeError::Panicked("stood by")));
        let unwatched = self.unwatched.await.map_err(|_| NodeError::Panicked("watched a log"));
        ended.and(unwatched)
    }
}

impl Life {
    async fn run(self, mut stop: watch::Receiver<bool>) -> Result<(), NodeError> {
        let mut said = None;
        while !self.stopped.load(Ordering::Acquire) {
            let taken = match self.stand_by().await {
                Ok(Stood::Taken(taken)) => taken,
                Ok(Stood::Stopped) => return Ok(()),
                Ok(Stood::Behind(why)) => {
                    if said.as_ref() != Some(&why) {
                        tracing::warn!(dir = %self.place.dir.display(), %why, "waiting for a checkpoint, or the tree of an owner");
                        said = Some(why);
                    }
                    if let Err(error) = self.fetch_tree(&mut stop).await {
                        tracing::warn!(dir = %self.place.dir.display(), %error, "no tree from the owner; trying again");
                        self.pause(&mut stop).await;
                    }
                    continue;
                }
                Err(error) => {
                    if self.log.refuse(Some(error.to_string())) {
                        tracing::error!(dir = %self.place.dir.display(), %error, "cannot stand by; trying again");
                    }
                    self.pause(&mut stop).await;
                    continue;
                }
            };
            let kept = self.keep_lease(&taken);
            let served = self.serve(&taken, &mut stop).await;
            taken.lease.end();
            if kept.await.is_err() {
                tracing::error!("the thread that kept the lease panicked");
            }
            if let Err(error) = served {
                if self.stopped.load(Ordering::Acquire) {
                    return Err(error);
                }
                tracing::error!(dir = %self.place.dir.display(), %error, "the target is not served here any more");
                self.pause(&mut stop).await;
            }
        }
        Ok(())
    }

    async fn pause(&self, stop: &mut watch::Receiver<bool>) {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => {}
            () = self.parts.env.clock.sleep(PAUSE) => {}
        }
    }

    /// Follows the log until this host has taken the target over.
    async fn stand_by(&self) -> Result<Stood, NodeError> {
        let (opener, stopped) = (self.opener(), self.stopped.clone());
        let options = self.place.options.clone();
        let follow = move || follow(&opener, options, &stopped);
        on_thread(&self.parts.env, "follow log", follow).await?
    }

    fn opener(&self) -> Opener {
        Opener {
            env: self.parts.env.clone(),
            dir: self.place.dir.clone(),
            members: self.place.members.clone(),
            place: place_text(&replica_of(&self.place.dir), &self.parts.rpc.nids()),
            cluster: match &self.place.service {
                Service::Mgs => None,
                Service::Mdt(followed, _) => Some(followed.cluster()),
            },
            mgs: self.nids_of_mgs(),
            watched: self.log.clone(),
        }
    }

    /// Where the MGS of this host's cluster is; that of this process at all its hosts.
    fn nids_of_mgs(&self) -> String {
        let parts = &self.parts;
        let here = || [&parts.service_nodes[..], &parts.rpc.nids()].concat();
        match &self.place.service {
            Service::Mgs => mgs_text(&here()),
            Service::Mdt(..) if parts.mgs.contains(&Nid::Loopback) => mgs_text(&here()),
            Service::Mdt(..) => mgs_text(&parts.mgs),
        }
    }

    /// Hosts that come later need what this one learned when it registered.
    async fn note_identity(&self, taken: &Taken) {
        let text = identity_text(taken.target.cluster(), taken.target.server_key());
        let log = taken.log.clone();
        let noted = on_thread(&self.parts.env, "note identity", move || log.note_identity(&text));
        if let Ok(Err(error)) = noted.await {
            tracing::warn!(%error, "a host that joins now cannot get the tree");
        }
    }

    async fn start_role(
        &self,
        target: &Arc<Target>,
        mgc: &Mgc,
        ownership: Arc<dyn Ownership>,
    ) -> Result<Role, NodeError> {
        let (parts, target, ownership) = (&self.parts, target.clone(), Some(ownership));
        match &self.place.service {
            Service::Mgs => MgsRole::start_owned(parts, target, ownership).await.map(Role::Mgs),
            Service::Mdt(followed, settings) => {
                let settings = MdsSettings::clone(settings);
                MdtRole::start_owned(parts, mgc, target, followed, settings, ownership)
                    .await
                    .map(Role::Mdt)
            }
        }
    }

    /// Serves the target until it is lost, or this host is told to stop.
    async fn serve(
        &self,
        taken: &Taken,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), NodeError> {
        let Taken { target, lease, .. } = taken;
        let store = target.store().clone();
        let ownership = Arc::new(Owned { lease: lease.clone(), store: store.clone() });
        let (parts, mgc) = (&self.parts, self.parts.mgc());
        let role = match self.start_role(target, &mgc, ownership).await {
            Ok(role) => role,
            Err(error) => {
                if let Err(error) = target.close().await {
                    tracing::warn!(%error, "closing a target that cannot be served");
                }
                return Err(error);
            }
        };
        tracing::info!(name = %role.name(), epoch = target.boot(), "taken over");
        self.view.add_target(role.name(), &self.place.dir);
        role.show(&self.view, target);
        self.note_identity(taken).await;
        self.keep_blobs(taken);
        let lost = async {
            while !lease.is_ended() && !store.is_fenced() {
                parts.env.clock.sleep(LOOK).await;
            }
        };
        let told = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => true,
            () = lost => false,
        };
        if told {
            return role.stop(parts, &mgc).await;
        }
        tracing::warn!(name = %role.name(), epoch = target.boot(), "lost to another host; standing by");
        lease.end();
        self.view.remove_target(role.name());
        if let Err(error) = role.withdraw(parts).await {
            tracing::info!(%error, "what was not committed is brought back by its clients");
        }
        Ok(())
    }
}

/// Runs something long that blocks in a thread of its own.
async fn on_thread<T: Send + 'static>(
    env: &Env,
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NodeError> {
    let (done, result) = oneshot::channel();
    let run = move || {
        // The receiver may be gone: the start was given up.
        let _ = done.send(work());
    };
    env.tasks.spawn_thread(name, Box::new(run));
    result.await.map_err(|_| NodeError::Panicked(name))
}

/// True if the log did not answer; said once.
fn is_unanswered(error: &StoreError, said: &mut bool) -> bool {
    let unanswered = matches!(error, StoreError::NoAnswer { .. });
    if unanswered && !std::mem::replace(said, true) {
        tracing::warn!(%error, "waiting for the log");
    }
    unanswered
}

/// What opens the folder of a target, and its log.
struct Opener {
    env: Env,
    dir: PathBuf,
    members: Members,
    place: String,
    /// The cluster of the MGS; `None`: this is the MGS, whose folder names it.
    cluster: Option<ClusterId>,
    /// Where the MGS is.
    mgs: String,
    watched: Arc<WatchedLog>,
}

/// The folder, opened.
struct Opened {
    name: TargetName,
    block: Superblock,
    lock: Arc<Lock>,
    kv: Arc<Etcd>,
    log: Arc<SharedLog>,
}

impl Opener {
    fn open(&self) -> Result<Opened, NodeError> {
        let Opener { env, dir, members, place, .. } = self;
        let block = target::superblock::read(env, dir)?;
        if let Some(ours) = self.cluster
            && ![ClusterId(0), ours].contains(&block.cluster)
        {
            let theirs = block.cluster;
            return Err(NodeError::OtherCluster { dir: dir.clone(), ours, theirs });
        }
        let lock = Arc::new(target::superblock::lock(env, dir)?);
        let name = block.name().ok_or_else(|| NodeError::Unnamed(dir.clone()))?;
        let kv = Etcd::new(members.clone(), Etcd::DEADLINE).map_err(NodeError::Process)?;
        let (kv, replica) = (Arc::new(kv), replica_of(dir));
        let log = SharedLog::new(
            kv.clone(),
            &members.keys_of(&name.to_string()),
            block.store,
            &replica,
            place,
        )
        .with_blobs(blobs_of(members).map_err(NodeError::Process)?)
        .for_mgs(&self.mgs);
        Ok(Opened { name, block, lock, kv, log: Arc::new(log) })
    }

    /// Succeeds if this host may use the log: it is that of this store, and of this cluster. Notes
    /// the cluster and key that the log tells, if this host knows none yet. Blocks.
    ///
    /// # Errors
    /// It may not, or the log cannot be read; or the superblock cannot be written.
    fn join(&self, log: &SharedLog, block: Superblock) -> Result<Superblock, TargetError> {
        log.check()?;
        let identity = log.join(self.cluster.unwrap_or(block.cluster))?;
        if block.cluster != ClusterId(0) {
            return Ok(block);
        }
        match identity_of(&identity) {
            Some((cluster, key)) => {
                let block = Superblock { cluster, key, ..block };
                superblock::write(&self.env, &self.dir, &block)?;
                Ok(block)
            }
            // It is that of this cluster, and no owner has registered yet.
            None if !identity.is_empty() => Ok(block),
            None => Err(log.foreign(UNKNOWN_CLUSTER).into()),
        }
    }
}

fn follow(
    opener: &Opener,
    options: TargetOptions,
    stopped: &AtomicBool,
) -> Result<Stood, NodeError> {
    let Opener { env, dir, .. } = opener;
    let Opened { name, block, lock, kv, log } = opener.open()?;
    let stop = || stopped.load(Ordering::Acquire);
    let mut said = false;
    let engine = loop {
        let opened = opener.join(&log, block).and_then(|block| {
            let options = options.engine.clone();
            Ok(Journalled::open_tree(env, dir, block.store, log.clone(), options)?)
        });
        match opened {
            Ok(engine) => break engine,
            Err(TargetError::Store(
                why @ (StoreError::Behind { .. } | StoreError::Unfinished { .. }),
            )) => return Ok(Stood::Behind(why)),
            Err(TargetError::Store(error)) if is_unanswered(&error, &mut said) => {
                if stop() {
                    return Ok(Stood::Stopped);
                }
                std::thread::sleep(LOOK);
            }
            Err(error) => return Err(error.into()),
        }
    };
    opener.watched.refuse(None);
    engine.hold(lock.clone());
    tracing::info!(%name, "following the log");
    while !stop() {
        let step = engine.follow().and_then(|_| log.owner());
        match step {
            Ok(None) => {
                let asked = env.clock.now();
                let Ok(id) = kv.grant(LEASE) else { continue };
                log.claim_under(id);
                let opened =
                    Target::open_locked(env, dir, options.clone(), lock.clone(), |_, _| {
                        Ok(engine.clone())
                    });
                let error = match opened {
                    Ok(target) => {
                        let lease = Arc::new(Lease::new(LEASE, asked));
                        return Ok(Stood::Taken(Taken { target, log, lease, id }));
                    }
                    Err(error) => error,
                };
                // If the claim was done all the same, no host shall wait for the end of this lease.
                if let Err(error) = kv.revoke(id) {
                    tracing::debug!(%error, "a lease ends by itself");
                }
                match error {
                    TargetError::Store(StoreError::Owned { .. }) => {}
                    TargetError::Store(error) if is_unanswered(&error, &mut said) => {}
                    error => return Err(error.into()),
                }
            }
            Ok(Some(_)) => said = false,
            Err(why @ StoreError::Behind { .. }) => {
                // It was away for too long, or too slow.
                close(&engine)?;
                return Ok(Stood::Behind(why));
            }
            Err(error) if is_unanswered(&error, &mut said) => {}
            Err(error) => return Err(TargetError::from(error).into()),
        }
        std::thread::sleep(LOOK);
    }
    close(&engine)?;
    Ok(Stood::Stopped)
}

fn close(engine: &Journalled) -> Result<(), NodeError> {
    Ok(store::engine::Engine::close(engine).map_err(TargetError::from)?)
}
