//! One mount: its sessions, its tables, its beginning and its end.

use crate::caller::{Found, Stat};
use crate::config;
use crate::counters::Counters;
use crate::error::ClientError;
use crate::fan_out::fan_out;
use crate::file::FileTable;
use crate::node::{NodeId, NodeTable};
use crate::open::{DirHandle, FileHandle, Handles, OpenDir, OpenFile};
use crate::reopen::reopen_all;
use crate::targets::{Identity, Targets};
use crate::validity;
use env::{BoxFuture, Env};
use rpc::Rpc;
use rpc::import::{Callbacks, Import};
use std::sync::{Arc, Weak};
use std::time::Duration;
use stubs::mdc::Mdc;
use stubs::mgc::Mgc;
use tokio::sync::{Semaphore, watch};
use types::attr::Attr;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId};
use types::target::{FsName, TargetName};
use wire::client::{ClientOp, ClientReply};
use wire::mgs::FsConfig;

/// Closes under way in the background; beyond it, release waits.
const CLOSES_MAX: usize = 1024;
/// How long unmount waits for closes under way.
const UNMOUNT_WAIT: Duration = Duration::from_secs(5);

/// What to mount.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Where the MGS answers, best first.
    pub mgs: Vec<Nid>,
    /// File system.
    pub fsname: FsName,
    /// For people, in lists of clients: host name and mount point.
    pub description: String,
}

/// One mount of one file system.
pub struct Client {
    pub(crate) env: Env,
    pub(crate) mgc: Mgc,
    pub(crate) targets: Targets,
    pub(crate) nodes: NodeTable,
    pub(crate) files: Arc<FileTable>,
    pub(crate) files_open: Handles<FileHandle, OpenFile>,
    pub(crate) dirs_open: Handles<DirHandle, OpenDir>,
    pub(crate) closes: Arc<Semaphore>,
    pub(crate) counters: Counters,
    options: ClientOptions,
    stop: watch::Sender<bool>,
    me: Weak<Client>,
}

impl Client {
    /// Asks the MGS for the configuration and reaches the root directory. 3 round trips.
    ///
    /// # Errors
    /// The MGS or MDT0000 does not answer, or there is no such file system.
    pub async fn mount(env: Env, rpc: Arc<Rpc>, options: ClientOptions) -> Result<Arc<Client>, ClientError> {
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
        let identity = Identity { fsname: options.fsname, uuid, description };
        let (stop, stopped) = watch::channel(false);
        let client = Arc::new_cyclic(|me| Client {
            mgc,
            targets: Targets::new(rpc, identity, Arc::new(Holder)),
            nodes: NodeTable::new(),
            files: Arc::default(),
            files_open: Handles::new(),
            dirs_open: Handles::new(),
            closes: Arc::new(Semaphore::new(CLOSES_MAX)),
            counters: Counters::new(),
            options,
            stop,
            me: me.clone(),
            env,
        });
        if let Err(error) = client.reach_root(&config).await {
            client.unmount().await;
            return Err(error);
        }
        client.targets.mounted();
        let follow = config::follow(Arc::downgrade(&client), config.version, stopped);
        client.env.tasks.spawn("follow the configuration", Box::pin(follow));
        Ok(client)
    }

    async fn reach_root(&self, config: &FsConfig) -> Result<(), ClientError> {
        self.apply(config)?;
        self.mdc(Fid::ROOT)?.getattr(&Credentials::root(), Fid::ROOT).await?;
        Ok(())
    }

    /// Ends all sessions in order: open files are closed, locks dropped. The client is not to be used any more.
    pub async fn unmount(&self) {
        self.stop.send_replace(true);
        let closes = self.closes.acquire_many(CLOSES_MAX as u32);
        tokio::select! {
            permits = closes => drop(permits),
            () = self.env.clock.sleep(UNMOUNT_WAIT) => tracing::warn!("unmounting with closes under way"),
        }
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

    /// Inodes that the kernel remembers.
    pub fn node_count(&self) -> usize {
        self.nodes.count()
    }

    /// Open files and directories.
    pub fn open_count(&self) -> usize {
        self.files_open.count() + self.dirs_open.count()
    }

    /// (operation, how often it was asked for).
    pub fn requests_by_operation(&self) -> Vec<(&'static str, u64)> {
        self.counters.snapshot()
    }

    /// A (new) configuration.
    pub(crate) fn apply(&self, config: &FsConfig) -> Result<(), ClientError> {
        for mdc in self.targets.apply(config)? {
            let (me, tasks, import) = (self.me.clone(), self.env.tasks.clone(), mdc.import().clone());
            // The import keeps its hooks, so a hook must not keep the import.
            let import_weak = Arc::downgrade(&import);
            let restarted = move |_boot| {
                if let (Some(client), Some(import)) = (me.upgrade(), import_weak.upgrade()) {
                    tasks.spawn("open files again", Box::pin(reopen_all(client, Mdc::new(import))));
                }
            };
            import.on_restart(Arc::new(restarted));
        }
        Ok(())
    }

    /// The inode behind a node.
    pub(crate) fn fid(&self, node: NodeId) -> Result<Fid, ClientError> {
        self.nodes.fid(node).ok_or(ClientError::UnknownNode(node.0))
    }

    /// The MDT of an inode.
    pub(crate) fn mdc(&self, fid: Fid) -> Result<Mdc, ClientError> {
        self.targets.mdc(fid)
    }

    /// An inode for the kernel, counting one lookup.
    pub(crate) fn found(&self, parent: Fid, attr: &Attr) -> Found {
        if let Some(file) = self.files.get_used(attr.fid) {
            file.learn(attr);
        }
        Found {
            node: self.nodes.remember(attr.fid),
            generation: 0,
            attr: *attr,
            ino: attr.fid.ino(),
            entry_valid: validity::entry_valid(parent),
            attr_valid: validity::attr_valid(attr.fid),
        }
    }

    /// Attributes for the kernel.
    pub(crate) fn stat(&self, attr: &Attr) -> Stat {
        if let Some(file) = self.files.get_used(attr.fid) {
            file.learn(attr);
        }
        Stat { attr: *attr, ino: attr.fid.ino(), attr_valid: validity::attr_valid(attr.fid) }
    }
}

/// What this mount holds of the servers' locks: nothing yet, so any of them is given back at once.
struct Holder;

impl Callbacks for Holder {
    fn callback(self: Arc<Self>, op: ClientOp) -> BoxFuture<'static, Result<ClientReply, Errno>> {
        Box::pin(async move {
            match op {
                ClientOp::Revoke { .. } => Ok(ClientReply::Done),
                ClientOp::Changing { .. } => Ok(ClientReply::Dropped),
                ClientOp::Glimpse { fids } => Ok(ClientReply::Glimpses(vec![None; fids.len()])),
            }
        })
    }
}
