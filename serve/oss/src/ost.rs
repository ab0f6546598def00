//! One OST as a service.
//!
//! A request's operations run in order, in place if the caller's thread may block; on a reactor only what touches warm
//! objects and little data does, the rest goes to a thread that may block, with all that follows it.
//!
//! Every change gets a transno from the [`Ledger`] and is answered when it is in the page cache. A flush task, started
//! with the OST and ended by [`Ost::stop`] or when the OST is dropped, syncs everything that is older than the flush
//! interval and writes down how far that came.

use crate::buffers::Buffers;
use crate::gate::Gates;
use crate::graveyard::Graveyard;
use crate::ledger::{DIRTY_OBJECTS_MAX, Ledger};
use crate::room::{Payment, Room, Seen, Taken};
use crate::settings::OstSettings;
use crate::streams::Streams;
use disk::object::{BadOstState, OstState, STATE_KEY};
use env::{BoxFuture, Env};
use observe::mutant::{Mutant, is_mutant};
use rpc::service::{Export, Gone, Service};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::error::StoreError;
use store::objects::Objects;
use target::Target;
use tokio::sync::oneshot;
use types::errno::Errno;
use types::limits::{GRANT_UNIT, OBJECTS_PER_LIST_MAX};
use types::object::ObjectId;
use types::session::{ClientUuid, ClusterId, Standing, Transno};
use types::target::{TargetKind, TargetName};
use wire::message::{ConnectReply, ConnectRequest, Op, OpReply, Reply, Request, VERSION_MAX};
use wire::ost::{OstOp, OstReply};

/// Data up to so many bytes is copied on a reactor if the object is warm: less than a hand-off to another thread costs.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// The OST cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Its store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its record is damaged.
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
    room: Arc<Room>,
    pub(crate) settings: OstSettings,
    name: TargetName,
    target: Arc<Target>,
    objects: Arc<Objects>,
    env: Env,
    stopped: AtomicBool,
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
        let state = target.store().begin().get(STATE_KEY, OstState::decode)?.transpose()?.unwrap_or_default();
        let ost = Arc::new(Ost {
            gates: Gates::default(),
            graveyard: Graveyard::default(),
            ledger: Ledger::new(target.boot(), state.last_committed),
            streams: Streams::default(),
            buffers: Arc::default(),
            room,
            settings,
            name,
            target,
            objects,
            env,
            stopped: AtomicBool::new(false),
        });
        ost.start_flushing();
        Ok(ost)
    }

    /// Syncs everything and ends the flush task. Operations after it fail.
    ///
    /// # Errors
    /// Something is not durable.
    pub async fn stop(self: &Arc<Self>) -> Result<(), Errno> {
        self.stopped.store(true, Ordering::Release);
        let ost = self.clone();
        self.blocking("ost stop", move || ost.sync_all()).await.unwrap_or(Err(Errno::ESHUTDOWN))?;
        self.target.store().commit().await?;
        Ok(())
    }

    /// Newest transno up to which every change is durable.
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

    /// Changes one object under its gate; by how many blocks it grew, and the change's number. ENOENT if the object was
    /// destroyed. `longer_than`: only if it has more bytes than that; else nothing happens, with number 0.
    pub(crate) fn change(
        &self,
        object: ObjectId,
        longer_than: Option<u64>,
        apply: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(i64, Transno), Errno> {
        let mut gate = self.gates.change(object);
        if self.graveyard.has(object) {
            return Err(Errno::ENOENT);
        }
        let look = || Ok::<_, Errno>(self.objects.size_and_blocks(object)?.unwrap_or_default());
        let before = match gate.filter(|(known, _)| *known == object) {
            Some((_, blocks)) if longer_than.is_none() => blocks,
            known => {
                let (size, blocks) = look()?;
                if longer_than.is_some_and(|least| size <= least) {
                    return Ok((0, Transno(0)));
                }
                known.map_or(blocks, |(_, known)| known)
            }
        };
        let applied = apply();
        // Also after a failure: half of it may have happened.
        let transno = self.ledger.changed(object);
        let after = look()?.1;
        *gate = Some((object, after));
        applied?;
        Ok((after as i64 - before as i64, transno))
    }

    /// Room to write `[start, start + len)`, until the result is dropped. Overwriting takes none, however full the
    /// volume is.
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

    /// Bytes that clients were promised, of all OSTs that share this one's room.
    pub fn promised(&self) -> u64 {
        self.room.promised()
    }

    /// Bytes of the volume that data may still take.
    pub(crate) fn volume_room(&self) -> Result<u64, Errno> {
        let space = self.env.disk.space(self.target.dir()).map_err(|e| Errno::from(&e))?;
        Ok(space.bytes_available.saturating_sub(crate::room::reserve(space.bytes_total)))
    }

    /// What was changed of `object` is durable when this returns.
    pub(crate) fn sync_object(&self, object: ObjectId) -> Result<(), Errno> {
        if is_mutant(Mutant::WriteBeforeKept) {
            return Ok(());
        }
        let syncing = self.ledger.begin_sync(object);
        self.objects().sync(object)?;
        if let Some(syncing) = syncing {
            self.ledger.end_sync(syncing);
        }
        Ok(())
    }

    /// Everything changed before the call is durable when this returns.
    pub(crate) fn sync_all(&self) -> Result<(), Errno> {
        let syncing = self.ledger.begin_sync_all();
        self.objects().sync_all()?;
        let any = !syncing.is_empty();
        syncing.into_iter().for_each(|s| self.ledger.end_sync(s));
        if any {
            let state = OstState { last_committed: self.ledger.last_committed() };
            let mut tx = self.target.store().begin();
            tx.put(STATE_KEY, &state.encode());
            tx.finish();
        }
        Ok(())
    }

    fn apply(&self, op: &OstOp, client: ClientUuid, payment: &mut Payment) -> Result<(OstReply, Transno), Errno> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(Errno::ESHUTDOWN);
        }
        if self.ledger.dirty_count() > DIRTY_OBJECTS_MAX {
            self.sync_all()?;
        }
        let unchanged = |reply| Ok((reply, Transno(0)));
        let changed = |(blocks_delta, transno)| (OstReply::Changed { blocks_delta }, transno);
        match op {
            OstOp::Read { object, offset, len } => unchanged(OstReply::Data(self.read(*object, *offset, *len)?)),
            OstOp::Write { object, offset, data, sync } => {
                self.write(payment, *object, *offset, data, *sync).map(changed)
            }
            OstOp::Punch { object, start, end, kind } => self.punch(payment, *object, *start, *end, *kind).map(changed),
            OstOp::Getattr { object } => {
                let (size, blocks) = self.getattr(*object)?;
                unchanged(OstReply::Attr { size, blocks })
            }
            OstOp::Seek { object, offset, hole } => unchanged(OstReply::Offset(self.seek(*object, *offset, *hole)?)),
            OstOp::Destroy { objects } => self.destroy(objects).map(|transno| (OstReply::Done, transno)),
            OstOp::Sync { objects } if objects.is_empty() => self.sync_all().and_then(|()| unchanged(OstReply::Done)),
            OstOp::Sync { objects } => {
                objects.iter().try_for_each(|object| self.sync_object(*object))?;
                unchanged(OstReply::Done)
            }
            OstOp::Statfs => unchanged(OstReply::Statfs(self.statfs()?)),
            OstOp::List { after, limit } => {
                let limit = (*limit as usize).clamp(1, OBJECTS_PER_LIST_MAX);
                let objects = self.objects.list(*after, limit)?;
                unchanged(OstReply::Objects { more: objects.len() == limit, objects })
            }
            OstOp::Grant { spend, back, want } => {
                let (holder, asked) = ((self.name, client), (*spend, *back, *want));
                let (more, paid) = self.room.grant(payment, self.env.clock.now(), &self.look(), holder, asked)?;
                unchanged(OstReply::Granted { more, paid })
            }
        }
    }

    /// May a reactor run this itself?
    fn is_quick(&self, op: &OstOp) -> bool {
        self.ledger.dirty_count() <= DIRTY_OBJECTS_MAX
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
                Op::Ost(op) if may_block || self.is_quick(op) => self.apply(op, work.client, &mut work.payment),
                Op::Ost(_) => return,
                _ => Err(Errno::EPROTO),
            };
            work.ops.next();
            work.failed |= result.is_err();
            work.results.push(result.map(|(reply, transno)| {
                work.transno = work.transno.max(transno);
                OpReply::Ost(reply)
            }));
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        let send = move || {
            // Nobody may wait any more: the client is gone.
            let _ = done.send(work());
        };
        self.env.tasks.spawn_blocking(name, Box::new(send));
        result.await.ok()
    }

    fn start_flushing(self: &Arc<Self>) {
        let (weak, clock, interval) = (Arc::downgrade(self), self.env.clock.clone(), self.settings.flush_interval);
        let task = async move {
            loop {
                clock.sleep(interval).await;
                let Some(ost) = weak.upgrade().filter(|ost| !ost.stopped.load(Ordering::Acquire)) else { return };
                if ost.ledger.dirty_count() == 0 {
                    continue;
                }
                let theirs = ost.clone();
                match ost.blocking("ost flush", move || theirs.sync_all()).await {
                    Some(Ok(())) => {}
                    Some(Err(errno)) => {
                        tracing::error!(target = %ost.name, %errno, "changes cannot be made durable");
                        return;
                    }
                    None => return,
                }
            }
        };
        self.env.tasks.spawn("ost flush", Box::pin(task));
    }
}

