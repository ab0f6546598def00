//! Typed calls to a metadata target. Those of other MDTs are in [`peers`]; how a request is sent is
//! in `request`.

pub mod peers;
mod request;

pub use self::request::{Sent, Watch};

use crate::misfit::unexpected;
use crate::tickets::TicketKeeper;
use bytes::Bytes;
use layout::layout::Layout;
use rpc::error::RpcError;
use rpc::import::Import;
use std::sync::Arc;
use types::attr::{SetAttr, Statfs};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, InodeBits, LeaseMode};
use types::name::Name;
use types::object_ticket::ObjectTicket;
use types::ranges::{ByteRange, Needs};
use types::session::OpenHandle;
use wire::mds::{
    AskTickets, Close, Create, DirEntry, Entry, Expect, FlockCancel, FlockSet, FlockTest,
    GetLayout, GetParent, Getattr, GetattrMany, Getxattr, GrantSpace, Lease, LeaseAct, Link,
    Listxattr, Lock, Lookup, MdsOp, MdsReply, Mend, Open, OpenFlags, Punch, Read, Readdir,
    Readlink, Record, Removed, Removexattr, Root, Scan, Seek, Setattr, Setxattr, Store,
    SwapLayouts, Tmpfile, Unlink, Wrote,
};

/// An inode that was opened or made.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// The inode.
    pub entry: Entry,
    /// Made by this call, not found.
    pub created: bool,
    /// Handle to close; 0 if not opened.
    pub handle: OpenHandle,
    /// Layout of the file, if opened.
    pub layout: Option<Arc<Layout>>,
}

/// The result of storing bytes of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Granted on top, bytes.
    pub more: u64,
    /// The inode; or why the bytes are not stored.
    pub entry: Result<Entry, Errno>,
    /// Whether all of it is durable, if that was asked for.
    pub durable: Result<(), Errno>,
}

impl Stored {
    /// The operations that store bytes of a file, paid with `spend` granted bytes, and ask for
    /// `want` more. `durable`: they, and all that the MDT answered before, are durable with the
    /// answer.
    pub fn ops((spend, want): (u64, u64), store: Store, durable: bool) -> Vec<MdsOp> {
        let grant = MdsOp::Grant(GrantSpace { spend, back: 0, want });
        let ops = [grant, MdsOp::Store(store)].into_iter();
        ops.chain(durable.then_some(MdsOp::Sync)).collect()
    }
}

/// What an MDT answers about an inode that a name leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Located<T> {
    /// The MDT has the inode itself.
    Here(T),
    /// Another MDT has it, and is to be asked.
    Elsewhere(Fid),
}

/// A directory on the way to the root of a mount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnTheWay {
    /// The directory.
    pub fid: Fid,
    /// Names on the way to it.
    pub walked: u32,
    /// The first so many of them are those of the fileset.
    pub fileset: u32,
    /// It is the root; else its MDT goes on.
    pub is_root: bool,
    /// This client may change nothing.
    pub read_only: bool,
}

/// Client of one MDT.
#[derive(Clone)]
pub struct Mdc {
    import: Arc<Import>,
    watch: Option<Arc<dyn Watch>>,
    tickets: Option<Arc<dyn TicketKeeper>>,
}

impl Mdc {
    /// Over this session.
    pub fn new(import: Arc<Import>) -> Mdc {
        Mdc { import, watch: None, tickets: None }
    }

    /// Over this session; `watch` sees all requests.
    pub fn watched(import: Arc<Import>, watch: Arc<dyn Watch>) -> Mdc {
        Mdc { import, watch: Some(watch), tickets: None }
    }

    /// The same, which asks for the tickets that this keeper wants.
    #[must_use]
    pub fn with_tickets(self, keeper: Arc<dyn TicketKeeper>) -> Mdc {
        Mdc { tickets: Some(keeper), ..self }
    }

    /// The session.
    pub fn import(&self) -> &Arc<Import> {
        &self.import
    }

