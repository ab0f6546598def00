//! The locks and content that this mount may keep, and its work when they are called back
//! (docs/locks/overview.md).
//!
//! `table` holds the locks and the known content. `gate` keeps callbacks that overtake replies from
//! being undone by them. `learn` reads replies, and `callback` answers servers.
//! [`crate::kernel_view`] lets the kernel forget. `data_guards` counts work with data under a lock,
//! `held_pages` knows which pages writes hold in the kernel, and `opens` opens files without a
//! request. `stripes` knows directories over several MDTs. `upkeep` gives old locks back and stops
//! trusting a server that was not heard of.
//!
//! One small lock guards the table and all gates; it is never held across a wait.

pub mod callback;
pub mod data_guards;
pub mod flocks;
pub mod gate;
pub mod held_pages;
pub mod learn;
pub mod opens;
mod paused;
pub mod stripes;
pub mod table;
pub mod upkeep;

use crate::kernel_view::invalidations::{Invalidations, Pending};
use crate::kernel_view::kernel_cache::KernelCache;
use crate::kernel_view::recent::Asked;
use crate::kernel_view::reply_barrier::{ReplyBarrier, Token};
use crate::locks::data_guards::{DataGuards, DataHolder};
use crate::locks::flocks::{HeldFlocks, Taken};
use crate::locks::gate::Ticket;
use crate::locks::held_pages::HeldPages;
use crate::locks::opens::Opens;
use crate::locks::paused::Paused;
use crate::locks::stripes::Striped;
use crate::locks::table::unlinked::Believed;
use crate::locks::table::{Known, Table};
use crate::node::NodeTable;
use bytes::Bytes;
use env::Env;
use env::clock::Monotonic;
use foldhash::HashMap;
use layout::dir_stripes::DirStripes;
use observe::histogram::Histogram;
use parking_lot::Mutex;
use rpc::error::RpcError;
use std::pin::pin;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use stubs::mdc::{Sent, Watch};
use tokio::sync::Notify;
use types::attr::Attr;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::ranges::Extent;
use wire::class::Changes;
use wire::mds::{Entry, GetattrMany, MdsOp, MdsReply, Removed};
use wire::message::{OpReply, Reply};

/// Bits that this mount can keep, and so asks for.
pub(crate) const KEEPS: InodeBits = InodeBits::LOOKUP
    .union(InodeBits::UPDATE)
    .union(InodeBits::PERM)
    .union(InodeBits::XATTR)
    .union(InodeBits::LAYOUT)
    .union(InodeBits::OPEN)
    .union(InodeBits::DATA)
    .union(InodeBits::WRITE)
    .union(InodeBits::GAP);

/// What is known of a name that a listing showed.
pub enum ListedName {
    /// The kernel trusts the name and the attributes of its inode.
    Trusted,
    /// The attributes, as locks cover them.
    Covered(Attr),
    /// No lock covers the name or the attributes.
    Unknown,
}

/// Locks of one mount.
pub struct Locks {
    /// Clock and tasks of the process.
    pub env: Env,
    /// Inodes that the kernel knows.
    pub nodes: Arc<NodeTable>,
    /// The kernel's cache; unset until the mount is attached to a kernel.
    pub kernel: OnceLock<Arc<dyn KernelCache>>,
    /// The data path, which flushes before WRITE is given back; set once, at the start.
    pub data: OnceLock<Arc<dyn DataHolder>>,
    /// What is held, and what is known under it.
    pub table: Mutex<Table>,
    /// Reads and writes that callbacks wait for.
    pub data_guards: DataGuards,
    /// Pages that writes hold in the kernel.
    pub held_pages: Arc<HeldPages>,
    /// Files that are kept open at their MDTs.
    pub opens: Mutex<Opens>,
    /// flock and fcntl locks that MDTs granted.
    pub flocks: Mutex<HeldFlocks>,
    /// Answers that are on their way to the kernel.
    pub reply_barrier: Arc<ReplyBarrier>,
    /// Invalidations that were taken from the table and that the kernel has not done yet.
    sending: Arc<ReplyBarrier>,
    /// Requests under way in a directory that may hold its lock in the kernel.
    busy: Mutex<HashMap<Fid, u32>>,
    /// Bits that replies may grant.
    keeps: Mutex<InodeBits>,
    no_open: bool,
    /// A directory of this mount has gone to other inodes: the kernel may know an old one.
    dirs_went: AtomicBool,
    /// Files whose writers let go of them for programs here.
    paused: Mutex<Paused>,
    /// An own request that changes a name is over.
    pub names_changed: Notify,
    /// Something is due: upkeep looks now.
    pub wake_upkeep: Notify,
    /// Callbacks answered, for the parameter tree.
    pub callbacks: AtomicU64,
    /// Times of callbacks, microseconds.
    pub answers: Arc<Histogram>,
}

