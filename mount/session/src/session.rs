//! The session of a mount with its file system: its beginning, its configuration, its end.

use crate::config::follow;
use crate::error::ClientError;
use crate::fan_out::fan_out;
use crate::hooks::Hooks;
use crate::space::Spaces;
use crate::squash::Acting;
use crate::targets::{Identity, Targets, misfit};
use crate::tickets::Tickets;
use env::{BoxFuture, Env, watch};
use rpc::Rpc;
use rpc::awaited::Requests;
use rpc::error::RpcError;
use rpc::import::hooks::OnLost;
use rpc::import::{Import, ImportState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stubs::mdc::{Mdc, OnTheWay};
use stubs::mgc::Mgc;
use stubs::osc::Osc;
use types::credentials::Credentials;
use types::dir_path::DirPath;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{CONNECT_TIMEOUT, REQUEST_TIMEOUT, STRIPES_ON_THE_WAY_MAX};
use types::session::ClientUuid;
use types::target::FsName;
use wire::mds::Root;
use wire::message::Op;
use wire::mgs::FsConfig;

/// How long unmount waits for targets to take dirty data, and to bring back what they lost. A
/// target that restarts while one of its clients is lost is in service after 25 s
/// (docs/recovery.md), and a request that met it may have waited for an answer before.
pub const UNMOUNT_FLUSH_WAIT: Duration = REQUEST_TIMEOUT.saturating_mul(2);
/// A target that has come back and is not in service yet.
const RECOVERS: [ImportState; 3] =
    [ImportState::Replay, ImportState::ReplayLocks, ImportState::ReplayWait];
/// Interval at which such targets are looked for.
const LOOK: Duration = Duration::from_millis(500);

/// One mount, as its targets know it.
pub struct Session {
    /// Clock, tasks and randomness of the mount.
    pub env: Env,
    /// Sessions with MDTs and OSTs.
    pub targets: Targets,
    /// Space of each target, as it last reported.
    pub spaces: Arc<Spaces>,
    /// The ids as which callers act.
    pub acts_as: Acting,
    /// Tickets for objects.
    pub tickets: Arc<Tickets>,
    mgc: Mgc,
    hooks: Arc<dyn Hooks>,
    ending: watch::Sender<bool>,
}

impl Session {
    /// A session without targets: [`Session::apply`] reaches those of a configuration.
    pub fn new(
        env: Env,
        rpc: Arc<Rpc>,
        identity: Identity,
        mgc: Mgc,
        hooks: Arc<dyn Hooks>,
    ) -> Arc<Session> {
        let tickets = Tickets::new(env.clock.clone(), hooks.clone());
        let targets = Targets::new(rpc, identity, hooks.clone(), tickets.clone());
        let ending = watch::Sender::new(false);
        let (spaces, acts_as) = (Arc::default(), Acting::default());
        let session =
            Arc::new(Session { env, targets, spaces, acts_as, tickets, mgc, hooks, ending });
        let me = Arc::downgrade(&session);
        let find = move |mdt| me.upgrade().and_then(|session| session.targets.mdc_at(mdt).ok());
        session.tickets.ask(Box::new(find));
        session
    }

    /// A (new) configuration.
    ///
    /// # Errors
    /// BadConfig; targets before the bad one are in use then.
    pub fn apply(self: &Arc<Self>, config: &FsConfig) -> Result<(), ClientError> {
        let hooks = self.hooks.clone();
        let lost: OnLost = Arc::new(move |ops: &[Op]| hooks.objects_lost(ops));
        let (new, removed) = self.targets.apply(config, &lost)?;
        for import in removed {
            self.spaces.forget(import.target());
            let disconnect = async move { import.disconnect().await };
            self.env.tasks.spawn("leave a removed target", Box::pin(disconnect));
        }
        new.iter().for_each(|mdc| self.watch_mdt(mdc));
        Ok(())
    }

    fn watch_mdt(self: &Arc<Self>, mdc: &Mdc) {
        let (me, hooks) = (Arc::downgrade(self), self.hooks.clone());
        // The import keeps its hooks, so a hook must not keep the import.
        let import = Arc::downgrade(mdc.import());
        let evictions = AtomicU64::new(0);
        let restarted = move |_boot| {
            if let (Some(session), Some(import)) = (me.upgrade(), import.upgrade()) {
                let now = import.evictions();
                let evicted = evictions.swap(now, Ordering::AcqRel) != now;
                let mdt = import.target().index;
                hooks.mdt_lost(mdt, evicted);
                if let Ok(mdc) = session.targets.mdc_at(mdt) {
                    hooks.mdt_back(mdc);
                }
            }
        };
        mdc.import().on_restart(Arc::new(restarted));
        mdc.import().on_recovery(self.hooks.restore(mdc));
        let me = Arc::downgrade(self);
        let said = move || {
            if let Some(session) = me.upgrade() {
                session.learn_squash();
            }
        };
        mdc.import().on_squash(Arc::new(said));
        // It may have been said before.
        self.learn_squash();
    }

    /// Looks at what the MDTs say now.
    fn learn_squash(&self) {
        let said = || self.mdts().iter().map(|mdc| mdc.import().callers()).collect();
        let Some(callers) = self.acts_as.learn(said) else { return };
        let (root, others) = (callers.squash.root, callers.squash.others);
        let unknown = callers.known.as_ref().map(|known| (known.others, known.denies));
        tracing::info!(?root, ?others, ?unknown, "root, and other users, act as these");
        self.hooks.squash_changed();
    }

    /// Asks which directory is the root of the mount, and for that directory: 1 round trip, and up
    /// to two for each time that another MDT, or a stripe that it has, goes on. Also returns
    /// whether the mount may change nothing.
    ///
    /// # Errors
    /// BadConfig; NoDirectory; an MDT does not answer.
    pub async fn reach_root(
        self: &Arc<Self>,
        config: &FsConfig,
        path: &DirPath,
    ) -> Result<(Fid, bool), ClientError> {
        self.apply(config)?;
        let who = Credentials::root();
        let (mut from, mut walked, mut fileset) = (Fid::NONE, 0, 0);
        let mut asides = 0;
        loop {
            let mdc = self.mdc(if from == Fid::NONE { Fid::ROOT } else { from })?;
            let ask = Root { path: path.clone(), from, walked, fileset };
            let refused = |error| self.no_root(path, error);
            let (next, entry) = mdc.root(&who, ask).await.map_err(refused)?;
            let OnTheWay { fid, walked: so_far, is_root, read_only, .. } = next;
            if is_root {
                if entry.is_none() {
                    self.mdc(fid)?.getattr(&who, fid).await.map_err(refused)?;
                }
                return Ok((fid, read_only));
            }
            // A stripe is no name further.
            asides += usize::from(so_far == walked);
            if so_far < walked || asides > STRIPES_ON_THE_WAY_MAX {
                return Err(misfit(mdc.import(), &next));
            }
            (from, walked, fileset) = (fid, so_far, next.fileset);
        }
    }

    /// What the MDT answers is about the path; all else, about the MDT.
    fn no_root(&self, path: &DirPath, error: RpcError) -> ClientError {
        match error {
            RpcError::Errno(errno) | RpcError::Refused { errno: errno @ Errno::EPROTO, .. } => {
                let (fsname, path) = (self.fsname().to_string(), path.clone());
                ClientError::NoDirectory { fsname, path, errno }
            }
            error => error.into(),
        }
    }

    /// Follows the configuration from this version on, until the session ends.
    pub fn follow(self: &Arc<Self>, version: u64) {
        let follow = follow(Arc::downgrade(self), version, self.ending());
        self.env.tasks.spawn("follow the configuration", Box::pin(follow));
        let renew = Tickets::keep_up(Arc::downgrade(&self.tickets), self.ending());
        self.env.tasks.spawn("renew tickets", Box::pin(renew));
    }

    /// Becomes true when the mount ends.
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// True once the mount ends.
    pub fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// The mount ends: what looks after it stops.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Leaves all targets.
    pub async fn disconnect(&self) {
        let mdts = self.targets.mdcs().into_iter().map(|mdc| mdc.import().clone());
        let osts = self.targets.oscs().into_iter().map(|osc| osc.import().clone());
        let imports = mdts.chain(osts).chain([self.mgc.import().clone()]);
        let disconnect = |import: Arc<Import>| async move { import.disconnect().await };
        fan_out(
            imports.map(|import| Box::pin(disconnect(import)) as BoxFuture<'static, ()>).collect(),
        )
        .await;
    }

    /// The mount ends, and cannot bring back what targets have answered and may lose with a crash:
    /// waits until they have it durable. Waits for the targets that are there, and for those that
    /// are getting their lost changes back.
    pub async fn make_durable(&self) {
        let mdcs = self.targets.mdcs().into_iter().filter(|mdc| mdc.import().kept_bytes() > 0);
        let oscs = self.targets.oscs().into_iter().filter(|osc| osc.import().kept_bytes() > 0);
        let mut keeps: Vec<Arc<Import>> = Vec::new();
        let mut syncs: Vec<BoxFuture<'static, ()>> = Vec::new();
        for mdc in mdcs {
            keeps.push(mdc.import().clone());
            syncs.push(Box::pin(async move {
                durable(mdc.import(), mdc.sync(&Credentials::root()).await);
            }));
        }
        for osc in oscs {
            keeps.push(osc.import().clone());
            syncs.push(Box::pin(async move { durable(osc.import(), osc.sync(Vec::new()).await) }));
        }
        let recovers = || keeps.iter().any(|import| RECOVERS.contains(&import.state()));
        let clock = &self.env.clock;
        let given_up = async {
            let began = clock.now();
            // Finding out that a machine was gone may have taken the whole of one attempt.
            clock.sleep(2 * CONNECT_TIMEOUT).await;
            while recovers() && clock.now() < began + UNMOUNT_FLUSH_WAIT {
                clock.sleep(LOOK).await;
            }
        };
        tokio::select! {
            biased;
            _ = fan_out(syncs) => {}
            () = given_up => tracing::warn!("unmounting without a sync: the last changes may be lost with a crash of their servers"),
        }
    }

    /// The file system.
    pub fn fsname(&self) -> FsName {
        self.targets.fsname()
    }

    /// UUID of this mount.
    pub fn uuid(&self) -> ClientUuid {
        self.targets.uuid()
    }

    /// Sessions with MDTs, by index.
    pub fn mdts(&self) -> Vec<Mdc> {
        let mut mdcs = self.targets.mdcs();
        mdcs.sort_by_key(|mdc| mdc.import().target().index);
        mdcs
    }

    /// Sessions with OSTs, by index.
    pub fn osts(&self) -> Vec<Osc> {
        let mut oscs = self.targets.oscs();
        oscs.sort_by_key(|osc| osc.import().target().index);
        oscs
    }

    /// The session with the MGS.
    pub fn mgc(&self) -> &Mgc {
        &self.mgc
    }

    /// The MDT of an inode. An inode that only clients show has none, and cannot be changed: EPERM.
    ///
    /// # Errors
    /// EPERM, UnknownTarget.
    pub fn mdc(&self, fid: Fid) -> Result<Mdc, ClientError> {
        if fid.is_shown_only() {
            return Err(Errno::EPERM.into());
        }
        self.targets.mdc(fid)
    }

    /// Time for which the kernel may trust what is covered by a lock of this inode.
    pub fn valid(&self, fid: Fid, covered: bool) -> Duration {
        if covered { self.targets.trusted(fid.mdt(), self.env.clock.now()) } else { Duration::ZERO }
    }

    /// True if the MDT of this inode surely keeps for this mount what it granted. If not, it must
    /// be asked, whatever is known here.
    pub fn has_lease(&self, fid: Fid) -> bool {
        !self.valid(fid, true).is_zero()
    }

    /// Connections with OSTs so far. Another number means that an OST may have answered a change
    /// twice, or not at all.
    pub fn ost_connections(&self) -> u64 {
        self.targets.oscs().iter().map(|osc| osc.import().connections()).sum()
    }

    /// Requests to MDTs and OSTs so far, and those of them that the kernel's requests waited for.
    /// Requests of the sessions themselves (connect, ping) and `Unlock` do not count.
    pub fn requests(&self) -> Requests {
        let mdts = self.targets.mdcs().into_iter().map(|mdc| mdc.import().requests());
        let osts = self.targets.oscs().into_iter().map(|osc| osc.import().requests());
        mdts.chain(osts).sum()
    }
}

/// Tells of a target that did not make its changes durable.
fn durable(import: &Import, synced: Result<(), RpcError>) {
    if let Err(error) = synced {
        let target = import.target();
        tracing::warn!(%target, %error, "unmounting: the last changes may be lost with a crash");
    }
}
