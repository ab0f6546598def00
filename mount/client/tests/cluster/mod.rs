//! MGS, MDT and OSTs in memory, behind the real `rpc`: just enough of them to see the client's
//! requests and their order, and to let them fail or wait. The behaviour of the real servers is
//! tested with the real servers.

use bytes::Bytes;
use client::client::{Client, ClientOptions};
use env::real::{RealConfig, RealEnv, RealGuard};
use env::{BoxFuture, Env};
use layout::layout::{Component, EOF, Layout, Pattern};
use parking_lot::Mutex;
use rpc::service::{Export, Gone, Service};
use rpc::{Rpc, RpcConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{oneshot, watch};
use types::attr::{AccessTimes, Attr, FileType, Statfs};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, FlockKind, InodeBits, LeaseMode};
use types::name::Name;
use types::nid::Nid;
use types::object::ObjectId;
use types::session::{ClusterId, OpenHandle, Transno};
use types::target::{FsName, TargetIndex, TargetKind, TargetName};
use types::time::Timestamp;
use wire::client::{ClientOp, ClientReply};
use wire::mds::{
    Close, Create, CreateKind, DirEntry, Entry, Expect, FlockCancel, GetLayout, GetParent, Getattr,
    GetattrMany, Getxattr, Lease, LeaseAct, Link, Listxattr, Lock, Lookup, MdsOp, MdsReply, Open,
    Readdir, Readlink, Removed, Rename, Rmdir, Setattr, Unlink, Wrote,
};
use wire::message::{ConnectReply, ConnectRequest, Grant, Op, OpReply, Reply, Request};
use wire::mgs::{FsConfig, MgsOp, MgsReply, TargetInfo};
use wire::ost::{
    GrantSpace, ObjectGetattr, ObjectPunch, ObjectRead, ObjectSeek, ObjectWrite, OstOp, OstReply,
    PunchKind,
};

pub const STRIPE: u64 = 64 << 10;
const CLUSTER: ClusterId = ClusterId(77);

/// Everything the fake servers have.
pub struct World {
    pub state: Mutex<State>,
    /// While true, OST writes wait.
    pub hold_writes: watch::Sender<bool>,
    /// Requests of these names are served, but their answers wait.
    held: watch::Sender<BTreeSet<&'static str>>,
    /// Requests for locks are answered when this is over.
    pub hold_locks: watch::Sender<bool>,
    /// Everything that may be granted is.
    pub grants: AtomicBool,
    /// The mount's records at the MDTs, by index, for callbacks.
    pub exports: Mutex<BTreeMap<u16, Arc<Export>>>,
    /// MDTs of the file system.
    mdts: u16,
    /// While true, leases were given, but the answers wait.
    pub hold_leases: watch::Sender<bool>,
    /// While true, opens and creates have happened, but their answers wait.
    pub hold_opens: watch::Sender<bool>,
    /// While true, OSTs do not answer how large an object is.
    pub hold_counts: watch::Sender<bool>,
    pub boot: Mutex<u64>,
}

#[derive(Default)]
pub struct State {
    pub inodes: BTreeMap<Fid, Inode>,
    pub objects: BTreeMap<ObjectId, Vec<u8>>,
    pub open: BTreeMap<u64, Fid>,
    next: u32,
    /// The requests, in order.
    pub log: Vec<String>,
    /// OST that answers EIO to writes and punches.
    pub broken_ost: Option<u16>,
    /// The lock that is held, and the request that waits.
    pub lock: Option<Flock>,
    waiting: Vec<(Flock, oneshot::Sender<Result<(), Errno>>)>,
    /// Stripes of new files.
    pub stripes: u16,
    /// New components wait for the first write.
    pub lazy_layout: bool,
    /// OSTs grant no space: every write goes through.
    pub stingy: bool,
    /// The MDT commits only when it is asked to.
    pub commits_late: bool,
    /// Newest change of attributes, and up to which one all are durable.
    changes: Transno,
    durable: Transno,
    /// OSTs answer a write as if it had come a second time: it grows nothing.
    pub answers_again: bool,
    /// Another client has everything open that is removed.
    pub open_elsewhere: bool,
    /// What the operations of the request under way must find.
    expected: Vec<Expect>,
    /// The client holds OPEN of everything that it removes.
    pub holds_open_of_removed: bool,
    /// The locks that were asked for, in order.
    pub locks: Vec<Lock>,
    /// Leases by inode and open file.
    pub leases: BTreeMap<(Fid, u64), LeaseMode>,
}

