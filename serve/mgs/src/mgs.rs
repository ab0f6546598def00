//! The MGS as a service.
//!
//! A change is decided under the lock together with its transaction, so records are written in the
//! order of versions. It is published, and answered, only when it is durable. So everything a
//! client has heard of survives a crash, and a version number never means two things.
//!
//! `Config` requests wait here until their file system has a newer version, `wait_ms` have passed
//! or their session ended. Bound: the requests that sessions may have in flight.

use crate::owners::Owners;
use crate::registry::serving::Serving;
use crate::registry::{Change, LoadError, Refused, Registry};
use crate::reports::Reports;
use env::{BoxFuture, Env};
use futures_util::future::{Either, select};
use idmap::scope::Scoped;
use idmap::set::Nodemaps;
use parking_lot::Mutex;
use rpc::service::{Export, Gone, Service};
use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use store::progress::Progress;
use target::{Target, TargetError};
use types::errno::Errno;
use types::limits::{CLIENTS_MAX, REQUEST_TIMEOUT};
use types::principal::Role;
use types::proof::ServerKey;
use types::session::{ClientUuid, ClusterId, Standing, Transno};
use types::target::{FsName, TargetName};
use wire::message::{ConnectReply, ConnectRequest, Op, OpReply, Reply, Request, VERSION_MAX};
use wire::mgs::{FsConfig, MgsOp, MgsReply};
use wire::report::KeptReport;

/// Beginning of the names of parameters about keys, which only servers set.
const OF_KEYS: &str = "auth.";

/// Longest wait for a newer configuration: well before the client gives the request up.
pub const CONFIG_WAIT_MAX: Duration = REQUEST_TIMEOUT.checked_div(2).expect("not zero");

/// The MGS cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The records of the MGS cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The folder holds no MGS, or cannot be written.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// The MGS.
pub struct Mgs {
    target: Arc<Target>,
    env: Env,
    /// The decided state, durable or not yet.
    registry: Mutex<Registry>,
    /// The durable state, which clients see.
    published: Mutex<BTreeMap<FsName, Arc<FsConfig>>>,
    /// The durable nodemaps.
    nodemaps: Mutex<Arc<Nodemaps>>,
    /// The durable parameters of scopes.
    scoped: Mutex<Arc<Scoped>>,
    /// Wakes `Config` requests.
    news: Progress,
    clients: Mutex<HashMap<ClientUuid, Arc<Export>>>,
    reports: Reports,
    owners: Owners,
}