impl Locks {
    /// No locks.
    pub fn new(
        env: Env,
        nodes: Arc<NodeTable>,
        no_open: bool,
        answers: Arc<Histogram>,
    ) -> Arc<Locks> {
        Arc::new(Locks {
            no_open,
            env,
            nodes,
            kernel: OnceLock::new(),
            data: OnceLock::new(),
            table: Mutex::default(),
            data_guards: DataGuards::default(),
            held_pages: Arc::default(),
            opens: Mutex::default(),
            flocks: Mutex::default(),
            reply_barrier: Arc::default(),
            sending: Arc::default(),
            busy: Mutex::default(),
            keeps: Mutex::new(KEEPS),
            dirs_went: AtomicBool::new(false),
            paused: Mutex::default(),
            names_changed: Notify::new(),
            wake_upkeep: Notify::new(),
            callbacks: AtomicU64::new(0),
            answers,
        })
    }

    /// Hold it from before an answer is decided until the kernel has it.
    pub fn token(&self) -> Token {
        self.reply_barrier.begin()
    }

    /// True if the kernel opens files without a request.
    pub fn no_open(&self) -> bool {
        self.no_open
    }

    /// True if replies may grant these bits.
    pub fn keeps(&self, bits: InodeBits) -> bool {
        self.keeps.lock().contains(bits)
    }

    /// Sets whether replies may grant these bits.
    pub(crate) fn set_keeps(&self, bits: InodeBits, on: bool) {
        let mut keeps = self.keeps.lock();
        *keeps = if on { keeps.union(bits) } else { keeps.difference(bits) };
    }

    /// The bits held of an inode.
    pub fn bits(&self, fid: Fid) -> InodeBits {
        self.table.lock().bits(fid)
    }

    /// True if the file is shared with others, by extents.
    pub(crate) fn is_shared(&self, fid: Fid) -> bool {
        self.table.lock().is_shared(fid)
    }

    /// Where the name leads, as far as locks cover it.
    pub fn name(&self, dir: Fid, name: &Name) -> Known {
        self.table.lock().name(dir, name)
    }

    /// Where the kernel believes that a name leads which it asks to remove.
    pub fn believed(&self, dir: Fid, name: &Name) -> Believed {
        self.table.lock().believed(dir, name)
    }

    /// The inode that the kernel has under a name, as far as that is known.
    pub fn expected(&self, dir: Fid, name: &Name) -> Option<Fid> {
        self.table.lock().expected(dir, name)
    }

    /// The inode that a name leads to, for a lookup: see [`Table::is_changing`].
    pub fn looked_up(&self, dir: Fid, name: &Name) -> Known {
        let mut table = self.table.lock();
        if table.is_changing(dir, name) { Known::Nothing } else { table.name(dir, name) }
    }

    /// What is known now of a name that a listing showed to lead to this inode.
    pub fn listed(&self, dir: Fid, name: &Name, fid: Fid) -> ListedName {
        let mut table = self.table.lock();
        if table.kernel_trusts(dir, name, fid) {
            return ListedName::Trusted;
        }
        if table.is_changing(dir, name) || table.name(dir, name) != Known::To(fid) {
            return ListedName::Unknown;
        }
        let Some(entry) = table.attr(fid) else { return ListedName::Unknown };
        drop(table);
        ListedName::Covered(self.with_dirty(entry.attr))
    }