pub struct Inode {
    pub attr: Attr,
    pub names: BTreeMap<Name, Fid>,
    pub layout: Arc<Layout>,
}

fn attr(fid: Fid, mode: u32) -> Attr {
    let now = Timestamp::default();
    Attr {
        fid,
        mode,
        uid: 0,
        gid: 0,
        nlink: 1,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        version: 1,
    }
}

fn layout(stripes: u16, instantiated: bool) -> Arc<Layout> {
    let osts = if instantiated { stripes } else { 0 };
    let component = Component {
        id: 1,
        start: 0,
        end: EOF,
        pattern: Pattern::Raid0,
        stripe_size: STRIPE as u32,
        stripe_count: stripes,
        overstriped: false,
        pool: None,
        stripes: (0..osts).map(TargetIndex).collect(),
        wanted: Vec::new(),
    };
    let generation = 1 + u32::from(instantiated);
    Arc::new(Layout { generation, components: vec![component], ..Layout::default() })
}

impl State {
    fn entry(&self, fid: Fid) -> Result<Box<Entry>, Errno> {
        let inode = self.inodes.get(&fid).ok_or(Errno::ESTALE)?;
        Ok(Box::new(Entry { attr: inode.attr, has_xattr: false, noatime: false }))
    }

    fn inode(&mut self, fid: Fid) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&fid).ok_or(Errno::ESTALE)
    }

    fn open(&mut self, fid: Fid, created: bool) -> Result<MdsReply, Errno> {
        let (entry, layout) = (self.entry(fid)?, self.inode(fid)?.layout.clone());
        self.next += 1;
        self.open.insert(u64::from(self.next), fid);
        Ok(MdsReply::Opened {
            entry,
            created,
            handle: OpenHandle(u64::from(self.next)),
            layout: Some(layout),
        })
    }

    /// What was expected of these names must be so.
    fn expect<const N: usize>(&mut self, places: [(Fid, &Name); N]) -> Result<(), Errno> {
        let expected = std::mem::take(&mut self.expected);
        let is_so = |expect: &Expect| {
            let asked = places.contains(&(expect.parent, &expect.name));
            let found = self.inodes.get(&expect.parent).and_then(|dir| dir.names.get(&expect.name));
            asked && found == Some(&expect.inode)
        };
        if expected.iter().all(is_so) { Ok(()) } else { Err(Errno::ESTALE) }
    }

    fn mds(&mut self, op: MdsOp) -> Result<MdsReply, Errno> {
        Ok(match op {
            MdsOp::Lookup(Lookup { parent, name }) => {
                let fid = *self.inode(parent)?.names.get(&name).ok_or(Errno::ENOENT)?;
                if fid.mdt() != parent.mdt() {
                    return Ok(MdsReply::Remote { fid, file_type: FileType::Directory });
                }
                MdsReply::Entry(self.entry(fid)?)
            }
            MdsOp::GetParent(GetParent { fid }) if fid.mdt() != 0 => {
                MdsReply::Remote { fid: Fid::ROOT, file_type: FileType::Directory }
            }
            MdsOp::GetParent(_) => MdsReply::Entry(self.entry(Fid::ROOT)?),
            MdsOp::Getattr(Getattr { fid }) => MdsReply::Entry(self.entry(fid)?),
            MdsOp::Lock(lock) => {
                let entry = self.entry(lock.fid)?;
                self.locks.push(lock);
                MdsReply::Entry(entry)
            }
            MdsOp::Setattr(Setattr { fid, set }) => {
                let inode = self.inode(fid)?;
                if inode.attr.is_dir() && set.size.is_some() {
                    return Err(Errno::EISDIR);
                }
                inode.attr.size = set.size.unwrap_or(inode.attr.size);
                inode.attr.version += 1;
                self.changes = Transno(self.changes.0 + 1);
                if !self.commits_late {
                    self.durable = self.changes;
                }
                MdsReply::Entry(self.entry(fid)?)
            }
            MdsOp::Create(Create { parent, name, kind, mode, exclusive, .. }) => {
                if let Some(fid) = self.inode(parent)?.names.get(&name).copied() {
                    return if exclusive { Err(Errno::EEXIST) } else { self.open(fid, false) };
                }
                self.next += 1;
                let mdt = match &kind {
                    CreateKind::Directory { mdt: Some(mdt) } => mdt.0,
                    _ => parent.mdt(),
                };
                let seq = Fid::SEQ_NORMAL + u64::from(mdt) * Fid::SEQ_WIDTH;
                let fid = Fid { seq, oid: self.next, ver: 0 };
                let file_type = match kind {
                    CreateKind::Regular(_) => FileType::Regular,
                    CreateKind::Directory { .. } => FileType::Directory,
                    CreateKind::Symlink(_) => FileType::Symlink,
                    CreateKind::Special(file_type, _) => file_type,
                };
                let layout = layout(self.stripes, !self.lazy_layout);
                let attr = attr(fid, file_type.mode_bits() | mode);
                self.inodes.insert(fid, Inode { attr, names: BTreeMap::new(), layout });
                self.inode(parent)?.names.insert(name, fid);
                match kind {
                    _ if mdt != parent.mdt() => MdsReply::Remote { fid, file_type },
                    CreateKind::Regular(Some(_)) => self.open(fid, true)?,
                    _ => MdsReply::Opened {
                        entry: self.entry(fid)?,
                        created: true,
                        handle: OpenHandle(0),
                        layout: None,
                    },
                }
            }
            MdsOp::GetattrMany(GetattrMany { fids }) => MdsReply::Attrs(
                fids.iter().map(|fid| self.entry(*fid).ok().map(|entry| *entry)).collect(),
            ),
            MdsOp::Open(Open { fid, .. }) => self.open(fid, false)?,
            MdsOp::Close(Close { handle, .. }) => {
                self.open.remove(&handle.0).ok_or(Errno::EBADF)?;
                MdsReply::Done
            }
            MdsOp::Accessed(_) => MdsReply::Done,
            MdsOp::Expect(expect) => {
                self.expected.push(expect);
                MdsReply::Done
            }
            MdsOp::Rmdir(Rmdir { parent, name }) => {
                self.expect([(parent, &name)])?;
                let fid = self.inode(parent)?.names.remove(&name).ok_or(Errno::ENOENT)?;
                self.inodes.remove(&fid);
                MdsReply::Removed(Removed { fid, nlink: 0 })
            }
            MdsOp::Unlink(Unlink { parent, name }) => {
                self.expect([(parent, &name)])?;
                let fid = self.inode(parent)?.names.remove(&name).ok_or(Errno::ENOENT)?;
                if !self.open_elsewhere {
                    self.inodes.remove(&fid);
                }
                MdsReply::Removed(Removed { fid, nlink: 0 })
            }
            MdsOp::Rename(Rename { parent, new_parent, .. })
                if parent.mdt() != new_parent.mdt() =>
            {
                return Err(Errno::EXDEV);
            }
            MdsOp::Rename(Rename { parent, name, new_parent, new_name, .. }) => {
                self.expect([(parent, &name), (new_parent, &new_name)])?;
                let fid = self.inode(parent)?.names.remove(&name).ok_or(Errno::ENOENT)?;
                let replaced = self.inode(new_parent)?.names.insert(new_name, fid);
                if let Some(replaced) = replaced {
                    self.inodes.remove(&replaced);
                }
                MdsReply::Removed(Removed { fid: replaced.unwrap_or(Fid::NONE), nlink: 0 })
            }
            MdsOp::Link(Link { fid, new_parent, new_name }) => {
                let attr = &mut self.inode(fid)?.attr;
                attr.nlink += 1;
                attr.version += 1;
                self.inode(new_parent)?.names.insert(new_name, fid);
                MdsReply::Entry(self.entry(fid)?)
            }
            MdsOp::Readdir(Readdir { fid, after, limit, with_attr, .. }) => {
                let names = self.inode(fid)?.names.clone();
                let mut rest =
                    names.into_iter().filter(|(name, _)| after.as_ref().is_none_or(|a| name > a));
                let mut entries = Vec::new();
                for (name, to) in rest.by_ref().take(limit as usize) {
                    let entry = *self.entry(to)?;
                    let file_type = entry.attr.file_type();
                    let entry = (with_attr && to.mdt() == fid.mdt()).then_some(entry);
                    entries.push(DirEntry { name, fid: to, file_type, entry, layout: None });
                }
                MdsReply::Entries { entries, more: rest.next().is_some() }
            }
            MdsOp::GetLayout(GetLayout { fid, write, .. }) => {
                let stripes = self.stripes;
                let inode = self.inode(fid)?;
                if write {
                    inode.layout = layout(stripes, true);
                }
                MdsReply::Layout(inode.layout.clone())
            }
            MdsOp::Wrote(Wrote { fid, end, blocks_delta, .. }) => {
                let attr = &mut self.inode(fid)?.attr;
                attr.size = attr.size.max(end);
                attr.version += 1;
                attr.blocks = attr.blocks.saturating_add_signed(blocks_delta);
                MdsReply::Entry(self.entry(fid)?)
            }
            MdsOp::Getxattr(_) => return Err(Errno::ENODATA),
            MdsOp::Listxattr(_) => MdsReply::Bytes(Bytes::new()),
            MdsOp::Readlink(_) => MdsReply::Bytes(Bytes::from_static(b"target")),
            MdsOp::Unlock(_) => MdsReply::Done,
            MdsOp::Statfs => {
                MdsReply::Statfs(Statfs { files_total: 100, files_free: 90, ..Statfs::default() })
            }
            MdsOp::Sync => {
                self.durable = self.changes;
                MdsReply::Done
            }
            MdsOp::FlockTest(_) => MdsReply::Flock(self.lock),
            MdsOp::FlockCancel(FlockCancel { lock, .. }) => {
                let waiting = std::mem::take(&mut self.waiting);
                for (wanted, sender) in waiting {
                    if wanted.owner == lock.owner {
                        let _ = sender.send(Err(Errno::EINTR));
                    } else {
                        self.waiting.push((wanted, sender));
                    }
                }
                MdsReply::Done
            }
            MdsOp::Lease(Lease { fid, owner, act }) => MdsReply::Lease(match act {
                LeaseAct::Acquire(mode) => {
                    self.leases.insert((fid, owner), mode);
                    Some(mode)
                }
                LeaseAct::Check => self.leases.get(&(fid, owner)).copied(),
                LeaseAct::Release => self.leases.remove(&(fid, owner)),
            }),
            other => panic!("the fake MDT does not know {other:?}"),
        })
    }

    /// `Err` carries what to wait for.
    fn flock(
        &mut self,
        lock: Flock,
        wait: bool,
    ) -> Result<Result<(), Errno>, oneshot::Receiver<Result<(), Errno>>> {
        match (lock.kind, self.lock) {
            (FlockKind::Unlock, held) => {
                if held.is_some_and(|held| held.owner == lock.owner) {
                    self.lock = None;
                    if !self.waiting.is_empty() {
                        let (next, sender) = self.waiting.remove(0);
                        self.lock = Some(next);
                        let _ = sender.send(Ok(()));
                    }
                }
                Ok(Ok(()))
            }
            (_, Some(held)) if held.owner != lock.owner => {
                if !wait {
                    return Ok(Err(Errno::EAGAIN));
                }
                let (sender, receiver) = oneshot::channel();
                self.waiting.push((lock, sender));
                Err(receiver)
            }
            _ => {
                self.lock = Some(lock);
                Ok(Ok(()))
            }
        }
    }

    fn ost(&mut self, index: u16, op: OstOp) -> Result<OstReply, Errno> {
        if self.broken_ost == Some(index) && matches!(op, OstOp::Write(_) | OstOp::Punch(_)) {
            return Err(Errno::EIO);
        }
        let blocks = |object: Option<&Vec<u8>>| object.map_or(0, |o| o.len().div_ceil(512)) as i64;
        Ok(match op {
            OstOp::Read(ObjectRead { object, offset, len }) => {
                let bytes = self.objects.get(&object).map_or(&[][..], |o| o);
                let from = (offset.0 as usize).min(bytes.len());
                let to = (from + len as usize).min(bytes.len());
                OstReply::Data(Bytes::copy_from_slice(&bytes[from..to]))
            }
            OstOp::Write(ObjectWrite { object, offset, data, .. }) => {
                let before = blocks(self.objects.get(&object));
                let bytes = self.objects.entry(object).or_default();
                let (from, to) = (offset.0 as usize, offset.0 as usize + data.len());
                bytes.resize(bytes.len().max(to), 0);
                bytes[from..to].copy_from_slice(&data);
                let grown = blocks(self.objects.get(&object)) - before;
                OstReply::Changed { blocks_delta: if self.answers_again { 0 } else { grown } }
            }
            OstOp::Punch(ObjectPunch { object, start, end, kind }) => {
                let before = blocks(self.objects.get(&object));
                let (start, end) = (start.0 as usize, end.0 as usize);
                match kind {
                    PunchKind::Truncate => {
                        if let Some(bytes) = self.objects.get_mut(&object) {
                            bytes.truncate(start);
                        }
                    }
                    PunchKind::Hole => {
                        if let Some(bytes) = self.objects.get_mut(&object) {
                            let end = end.min(bytes.len());
                            bytes[start.min(end)..end].fill(0);
                        }
                    }
                    PunchKind::Zero | PunchKind::Allocate => {
                        let bytes = self.objects.entry(object).or_default();
                        bytes.resize(bytes.len().max(end), 0);
                        if kind == PunchKind::Zero {
                            bytes[start..end].fill(0);
                        }
                    }
                }
                OstReply::Changed { blocks_delta: blocks(self.objects.get(&object)) - before }
            }
            // Objects without holes.
            OstOp::Seek(ObjectSeek { object, offset, hole }) => {
                let len = self.objects.get(&object).map_or(0, |o| o.len() as u64);
                let found = if hole { len.max(offset.0) } else { offset.0 };
                OstReply::Offset((offset.0 < len).then_some(types::object::ObjectOffset(found)))
            }
            OstOp::Getattr(ObjectGetattr { object }) => {
                let object = self.objects.get(&object);
                OstReply::Attr {
                    size: object.map_or(0, |o| o.len() as u64),
                    blocks: blocks(object) as u64,
                }
            }
            OstOp::Sync(_) => OstReply::Done,
            OstOp::Grant(GrantSpace { spend, want, .. }) => {
                OstReply::Granted { more: if self.stingy { 0 } else { want }, paid: spend }
            }
            OstOp::Statfs => {
                OstReply::Statfs(Statfs { bytes_total: 1000, bytes_free: 500, ..Statfs::default() })
            }
            other => panic!("the fake OST does not know {other:?}"),
        })
    }

    /// Size and blocks of a file, as the MDT was told.
    pub fn size_and_blocks(&self, fid: Fid) -> (u64, u64) {
        self.inodes.get(&fid).map_or((0, 0), |inode| (inode.attr.size, inode.attr.blocks))
    }

    /// Blocks of a file by its objects.
    pub fn blocks(&self, fid: Fid) -> u64 {
        let of_file = self.objects.iter().filter(|(object, _)| object.fid == fid);
        of_file.map(|(_, bytes)| bytes.len().div_ceil(512) as u64).sum()
    }

    /// Bytes of a file by its objects.
    pub fn bytes(&self, fid: Fid) -> usize {
        self.objects
            .iter()
            .filter(|(object, _)| object.fid == fid)
            .map(|(_, bytes)| bytes.len())
            .sum()
    }
}

