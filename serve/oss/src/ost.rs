//! One OST as a service.
//!
//! A request's operations run in order, in place if the caller's thread may block. A reactor runs
//! only operations on warm objects with little data. From the first other operation on, the request
//! goes to a thread that may block.
//!
//! Every change gets a transno from the [`Ledger`] and is answered when it is in the page cache.
//! Clients on the network keep it until it is committed. A flush task, started with the OST and
//! ended by [`Ost::stop`] or when the OST is dropped, syncs everything older than the flush
//! interval, sooner if much was written. It then records how far changes are durable. Clients bring
//! back what a power cut took (`recovery`).

use crate::buffers::Buffers;
use crate::gate::Gates;
use crate::graveyard::Graveyard;
use crate::ledger::{Author, Ledger};
use crate::recovery::{self, Known, Window};
use crate::room::{Payment, Room, Seen, Taken};
use crate::scrub::ScrubState;
use crate::settings::OstSettings;
use crate::streams::Streams;
use crate::sums::{Begun, Sums};
use crate::used::Used;
use disk::object::{BadOstState, STATE_KEY, settled_key};
use env::{BoxFuture, Env};
use parking_lot::{Mutex, RwLock};
use rpc::service::{Export, Gone, Service};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::error::StoreError;
use store::objects::Objects;
use target::Target;
use tokio::sync::{Notify, oneshot};
use types::errno::Errno;
use types::limits::{GRANT_UNIT, OBJECTS_PER_LIST_MAX};
use types::nid::Nid;
use types::object::ObjectId;
use types::proof::Proof;
use types::session::{ClientUuid, ClusterId, Transno};
use types::target::{TargetKind, TargetName};
use wire::message::{ConnectReply, ConnectRequest, Op, OpReply, Redo, Reply, Request, VERSION_MAX};
use wire::ost::{OstOp, OstReply};

/// Data up to this many bytes is copied on a reactor if the object is warm: less than a hand-off to
/// another thread costs.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// The OST cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record is damaged.
    #[error(transparent)]
    State(#[from] BadOstState),
    /// The MGS has not given it a name yet, or it is no OST.
    #[error("{0} holds no OST with a name")]
    NoOst(std::path::PathBuf),
}

/// One object target in service.
pub struct Ost {
    pub(crate) gates: Gates,
    pub(crate) graveyard: Graveyard,
    pub(crate) ledger: Ledger,
    pub(crate) streams: Streams,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) sums: Arc<Sums>,
    pub(crate) scrubbing: ScrubState,
    pub(crate) used: Used,
    room: Arc<Room>,
    pub(crate) settings: OstSettings,
    name: TargetName,
    target: Arc<Target>,
    objects: Arc<Objects>,
    env: Env,
    /// Held for reading by every operation: once it is set, none is at work.
    stopped: RwLock<bool>,
    pub(crate) window: Window,
    /// Changes before this start of the target may have been lost.
    pub(crate) lost_boot: u64,
    pub(crate) kernel_run: u128,
    /// Clients whose changes may not be recorded.
    pub(crate) known: Mutex<BTreeMap<ClientUuid, Known>>,
    /// Evicted clients, and the newest change that may be theirs.
    pub(crate) leavers: Mutex<Vec<(ClientUuid, Transno)>>,
    /// Held while a state is put together, so that an older one never replaces a newer one.
    pub(crate) recording: Mutex<()>,
    /// Much was written.
    pub(crate) flush: Arc<Notify>,
}

