//! Sessions with the targets of the file system, by index.

use crate::error::ClientError;
use crate::hooks::Hooks;
use crate::tickets::Tickets;
use crate::validity;
use env::clock::Monotonic;
use layout::layout::{EOF, Layout};
use parking_lot::RwLock;
use rpc::Rpc;
use rpc::callbacks::Callbacks;
use rpc::error::RpcError;
use rpc::import::Import;
use rpc::import::hooks::{OnLost, Restore, Restoring};
use rpc::patience;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stubs::mdc::Mdc;
use stubs::osc::Osc;
use types::attr::Attr;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::TARGETS_MAX;
use types::nid::{BadNid, Nid};
use types::session::ClientUuid;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};
use wire::mds::{GetLayout, Getattr, MdsOp, MdsReply};
use wire::message::Op;
use wire::mgs::{FsConfig, PoolInfo};

/// How this mount introduces itself to targets.
pub struct Identity {
    /// File system.
    pub fsname: FsName,
    /// UUID of the mount.
    pub uuid: ClientUuid,
    /// For people.
    pub description: String,
    /// A program whose server is away gets ETIMEDOUT after [`types::limits::REQUEST_TIMEOUT`].
    /// Without it, the program waits as long as it takes.
    pub soft: bool,
}

/// All sessions of one mount with MDTs and OSTs.
pub struct Targets {
    rpc: Arc<Rpc>,
    identity: Identity,
    hooks: Arc<dyn Hooks>,
    callbacks: Arc<dyn Callbacks>,
    tickets: Arc<Tickets>,
    known: RwLock<Known>,
    /// The mount is made: targets of the configuration are waited for.
    mounted: AtomicBool,
}

#[derive(Default)]
struct Known {
    mdts: BTreeMap<TargetIndex, (Mdc, Vec<Nid>)>,
    osts: BTreeMap<TargetIndex, (Osc, Vec<Nid>)>,
    pools: Vec<PoolInfo>,
}

impl Targets {
    /// Without targets.
    pub fn new(
        rpc: Arc<Rpc>,
        identity: Identity,
        hooks: Arc<dyn Hooks>,
        tickets: Arc<Tickets>,
    ) -> Targets {
        let (callbacks, mounted) = (hooks.callbacks(), AtomicBool::new(false));
        Targets { rpc, identity, hooks, callbacks, tickets, known: RwLock::default(), mounted }
    }

    /// The file system.
    pub fn fsname(&self) -> FsName {
        self.identity.fsname
    }

    /// UUID of this mount.
    pub fn uuid(&self) -> ClientUuid {
        self.identity.uuid
    }

    /// Makes sessions for new targets, tells old ones their new NIDs, and lets go of removed ones.
    /// `lost` gets the changes that OSTs lost. Returns the new MDTs, and the sessions with removed
    /// targets.
    ///
    /// # Errors
    /// BadConfig; targets before the bad one are in use then.
    pub fn apply(
        &self,
        config: &FsConfig,
        lost: &OnLost,
    ) -> Result<(Vec<Mdc>, Vec<Arc<Import>>), ClientError> {
        let mut new = Vec::new();
        let mut named = BTreeSet::new();
        self.known.write().pools.clone_from(&config.pools);
        for info in &config.targets {
            let name: TargetName = info.name.parse()?;
            if name.fsname != self.identity.fsname || usize::from(name.index.0) >= TARGETS_MAX {
                return Err(ClientError::BadConfig(format!(
                    "{name} has no place in {}",
                    self.identity.fsname
                )));
            }
            let nids: Vec<Nid> = info
                .nids
                .iter()
                .map(|nid| nid.parse())
                .collect::<Result<_, BadNid>>()
                .map_err(|error| ClientError::BadConfig(format!("{name}: {error}")))?;
            named.insert(name);
            let known = &mut *self.known.write();
            match name.kind {
                TargetKind::Mdt => match known.mdts.get_mut(&name.index) {
                    Some((mdc, old)) => moved(mdc.import(), old, nids, info.boot),
                    None => {
                        let mdc = Mdc::watched(
                            self.import(name, nids.clone()),
                            self.hooks.watch(name.index),
                        )
                        .with_tickets(self.tickets.clone());
                        new.push(mdc.clone());
                        known.mdts.insert(name.index, (mdc, nids));
                    }
                },
                TargetKind::Ost => match known.osts.get_mut(&name.index) {
                    Some((osc, old)) => moved(osc.import(), old, nids, info.boot),
                    None => {
                        let (hooks, tickets) = (self.hooks.clone(), self.tickets.clone());
                        let osc =
                            Osc::with_tickets(self.import(name, nids.clone()), tickets.clone());
                        osc.import().on_recovery(Arc::new(ShowFirst(tickets.clone())));
                        osc.import().on_restart(Arc::new(move |_boot| {
                            tickets.ost_lost(name.index);
                            hooks.ost_lost(name.index);
                        }));
                        osc.import().on_lost(lost.clone());
                        known.osts.insert(name.index, (osc, nids));
                    }
                },
                TargetKind::Mgt => {}
            }
        }
        let mut removed = Vec::new();
        let known = &mut *self.known.write();
        known.mdts.retain(|_, (mdc, _)| stays(mdc.import(), &named, &mut removed));
        known.osts.retain(|_, (osc, _)| {
            let stays = stays(osc.import(), &named, &mut removed);
            if !stays {
                osc.set_active(false);
            }
            stays
        });
        Ok((new, removed))
    }