    /// Waits until no own request changes this name.
    pub async fn name_unchanging(&self, dir: Fid, name: &Name) {
        loop {
            let mut changed = pin!(self.names_changed.notified());
            changed.as_mut().enable();
            if !self.table.lock().is_changing(dir, name) {
                return;
            }
            changed.await;
        }
    }

    /// Attributes as locks cover them, with this mount's writes; `None`: they must be asked for.
    pub fn attr(&self, fid: Fid) -> Option<Entry> {
        let entry = self.table.lock().attr(fid)?;
        Some(Entry { attr: self.with_dirty(entry.attr), ..entry })
    }

    /// Attributes with this mount's writes that the MDT did not know when it showed them.
    pub fn with_dirty(&self, attr: Attr) -> Attr {
        self.data.get().map_or(attr, |data| data.newest(attr))
    }

    /// An extended attribute as XATTR covers it; `Some(None)`: the inode has none of this name;
    /// `None`: it must be asked for.
    pub fn xattr(&self, fid: Fid, name: &[u8]) -> Option<Option<Bytes>> {
        self.table.lock().xattr(fid, name).filter(|_| self.keeps(InodeBits::XATTR))
    }

    /// Names of the extended attributes, each with a NUL behind; `None`: they must be asked for.
    pub fn xattr_list(&self, fid: Fid) -> Option<Bytes> {
        self.table.lock().xattr_list(fid).filter(|_| self.keeps(InodeBits::XATTR))
    }

    /// Target of a symbolic link; `None`: it must be asked for.
    pub fn target(&self, fid: Fid) -> Option<Bytes> {
        self.table.lock().target(fid)
    }

    /// Attributes for the kernel, and whether it may trust them.
    pub fn attr_for_kernel(&self, attr: &Attr) -> (Attr, bool) {
        if self.kernel.get().is_none() {
            return (self.with_dirty(*attr), false);
        }
        let (attr, covered) = self.table.lock().attr_for_kernel(attr);
        (self.with_dirty(attr), covered)
    }

    /// The kernel was told that this file has at least this size; 0: that is not known.
    pub fn told_size(&self, fid: Fid) -> u64 {
        self.table.lock().told_size(fid)
    }

    /// A name is sent to the kernel. True if the kernel may trust it.
    pub fn trust_name(&self, dir: Fid, name: &Name, to: Option<Fid>, asked: Asked) -> bool {
        self.kernel.get().is_some() && self.table.lock().trust_name(dir, name, to, asked)
    }

    /// A name of a striped directory is sent to the kernel, which may not trust it: callbacks name
    /// a stripe, which the kernel does not know.
    pub fn show_name(&self, stripe: Fid, name: &Name, to: Option<Fid>) {
        if self.kernel.get().is_some() {
            self.table.lock().show_name(stripe, name, to);
        }
    }

    /// What is known of an inode as a stripe of a directory.
    pub fn striped(&self, fid: Fid) -> Striped {
        self.table.lock().stripes.of(fid)
    }

    /// An MDT has told the stripes of which `asked` is one.
    pub fn learn_stripes(&self, asked: Fid, stripes: &Arc<DirStripes>) {
        let in_kernel = |fid| self.nodes.node(fid).is_some();
        let table = &mut *self.table.lock();
        table.stripes.learn(asked, stripes, in_kernel);
        let master = stripes.master();
        if self.nodes.moved(table.stripes.left(master), master) {
            table.stripes.shown(master);
        }
        if !stripes.leaves().is_empty() || !stripes.all().contains(&asked) {
            self.dirs_went.store(true, Release);
        }
    }