struct Target {
    name: TargetName,
    world: Arc<World>,
    boot: u64,
}

impl Service for Target {
    fn target(&self) -> TargetName {
        self.name
    }

    fn cluster(&self) -> ClusterId {
        CLUSTER
    }

    fn connect(&self, export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno> {
        if self.name.kind == TargetKind::Mdt {
            self.world.exports.lock().insert(self.name.index.0, export.clone());
        }
        let version = hello.version_max;
        Ok(ConnectReply {
            version,
            cluster: CLUSTER,
            boot: self.boot,
            session: 0,
            last_committed: Transno(0),
            standing: Default::default(),
            squash: types::credentials::SquashNews::silent(self.boot),
        })
    }

    fn handle(self: Arc<Self>, _: Arc<Export>, request: Request) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            let mut results: Vec<Result<OpReply, Errno>> = Vec::new();
            let mut reply = Reply::new(request.xid, Transno(0), Transno(0), Vec::new());
            for op in request.ops {
                let failed = results.last().is_some_and(Result::is_err);
                let asked = op.clone();
                let result = if failed { Err(Errno::ECANCELED) } else { self.one(op).await };
                // A lock that is asked for is always granted.
                let asks = matches!(asked, Op::Mds(MdsOp::Lock(_)));
                if asks {
                    let mut held = self.world.hold_locks.subscribe();
                    held.wait_for(|held| !held).await.expect("the world stands");
                }
                if asks || self.world.grants.load(Ordering::Relaxed) {
                    self.grant(&asked, &result, request.locks, &mut reply);
                }
                results.push(result);
                match &asked {
                    Op::Mds(op) => self.world.unheld(&word(op)).await,
                    Op::Ost(op) => self.world.unheld(&word(op)).await,
                    _ => {}
                }
            }
            if self.name.kind == TargetKind::Mdt {
                let state = self.world.state.lock();
                (reply.transno, reply.last_committed) = (state.changes, state.durable);
            }
            Reply { results, ..reply }
        })
    }

    fn gone(&self, _: &Arc<Export>, _: Gone) {}
}

