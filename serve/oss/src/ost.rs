//! One OST: its state, and a change of one object under its gate.
//!
//! Operations on it are in files of their own: [`data`](crate::data), [`space`](crate::space),
//! [`durable`](crate::durable), [`checked`](crate::checked).

use crate::buffers::Buffers;
use crate::error::StartError;
use crate::fences::Fences;
use crate::gate::Gates;
use crate::graveyard::Graveyard;
use crate::ledger::{Author, Ledger};
use crate::scrub::ScrubState;
use crate::settings::OstSettings;
use crate::streams::Streams;
use crate::sums::Sums;
use crate::tickets::Tickets;
use crate::used::Used;
use crate::window::{Found, Known, Window};
use env::Env;
use idmap::rules::Rules;
use idmap::set::Nodemaps;
use observe::mutant::{Mutant, is_mutant};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::error::StoreError;
use store::object_store::{BackEnd, ObjectStore, whole_units};
use target::Target;
use target::room::{Payment, Room, Seen, Taken};
use tokio::sync::{Notify, oneshot};
use types::errno::Errno;
use types::limits::GRANT_UNIT;
use types::object::ObjectId;
use types::session::{ClientUuid, Transno, Xid};
use types::target::{TargetKind, TargetName};
use wire::message::Reply;

/// Bytes on a volume for each byte that its records may take beside it, in the worst case: a unit
/// of its own for each small object.
const BYTES_PER_RECORD_BYTE: u64 = 64;

/// The run of the kernel that keeps what was written and not synced; 0: none does.
pub(crate) fn kernel_run(target: &Target, env: &Env) -> u128 {
    match target.objects().is_some_and(|objects| objects.needs_commit()) {
        true => 0,
        false => env.disk.kernel_run(),
    }
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
    pub(crate) room: Arc<Room>,
    pub(crate) settings: OstSettings,
    name: TargetName,
    target: Arc<Target>,
    objects: Arc<dyn ObjectStore>,
    env: Env,
    /// Held for reading by every operation: once it is set, none is at work.
    pub(crate) stopped: RwLock<bool>,
    pub(crate) window: Window,
    /// Changes before this start of the target may have been lost.
    pub(crate) lost_boot: u64,
    pub(crate) kernel_run: u128,
    /// Clients whose changes may not be recorded.
    pub(crate) known: Mutex<BTreeMap<ClientUuid, Known>>,
    /// Evicted clients, and the newest change that may be theirs.
    pub(crate) leavers: Mutex<Vec<(ClientUuid, Transno)>>,
    pub(crate) fences: Fences,
    pub(crate) tickets: Tickets,
    /// Held while a state is put together, so that an older one never replaces a newer one.
    pub(crate) recording: Mutex<()>,
    /// Much was written.
    pub(crate) flush: Arc<Notify>,
}

impl Ost {
    /// An OST at its start, with what was `found` of its previous life. `room`: shared by the OSTs
    /// that share a volume.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) fn new(
        target: Arc<Target>,
        env: Env,
        settings: OstSettings,
        room: Arc<Room>,
        found: &Found,
    ) -> Result<Arc<Ost>, StartError> {
        let no_ost = || StartError::NoOst(target.dir().to_owned());
        let name = target.name().filter(|name| name.kind == TargetKind::Ost).ok_or_else(no_ost)?;
        let objects = target.objects().ok_or_else(no_ost)?.clone();
        let kernel_run = kernel_run(&target, &env);
        let (unit, mut settings, mut room) = (objects.space_unit(), settings, room);
        if objects.back_end() == BackEnd::Volume {
            // The device is all its own.
            (settings.volume_sharers, room) = (1, Arc::new(Room::of_units(unit)));
        }
        let lost_boot = if found.lossy { target.boot() } else { found.state.lost_boot };
        let window = Window::new(found, env.clock.now(), settings.recovery_window);
        Ok(Arc::new(Ost {
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
            known: Mutex::new(found.known()),
            leavers: Mutex::default(),
            fences: Fences::default(),
            tickets: Tickets::default(),
            recording: Mutex::default(),
            flush: Arc::default(),
        }))
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

    /// The nodemaps hold from now on, for every request.
    pub fn set_nodemaps(&self, nodemaps: Arc<Nodemaps>) {
        self.tickets.set_nodemaps(nodemaps);
    }

    /// The callers that the MDTs squash from now on: the rules of each.
    pub fn set_squash(&self, squash: Vec<Rules>) {
        self.tickets.set_squash(squash);
    }

    /// True if it is in service, and everything that clients brought is restored.
    pub fn is_recovered(&self) -> bool {
        self.window.is_open()
    }

    /// Newest transno up to which every change is durable, and recorded to be.
    pub fn last_committed(&self) -> Transno {
        self.ledger.last_committed()
    }

    pub(crate) fn objects(&self) -> &dyn ObjectStore {
        &*self.objects
    }

    pub(crate) fn objects_shared(&self) -> Arc<dyn ObjectStore> {
        self.objects.clone()
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    /// Changes one object under its gate; returns the blocks it grew by, and the change's number.
    /// ESTALE if the object was destroyed: the file lost its last name. `longer_than`: only if it
    /// has more bytes than that; else nothing happens, and the number is 0. `author` makes the
    /// change, with this many bytes of data; ETIMEDOUT if an MDT has evicted it meanwhile.
    pub(crate) fn change(
        &self,
        object: ObjectId,
        longer_than: Option<u64>,
        (author, bytes): (Author, u64),
        apply: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(i64, Transno), Errno> {
        let mut gate = self.gates.change(object);
        // Under the gate: see `Ost::fence`. What is brought back was answered before.
        if self.fences.has(author.client)
            && self.window.is_open()
            && !is_mutant(Mutant::FenceIgnored)
        {
            return Err(Errno::ETIMEDOUT);
        }
        if self.graveyard.has(object) {
            return Err(Errno::ESTALE);
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
        self.used.changed(
            object,
            self.objects.upper_folder(object),
            grown,
            (found.is_some() && !existed).into(),
        );
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
        // Clients pay for whole blocks.
        let pays = whole_units(start, len, GRANT_UNIT);
        let most = whole_units(start, len, self.objects.space_unit());
        let now = self.env.clock.now();
        let refused = match self.room.take(payment, now, &self.look(), (pays, most)) {
            Err(refused @ StoreError::NoSpace { .. }) => refused,
            other => return other.map(Some),
        };
        match self.objects.takes(object, start, len)? {
            0 => Ok(None),
            takes if takes < most => {
                self.room.take(payment, now, &self.look(), (pays, takes)).map(Some)
            }
            _ => Err(refused),
        }
    }

    /// A look at the volume and the store, for [`Room`].
    pub(crate) fn look(&self) -> impl Fn() -> Result<Seen, StoreError> {
        || {
            let volume = self.env.disk.space(self.target.dir());
            let volume =
                volume.map_err(StoreError::io("look at the volume of", self.target.dir()))?;
            let (reserved, objects) =
                (target::room::reserve(volume.bytes_total), self.objects.space()?);
            let mut free = volume.bytes_available.saturating_sub(reserved);
            if self.objects.back_end() == BackEnd::Volume {
                // There are only records of it here.
                free = free.saturating_mul(BYTES_PER_RECORD_BYTE);
            }
            let free = free.min(objects.free);
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

    /// The answer when no operation of a request is done, or may count as done.
    pub(crate) fn refusal(&self, xid: Xid, count: usize, errno: Errno) -> Reply {
        Reply::new(xid, Transno(0), self.last_committed(), vec![Err(errno); count])
    }
}