    fn import(&self, name: TargetName, nids: Vec<Nid>) -> Arc<Import> {
        let Identity { uuid, description, .. } = &self.identity;
        let import =
            self.rpc.import(name, nids, *uuid, description.clone(), Some(self.callbacks.clone()));
        if self.mounted.load(Ordering::Relaxed) {
            self.wait_for(&import);
        }
        import
    }

    /// Programs wait for this target from now on.
    fn wait_for(&self, import: &Import) {
        import.be_patient();
        if !self.identity.soft {
            import.wait_for_ever();
        }
    }

    /// True if a program waits, as long as it takes, for what this thread polls now.
    pub fn waits_for_ever(&self) -> bool {
        !self.identity.soft && patience::is_awaited()
    }

    /// The mount is made. Until now a target that does not answer was an error at once, so that
    /// mounting fails soon; from now on programs wait for it, as for a target that restarts.
    pub fn mounted(&self) {
        self.mounted.store(true, Ordering::Relaxed);
        self.mdcs().iter().for_each(|mdc| self.wait_for(mdc.import()));
        self.oscs().iter().for_each(|osc| self.wait_for(osc.import()));
    }

    /// The MDT that owns an inode.
    ///
    /// # Errors
    /// UnknownTarget.
    pub fn mdc(&self, fid: Fid) -> Result<Mdc, ClientError> {
        self.mdc_at(TargetIndex(fid.mdt()))
    }

    /// An MDT.
    ///
    /// # Errors
    /// UnknownTarget.
    pub fn mdc_at(&self, index: TargetIndex) -> Result<Mdc, ClientError> {
        let found = self.known.read().mdts.get(&index).map(|(mdc, _)| mdc.clone());
        found.ok_or_else(|| {
            unknown(TargetName { fsname: self.identity.fsname, kind: TargetKind::Mdt, index })
        })
    }

    /// An MDT that a user named: perhaps there is none.
    ///
    /// # Errors
    /// ERANGE.
    pub fn mdc_of_config(&self, index: TargetIndex) -> Result<Mdc, ClientError> {
        let found = self.known.read().mdts.get(&index).map(|(mdc, _)| mdc.clone());
        Ok(found.ok_or(Errno::ERANGE)?)
    }

    /// Number of evictions of this mount by an MDT.
    pub fn evictions(&self, mdt: u16) -> u64 {
        self.known.read().mdts.get(&TargetIndex(mdt)).map_or(0, |(mdc, _)| mdc.import().evictions())
    }

    /// How long the grants of an MDT may be trusted without hearing of it again.
    pub fn trusted(&self, mdt: u16, now: Monotonic) -> Duration {
        let known = self.known.read();
        let Some((mdc, _)) = known.mdts.get(&TargetIndex(mdt)) else { return Duration::ZERO };
        if !mdc.import().evictions_are_told() {
            return Duration::ZERO;
        }
        validity::left(mdc.import().proved_at(), now)
    }

