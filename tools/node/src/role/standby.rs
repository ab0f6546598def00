//! An MDT on a shared log, on one of the hosts that may serve it: it follows the log, takes the
//! target over when that has no owner, serves it, and follows again when it lost it
//! (docs/ownership.md).
//!
//! Owner of one task, and of two threads: `follow log` while it stands by, `keep lease` while it
//! owns the target. All end with [`Standby::stop`].

use crate::error::NodeError;
use crate::host::shared_log::replica_of;
use crate::manage::alive;
use crate::role::mdt::MdtRole;
use crate::role::object_targets::Followed;
use crate::role::parts::Parts;
use crate::watch::view::View;
use env::Env;
use env::clock::Monotonic;
use env::watch;
use etcd::client::Etcd;
use etcd::url::Members;
use mds::settings::MdsSettings;
use rpc::service::Ownership;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::error::StoreError;
use store::journalled::Journalled;
use store::kv::{Kv, LeaseId};
use store::lease::Lease;
use store::shared_log::SharedLog;
use store::store::Store;
use target::{Target, TargetError, TargetOptions};
use tokio::sync::oneshot;

/// Time of an owner's lease. etcd grants no shorter one with its usual settings.
const LEASE: Duration = Duration::from_secs(2);
/// How often a host that stands by looks at the log, and one that owns the target at its lease.
const LOOK: Duration = Duration::from_millis(50);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// An MDT that this host serves, or may serve.
pub struct Standby {
    stop: watch::Sender<bool>,
    stopped: Arc<AtomicBool>,
    ended: oneshot::Receiver<Result<(), NodeError>>,
}

/// What one needs to serve it.
pub struct Place {
    /// Folder of the target.
    pub dir: PathBuf,
    /// The etcd that has its log.
    pub members: Members,
    /// Settings of the target.
    pub options: TargetOptions,
    /// Settings of the service.
    pub settings: MdsSettings,
}

struct Life {
    parts: Parts,
    view: Arc<View>,
    followed: Arc<Followed>,
    place: Place,
    stopped: Arc<AtomicBool>,
}

/// The target, taken over.
struct Taken {
    target: Arc<Target>,
    lease: Arc<Lease>,
    id: LeaseId,
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
    pub fn start(
        parts: &Parts,
        view: &Arc<View>,
        followed: &Arc<Followed>,
        place: Place,
    ) -> Standby {
        let (stop, ear) = watch::channel(false);
        let (done, ended) = oneshot::channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let life = Life {
            parts: parts.clone(),
            view: view.clone(),
            followed: followed.clone(),
            place,
            stopped: stopped.clone(),
        };
        let run = async move {
            // The receiver is gone if the stop was given up.
            let _ = done.send(life.run(ear).await);
        };
        parts.env.tasks.spawn("stand by", Box::pin(run));
        Standby { stop, stopped, ended }
    }

    /// Ends it; everything of a target that it owned is durable, and another host may take it over
    /// at once.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub async fn stop(self) -> Result<(), NodeError> {
        self.stopped.store(true, Ordering::Release);
        self.stop.send_replace(true);
        self.ended.await.unwrap_or(Err(NodeError::Panicked("stood by")))
    }
}

