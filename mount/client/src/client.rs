//! One mount: its sessions, its tables, its beginning and its end.

use crate::ahead::directory::DirAhead;
use crate::ahead::files::FilesAhead;
use crate::ahead::found_in::FoundIn;
use crate::ahead::names::NamesAhead;
use crate::ahead::statahead::Statahead;
use crate::ahead::windows;
use crate::ahead::written::WrittenFiles;
use crate::caller::{Found, Stat};
use crate::counters::{Counters, Operation, Timed};
use crate::expected::Missed;
use crate::hooks::Tables;
use crate::last_looks::LastLooks;
use crate::no_open::NoOpenHandles;
use crate::not_known::NotKnown;
use crate::open::{DirHandle, FileHandle, Handles, OpenDir, OpenFiles};
use crate::pins::Pins;
use crate::removed::Removed;
use data::accessed::Accesses;
use data::cache::grant::Grants;
use data::file::File;
use data::kernel_view::kernel_cache::KernelCache;
use data::kernel_view::recent::Asked;
use data::kernel_view::reply_barrier::Token;
use data::locks::Locks;
use data::locks::callback::CALLBACK_ANSWER;
use data::locks::upkeep::{Upkeep, keep_up};
use data::node::{NodeId, NodeTable};
use data::path::DataPath;
use data::writeback::background::flush_in_background;
use data::writeback::holder::ClientData;
use dlm::leases::LeaseTable;
use env::clock::Monotonic;
use env::{BoxFuture, Env};
use parking_lot::Mutex;
use rpc::Rpc;
use rpc::awaited::Requests;
use session::config;
use session::error::ClientError;
use session::session::{Session, UNMOUNT_FLUSH_WAIT};
use session::targets::Identity;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use types::attr::{AccessTimes, Attr};
use types::dir_path::DirPath;
use types::fid::Fid;
use types::limits::LEASES_MAX;
use types::name::Name;
use types::nid::Nid;
use types::session::ClientUuid;
use types::target::FsName;

/// Closes under way in the background; beyond it, release waits.
const CLOSES_MAX: usize = 1024;
/// Pause before what could not be stored at unmount is sent again.
const FLUSH_AGAIN: Duration = Duration::from_secs(1);
/// How long unmount waits for access times to be recorded, and then for closes under way.
const UNMOUNT_WAIT: Duration = Duration::from_secs(5);

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// True if the kernel reports opens and closes. Otherwise (`localflock`, `noflock`) every inode
    /// that it knows counts as open.
    pub opens: bool,
    /// Which accesses change access times.
    pub access_times: AccessTimes,
    /// Listing a directory does not change its access time.
    pub nodiratime: bool,
    /// NIDs of the MGS, best first.
    pub mgs: Vec<Nid>,
    /// File system.
    pub fsname: FsName,
    /// The directory of it that is mounted, below the fileset of the client's nodemap.
    pub directory: DirPath,
    /// For people, in lists of clients: host name and mount point.
    pub description: String,
    /// A program whose server is away gets ETIMEDOUT after [`types::limits::REQUEST_TIMEOUT`].
    /// Without it, the program waits as long as it takes.
    pub soft: bool,
}

/// One mount of one file system.
pub struct Client {
    pub(crate) session: Arc<Session>,
    pub(crate) nodes: Arc<NodeTable>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) data: Arc<DataPath>,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) files_open: Arc<OpenFiles>,
    /// Leases of open files, as far as this mount's other open files matter.
    pub(crate) leases: Mutex<LeaseTable<FileHandle>>,
    pub(crate) dirs_open: Handles<DirHandle, OpenDir>,
    pub(crate) no_open: NoOpenHandles,
    pub(crate) pins: Pins,
    pub(crate) missed: Missed,
    pub(crate) last_looks: LastLooks,
    pub(crate) removed: Removed,
    /// Directories that no MDT knows any more.
    pub(crate) not_known: NotKnown,
    pub(crate) statahead: Mutex<Statahead>,
    /// The same for files that were listed, and that other clients are writing.
    pub(crate) written: Mutex<WrittenFiles>,
    pub(crate) dir_ahead: Mutex<DirAhead>,
    pub(crate) names_ahead: Mutex<NamesAhead>,
    pub(crate) files_ahead: Mutex<FilesAhead<Arc<File>>>,
    /// Directories of files that programs found a moment ago.
    pub(crate) found_in: FoundIn,
    /// Entries of a window of statahead, at most; 0: off.
    pub(crate) statahead_max: AtomicUsize,
    pub(crate) closes: Arc<Semaphore>,
    pub(crate) counters: Counters,
    /// When it was mounted, the MDTs let it change nothing.
    read_only: AtomicBool,
    me: Weak<Client>,
}