    /// An OST.
    ///
    /// # Errors
    /// UnknownTarget.
    pub fn osc(&self, index: TargetIndex) -> Result<Osc, ClientError> {
        let found = self.known.read().osts.get(&index).map(|(osc, _)| osc.clone());
        found.ok_or_else(|| {
            unknown(TargetName { fsname: self.identity.fsname, kind: TargetKind::Ost, index })
        })
    }

    /// All MDTs.
    pub fn mdcs(&self) -> Vec<Mdc> {
        self.known.read().mdts.values().map(|(mdc, _)| mdc.clone()).collect()
    }

    /// Pools of OSTs, by name.
    pub fn pools(&self) -> Vec<PoolInfo> {
        self.known.read().pools.clone()
    }

    /// All OSTs.
    pub fn oscs(&self) -> Vec<Osc> {
        self.known.read().osts.values().map(|(osc, _)| osc.clone()).collect()
    }
}

/// Shows tickets to an OST in recovery, before it is brought changes.
struct ShowFirst(Arc<Tickets>);

impl Restore for ShowFirst {
    fn before_changes(&self, changed: &BTreeSet<Fid>) -> Vec<Op> {
        self.0.for_recovery(changed)
    }

    fn restore(&self) -> Vec<Restoring> {
        Vec::new()
    }
}

fn stays(
    import: &Arc<Import>,
    named: &BTreeSet<TargetName>,
    removed: &mut Vec<Arc<Import>>,
) -> bool {
    let stays = named.contains(&import.target());
    if !stays {
        tracing::warn!(target = %import.target(), "removed from the file system");
        import.remove();
        removed.push(import.clone());
    }
    stays
}

/// The NIDs, before its boot number: a session that ends for that is made anew at the NIDs of
/// today.
fn moved(import: &Arc<Import>, old: &mut Vec<Nid>, new: Vec<Nid>, boot: u64) {
    if *old != new {
        tracing::info!(target = %import.target(), nids = ?new, "target moved");
        import.set_nids(new.clone());
        *old = new;
    }
    import.heard_of(boot);
}

fn unknown(name: TargetName) -> ClientError {
    tracing::error!(target = %name, "an inode or layout names a target that the configuration does not have");
    ClientError::UnknownTarget(name)
}

/// Two operations as one request. The second runs only if the first succeeded.
///
/// # Errors
/// No answer, or (`RpcError::Errno`) the first was refused and so nothing was changed. The second's
/// error is inside.
pub async fn two(
    mdc: &Mdc,
    credentials: &Credentials,
    first: MdsOp,
    second: MdsOp,
) -> Result<(MdsReply, Result<MdsReply, ClientError>), ClientError> {
    let mut replies = mdc.ask(credentials, vec![first, second]).await?.into_iter();
    let mut next = || {
        replies
            .next()
            .map(|result| result.map_err(|errno| ClientError::from(RpcError::Errno(errno))))
    };
    match (next(), next()) {
        (Some(first), Some(second)) => Ok((first?, second)),
        _ => Err(misfit(mdc.import(), &"too few results")),
    }
}

/// Attributes and layout of a file in one request.
///
/// # Errors
/// Those of the MDT.
pub async fn getattr_and_layout(
    mdc: &Mdc,
    credentials: &Credentials,
    fid: Fid,
) -> Result<(Attr, Arc<Layout>), ClientError> {
    let get_layout = MdsOp::GetLayout(GetLayout { fid, write: false, start: 0, end: EOF });
    match two(mdc, credentials, MdsOp::Getattr(Getattr::of(fid)), get_layout).await? {
        (MdsReply::Entry(entry), Ok(MdsReply::Layout(layout))) => Ok((entry.attr, layout)),
        (_, Err(error)) => Err(error),
        other => Err(misfit(mdc.import(), &other)),
    }
}

/// A target answered an operation with the reply of another.
pub fn misfit(import: &Import, reply: &dyn std::fmt::Debug) -> ClientError {
    tracing::error!(target = %import.target(), ?reply, "reply does not fit the operation");
    RpcError::Refused { target: import.target(), errno: Errno::EPROTO }.into()
}
