//! One mount: its sessions, its tables, its beginning and its end.

use crate::cache::grant::Grants;
use crate::caller::{Found, Stat};
use crate::config;
use crate::counters::{Counters, Operation, Timed};
use crate::early::Earlies;
use crate::error::ClientError;
use crate::fan_out::fan_out;
use crate::file::FileTable;
use crate::locks::Locks;
use crate::locks::callback::CALLBACK_ANSWER;
use crate::locks::callback::Holder;
use crate::locks::data_guards::Loss;
use crate::locks::kernel::KernelCache;
use crate::locks::reply_barrier::Token;
use crate::locks::table::Asked;
use crate::locks::upkeep::keep_up;
use crate::node::{NodeId, NodeTable};
use crate::open::{DirHandle, FileHandle, Handles, OpenDir, OpenFile};
use crate::ops::no_open::NoOpenHandles;
use crate::pins::Pins;
use crate::removed::Removed;
use crate::reopen::{Restorer, reopen_all};
use crate::space::Spaces;
use crate::targets::{Identity, Targets};
use crate::validity;
use crate::writeback::background::flush_in_background;
use crate::writeback::{self, Writeback};
use dlm::leases::LeaseTable;
use env::clock::Monotonic;
use env::watch;
use env::{BoxFuture, Env};
use parking_lot::Mutex;
use rpc::Rpc;
use rpc::awaited::Requests;
use rpc::import::{Import, OnLost};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use stubs::mdc::Mdc;
use stubs::mgc::Mgc;
use tokio::sync::Semaphore;
use types::attr::Attr;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{LEASES_MAX, REQUEST_TIMEOUT};
use types::name::Name;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId};
use types::target::{FsName, TargetName};
use wire::message::Op;
use wire::mgs::FsConfig;

/// Closes under way in the background; beyond it, release waits.
const CLOSES_MAX: usize = 1024;
/// How long unmount waits for targets to take what was written, and to bring back what they lost.
pub(crate) const UNMOUNT_FLUSH_WAIT: Duration = REQUEST_TIMEOUT;
/// How long unmount waits for closes under way.
const UNMOUNT_WAIT: Duration = Duration::from_secs(5);

/// What to mount.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Does the kernel tell of opens and closes? Without (`localflock`, `noflock`) every inode that it knows counts as
    /// open.
    pub opens: bool,
    /// Where the MGS answers, best first.
    pub mgs: Vec<Nid>,
    /// File system.
    pub fsname: FsName,
    /// For people, in lists of clients: host name and mount point.
    pub description: String,
    /// A program whose server is away gets ETIMEDOUT after [`REQUEST_TIMEOUT`]. Without, it waits as long as it takes.
    pub soft: bool,
}

/// One mount of one file system.
pub struct Client {
    pub(crate) env: Env,
    pub(crate) mgc: Mgc,
    pub(crate) targets: Targets,
    pub(crate) nodes: Arc<NodeTable>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) files: Arc<FileTable>,
    pub(crate) files_open: Handles<FileHandle, OpenFile>,
    /// Leases of open files, as far as other open files of this mount are concerned.
    pub(crate) leases: Mutex<LeaseTable<FileHandle>>,
    pub(crate) dirs_open: Handles<DirHandle, OpenDir>,
    pub(crate) no_open: NoOpenHandles,
    pub(crate) pins: Pins,
    pub(crate) removed: Removed,
    pub(crate) writeback: Writeback,
    pub(crate) early: Earlies,
    pub(crate) spaces: Arc<Spaces>,
    pub(crate) closes: Arc<Semaphore>,
    pub(crate) counters: Counters,
    options: ClientOptions,
    stop: watch::Sender<bool>,
    me: Weak<Client>,
}

fn lock_source(fsname: FsName, uuid: ClientUuid) -> String {
    format!("ldlm.namespaces.{fsname}-{:016x}", uuid.0 as u64)
}