fn lock_source(fsname: FsName, uuid: ClientUuid) -> String {
    format!("ldlm.namespaces.{fsname}-{}", uuid.instance())
}

impl Client {
    /// Asks the MGS for the configuration and reaches the root directory. 3 round trips, and
    /// up to two for each time that the path to a directory goes on at another MDT.
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

    async fn begin(
        env: Env,
        rpc: Arc<Rpc>,
        options: ClientOptions,
    ) -> Result<Arc<Client>, ClientError> {
        let ClientOptions { opens, access_times, nodiratime, mgs, fsname, .. } = options;
        let ClientOptions { directory, description, soft, .. } = options;
        let identity =
            Identity { fsname, uuid: ClientUuid(env.random.next_u128()), description, soft };
        let (mgc, config) = config::ask(&rpc, &mgs, &identity).await?;
        let (nodes, files, files_open) =
            (Arc::new(NodeTable::new()), Arc::default(), Arc::default());
        let answers = rpc.metrics().histogram(CALLBACK_ANSWER, &lock_source(fsname, identity.uuid));
        let locks = Locks::new(env.clone(), nodes.clone(), !opens, answers);
        let grants = Arc::<Grants>::default();
        let tables = Tables {
            locks: locks.clone(),
            files: Arc::clone(&files),
            files_open: Arc::clone(&files_open),
            grants: grants.clone(),
        };
        let session = Session::new(env, rpc, identity, mgc, Arc::new(tables));
        let accesses = Accesses::new(access_times, nodiratime);
        let data = DataPath::new(session.clone(), locks.clone(), files, grants, accesses);
        if locks.data.set(Arc::new(ClientData(Arc::downgrade(&data)))).is_err() {
            tracing::error!("the data path holds the data already");
        }
        let client = Arc::new_cyclic(|me| Client {
            upkeep: Upkeep::new(session.clone(), locks.clone()),
            session,
            nodes,
            locks,
            data,
            files_open,
            leases: Mutex::new(LeaseTable::with_bound(LEASES_MAX)),
            dirs_open: Handles::new(),
            no_open: NoOpenHandles::default(),
            pins: Pins::default(),
            missed: Missed::default(),
            last_looks: LastLooks::default(),
            removed: Removed::default(),
            not_known: NotKnown::default(),
            statahead: Mutex::default(),
            written: Mutex::default(),
            dir_ahead: Mutex::default(),
            names_ahead: Mutex::default(),
            files_ahead: Mutex::default(),
            found_in: FoundIn::default(),
            statahead_max: AtomicUsize::new(windows::WINDOW_MAX),
            closes: Arc::new(Semaphore::new(CLOSES_MAX)),
            counters: Counters::new(),
            read_only: AtomicBool::new(false),
            me: me.clone(),
        });
        let session = &client.session;
        match session.reach_root(&config, &directory).await {
            Ok((root, read_only)) => {
                client.nodes.set_root(root);
                client.read_only.store(read_only, Ordering::Relaxed);
            }
            Err(error) => {
                client.unmount().await;
                return Err(error);
            }
        }
        session.targets.mounted();
        let upkeep = keep_up(Arc::downgrade(&client.upkeep), session.ending());
        session.env.tasks.spawn("look after the locks", Box::pin(upkeep));
        let flushing = flush_in_background(Arc::downgrade(&client.data), session.ending());
        session.env.tasks.spawn("flush dirty files", Box::pin(flushing));
        session.follow(config.version);
        Ok(client)
    }