    /// The inode that a directory has now, of one that the kernel knows.
    pub fn inode_now(&self, fid: Fid) -> Fid {
        match self.dirs_went.load(Acquire) {
            true => self.table.lock().stripes.master(fid),
            false => fid,
        }
    }

    /// A request goes out that may hold the kernel's lock of this directory, or of the one whose
    /// stripe it is.
    pub fn enter_dir(self: &Arc<Self>, dir: Fid) -> InDir {
        let dir = match self.striped(dir) {
            Striped::Of(stripes) => stripes.master(),
            Striped::No | Striped::Unknown => dir,
        };
        *self.busy.lock().entry(dir).or_default() += 1;
        InDir { locks: self.clone(), dir }
    }

    /// True if a request is under way that may hold the kernel's lock of the directory.
    pub fn is_busy(&self, dir: Fid) -> bool {
        self.busy.lock().contains_key(&dir)
    }

    /// Takes something from the table; what the kernel must forget is pending from then on.
    pub fn take<R>(&self, take: impl FnOnce(&mut Table, &mut Invalidations) -> R) -> (R, Pending) {
        let mut table = self.table.lock();
        let mut invalidations = Invalidations::default();
        let taken = take(&mut table, &mut invalidations);
        (taken, Pending { invalidations, _sending: self.sending.begin() })
    }

    /// Lets the kernel forget what a callback took. Also waits until it has forgotten what earlier
    /// callbacks took: those may not be done yet, and this callback did not find their content any
    /// more.
    pub(crate) async fn all_forgotten(&self, pending: Pending) {
        self.reply_barrier.quiesce().await;
        self.send(pending).await;
        self.sending.quiesce().await;
    }

    /// Lets the kernel forget what own changes made doubtful. To be awaited before a rename is
    /// answered.
    pub async fn send_pending(&self) {
        let ((), pending) = self.take(|table, invalidations| *invalidations = table.take_pending());
        if !pending.invalidations.attrs.is_empty() {
            self.reply_barrier.quiesce().await;
        }
        self.send(pending).await;
    }

    /// A change ended whose caller no longer waited: the kernel does not know of it, and must ask
    /// for this name.
    pub async fn abandoned(&self, dir: Fid, name: &Name) {
        let ((), pending) = self.take(|table, invalidations| {
            table.abandoned_name(dir, name);
            *invalidations = table.outdated();
        });
        self.reply_barrier.quiesce().await;
        self.send(pending).await;
    }

    pub(crate) fn send_later(self: &Arc<Self>, pending: Pending) {
        let locks = self.clone();
        let send = async move {
            locks.reply_barrier.quiesce().await;
            locks.send(pending).await;
        };
        self.env.tasks.spawn("let the kernel forget", Box::pin(send));
    }

    fn send_pending_later(self: &Arc<Self>) {
        let locks = self.clone();
        self.env
            .tasks
            .spawn("let the kernel forget", Box::pin(async move { locks.send_pending().await }));
    }
}

/// See [`Locks::enter_dir`].
pub struct InDir {
    locks: Arc<Locks>,
    dir: Fid,
}

impl Drop for InDir {
    fn drop(&mut self) {
        let mut busy = self.locks.busy.lock();
        if let Some(count) = busy.get_mut(&self.dir) {
            *count -= 1;
            if *count == 0 {
                busy.remove(&self.dir);
            }
        }
    }
}

/// Requests to one MDT pass here: they are counted, get their tickets, and teach the table.
pub struct MdtWatch {
    /// Locks of the mount.
    pub locks: Arc<Locks>,
    /// Index of the MDT.
    pub mdt: u16,
}

/// One request under way.
struct OnTheWay {
    locks: Arc<Locks>,
    mdt: u16,
    ticket: Ticket,
    sent: Monotonic,
    ops: Vec<MdsOp>,
    flocks: Taken,
    /// It changes something, and no answer came yet.
    open_change: bool,
}