impl Target {
    /// As docs/locks/protocol.md, "Grants", says where nothing is in the way.
    fn grant(&self, op: &Op, result: &Result<OpReply, Errno>, mask: InodeBits, reply: &mut Reply) {
        let Op::Mds(op) = op else { return };
        let shown = InodeBits::LOOKUP.union(InodeBits::UPDATE);
        let mdt = self.name.index.0;
        let mut give = |fid: Fid, bits: InodeBits| {
            let bits = bits.intersection(mask);
            if !bits.is_empty() && fid.mdt() == mdt {
                reply.grants.push(Grant { fid, bits });
            }
        };
        let state = self.world.state.lock();
        match (op, result) {
            (MdsOp::Lock(Lock { fid, bits, .. }), Ok(_)) => {
                return give(*fid, bits.union(InodeBits::DATA).union(InodeBits::UPDATE));
            }
            (
                MdsOp::Getxattr(Getxattr { fid, .. }) | MdsOp::Listxattr(Listxattr { fid }),
                Ok(_) | Err(Errno::ENODATA),
            ) => {
                return give(*fid, InodeBits::XATTR);
            }
            (MdsOp::GetLayout(GetLayout { fid, .. }), Ok(_)) => {
                return give(*fid, InodeBits::LAYOUT);
            }
            (MdsOp::Readlink(Readlink { fid }), Ok(_)) => return give(*fid, shown),
            (MdsOp::Lookup(Lookup { parent, .. }), Ok(_) | Err(Errno::ENOENT)) => {
                give(*parent, InodeBits::UPDATE)
            }
            (
                MdsOp::Create(Create { parent, .. })
                | MdsOp::Unlink(Unlink { parent, .. })
                | MdsOp::Link(Link { new_parent: parent, .. })
                | MdsOp::Rename(Rename { new_parent: parent, .. }),
                Ok(_),
            ) => {
                give(*parent, InodeBits::UPDATE);
                reply.touched.extend(state.entry(*parent).map(|entry| *entry));
            }
            (
                MdsOp::Readdir(Readdir { fid, .. }),
                Ok(OpReply::Mds(MdsReply::Entries { entries, .. })),
            ) => {
                give(*fid, InodeBits::UPDATE);
                entries.iter().for_each(|listed| give(listed.fid, shown));
            }
            (MdsOp::GetattrMany(_), Ok(OpReply::Mds(MdsReply::Attrs(entries)))) => {
                entries.iter().flatten().for_each(|entry| give(entry.attr.fid, shown));
            }
            _ => {}
        }
        match result {
            Ok(OpReply::Mds(MdsReply::Removed(removed))) if state.holds_open_of_removed => {
                give(removed.fid, InodeBits::OPEN);
            }
            Ok(OpReply::Mds(MdsReply::Entry(entry))) => give(entry.attr.fid, shown),
            Ok(OpReply::Mds(MdsReply::Opened { entry, layout, .. })) => {
                give(entry.attr.fid, shown);
                if layout.is_some() {
                    give(entry.attr.fid, InodeBits::LAYOUT.union(InodeBits::OPEN));
                }
            }
            _ => {}
        }
    }