impl Mgs {
    /// Reads the registry from the target's store. Blocks. A target that was formatted without a
    /// cluster founds one. It also makes the key of the servers, once.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    pub fn start(target: Arc<Target>, env: Env) -> Result<Arc<Mgs>, StartError> {
        let (cluster, key) = (target.cluster(), target.server_key());
        if cluster == ClusterId(0) || !key.is_known() {
            let or_new =
                |known: u128| if known == 0 { env.random.next_u128().max(1) } else { known };
            target.assign(
                TargetName::mgs(),
                ClusterId(or_new(cluster.0)),
                ServerKey(or_new(key.0)),
            )?;
        }
        let registry = {
            let mut tx = target.store().begin();
            let mut registry = Registry::load(target.cluster().0, &tx)?;
            // If that is lost, the next start does it again: realms have the same numbers then.
            for (key, value) in registry.complete_nodemaps().records {
                value.iter().for_each(|value| tx.put(&key, value));
            }
            tx.finish();
            registry
        };
        let published = registry.configs().into_iter().collect();
        let nodemaps = Mutex::new(Arc::new(registry.nodemaps().clone()));
        let scoped = Mutex::new(Arc::new(registry.scoped().clone()));
        Ok(Arc::new(Mgs {
            target,
            env,
            registry: Mutex::new(registry),
            published: Mutex::new(published),
            nodemaps,
            scoped,
            news: Progress::default(),
            clients: Mutex::default(),
            reports: Reports::default(),
            owners: Owners::default(),
        }))
    }

    /// Durable configuration of every file system, for the parameter tree and `status`.
    pub fn configs(&self) -> BTreeMap<FsName, Arc<FsConfig>> {
        self.published.lock().clone()
    }

    /// Durable nodemaps.
    pub fn nodemaps(&self) -> Arc<Nodemaps> {
        self.nodemaps.lock().clone()
    }

    /// Durable parameters of scopes.
    pub fn scoped(&self) -> Arc<Scoped> {
        self.scoped.lock().clone()
    }

    /// The newest report of every process, by host and process.
    pub fn reports(&self) -> Vec<KeptReport> {
        self.reports.list(self.env.clock.now())
    }

    async fn op(&self, export: &Arc<Export>, op: MgsOp) -> Result<(MgsReply, Transno), Errno> {
        match op {
            MgsOp::Register { name, store, nids, boot, shared } => {
                let other_owner_lives = self.owners.has_other(&name, export)
                    || self.reports.is_served_by_other(&name, export);
                let serving = Serving { nids: &nids, boot, shared, other_owner_lives };
                let (name, transno) =
                    self.change(|registry| registry.register(&name, store, serving)).await?;
                self.owners.note(name, export);
                tracing::info!(%name, ?nids, boot, "target registered");
                export.proved_server();
                let (cluster, key) = (self.target.cluster().0, self.target.server_key().0);
                Ok((MgsReply::Registered { name: name.to_string(), cluster, boot, key }, transno))
            }
            MgsOp::Unregister { name, store } => {
                let ((), transno) =
                    self.change(|registry| Ok(((), registry.unregister(&name, store)?))).await?;
                tracing::info!(name, "target stopped");
                Ok((MgsReply::Done, transno))
            }
            MgsOp::SetParam { fsname, name, value } => {
                // They say whose keys are taken.
                let is_server = export.role() == Role::Server || export.nid().is_loopback();
                if name.starts_with(OF_KEYS) && !is_server {
                    return Err(Errno::EACCES);
                }
                let set =
                    |r: &mut Registry| Ok(((), r.set_param(&fsname, &name, value.as_deref())?));
                let ((), transno) = self.change(set).await?;
                tracing::info!(fsname, name, value, "persistent parameter");
                Ok((MgsReply::Done, transno))
            }
            MgsOp::Pool { fsname, pool, change } => {
                let set = |r: &mut Registry| Ok(((), r.change_pool(&fsname, &pool, &change)?));
                let ((), transno) = self.change(set).await?;
                tracing::info!(fsname, pool, ?change, "pool changed");
                Ok((MgsReply::Done, transno))
            }
            MgsOp::Config { fsname, known, wait_ms } => {
                let fsname = fsname.parse().map_err(|_| Errno::EINVAL)?;
                let wait = Duration::from_millis(wait_ms.into()).min(CONFIG_WAIT_MAX);
                Ok((
                    MgsReply::Config((*self.config(export, fsname, known, wait).await).clone()),
                    Transno(0),
                ))
            }
            MgsOp::Clients => {
                let clients = self.clients.lock();
                let mut list: Vec<_> =
                    clients.values().map(|c| (c.description(), c.nid().to_string())).collect();
                list.sort();
                Ok((MgsReply::Clients(list), Transno(0)))
            }
            MgsOp::Report(report) => {
                let again = self.reports.keep(export, *report, self.env.clock.now());
                Ok((MgsReply::Reported { again_ms: again.as_millis() as u32 }, Transno(0)))
            }
            MgsOp::Reports => Ok((MgsReply::Reports(self.reports()), Transno(0))),
            MgsOp::Remove { name, force, dry_run } => {
                let in_service = self.reports.is_served(&name);
                if dry_run {
                    let could = self.registry.lock().can_remove(&name, in_service, force);
                    return could
                        .map(|_| (MgsReply::Done, Transno(0)))
                        .map_err(|refused| refused.errno());
                }
                let remove = |r: &mut Registry| Ok(((), r.remove(&name, in_service, force)?));
                let ((), transno) = self.change(remove).await?;
                tracing::warn!(name, force, "target removed from the file system");
                Ok((MgsReply::Done, transno))
            }
            MgsOp::ReplaceNids { name, nids } => {
                let replace = |r: &mut Registry| Ok(((), r.replace_nids(&name, &nids)?));
                let ((), transno) = self.change(replace).await?;
                tracing::warn!(name, ?nids, "NIDs of a target replaced");
                Ok((MgsReply::Done, transno))
            }
            MgsOp::Nodemap(change) => {
                let alter = |r: &mut Registry| Ok(((), r.change_nodemaps(&change)?));
                let ((), transno) = self.change(alter).await?;
                tracing::info!(?change, "nodemaps changed");
                Ok((MgsReply::Done, transno))
            }
            MgsOp::Nodemaps { known, wait_ms } => {
                let wait = Duration::from_millis(wait_ms.into()).min(CONFIG_WAIT_MAX);
                let is_news = |nodemaps: &Arc<Nodemaps>| known != Some(nodemaps.version);
                let nodemaps = self.newer(export, wait, || self.nodemaps(), is_news).await;
                Ok((MgsReply::Nodemaps((*nodemaps).clone()), Transno(0)))
            }
            MgsOp::SetScoped { scope, name, value } => {
                let set =
                    |r: &mut Registry| Ok(((), r.set_scoped(&scope, &name, value.as_deref())?));
                let ((), transno) = self.change(set).await?;
                tracing::info!(%scope, name, value, "persistent parameter");
                Ok((MgsReply::Done, transno))
            }
            MgsOp::Scoped { host, all, known, wait_ms } => {
                let wait = Duration::from_millis(wait_ms.into()).min(CONFIG_WAIT_MAX);
                let told = self.scoped_for(export, (&host, all), known, wait).await?;
                Ok((told, Transno(0)))
            }
        }
    }

    /// Decides, writes, waits until it is durable, publishes.
    async fn change<T>(
        &self,
        decide: impl FnOnce(&mut Registry) -> Result<(T, Change), Refused>,
    ) -> Result<(T, Transno), Errno> {
        let store = self.target.store();
        store.admit().await?;
        let (answer, transno, change) = {
            let mut registry = self.registry.lock();
            let (answer, change) = decide(&mut registry).map_err(|refused| {
                tracing::warn!("refused: {refused}");
                refused.errno()
            })?;
            let mut tx = store.begin();
            for (key, value) in &change.records {
                match value {
                    Some(value) => tx.put(key, value),
                    None => tx.delete(key),
                }
            }
            (answer, tx.finish(), change)
        };
        // Also when nothing changed: the same request may have just been decided and not be durable
        // yet.
        store.commit().await?;
        let Change { published, nodemaps, scoped, .. } = change;
        for (fsname, config) in published {
            self.publish(fsname, config);
        }
        if let Some(nodemaps) = nodemaps {
            let mut published = self.nodemaps.lock();
            // As in `publish`.
            if published.version < nodemaps.version {
                *published = nodemaps;
                drop(published);
                self.news.wake_all();
            }
        }
        if let Some(scoped) = scoped {
            let mut published = self.scoped.lock();
            // As in `publish`.
            if published.version < scoped.version {
                *published = scoped;
                drop(published);
                self.news.wake_all();
            }
        }
        Ok((answer, transno))
    }

    fn publish(&self, fsname: FsName, config: Arc<FsConfig>) {
        let mut published = self.published.lock();
        // Two changes that became durable together may come here in either order.
        if published.get(&fsname).is_none_or(|old| old.version < config.version) {
            published.insert(fsname, config);
            drop(published);
            self.news.wake_all();
        }
    }

    /// Configuration newer than `known`, or the present one after `wait`. An unknown file system
    /// has version 0.
    async fn config(
        &self,
        export: &Export,
        fsname: FsName,
        known: u64,
        wait: Duration,
    ) -> Arc<FsConfig> {
        let now = || {
            let nothing =
                || Arc::new(FsConfig { cluster: self.target.cluster().0, ..FsConfig::default() });
            self.published.lock().get(&fsname).cloned().unwrap_or_else(nothing)
        };
        self.newer(export, wait, now, |config| config.version > known).await
    }

    /// What `now` finds as soon as it is news, or after `wait`.
    pub(crate) async fn newer<T>(
        &self,
        export: &Export,
        wait: Duration,
        now: impl Fn() -> T,
        is_news: impl Fn(&T) -> bool,
    ) -> T {
        let first = now();
        if is_news(&first) || wait.is_zero() {
            return first;
        }
        let news = self.news.wait(Transno(0), || {
            let found = now();
            (is_news(&found) || export.is_gone()).then_some(found)
        });
        match select(pin!(news), self.env.clock.sleep(wait)).await {
            Either::Left((found, _)) => found,
            Either::Right(_) => now(),
        }
    }
}