impl Client {
    /// Asks the MGS for the configuration and reaches the root directory. 3 round trips.
    ///
    /// # Errors
    /// The MGS or MDT0000 does not answer, or there is no such file system.
    pub fn mount(
        env: Env,
        rpc: Arc<Rpc>,
        options: ClientOptions,
    ) -> BoxFuture<'static, Result<Arc<Client>, ClientError>> {
        Box::pin(Client::begin(env, rpc, options))
    }

    async fn begin(env: Env, rpc: Arc<Rpc>, options: ClientOptions) -> Result<Arc<Client>, ClientError> {
        let uuid = ClientUuid(env.random.next_u128());
        let description = options.description.clone();
        let mgs = rpc.import(TargetName::mgs(), options.mgs.clone(), uuid, description.clone(), None);
        let mgc = Mgc::new(mgs);
        let config = mgc.config(options.fsname.to_string(), 0, 0).await?;
        let root = TargetName::mdt(options.fsname, 0).to_string();
        if !config.targets.iter().any(|target| target.name == root) {
            let fsname = options.fsname.to_string();
            // Whoever tries again and again must not leave a session behind each time.
            mgc.import().disconnect().await;
            return Err(ClientError::NoFileSystem { fsname, mgs: options.mgs });
        }
        rpc.set_cluster(ClusterId(config.cluster));
        let identity = Identity { fsname: options.fsname, uuid, description, soft: options.soft };
        let (stop, stopped) = watch::channel(false);
        let (nodes, files) = (Arc::new(NodeTable::new()), Arc::default());
        let answers = rpc.metrics().histogram(CALLBACK_ANSWER, &lock_source(options.fsname, uuid));
        let locks = Locks::new(env.clone(), nodes.clone(), validity::KEEPS, !options.opens, answers);
        let holder = Arc::new(Holder { locks: locks.clone(), files: Arc::clone(&files) });
        let grants = Arc::<Grants>::default();
        let client = Arc::new_cyclic(|me| Client {
            mgc,
            targets: Targets::new(rpc, identity, holder, locks.clone(), grants.clone()),
            nodes,
            locks,
            files,
            files_open: Handles::new(),
            leases: Mutex::new(LeaseTable::with_bound(LEASES_MAX)),
            dirs_open: Handles::new(),
            no_open: NoOpenHandles::default(),
            pins: Pins::default(),
            removed: Removed::default(),
            writeback: Writeback::new(grants),
            early: Earlies::default(),
            spaces: Arc::default(),
            closes: Arc::new(Semaphore::new(CLOSES_MAX)),
            counters: Counters::new(),
            options,
            stop,
            me: me.clone(),
            env,
        });
        let data = Arc::new(writeback::holder::Holder(Arc::downgrade(&client)));
        if client.locks.data.set(data).is_err() {
            tracing::error!("somebody holds data already");
        }
        if let Err(error) = client.reach_root(&config).await {
            client.unmount().await;
            return Err(error);
        }
        client.targets.mounted();
        let upkeep = keep_up(Arc::downgrade(&client), stopped.clone());
        client.env.tasks.spawn("look after the locks", Box::pin(upkeep));
        let flushing = flush_in_background(Arc::downgrade(&client), stopped.clone());
        client.env.tasks.spawn("flush dirty files", Box::pin(flushing));
        let follow = config::follow(Arc::downgrade(&client), config.version, stopped);
        client.env.tasks.spawn("follow the configuration", Box::pin(follow));
        Ok(client)
    }

    async fn reach_root(&self, config: &FsConfig) -> Result<(), ClientError> {
        self.apply(config)?;
        self.mdc(Fid::ROOT)?.getattr(&Credentials::root(), Fid::ROOT).await?;
        Ok(())
    }

    /// Ends all sessions in order: what was written is stored, open files are closed, locks dropped. The client is not to be
    /// used any more.
    pub fn unmount(self: &Arc<Self>) -> BoxFuture<'_, ()> {
        Box::pin(self.end())
    }

    async fn end(self: &Arc<Self>) {
        tokio::select! {
            biased;
            stored = self.flush_all() => if let Err(error) = stored {
                tracing::error!(%error, bytes = self.writeback.bytes(), "unmounting: what was written and not stored is lost");
            },
            () = self.env.clock.sleep(UNMOUNT_FLUSH_WAIT) => {
                tracing::error!(bytes = self.writeback.bytes(), "unmounting: what was written and not stored is lost");
            }
        }
        self.stop.send_replace(true);
        let closes = self.closes.acquire_many(CLOSES_MAX as u32);
        tokio::select! {
            biased;
            permits = closes => drop(permits),
            () = self.env.clock.sleep(UNMOUNT_WAIT) => tracing::warn!("unmounting with closes under way"),
        }
        self.make_kept_durable().await;
        let mdts = self.targets.mdcs().into_iter().map(|mdc| mdc.import().clone());
        let osts = self.targets.oscs().into_iter().map(|osc| osc.import().clone());
        let imports = mdts.chain(osts).chain([self.mgc.import().clone()]);
        let disconnect = |import: Arc<Import>| async move { import.disconnect().await };
        fan_out(imports.map(|import| Box::pin(disconnect(import)) as BoxFuture<'static, ()>).collect()).await;
    }

    /// The file system.
    pub fn fsname(&self) -> FsName {
        self.options.fsname
    }

    /// Source of the series about locks.
    pub fn lock_source(&self) -> String {
        lock_source(self.fsname(), self.targets.uuid())
    }

    /// Inodes that the kernel remembers.
    pub fn node_count(&self) -> usize {
        self.nodes.count()
    }

    /// Open files and directories.
    pub fn open_count(&self) -> usize {
        self.files_open.count() + self.dirs_open.count()
    }

    /// A (new) configuration.
    pub(crate) fn apply(&self, config: &FsConfig) -> Result<(), ClientError> {
        let me = self.me.clone();
        let lost: OnLost = Arc::new(move |ops: &[Op]| {
            if let Some(client) = me.upgrade() {
                client.lost_objects(ops);
            }
        });
        let (new, removed) = self.targets.apply(config, &lost)?;
        for import in removed {
            self.spaces.forget(import.target());
            let disconnect = async move { import.disconnect().await };
            self.env.tasks.spawn("leave a removed target", Box::pin(disconnect));
        }
        for mdc in new {
            let (me, tasks, import) = (self.me.clone(), self.env.tasks.clone(), mdc.import().clone());
            // The import keeps its hooks, so a hook must not keep the import.
            let import_weak = Arc::downgrade(&import);
            let evictions = AtomicU64::new(0);
            let restarted = move |_boot| {
                if let (Some(client), Some(import)) = (me.upgrade(), import_weak.upgrade()) {
                    let now = import.evictions();
                    let evicted = evictions.swap(now, Ordering::AcqRel) != now;
                    let mdt = import.target().index;
                    client.locks.lose(mdt.0, if evicted { Loss::Eviction } else { Loss::Restart });
                    if let Ok(mdc) = client.targets.mdc_at(mdt) {
                        tasks.spawn("open files again", Box::pin(reopen_all(client, mdc)));
                    }
                }
            };
            import.on_restart(Arc::new(restarted));
            import.on_recovery(Arc::new(Restorer::new(self.me.clone(), mdc)));
        }
        Ok(())
    }

    /// Is it being unmounted?
    pub(crate) fn is_ending(&self) -> bool {
        *self.stop.borrow()
    }

    /// Itself, for what it owns.
    pub(crate) fn weak(&self) -> Weak<Client> {
        self.me.clone()
    }

    /// Itself, unless it is just going.
    pub(crate) fn strong(&self) -> Option<Arc<Client>> {
        self.me.upgrade()
    }

    /// The inode behind a node.
    pub(crate) fn fid(&self, node: NodeId) -> Result<Fid, ClientError> {
        self.nodes.fid(node).ok_or(ClientError::UnknownNode(node.0))
    }

    /// The MDT of an inode. What only clients show has none, and nothing can be done to it: EPERM.
    pub(crate) fn mdc(&self, fid: Fid) -> Result<Mdc, ClientError> {
        if fid.is_shown_only() {
            return Err(Errno::EPERM.into());
        }
        self.targets.mdc(fid)
    }

    /// An inode for the kernel, counting one lookup. The last thing that an operation does: its answer may be trusted
    /// only if the kernel gets it before a callback can forget it.
    pub(crate) fn found(&self, parent: Fid, name: Option<&Name>, attr: &Attr) -> Found {
        let asked = match self.nodes.node(attr.fid) {
            None => Asked::First,
            Some(_) if attr.is_dir() => Asked::DirectoryAgain,
            Some(_) => Asked::Again,
        };
        let entry_covered = name.is_some_and(|name| self.locks.trust_name(parent, name, Some(attr.fid), asked));
        let node = self.nodes.remember(attr.fid);
        let stat = self.stat(attr);
        Found {
            node,
            generation: 0,
            attr: stat.attr,
            ino: stat.ino,
            entry_valid: self.valid(parent, entry_covered),
            attr_valid: stat.attr_valid,
        }
    }

    /// Attributes for the kernel. As [`Client::found`].
    pub(crate) fn stat(&self, attr: &Attr) -> Stat {
        if let Some(file) = self.files.get_used(attr.fid) {
            file.learn(attr);
        }
        let (attr, covered) = self.locks.attr_for_kernel(attr);
        self.note_shown(&attr);
        Stat { attr, ino: attr.fid.ino(), attr_valid: self.valid(attr.fid, covered) }
    }

    /// Time for which the kernel may trust what is covered by a lock of this inode.
    pub(crate) fn valid(&self, fid: Fid, covered: bool) -> Duration {
        if covered { self.targets.trusted(fid.mdt(), self.env.clock.now()) } else { Duration::ZERO }
    }

    /// Does the MDT of this inode surely keep for us what it granted? If not, it must be asked, whatever is known here.
    pub(crate) fn has_lease(&self, fid: Fid) -> bool {
        !self.valid(fid, true).is_zero()
    }

    /// Attributes in the answer of a change. The kernel takes these without looking whether they were called back meanwhile, so
    /// it gets no trust in them from here; its next question is answered from the table.
    pub(crate) fn changed_stat(&self, attr: &Attr) -> Stat {
        Stat { attr_valid: Duration::ZERO, ..self.stat(attr) }
    }

    /// As [`Client::found`], of an inode that the kernel may have known before: see [`Client::changed_stat`].
    pub(crate) fn changed_found(&self, parent: Fid, name: &Name, attr: &Attr) -> Found {
        Found { attr_valid: Duration::ZERO, ..self.found(parent, Some(name), attr) }
    }

    /// To be held from before the poll in which an operation ends until the kernel has the answer. Nothing may be waited
    /// for under it.
    pub fn token(&self) -> Token {
        self.locks.token()
    }

    /// The kernel's caches: until they are known, the kernel is told to trust nothing.
    pub fn attach_kernel(&self, kernel: Arc<dyn KernelCache>) {
        if self.locks.kernel.set(kernel).is_err() {
            tracing::error!("the kernel's caches are attached already");
        }
    }

    /// An operation that a program asked for begins; it is counted when the result is dropped.
    pub(crate) fn timed(&self, operation: Operation) -> Timed {
        self.counters.begin(operation, &self.env.clock)
    }

    /// An operation that was answered without a request, and the same as a hit.
    pub(crate) fn was_known(&self, operations: [Operation; 2], begun: Monotonic) {
        let took = self.env.clock.now().saturating_sub(begun);
        operations.into_iter().for_each(|operation| self.counters.count(operation, took));
    }

    /// How often each operation was asked for, and how long it took.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Requests to MDTs and OSTs so far, and those of them that the kernel's requests waited for. What the sessions themselves
    /// need (connect, ping), grants of space that are given back, and `Unlock` do not.
    pub fn requests(&self) -> Requests {
        let mdts = self.targets.mdcs().into_iter().map(|mdc| mdc.import().requests());
        let osts = self.targets.oscs().into_iter().map(|osc| osc.import().requests());
        let requests: Requests = mdts.chain(osts).sum();
        Requests { all: requests.all.saturating_sub(self.writeback.given_back()), ..requests }
    }

    /// Inodes with locks, and callbacks answered so far.
    pub fn lock_counts(&self) -> (usize, u64) {
        (self.locks.table.lock().size().0, self.locks.callbacks.load(Ordering::Relaxed))
    }
}