/// A request half done.
struct Work {
    ops: std::vec::IntoIter<Op>,
    results: Vec<Result<OpReply, Errno>>,
    failed: bool,
    transno: Transno,
    client: ClientUuid,
    payment: Payment,
}

impl Service for Ost {
    fn target(&self) -> TargetName {
        self.name
    }

    fn cluster(&self) -> ClusterId {
        self.target.cluster()
    }

    fn connect(&self, _export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(Errno::ESHUTDOWN);
        }
        Ok(ConnectReply {
            version: hello.version_max.min(VERSION_MAX),
            cluster: self.target.cluster(),
            boot: self.target.boot(),
            last_committed: self.last_committed(),
            standing: Standing::Transient,
        })
    }

    fn handle(self: Arc<Self>, export: Arc<Export>, request: Request) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            let count = request.ops.len();
            let mut work = Work {
                ops: request.ops.into_iter(),
                results: Vec::with_capacity(count),
                failed: false,
                transno: Transno(0),
                client: export.client(),
                payment: self.room.payment(),
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
                    // Only when the process shuts down; the request may or may not have been carried out.
                    None => Work {
                        ops: Vec::new().into_iter(),
                        results: vec![Err(Errno::ESHUTDOWN); count],
                        failed: true,
                        transno: Transno(0),
                        client: export.client(),
                        payment: self.room.payment(),
                    },
                };
            }
            Reply::new(request.xid, work.transno, self.last_committed(), work.results)
        })
    }

    fn gone(&self, export: &Arc<Export>, why: Gone) {
        self.room.gone((self.name, export.client()));
        tracing::debug!(client = %export.client(), ?why, "client gone");
    }
}