    /// Tickets for the objects of files, and for how long they are good, seconds.
    ///
    /// # Errors
    /// Only if the request as a whole was refused, or got no answer.
    pub async fn tickets(
        &self,
        credentials: &Credentials,
        asked: AskTickets,
    ) -> Result<(u32, Vec<Result<ObjectTicket, Errno>>), RpcError> {
        let count = asked.fids.len();
        match self.call(credentials, MdsOp::AskTickets(asked)).await? {
            MdsReply::Tickets { life, tickets } if tickets.len() == count => Ok((life, tickets)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Asks for a grant of up to `want` bytes for bytes of files on the MDT, and gives `back` some:
    /// how many more were granted.
    pub async fn grant(&self, back: u64, want: u64) -> Result<u64, RpcError> {
        let op = MdsOp::Grant(GrantSpace { spend: 0, back, want });
        match self.call(&Credentials::root(), op).await? {
            MdsReply::Granted { more, .. } => Ok(more),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Reads the results of [`Stored::ops`].
    ///
    /// # Errors
    /// The payment was refused.
    pub fn stored(&self, results: Vec<Result<MdsReply, Errno>>) -> Result<Stored, RpcError> {
        let mut results = results.into_iter();
        let more = match results.next() {
            Some(Ok(MdsReply::Granted { more, .. })) => more,
            Some(Err(errno)) => return Err(RpcError::Errno(errno)),
            other => return Err(unexpected(&self.import, &other)),
        };
        let entry = match results.next() {
            Some(Ok(MdsReply::Entry(entry))) => Ok(*entry),
            Some(Err(errno)) => Err(errno),
            other => return Err(unexpected(&self.import, &other)),
        };
        let durable = match results.next() {
            None | Some(Ok(MdsReply::Done)) => Ok(()),
            Some(Err(errno)) => Err(errno),
            other => return Err(unexpected(&self.import, &other)),
        };
        Ok(Stored { more, entry, durable })
    }

    /// Finds a name.
    pub async fn lookup(
        &self,
        credentials: &Credentials,
        parent: Fid,
        name: Name,
    ) -> Result<Located<Entry>, RpcError> {
        self.located(credentials, MdsOp::Lookup(Lookup { parent, name })).await
    }

    async fn located(
        &self,
        credentials: &Credentials,
        op: MdsOp,
    ) -> Result<Located<Entry>, RpcError> {
        match self.call(credentials, op).await? {
            MdsReply::Entry(e) => Ok(Located::Here(*e)),
            MdsReply::Remote { fid, .. } => Ok(Located::Elsewhere(fid)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// The directory that is the root of a mount, or one on the way to it; with its attributes, if
    /// this MDT has it.
    pub async fn root(
        &self,
        credentials: &Credentials,
        root: Root,
    ) -> Result<(OnTheWay, Option<Entry>), RpcError> {
        let ops = vec![MdsOp::Root(root), MdsOp::Getattr(Getattr::of(Fid::result_of(0)))];
        let mut results = self.ask(credentials, ops).await?.into_iter();
        let next = match results.next() {
            Some(result) => match result? {
                MdsReply::Root { fid, walked, fileset, is_root, read_only } => {
                    OnTheWay { fid, walked, fileset, is_root, read_only }
                }
                other => return Err(unexpected(&self.import, &other)),
            },
            None => return Err(unexpected(&self.import, &"no result")),
        };
        match results.next() {
            Some(Ok(MdsReply::Entry(entry))) => Ok((next, Some(*entry))),
            // Another MDT has it.
            _ => Ok((next, None)),
        }
    }

    /// Parent of a directory.
    pub async fn get_parent(
        &self,
        credentials: &Credentials,
        fid: Fid,
    ) -> Result<Located<Entry>, RpcError> {
        self.located(credentials, MdsOp::GetParent(GetParent { fid })).await
    }

    /// Attributes.
    pub async fn getattr(&self, credentials: &Credentials, fid: Fid) -> Result<Entry, RpcError> {
        self.getattr_as(credentials, Getattr::of(fid)).await
    }

    /// Attributes for a read that no lock covers ([`Getattr::stored`]).
    pub async fn getattr_stored(
        &self,
        credentials: &Credentials,
        fid: Fid,
    ) -> Result<Entry, RpcError> {
        self.getattr_as(credentials, Getattr { fid, stored: true }).await
    }

    async fn getattr_as(
        &self,
        credentials: &Credentials,
        getattr: Getattr,
    ) -> Result<Entry, RpcError> {
        match self.call(credentials, MdsOp::Getattr(getattr)).await? {
            MdsReply::Entry(e) => Ok(*e),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Attributes of many inodes, in order; `None`: it could not be read.
    pub async fn getattr_many(
        &self,
        credentials: &Credentials,
        fids: Vec<Fid>,
    ) -> Result<Vec<Option<Entry>>, RpcError> {
        self.getattr_many_as(credentials, GetattrMany::of(fids)).await
    }

    /// The same of files that a program is about to look at: other clients that are writing them
    /// stop for that.
    pub async fn getattr_paused(
        &self,
        credentials: &Credentials,
        fids: Vec<Fid>,
    ) -> Result<Vec<Option<Entry>>, RpcError> {
        self.getattr_many_as(credentials, GetattrMany { fids, pause: true }).await
    }

    async fn getattr_many_as(
        &self,
        credentials: &Credentials,
        many: GetattrMany,
    ) -> Result<Vec<Option<Entry>>, RpcError> {
        match self.call(credentials, MdsOp::GetattrMany(many)).await? {
            MdsReply::Attrs(entries) => Ok(entries),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Changes attributes.
    pub async fn setattr(
        &self,
        credentials: &Credentials,
        fid: Fid,
        set: SetAttr,
    ) -> Result<Entry, RpcError> {
        match self.call(credentials, MdsOp::Setattr(Setattr { fid, set })).await? {
            MdsReply::Entry(e) => Ok(*e),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Makes an inode and its name; regular files may be opened at once.
    pub async fn create(&self, credentials: &Credentials, op: Create) -> Result<Opened, RpcError> {
        match self.call(credentials, MdsOp::Create(op)).await? {
            MdsReply::Opened { entry, created, handle, layout } => {
                Ok(Opened { entry: *entry, created, handle, layout })
            }
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// As [`Mdc::create`], of what is not opened. A directory may be made at another MDT: it comes
    /// without locks then.
    pub async fn make(&self, credentials: &Credentials, op: Create) -> Result<Entry, RpcError> {
        match self.call(credentials, MdsOp::Create(op)).await? {
            MdsReply::Opened { entry, .. } => Ok(*entry),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Makes an open regular file without a name; with `linkable` it may get one.
    pub async fn tmpfile(
        &self,
        credentials: &Credentials,
        op: Tmpfile,
    ) -> Result<Opened, RpcError> {
        match self.call(credentials, MdsOp::Tmpfile(op)).await? {
            MdsReply::Opened { entry, created, handle, layout } => {
                Ok(Opened { entry: *entry, created, handle, layout })
            }
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Holds an inode open.
    pub async fn open(
        &self,
        credentials: &Credentials,
        fid: Fid,
        flags: OpenFlags,
    ) -> Result<Opened, RpcError> {
        match self.call(credentials, MdsOp::Open(Open { fid, flags })).await? {
            MdsReply::Opened { entry, created, handle, layout } => {
                Ok(Opened { entry: *entry, created, handle, layout })
            }
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Lets an open inode go.
    pub async fn close(
        &self,
        credentials: &Credentials,
        fid: Fid,
        handle: OpenHandle,
    ) -> Result<(), RpcError> {
        match self.call(credentials, MdsOp::Close(Close { fid, handle })).await? {
            MdsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Removes a name that is no directory.
    pub async fn unlink(
        &self,
        credentials: &Credentials,
        parent: Fid,
        name: Name,
    ) -> Result<Removed, RpcError> {
        match self.call(credentials, MdsOp::Unlink(Unlink { parent, name })).await? {
            MdsReply::Removed(r) => Ok(r),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Removes or moves a name (`Unlink`, `Rmdir`, `Rename`), if names lead where they are expected
    /// to; else ESTALE.
    pub async fn take(
        &self,
        credentials: &Credentials,
        expected: Vec<Expect>,
        op: MdsOp,
    ) -> Result<Removed, RpcError> {
        let ops = expected.into_iter().map(MdsOp::Expect).chain([op]).collect();
        match self.ask(credentials, ops).await?.pop() {
            Some(Ok(MdsReply::Removed(removed))) => Ok(removed),
            Some(Ok(other)) => Err(unexpected(&self.import, &other)),
            Some(Err(errno)) => Err(errno.into()),
            None => Err(unexpected(&self.import, &"no result")),
        }
    }

    /// Gives an inode a second name.
    pub async fn link(&self, credentials: &Credentials, op: Link) -> Result<Entry, RpcError> {
        match self.call(credentials, MdsOp::Link(op)).await? {
            MdsReply::Entry(e) => Ok(*e),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Entries after a name; whether there are more.
    pub async fn readdir(
        &self,
        credentials: &Credentials,
        op: Readdir,
    ) -> Result<(Vec<DirEntry>, bool), RpcError> {
        self.entries(credentials, op).await
    }

    /// As [`Mdc::readdir`], of which nothing may be kept: no lock comes with the entries. So a
    /// program that walks through everything drives no useful lock out.
    pub async fn dir_scan(
        &self,
        credentials: &Credentials,
        op: Readdir,
    ) -> Result<(Vec<DirEntry>, bool), RpcError> {
        Mdc::new(self.import.clone()).entries(credentials, op).await
    }

    async fn entries(
        &self,
        credentials: &Credentials,
        op: Readdir,
    ) -> Result<(Vec<DirEntry>, bool), RpcError> {
        match self.call(credentials, MdsOp::Readdir(op)).await? {
            MdsReply::Entries { entries, more } => Ok((entries, more)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Target of a symbolic link.
    pub async fn readlink(&self, credentials: &Credentials, fid: Fid) -> Result<Bytes, RpcError> {
        match self.call(credentials, MdsOp::Readlink(Readlink { fid })).await? {
            MdsReply::Bytes(b) => Ok(b),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Reads one extended attribute.
    pub async fn getxattr(
        &self,
        credentials: &Credentials,
        fid: Fid,
        name: Bytes,
    ) -> Result<Bytes, RpcError> {
        match self.call(credentials, MdsOp::Getxattr(Getxattr { fid, name })).await? {
            MdsReply::Bytes(b) => Ok(b),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Names of all extended attributes, each with a NUL after it.
    pub async fn listxattr(&self, credentials: &Credentials, fid: Fid) -> Result<Bytes, RpcError> {
        match self.call(credentials, MdsOp::Listxattr(Listxattr { fid })).await? {
            MdsReply::Bytes(b) => Ok(b),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Sets an extended attribute.
    pub async fn setxattr(&self, credentials: &Credentials, op: Setxattr) -> Result<(), RpcError> {
        match self.call(credentials, MdsOp::Setxattr(op)).await? {
            MdsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Removes an extended attribute.
    pub async fn removexattr(
        &self,
        credentials: &Credentials,
        fid: Fid,
        name: Bytes,
    ) -> Result<(), RpcError> {
        match self.call(credentials, MdsOp::Removexattr(Removexattr { fid, name })).await? {
            MdsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Layout, instantiated for a range if it is to be written.
    pub async fn get_layout(
        &self,
        credentials: &Credentials,
        op: GetLayout,
    ) -> Result<Arc<Layout>, RpcError> {
        match self.call(credentials, MdsOp::GetLayout(op)).await? {
            MdsReply::Layout(l) => Ok(l),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Two files exchange their data; `same`: their contents are the same. Versions of 0 are not
    /// compared.
    pub async fn swap_layouts(
        &self,
        credentials: &Credentials,
        op: SwapLayouts,
    ) -> Result<(), RpcError> {
        match self.call(credentials, MdsOp::SwapLayouts(op)).await? {
            MdsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Tells that data was written up to `end`.
    pub async fn wrote(&self, credentials: &Credentials, op: Wrote) -> Result<Entry, RpcError> {
        match self.call(credentials, MdsOp::Wrote(op)).await? {
            MdsReply::Entry(e) => Ok(*e),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Bytes that live on the MDT, cut at the end of the file, and the inode as it was with them.
    pub async fn read(
        &self,
        credentials: &Credentials,
        fid: Fid,
        offset: u64,
        len: u32,
    ) -> Result<(Entry, Bytes), RpcError> {
        match self.call(credentials, MdsOp::Read(Read { fid, offset, len })).await? {
            MdsReply::Data { entry, data } => Ok((*entry, data)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Changes the allocation of bytes that live on the MDT.
    pub async fn punch(&self, credentials: &Credentials, op: Punch) -> Result<Entry, RpcError> {
        match self.call(credentials, MdsOp::Punch(op)).await? {
            MdsReply::Entry(e) => Ok(*e),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Next data or hole among bytes that live on the MDT.
    pub async fn seek(
        &self,
        credentials: &Credentials,
        fid: Fid,
        offset: u64,
        hole: bool,
    ) -> Result<Option<u64>, RpcError> {
        match self.call(credentials, MdsOp::Seek(Seek { fid, offset, hole })).await? {
            MdsReply::Offset(found) => Ok(found),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Waits for locks on data (DATA, or WRITE with DATA and UPDATE); they come with the reply,
    /// which shows the inode. `None`: an extent with the bytes of `needs` came.
    pub async fn lock(
        &self,
        credentials: &Credentials,
        fid: Fid,
        bits: InodeBits,
        needs: Option<ByteRange>,
    ) -> Result<Option<Entry>, RpcError> {
        let needs = needs.map(|range| Needs { range, again: false });
        match self.call(credentials, MdsOp::Lock(Lock { fid, bits, needs })).await? {
            MdsReply::Entry(e) => Ok(Some(*e)),
            MdsReply::Extents { .. } => Ok(None),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Totals.
    pub async fn statfs(&self, credentials: &Credentials) -> Result<Statfs, RpcError> {
        match self.call(credentials, MdsOp::Statfs).await? {
            MdsReply::Statfs(s) => Ok(s),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// All changes so far are durable when this returns.
    pub async fn sync(&self, credentials: &Credentials) -> Result<(), RpcError> {
        match self.call(credentials, MdsOp::Sync).await? {
            MdsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// The lock that stands in the way, if any.
    pub async fn flock_test(
        &self,
        credentials: &Credentials,
        fid: Fid,
        lock: Flock,
    ) -> Result<Option<Flock>, RpcError> {
        match self.call(credentials, MdsOp::FlockTest(FlockTest { fid, lock })).await? {
            MdsReply::Flock(l) => Ok(l),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Takes or releases a lock.
    pub async fn flock_set(
        &self,
        credentials: &Credentials,
        fid: Fid,
        lock: Flock,
        wait: bool,
    ) -> Result<(), RpcError> {
        match self.call(credentials, MdsOp::FlockSet(FlockSet { fid, lock, wait })).await? {
            MdsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Gives up a waiting lock.
    pub async fn flock_cancel(
        &self,
        credentials: &Credentials,
        fid: Fid,
        lock: Flock,
    ) -> Result<(), RpcError> {
        match self.call(credentials, MdsOp::FlockCancel(FlockCancel { fid, lock })).await? {
            MdsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// About the lease of one open file, which this client calls `owner`: the mode that is held
    /// (until now), if it is not broken.
    pub async fn lease(
        &self,
        credentials: &Credentials,
        fid: Fid,
        owner: u64,
        act: LeaseAct,
    ) -> Result<Option<LeaseMode>, RpcError> {
        match self.call(credentials, MdsOp::Lease(Lease { fid, owner, act })).await? {
            MdsReply::Lease(mode) => Ok(mode),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Records of its store with keys in `[start, end)`, about `bytes_max` bytes, and whether there
    /// are more.
    pub async fn scan(
        &self,
        start: Bytes,
        end: Bytes,
        bytes_max: u32,
    ) -> Result<(Vec<Record>, bool), RpcError> {
        match self.call(&Credentials::root(), MdsOp::Scan(Scan { start, end, bytes_max })).await? {
            MdsReply::Records { records, more } => Ok((records, more)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Writes the records of `put` if those of `expect` are as given. ESTALE: they are not.
    pub async fn mend(&self, expect: Vec<Record>, put: Vec<Record>) -> Result<(), RpcError> {
        match self.call(&Credentials::root(), MdsOp::Mend(Mend { expect, put })).await? {
            MdsReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }
}