impl Life {
    async fn run(self, mut stop: watch::Receiver<bool>) -> Result<(), NodeError> {
        while !self.stopped.load(Ordering::Acquire) {
            let taken = match self.stand_by().await {
                Ok(Some(taken)) => taken,
                Ok(None) => return Ok(()),
                Err(error) => {
                    tracing::error!(dir = %self.place.dir.display(), %error, "cannot stand by; trying again");
                    self.parts.env.clock.sleep(PAUSE).await;
                    continue;
                }
            };
            let kept = self.keep(&taken);
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
                self.parts.env.clock.sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Follows the log until this host has taken the target over; `None`: it is told to stop.
    async fn stand_by(&self) -> Result<Option<Taken>, NodeError> {
        let (env, stopped) = (self.parts.env.clone(), self.stopped.clone());
        let Place { dir, members, options, .. } = &self.place;
        let (dir, members, options) = (dir.clone(), members.clone(), options.clone());
        let nids: Vec<String> = self.parts.rpc.nids().iter().map(ToString::to_string).collect();
        let place = format!("{} at {}", self.parts.host, nids.join(","));
        let follow = move || follow(&env, &dir, (members, &place), options, &stopped);
        on_thread(&self.parts.env, "follow log", follow).await?
    }

    /// Renews the lease until it ends.
    fn keep(&self, taken: &Taken) -> oneshot::Receiver<()> {
        let (env, members) = (self.parts.env.clone(), self.place.members.clone());
        let (lease, id) = (taken.lease.clone(), taken.id);
        let (done, ended) = oneshot::channel();
        let keep = move || {
            keep_lease(&env, members, &lease, id);
            // The receiver waits for this, or is gone with its process.
            let _ = done.send(());
        };
        self.parts.env.tasks.spawn_thread("keep lease", Box::new(keep));
        ended
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
        let (settings, ownership) =
            (self.place.settings.clone(), Some(ownership as Arc<dyn Ownership>));
        let started =
            MdtRole::start_owned(parts, &mgc, target.clone(), &self.followed, settings, ownership);
        let role = match started.await {
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
        alive::list_commits(parts.rpc.metrics(), target);
        self.view.alive().add_mdt(role.mds(), target);
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

fn follow(
    env: &Env,
    dir: &Path,
    (members, place): (Members, &str),
    options: TargetOptions,
    stopped: &AtomicBool,
) -> Result<Option<Taken>, NodeError> {
    let block = target::superblock::read(env, dir)?;
    let lock = Arc::new(target::superblock::lock(env, dir)?);
    let name = block.name().ok_or_else(|| NodeError::Unnamed(dir.to_owned()))?.to_string();
    let kv = Arc::new(Etcd::new(members, Etcd::DEADLINE).map_err(NodeError::Process)?);
    let log = Arc::new(SharedLog::new(kv.clone(), &name, block.store, &replica_of(dir), place));
    let stop = || stopped.load(Ordering::Acquire);
    let mut said = false;
    let engine = loop {
        let opened = log.check().and_then(|()| {
            Journalled::open_tree(env, dir, block.store, log.clone(), options.engine.clone())
        });
        match opened {
            Ok(engine) => break engine,
            Err(error) if !is_unanswered(&error, &mut said) => {
                return Err(TargetError::from(error).into());
            }
            Err(_) if stop() => return Ok(None),
            Err(_) => std::thread::sleep(LOOK),
        }
    };
    engine.hold(lock.clone());
    tracing::info!(name, "following the log");
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
                        return Ok(Some(Taken { target, lease, id }));
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
            Err(error) if is_unanswered(&error, &mut said) => {}
            Err(error) => return Err(TargetError::from(error).into()),
        }
        std::thread::sleep(LOOK);
    }
    store::engine::Engine::close(&*engine).map_err(TargetError::from)?;
    Ok(None)
}

fn keep_lease(env: &Env, members: Members, lease: &Lease, id: LeaseId) {
    let kv = match Etcd::new(members, Etcd::DEADLINE / 3) {
        Ok(kv) => kv,
        Err(error) => {
            tracing::error!(%error, "the lease cannot be renewed");
            return lease.end();
        }
    };
    let mut next = env.clock.now();
    while !lease.is_ended() {
        if env.clock.now() < next {
            std::thread::sleep(LOOK);
            continue;
        }
        let asked = env.clock.now();
        match kv.keep_alive(id) {
            Ok(true) => {
                lease.renewed(asked);
                next = asked + lease.interval();
            }
            Ok(false) => {
                tracing::warn!("the lease has ended");
                lease.end();
            }
            Err(error) => tracing::debug!(%error, "the lease is not renewed yet"),
        }
    }
    if let Err(error) = kv.revoke(id) {
        tracing::debug!(%error, "the lease ends by itself");
    }
}