    async fn one(&self, op: Op) -> Result<OpReply, Errno> {
        match op {
            Op::Mgs(MgsOp::Config { known, .. }) => {
                if known > 0 {
                    std::future::pending::<()>().await;
                }
                let target = |name: TargetName| TargetInfo {
                    name: name.to_string(),
                    nids: vec!["0@lo".to_owned()],
                    boot: 1,
                    up: true,
                };
                let fsname = FsName::default();
                let mdts = (0..self.world.mdts).map(|index| TargetName::mdt(fsname, index));
                let targets = mdts.chain([TargetName::ost(fsname, 0), TargetName::ost(fsname, 1)]);
                let targets = targets.map(target).collect();
                let config =
                    FsConfig { version: 1, cluster: CLUSTER.0, targets, ..FsConfig::default() };
                Ok(OpReply::Mgs(MgsReply::Config(config)))
            }
            Op::Mds(MdsOp::FlockSet(wire::mds::FlockSet { lock, wait, .. })) => {
                self.log(format!("FlockSet {:?}", lock.kind));
                let answer = self.world.state.lock().flock(lock, wait);
                let answer = match answer {
                    Ok(answer) => answer,
                    Err(waiting) => waiting.await.map_err(|_| Errno::EIO)?,
                };
                answer.map(|()| OpReply::Mds(MdsReply::Done))
            }
            Op::Mds(op) => {
                // A part of the operation behind it.
                if !matches!(op, MdsOp::Expect(_)) {
                    match self.name.index.0 {
                        0 => self.log(word(&op)),
                        mdt => self.log(format!("{mdt} {}", word(&op))),
                    }
                }
                let of = op.fid();
                if of != Fid::NONE && of.mdt() != self.name.index.0 {
                    return Err(Errno::EREMOTE);
                }
                let opens = matches!(op, MdsOp::Open(_) | MdsOp::Create(_));
                let leases = matches!(op, MdsOp::Lease(_));
                let answer = self.world.state.lock().mds(op);
                if leases {
                    let mut held = self.world.hold_leases.subscribe();
                    held.wait_for(|held| !held).await.map_err(|_| Errno::EIO)?;
                }
                if opens {
                    let mut held = self.world.hold_opens.subscribe();
                    held.wait_for(|held| !held).await.map_err(|_| Errno::EIO)?;
                }
                answer.map(OpReply::Mds)
            }
            Op::Ost(op) => {
                if matches!(op, OstOp::Write(_)) {
                    let mut held = self.world.hold_writes.subscribe();
                    held.wait_for(|held| !held).await.map_err(|_| Errno::EIO)?;
                }
                self.log(format!("{} {}", self.name.index.0, word(&op)));
                if matches!(op, OstOp::Getattr(_)) {
                    let mut held = self.world.hold_counts.subscribe();
                    held.wait_for(|held| !held).await.map_err(|_| Errno::EIO)?;
                }
                self.world.state.lock().ost(self.name.index.0, op).map(OpReply::Ost)
            }
            other => panic!("{other:?}"),
        }
    }