impl Ost {
    /// Takes a target into service. `room`: shared by the OSTs that share a volume.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        target: Arc<Target>,
        env: Env,
        settings: OstSettings,
        room: Arc<Room>,
    ) -> Result<Arc<Ost>, StartError> {
        let no_ost = || StartError::NoOst(target.dir().to_owned());
        let name = target.name().filter(|name| name.kind == TargetKind::Ost).ok_or_else(no_ost)?;
        let objects = target.objects().ok_or_else(no_ost)?.clone();
        let kernel_run = env.disk.kernel_run();
        let found = recovery::look(target.store(), kernel_run)?;
        let lost_boot = if found.lossy { target.boot() } else { found.state.lost_boot };
        let window = Window::new(&found, env.clock.now(), settings.recovery_window);
        let ost = Arc::new(Ost {
            gates: Gates::default(),
            graveyard: Graveyard::default(),
            ledger: Ledger::new(target.boot(), found.state.last_committed),
            streams: Streams::default(),
            buffers: Arc::default(),
            sums: Arc::new(Sums::new(target.store())?),
            scrubbing: ScrubState::default(),
            used: Used::default(),
            room,
            settings,
            name,
            target,
            objects,
            env,
            stopped: RwLock::new(false),
            window,
            lost_boot,
            kernel_run,
            known: Mutex::new(recovery::known(&found)),
            leavers: Mutex::default(),
            recording: Mutex::default(),
            flush: Arc::default(),
        });
        if ost.window.is_open() {
            // Opening the object files synced what was left, so nothing older has to be settled.
            // The state is put before any client's record. So no client's change is answered while
            // the state still says that the stop was orderly.
            let mut tx = ost.target.store().begin();
            tx.put(STATE_KEY, &ost.state(ost.ledger.durable(), false).encode());
            found.settled.keys().for_each(|object| tx.delete(&settled_key(*object)));
            tx.finish();
            let recording = ost.clone();
            let record = async move {
                if let Err(errno) = recording.record(false).await {
                    tracing::error!(target = %recording.name, %errno, "what is durable cannot be recorded");
                }
            };
            ost.env.tasks.spawn("ost record", Box::pin(record));
        } else {
            let waits_for = found.clients.len();
            tracing::info!(target = %ost.name, clients = waits_for, "changes may be lost; waiting for who made them");
            ost.env.tasks.spawn("ost recovery", Box::pin(ost.clone().recover_clients()));
        }
        ost.start_flushing();
        ost.start_counting();
        Ok(ost)
    }

    pub(crate) fn name(&self) -> TargetName {
        self.name
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.read()
    }

    /// Syncs everything and ends the flush task. Operations after it fail.
    ///
    /// # Errors
    /// Something is not durable.
    pub async fn stop(self: &Arc<Self>) -> Result<(), Errno> {
        let ost = self.clone();
        let sync = move || {
            *ost.stopped.write() = true;
            ost.sums.end();
            ost.sync_all()?;
            // No change comes any more.
            ost.sums.record_last(ost.target.store(), &ost.objects);
            Ok(())
        };
        let synced = self.blocking("ost stop", sync).await.unwrap_or(Err(Errno::ESHUTDOWN));
        self.window.nudge();
        synced?;
        match self.window.is_open() {
            true => self.record(true).await,
            // The next start recovers.
            false => Ok(self.target.store().commit().await.map(drop)?),
        }
    }

    /// True if it is in service, and everything that clients brought is restored.
    pub fn is_recovered(&self) -> bool {
        self.window.is_open()
    }

    /// Newest transno up to which every change is durable, and recorded to be.
    pub fn last_committed(&self) -> Transno {
        self.ledger.last_committed()
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    pub(crate) fn objects_shared(&self) -> Arc<Objects> {
        self.objects.clone()
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    /// Changes one object under its gate; returns the blocks it grew by, and the change's number.
    /// ENOENT if the object was destroyed. `longer_than`: only if it has more bytes than that; else
    /// nothing happens, and the number is 0. `author` makes the change, with this many bytes of
    /// data.
    pub(crate) fn change(
        &self,
        object: ObjectId,
        longer_than: Option<u64>,
        (author, bytes): (Author, u64),
        apply: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(i64, Transno), Errno> {
        let mut gate = self.gates.change(object);
        if self.graveyard.has(object) {
            return Err(Errno::ENOENT);
        }
        let look = || Ok::<_, Errno>(self.objects.size_and_blocks(object)?);
        let (existed, before) = match gate.filter(|(known, _)| *known == object) {
            Some((_, blocks)) if longer_than.is_none() => (true, blocks),
            known => {
                let found = look()?;
                let (size, blocks) = found.unwrap_or_default();
                if longer_than.is_some_and(|least| size <= least) {
                    return Ok((0, Transno(0)));
                }
                (found.is_some(), known.map_or(blocks, |(_, known)| known))
            }
        };
        let applied = apply();
        // Also after a failure: half of it may have happened.
        let transno = self.ledger.changed(object, author, bytes);
        let found = look()?;
        let after = found.unwrap_or_default().1;
        let grown = after as i64 - before as i64;
        self.used.changed(object, self.objects.upper_folder(object), grown, (found.is_some() && !existed).into());
        *gate = found.is_some().then_some((object, after));
        applied?;
        Ok((grown, transno))
    }

    /// Room to write `[start, start + len)`, until the result is dropped. Overwriting takes none,
    /// however full the volume is.
    pub(crate) fn check_room(
        &self,
        payment: &mut Payment,
        object: ObjectId,
        start: u64,
        len: u64,
    ) -> Result<Option<Taken<'_>>, StoreError> {
        // The local file system gives whole blocks.
        let end = start.saturating_add(len);
        let whole = end.checked_next_multiple_of(GRANT_UNIT).unwrap_or(end) - start / GRANT_UNIT * GRANT_UNIT;
        let refused = match self.room.take(payment, self.env.clock.now(), &self.look(), whole) {
            Err(refused @ StoreError::NoSpace { .. }) => refused,
            other => return other.map(Some),
        };
        match self.objects.seek(object, start, true)? {
            Some(hole) if hole >= end => Ok(None),
            _ => Err(refused),
        }
    }

    fn look(&self) -> impl Fn() -> Result<Seen, StoreError> {
        || {
            let volume = self.env.disk.space(self.target.dir());
            let volume = volume.map_err(StoreError::io("look at the volume of", self.target.dir()))?;
            let (reserved, objects) = (crate::room::reserve(volume.bytes_total), self.objects.space()?);
            let free = volume.bytes_available.saturating_sub(reserved).min(objects.free);
            Ok(Seen { free, total: objects.total, reserved })
        }
    }

    /// Bytes that clients were granted, of all OSTs that share this one's room.
    pub fn granted(&self) -> u64 {
        self.room.granted()
    }

    /// Bytes that data may still take, without what clients were granted.
    pub(crate) fn available(&self) -> Result<u64, StoreError> {
        self.room.available(self.env.clock.now(), &self.look())
    }

    fn apply(&self, op: &OstOp, work: &mut Context) -> Result<(OstReply, Transno), Errno> {
        let stopped = self.stopped.read();
        if *stopped {
            return Err(Errno::ESHUTDOWN);
        }
        if self.ledger.is_full() {
            self.sync_all()?;
            work.record = true;
        }
        let (author, payment) = (work.author, &mut work.payment);
        let unchanged = |reply| Ok((reply, Transno(0)));
        let changed = |(blocks_delta, transno)| (OstReply::Changed { blocks_delta }, transno);
        match op {
            OstOp::Read { object, offset, len } => unchanged(OstReply::Data(self.read(*object, *offset, *len)?)),
            OstOp::Write { object, offset, data, sync } => {
                let written = self.write((author, payment), *object, *offset, data, *sync)?;
                if *sync {
                    work.commit |= self.sync_object(*object)?;
                }
                Ok(changed(written))
            }
            OstOp::Punch { object, start, end, kind } => {
                self.punch((author, payment), *object, *start, *end, *kind).map(changed)
            }
            OstOp::Getattr { object } => {
                let (size, blocks) = self.getattr(*object)?;
                unchanged(OstReply::Attr { size, blocks })
            }
            OstOp::Seek { object, offset, hole } => unchanged(OstReply::Offset(self.seek(*object, *offset, *hole)?)),
            OstOp::Destroy { objects } => {
                let (transno, settled) = self.destroy(objects)?;
                work.commit |= settled;
                Ok((OstReply::Done, transno))
            }
            OstOp::Sync { objects } if objects.is_empty() => {
                work.record = true;
                self.sync_all().and_then(|()| unchanged(OstReply::Done))
            }
            OstOp::Sync { objects } => {
                for object in objects {
                    work.commit |= self.sync_object(*object)?;
                }
                unchanged(OstReply::Done)
            }
            OstOp::Statfs => unchanged(OstReply::Statfs(self.statfs()?)),
            OstOp::List { after, limit } => {
                let limit = (*limit as usize).clamp(1, OBJECTS_PER_LIST_MAX);
                let objects = self.objects.list(*after, limit)?;
                unchanged(OstReply::Objects { more: objects.len() == limit, objects })
            }
            OstOp::Grant { spend, back, want } => {
                let (holder, asked) = ((self.name, author.client), (*spend, *back, *want));
                let (more, paid) = self.room.grant(payment, self.env.clock.now(), &self.look(), holder, asked)?;
                unchanged(OstReply::Granted { more, paid })
            }
        }
    }

    /// True if a reactor may run this itself.
    fn is_quick(&self, op: &OstOp) -> bool {
        !self.ledger.is_full()
            && match op {
                OstOp::Read { object, len, .. } => *len as usize <= INLINE_BYTES_MAX && self.gates.is_warm(*object),
                OstOp::Write { object, data, sync, .. } => {
                    !sync && data.len() <= INLINE_BYTES_MAX && self.gates.is_warm(*object)
                }
                OstOp::Getattr { object } => self.gates.is_warm(*object),
                OstOp::Statfs | OstOp::Grant { .. } => true,
                OstOp::Punch { .. }
                | OstOp::Seek { .. }
                | OstOp::Destroy { .. }
                | OstOp::Sync { .. }
                | OstOp::List { .. } => false,
            }
    }

    /// Runs operations from the front; those that are left need a thread that may block.
    fn run(&self, work: &mut Work, may_block: bool) {
        while let Some(op) = work.ops.as_slice().first() {
            let result = match op {
                _ if work.failed => Err(Errno::ECANCELED),
                Op::Ost(op) if may_block || self.is_quick(op) => self.apply(op, &mut work.context),
                Op::Ost(_) => return,
                _ => Err(Errno::EPROTO),
            };
            let replayed = op.row().class.replayed;
            work.ops.next();
            work.failed |= result.is_err();
            let transno = result.as_ref().map_or(Transno(0), |(_, transno)| *transno);
            work.transno = work.transno.max(transno);
            work.kept.push(if replayed { transno } else { Transno(0) });
            work.results.push(result.map(|(reply, _)| OpReply::Ost(reply)));
        }
    }

    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        let send = move || {
            // The receiver may be gone, with its client.
            let _ = done.send(work());
        };
        self.env.tasks.spawn_blocking(name, Box::new(send));
        result.await.ok()
    }
}