impl Watch for MdtWatch {
    fn sent(&self, ops: &[MdsOp]) -> (InodeBits, Box<dyn Sent>) {
        let keeps = *self.locks.keeps.lock();
        let ticket = {
            let mut table = self.locks.table.lock();
            ops.iter().filter_map(MdsOp::name_made).for_each(|(dir, name)| table.makes(dir, name));
            ops.iter()
                .flat_map(MdsOp::names_changed)
                .for_each(|(dir, name)| table.begin_change(dir, name));
            table.gate(self.mdt).send()
        };
        let open_change = ops.iter().any(|op| op.class().changes == Changes::Store);
        let flocks = self.locks.flocks.lock().sent(ops);
        let sent = OnTheWay {
            locks: self.locks.clone(),
            mdt: self.mdt,
            ticket,
            sent: self.locks.env.clock.now(),
            ops: ops.to_vec(),
            flocks,
            open_change,
        };
        (keeps, Box::new(sent))
    }
}

impl Sent for OnTheWay {
    fn arrived(&mut self, reply: &Result<Reply, RpcError>) {
        let Ok(reply) = reply else {
            // Whether it was done is unknown; for that case see `Drop`.
            return;
        };
        self.open_change = false;
        self.locks.flocks.lock().learn(&self.ops, &reply.results, &self.flocks);
        let table = &mut *self.locks.table.lock();
        let held = table.arrived(self.mdt, self.ticket, &reply.grants);
        for op in &self.ops {
            if let MdsOp::GetattrMany(GetattrMany { fids, pause: true }) = op {
                let covered = |fid: &Fid| table::bits_of(&held, *fid).contains(InodeBits::UPDATE);
                let came = fids.iter().copied().filter(covered);
                let times = (self.sent, self.locks.env.clock.now());
                self.locks.paused.lock().came(came, times);
            }
        }
        for (op, result) in self.ops.iter().zip(&reply.results) {
            let result: Result<&MdsReply, Errno> = match result {
                Ok(OpReply::Mds(reply)) => Ok(reply),
                Ok(_) => continue,
                Err(errno) => Err(*errno),
            };
            learn::learn(table, op, result, &reply.touched, &held);
        }
        for result in &reply.results {
            if let Ok(OpReply::Mds(MdsReply::Removed(Removed { fid, nlink: 0 }))) = result
                && reply
                    .grants
                    .iter()
                    .any(|grant| grant.fid == *fid && grant.bits.contains(InodeBits::OPEN))
                && !table::bits_of(&held, *fid).contains(InodeBits::OPEN)
            {
                table.note_untaken_open(*fid);
            }
            if let Ok(OpReply::Mds(MdsReply::Extents { entry, ranges, write })) = result {
                for range in ranges {
                    table.arrived_extent(
                        self.mdt,
                        self.ticket,
                        entry,
                        Extent { range: *range, write: *write },
                    );
                }
            }
        }
        if let Some(gap) = &reply.gap {
            table.arrived_gap(self.mdt, self.ticket, gap);
        }
        for entry in &reply.touched {
            table.learn_entry(entry, table::bits_of(&held, entry.attr.fid));
        }
        let outdated = table.outdated();
        if !outdated.is_empty() {
            let pending = Pending { invalidations: outdated, _sending: self.locks.sending.begin() };
            self.locks.send_later(pending);
        }
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let mut table = self.locks.table.lock();
        if self.open_change {
            self.ops.iter().for_each(|op| learn::unsure(&mut table, op));
        }
        for (dir, name) in self.ops.iter().filter_map(MdsOp::name_made) {
            table.gate(dir.mdt()).made(dir, name.clone(), !self.open_change);
        }
        let mut names = self.ops.iter().flat_map(MdsOp::names_changed).peekable();
        let changes_names = names.peek().is_some();
        names.for_each(|(dir, name)| table.end_change(dir, name));
        table.gate(self.mdt).came_back(self.ticket);
        drop(table);
        if changes_names {
            self.locks.names_changed.notify_waiters();
        }
        if self.open_change {
            self.locks.send_pending_later();
        }
    }
}