    fn log(&self, line: String) {
        self.world.state.lock().log.push(line);
    }
}

/// Name of the variant.
fn word(op: &impl std::fmt::Debug) -> String {
    format!("{op:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

impl World {
    /// From now on requests of this name are served, but their answers wait.
    pub fn hold(&self, name: &'static str) {
        self.held.send_modify(|held| {
            held.insert(name);
        });
    }

    /// The answers go out.
    pub fn release(&self, name: &'static str) {
        self.held.send_modify(|held| {
            held.remove(name);
        });
    }

    async fn unheld(&self, name: &str) {
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held.contains(name)).await.expect("the world stands");
    }
}

/// A mounted client and its fake servers.
pub struct Cluster {
    pub world: Arc<World>,
    pub client: Arc<Client>,
    pub env: Env,
    pub rpc: Arc<Rpc>,
    _guard: Option<RealGuard>,
}

impl Cluster {
    pub async fn mounted() -> Cluster {
        Cluster::mounted_as(true).await
    }

    /// `opens`: the kernel reports opens and closes.
    pub async fn mounted_as(opens: bool) -> Cluster {
        let (env, guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        Cluster { _guard: Some(guard), ..Cluster::mounted_in(env, opens).await }
    }

    /// With so many MDTs, which grant whatever may be granted.
    pub async fn mounted_with_mdts(mdts: u16) -> Cluster {
        let (env, guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let cluster = Cluster::mounted_on(env, true, mdts).await;
        cluster.world.grants.store(true, Ordering::Relaxed);
        Cluster { _guard: Some(guard), ..cluster }
    }

    /// `opens`: the kernel reports opens and closes.
    pub async fn mounted_in(env: Env, opens: bool) -> Cluster {
        Cluster::mounted_on(env, opens, 1).await
    }

    async fn mounted_on(env: Env, opens: bool, mdts: u16) -> Cluster {
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
        let state = State { stripes: 2, ..State::default() };
        let world = Arc::new(World {
            state: Mutex::new(state),
            hold_writes: watch::Sender::new(false),
            hold_opens: watch::Sender::new(false),
            held: watch::Sender::default(),
            hold_locks: watch::Sender::new(false),
            hold_leases: watch::Sender::new(false),
            hold_counts: watch::Sender::new(false),
            grants: AtomicBool::new(false),
            exports: Mutex::default(),
            mdts,
            boot: Mutex::new(1),
        });
        let root = Inode {
            attr: attr(Fid::ROOT, libc::S_IFDIR | 0o755),
            names: BTreeMap::new(),
            layout: Arc::default(),
        };
        world.state.lock().inodes.insert(Fid::ROOT, root);
        let fsname = FsName::default();
        let mdts = (0..mdts).map(|index| TargetName::mdt(fsname, index));
        let others = [TargetName::mgs(), TargetName::ost(fsname, 0), TargetName::ost(fsname, 1)];
        for name in mdts.chain(others) {
            rpc.add_service(Arc::new(Target { name, world: world.clone(), boot: 1 }));
        }
        let description = "test".to_owned();
        let options = ClientOptions {
            opens,
            access_times: AccessTimes::default(),
            nodiratime: false,
            mgs: vec![Nid::Loopback],
            fsname,
            description,
            soft: false,
        };
        let client = Client::mount(env.clone(), rpc.clone(), options).await.unwrap();
        world.state.lock().log.clear();
        Cluster { world, client, env, rpc, _guard: None }
    }

    /// The MDT restarts: the same inodes, no open handles.
    pub fn restart_mdt(&self) {
        self.restart_mdt_at(0);
    }

    /// As [`Cluster::restart_mdt`], of one of several.
    pub fn restart_mdt_at(&self, index: u16) {
        let name = TargetName::mdt(FsName::default(), index);
        self.rpc.remove_service(name);
        self.world.state.lock().open.retain(|_, fid| fid.mdt() != index);
        let boot = {
            let mut boot = self.world.boot.lock();
            *boot += 1;
            *boot
        };
        self.rpc.add_service(Arc::new(Target { name, world: self.world.clone(), boot }));
    }

    /// An OST restarts: the same objects, new sessions.
    pub fn restart_ost(&self, index: u16) {
        let name = TargetName::ost(FsName::default(), index);
        self.rpc.remove_service(name);
        self.rpc.add_service(Arc::new(Target { name, world: self.world.clone(), boot: 2 }));
    }

    /// The MDT asks the mount something.
    pub async fn callback(&self, op: ClientOp) -> ClientReply {
        self.callback_of(0, op).await
    }

    /// As [`Cluster::callback`], of one of several.
    pub async fn callback_of(&self, mdt: u16, op: ClientOp) -> ClientReply {
        let export = self.world.exports.lock().get(&mdt).cloned().expect("mounted");
        export.callback(op).await.expect("the mount answers")
    }

    /// Another client takes the file's data and changes its size.
    pub async fn resize_elsewhere(&self, fid: Fid, size: u64) {
        let all = InodeBits::DATA.union(InodeBits::UPDATE).union(InodeBits::WRITE);
        self.callback(ClientOp::Revoke { locks: vec![(fid, all)] }).await;
        let mut state = self.world.state.lock();
        let attr = &mut state.inodes.get_mut(&fid).expect("a file").attr;
        attr.size = size;
        attr.version += 1;
    }

    /// The requests since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.world.state.lock().log)
    }
}