/// A request half done.
struct Work {
    ops: std::vec::IntoIter<Op>,
    results: Vec<Result<OpReply, Errno>>,
    transno: Transno,
    /// For each operation, what clients keep of it; 0 = nothing.
    kept: Vec<Transno>,
    failed: bool,
    context: Context,
    /// The changes it makes, until it is done.
    _changing: Vec<Begun>,
}

impl Work {
    /// True if its client keeps any of it.
    fn keeps(&self) -> bool {
        self.context.author.keeps && self.kept.iter().any(|transno| *transno != Transno(0))
    }
}

/// State shared by the operations of a request.
struct Context {
    author: Author,
    payment: Payment,
    /// Before the answer, durable changes must be recorded.
    record: bool,
    /// Before it is answered, the store must commit.
    commit: bool,
}

impl Ost {
    /// What a request needs beside its operations before it is answered.
    async fn before_answer(&self, export: &Export, work: &Work) -> Result<(), Errno> {
        if work.context.record {
            self.record(false).await?;
        } else if work.context.commit {
            self.target.store().commit().await?;
        }
        if work.keeps()
            && let Some(known) = self.know(export)
        {
            known.await?;
        }
        Ok(())
    }

    async fn serve(self: Arc<Self>, export: Arc<Export>, request: Request) -> Reply {
        let count = request.ops.len();
        let author = Author { client: export.client(), keeps: export.nid() != Nid::Loopback };
        let context = Context { author, payment: self.room.payment(), record: false, commit: false };
        let changing = match self.begin_changes(&request.ops).await {
            Ok(changing) => changing,
            Err(errno) => return self.refusal(request.xid, count, errno),
        };
        let mut work = Work {
            _changing: changing,
            ops: request.ops.into_iter(),
            results: Vec::with_capacity(count),
            transno: Transno(0),
            kept: Vec::with_capacity(count),
            failed: false,
            context,
        };
        self.run(&mut work, !self.env.tasks.on_reactor());
        if !work.ops.as_slice().is_empty() {
            let theirs = self.clone();
            let run = move || {
                theirs.run(&mut work, true);
                work
            };
            work = match self.blocking("ost request", run).await {
                Some(work) => work,
                // Only when the process shuts down; the request may or may not have been carried
                // out.
                None => return self.refusal(request.xid, count, Errno::ESHUTDOWN),
            };
        }
        if let Err(errno) = self.before_answer(&export, &work).await {
            return self.refusal(request.xid, count, errno);
        }
        if self.ledger.bytes() >= self.settings.flush_bytes {
            self.flush.notify_one();
        }
        let keeps = work.keeps();
        let mut reply = Reply::new(request.xid, work.transno, self.last_committed(), work.results);
        if keeps {
            let number = |transno| Redo { transno, bytes: bytes::Bytes::new() };
            reply.redo = work.kept.into_iter().map(number).collect();
        }
        reply
    }