impl Service for Mgs {
    fn target(&self) -> TargetName {
        TargetName::mgs()
    }

    fn cluster(&self) -> ClusterId {
        self.target.cluster()
    }

    fn connect(&self, export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno> {
        let mut clients = self.clients.lock();
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(&export.client()) {
            return Err(Errno::EBUSY);
        }
        clients.insert(export.client(), export.clone());
        Ok(ConnectReply {
            version: hello.version_max.min(VERSION_MAX),
            cluster: self.target.cluster(),
            boot: self.target.boot(),
            session: 0,
            last_committed: self.target.store().last_committed(),
            standing: Standing::Transient,
            squash: types::credentials::SquashNews::silent(self.target.boot()),
        })
    }

    fn handle(self: Arc<Self>, export: Arc<Export>, request: Request) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            let mut reply = Reply::new(request.xid, Transno(0), Transno(0), Vec::new());
            let mut failed = false;
            for op in request.ops {
                let result = match op {
                    _ if failed => Err(Errno::ECANCELED),
                    Op::Mgs(op) => self.op(&export, op).await.map(|(answer, transno)| {
                        reply.transno = reply.transno.max(transno);
                        OpReply::Mgs(answer)
                    }),
                    Op::Tree(after) => target::tree::page(self.target.store(), &after).await,
                    _ => Err(Errno::EPROTO),
                };
                failed |= result.is_err();
                reply.results.push(result);
            }
            reply.last_committed = self.target.store().last_committed();
            reply
        })
    }

    fn gone(&self, export: &Arc<Export>, why: Gone) {
        tracing::debug!(client = %export.client().brief(), ?why, "client gone");
        let mut clients = self.clients.lock();
        // The client may have come back with a new session already.
        if clients.get(&export.client()).is_some_and(|known| Arc::ptr_eq(known, export)) {
            clients.remove(&export.client());
        }
        drop(clients);
        self.reports.forget(export);
        self.news.wake_all();
    }
}