    /// True if the nodemap of this client let it change nothing when it was mounted.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Ends all sessions in order: dirty data is stored, open files are closed, locks dropped. The
    /// client must not be used any more.
    pub fn unmount(self: &Arc<Self>) -> BoxFuture<'_, ()> {
        Box::pin(self.end())
    }

    async fn end(self: &Arc<Self>) {
        // What did not go may go when its target is back.
        let stored = async {
            while let Err(error) = self.data.flush_all().await {
                tracing::warn!(%error, "unmounting: not all is stored yet; trying again");
                self.session.env.clock.sleep(FLUSH_AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            () = stored => {}
            () = self.session.env.clock.sleep(UNMOUNT_FLUSH_WAIT) => {
                tracing::error!(bytes = self.data.writeback.bytes(), "unmounting: what was written and not stored is lost");
            }
        }
        tokio::select! {
            biased;
            _ = self.data.tell_all_accesses() => {}
            () = self.session.env.clock.sleep(UNMOUNT_WAIT) => tracing::warn!("unmounting: some access times are not recorded"),
        }
        self.session.end();
        let closes = self.closes.acquire_many(CLOSES_MAX as u32);
        tokio::select! {
            biased;
            permits = closes => drop(permits),
            () = self.session.env.clock.sleep(UNMOUNT_WAIT) => tracing::warn!("unmounting with closes under way"),
        }
        self.session.make_durable().await;
        self.session.disconnect().await;
    }

    /// Source of the series about locks.
    pub fn lock_source(&self) -> String {
        lock_source(self.session.fsname(), self.session.uuid())
    }

    /// Open files and directories.
    pub fn open_count(&self) -> usize {
        self.files_open.count() + self.dirs_open.count()
    }

    /// Itself, unless it is just going.
    pub(crate) fn strong(&self) -> Option<Arc<Client>> {
        self.me.upgrade()
    }

    /// The inode behind a node.
    pub(crate) fn fid(&self, node: NodeId) -> Result<Fid, ClientError> {
        let fid = self.nodes.fid(node).ok_or(ClientError::UnknownNode(node.0))?;
        Ok(self.locks.inode_now(fid))
    }

    /// An inode for the kernel, counting one lookup. It is the last step of an operation: its
    /// answer may be trusted only if the kernel gets it before a callback can forget it.
    pub(crate) fn found(&self, parent: Fid, name: Option<&Name>, attr: &Attr) -> Found {
        self.found_with(parent, name, attr, Client::stat)
    }

    /// As [`Client::found`], of an inode that this very request made: no other thread has it yet.
    pub(crate) fn made(&self, parent: Fid, name: Option<&Name>, attr: &Attr) -> Found {
        self.found_with(parent, name, attr, Client::stat_of_new)
    }

    fn found_with(
        &self,
        parent: Fid,
        name: Option<&Name>,
        attr: &Attr,
        stat: impl FnOnce(&Client, &Attr) -> Stat,
    ) -> Found {
        let asked = match self.nodes.node(attr.fid) {
            None => Asked::First,
            Some(_) if attr.is_dir() => Asked::DirectoryAgain,
            Some(_) => Asked::Again,
        };
        let striped = self.is_stripe(parent);
        let entry_covered = name.is_some_and(|name| match striped {
            true => {
                self.locks.show_name(parent, name, Some(attr.fid));
                false
            }
            false => self.locks.trust_name(parent, name, Some(attr.fid), asked),
        });
        let node = self.nodes.remember(attr.fid);
        if attr.is_dir() {
            self.locks.table.lock().stripes.shown(attr.fid);
        }
        let stat = stat(self, attr);
        Found {
            node,
            generation: 0,
            attr: stat.attr,
            ino: stat.ino,
            entry_valid: self.session.valid(parent, entry_covered),
            attr_valid: stat.attr_valid,
        }
    }

    /// Attributes for the kernel. As [`Client::found`].
    pub(crate) fn stat(&self, attr: &Attr) -> Stat {
        let stat = self.stat_of_new(attr);
        let file = self.data.files.get_used(attr.fid);
        match file.is_some_and(|file| self.may_be_overtaken(&file, &stat.attr)) {
            true => Stat { attr_valid: Duration::ZERO, ..stat },
            false => stat,
        }
    }

    fn stat_of_new(&self, attr: &Attr) -> Stat {
        if let Some(file) = self.data.files.get_used(attr.fid) {
            file.learn(attr);
        }
        let (attr, covered) = match self.is_stripe(attr.fid) {
            // The kernel must ask for the whole.
            true => (*attr, false),
            false => self.locks.attr_for_kernel(attr),
        };
        self.note_shown(&attr);
        Stat { attr, ino: attr.fid.ino(), attr_valid: self.session.valid(attr.fid, covered) }
    }

    /// True if a read or write of a program of this mount may change these attributes while they
    /// are on their way to the kernel, which would trust them nevertheless (docs/locks/kernel.md,
    /// R42, R43). Where the kernel reports no opens that is not known.
    fn may_be_overtaken(&self, file: &File, attr: &Attr) -> bool {
        let by_read = || file.is_open_to_read() && self.data.next_access_counts(attr);
        !self.locks.no_open() && (file.is_open_to_write() || by_read())
    }

    /// Attributes in the answer of a change. The kernel takes these without checking whether they
    /// were called back meanwhile. So it gets no trust in them from here; its next request is
    /// answered from the table.
    pub(crate) fn changed_stat(&self, attr: &Attr) -> Stat {
        Stat { attr_valid: Duration::ZERO, ..self.stat(attr) }
    }

    /// As [`Client::found`], of an inode that the kernel may have known before: see
    /// [`Client::changed_stat`].
    pub(crate) fn changed_found(&self, parent: Fid, name: &Name, attr: &Attr) -> Found {
        Found { attr_valid: Duration::ZERO, ..self.found(parent, Some(name), attr) }
    }

    /// Hold it from before the poll in which an operation ends until the kernel has the answer.
    /// Nothing may be waited for under it.
    pub fn token(&self) -> Token {
        self.locks.token()
    }

    /// Attaches the kernel's caches: until then, the kernel is told to trust nothing.
    pub fn attach_kernel(&self, kernel: Arc<dyn KernelCache>) {
        if self.locks.kernel.set(kernel).is_err() {
            tracing::error!("the kernel's caches are attached already");
        }
    }

    /// An operation that a program asked for begins; it is counted when the result is dropped.
    pub(crate) fn timed(&self, operation: Operation) -> Timed {
        self.counters.begin(operation, &self.session.env.clock)
    }

    /// An operation that was answered without a request, and the same as a hit.
    pub(crate) fn was_known(&self, operations: [Operation; 2], begun: Monotonic) {
        let took = self.session.env.clock.now().saturating_sub(begun);
        operations.into_iter().for_each(|operation| self.counters.count(operation, took));
    }

    /// Number of calls of each operation, and their times.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Requests to MDTs and OSTs so far, and those of them that the kernel's requests waited for.
    /// Not counted: requests of the sessions themselves (connect, ping), grants of space that are
    /// given back, and `Unlock`.
    pub fn requests(&self) -> Requests {
        let requests = self.session.requests();
        Requests { all: requests.all.saturating_sub(self.data.writeback.given_back()), ..requests }
    }

    /// Inodes with locks, and callbacks answered so far.
    pub(crate) fn lock_counts(&self) -> (usize, u64) {
        (self.locks.table.lock().size().0, self.locks.callbacks.load(Ordering::Relaxed))
    }
}