    /// The answer when no operation of a request is done, or may count as done.
    pub(crate) fn refusal(&self, xid: types::session::Xid, count: usize, errno: Errno) -> Reply {
        Reply::new(xid, Transno(0), self.last_committed(), vec![Err(errno); count])
    }
}

impl Service for Ost {
    fn target(&self) -> TargetName {
        self.name
    }

    fn cluster(&self) -> ClusterId {
        self.target.cluster()
    }

    fn last_committed(&self) -> Transno {
        self.ledger.last_committed()
    }

    fn proof_of(&self, client: ClientUuid) -> Option<Proof> {
        self.recorded_proof(client)
    }

    fn connect(&self, export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno> {
        if self.is_stopped() {
            return Err(Errno::ESHUTDOWN);
        }
        let standing = self.admit_session(export, hello)?;
        Ok(ConnectReply {
            version: hello.version_max.min(VERSION_MAX),
            cluster: self.target.cluster(),
            boot: self.target.boot(),
            session: 0,
            last_committed: self.last_committed(),
            standing,
        })
    }

    fn handle(self: Arc<Self>, export: Arc<Export>, request: Request) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            let recovers = matches!(request.ops.first(), Some(Op::Replay(_) | Op::Replayed | Op::Restored));
            if (recovers || !self.window.is_open())
                && let Some(reply) = self.at_the_door(&export, &request).await
            {
                return reply;
            }
            self.serve(export, request).await
        })
    }

    fn gone(&self, export: &Arc<Export>, why: Gone) {
        self.room.gone((self.name, export.client()));
        match why {
            Gone::Disconnected | Gone::Evicted => self.forget_client(export.client(), why == Gone::Evicted),
            // The target goes, not the client: the next life waits for it.
            Gone::Stopped => self.window.nudge(),
        }
        tracing::debug!(client = %export.client().brief(), ?why, "client gone");
    }
}
