//! Files that several clients write at once. `dlm::extents` decides which client has which bytes;
//! this module plays the shared owner in the table of locks (docs/locks/protocol.md, "Shared-write
//! files").
//!
//! [`SHARED`] is a virtual client of the MDT that holds DATA, UPDATE and WRITE of such files.
//! Callbacks to it go to its members; their answers go to the table in its name. It is a part of
//! [`Locks`](crate::locks::Locks): its actions are carried out with those of the table.

use crate::locks::{Entered, Locks, When};
use crate::mds::{Mds, RequestContext, alive};
use dlm::extents::{ExtentAction, ExtentRequest, ExtentTable, ExtentTicket};
use dlm::ibits::{Heat, IbitsTable, Modifier};
use env::clock::Monotonic;
use foldhash::HashMap;
use tokio::sync::oneshot;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::ranges::{ByteRange, Extent, Needs};
use types::session::ClientUuid;
use wire::mds::{Entry, MdsReply};

/// The client that holds the shared part of a shared-write file. No client draws this number for
/// itself.
pub(crate) const SHARED: ClientUuid = ClientUuid(u128::MAX);
/// Bits that it holds of a file.
pub(crate) const SHARED_BITS: InodeBits = InodeBits::DATA.union(InodeBits::UPDATE).union(InodeBits::WRITE);
/// Number of times that a file changes hands, each within [`dlm::ibits::BUSY`] of the time before,
/// until it becomes shared.
const HANDS: u32 = 3;

/// Result of a request for an extent.
pub(crate) enum Turn {
    /// These are granted.
    Granted(Vec<ByteRange>),
    /// The shared owner has no place for it now: the client asks again.
    Again,
}

/// See the module.
pub(crate) struct SharedWriters {
    pub(crate) table: ExtentTable,
    /// Actions that are still to be done.
    pub(crate) actions: Vec<ExtentAction>,
    heat: Heat,
    waiting: HashMap<ExtentTicket, oneshot::Sender<Turn>>,
    last: u64,
}

impl Default for SharedWriters {
    fn default() -> SharedWriters {
        SharedWriters {
            table: ExtentTable::default(),
            actions: Vec::new(),
            heat: Heat::with_turns(HANDS),
            waiting: HashMap::default(),
            last: 0,
        }
    }
}

impl SharedWriters {
    /// Tells the waiting request.
    pub(crate) fn tell(&mut self, ticket: ExtentTicket, turn: Turn) {
        if let Some(waiting) = self.waiting.remove(&ticket) {
            // The receiver is gone: the request was dropped, and is about to be given up.
            let _ = waiting.send(turn);
        }
    }
}

/// True if the file is shared, and no client wants it back.
fn is_at_rest(table: &IbitsTable, fid: Fid) -> bool {
    table.writer(fid) == Some(SHARED) && !table.is_asked(fid, SHARED, SHARED_BITS)
}

impl Locks {
    /// All clients but this one that know size and times of a file, because they write it.
    pub(crate) fn writers_of(&self, fid: Fid, client: ClientUuid) -> Vec<ClientUuid> {
        match self.table.writer(fid) {
            None => Vec::new(),
            Some(SHARED) => self.shared_writers.table.writers(fid).filter(|writer| *writer != client).collect(),
            Some(writer) => {
                if writer == client {
                    Vec::new()
                } else {
                    vec![writer]
                }
            }
        }
    }

    /// `client` asks for bytes that others have. True if the file shall be shared.
    fn becomes_shared(&mut self, fid: Fid, client: ClientUuid, now: Monotonic) -> bool {
        if self.table.writer(fid) == Some(SHARED) {
            return !self.shared_writers.table.is_alone(fid, client, now);
        }
        self.shared_writers.heat.note(fid, client, now);
        self.shared_writers.heat.is_busy(fid, now) && self.shared_writers.table.has_room()
    }

    /// A client that has been the only writer of a shared file for some time gets the whole file
    /// with its next request for a lock: its extents are called back.
    pub(crate) fn end_if_alone(&mut self, fid: Fid, client: ClientUuid, now: Monotonic) {
        if is_at_rest(&self.table, fid) && self.shared_writers.table.is_alone(fid, client, now) {
            let change = dlm::ibits::Change { fid, bits: InodeBits::DATA, names: Default::default() };
            self.enter_and_leave(client, vec![change], now);
        }
    }
}

/// A request that waits for an extent; it is given up when this is dropped.
struct Waiting<'a> {
    mds: &'a Mds,
    ticket: ExtentTicket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let now = self.mds.env.clock.now();
        let mut state = self.mds.state.lock();
        let shared_writers = &mut state.locks.shared_writers;
        // If it is not there, it has its answer.
        if shared_writers.waiting.remove(&self.ticket).is_some() {
            shared_writers.table.cancel(self.ticket, now, &mut shared_writers.actions);
            self.mds.carry_out(state, When::Later);
        }
    }
}

/// What a request for an extent waits for next.
enum Step<'a> {
    Place(Entered<'a>, oneshot::Receiver<()>),
    PlaceAgain(Modifier, oneshot::Receiver<()>),
    Extent(Waiting<'a>, oneshot::Receiver<Turn>),
}

impl Mds {
    /// An extent, if the file is shared or shall be shared. The inode exists, and another client is
    /// in the way of the whole lock.
    pub(crate) async fn lock_extent(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        write: bool,
        Needs { range, again }: Needs,
    ) -> Result<Option<MdsReply>, Errno> {
        if range.is_empty() {
            return Err(Errno::EINVAL);
        }
        let (client, now) = (request.client(), self.env.clock.now());
        if again && !self.window.is_open() {
            return self.restore_extent(request, fid, Extent { range, write }).map(Some);
        }
        if !self.state.lock().locks.becomes_shared(fid, client, now) {
            return Ok(None);
        }
        let mut place: Option<Entered<'_>> = None;
        let ranges = loop {
            match self.next_step(request, fid, place.as_ref(), range, write)? {
                Step::Place(entered, turn) => {
                    let modifier = entered.modifier;
                    place = Some(entered);
                    self.wait_for_holders(modifier, turn).await?;
                }
                Step::PlaceAgain(modifier, turn) => self.wait_for_holders(modifier, turn).await?,
                Step::Extent(waiting, turn) => {
                    let turn = self.wait_for_extent(turn).await?;
                    drop(waiting);
                    match turn {
                        Turn::Granted(ranges) => break ranges,
                        // Meanwhile the file may have become a group's.
                        Turn::Again => self.of_its_group(request.export, fid).await?,
                    }
                }
            }
        };
        drop(place);
        if let Some(stats) = self.lock_stats.get() {
            stats.extents_granted.increment();
        }
        self.show_extents(request, fid, ranges, write).map(Some)
    }

    fn next_step<'a>(
        &'a self,
        request: &RequestContext<'_>,
        fid: Fid,
        place: Option<&Entered<'_>>,
        range: ByteRange,
        write: bool,
    ) -> Result<Step<'a>, Errno> {
        let now = self.env.clock.now();
        let mut state = self.state.lock();
        alive(request.export)?;
        let client = request.client();
        if !state.locks.table.is_connected(client) {
            return Err(Errno::ENOTCONN);
        }
        let locks = &mut state.locks;
        let held = match place {
            Some(place) => locks.table.take(place.modifier, &mut locks.actions),
            None => is_at_rest(&locks.table, fid),
        };
        let step = if held {
            let SharedWriters { table, actions, waiting, last, .. } = &mut locks.shared_writers;
            *last += 1;
            let (ticket, (sender, turn)) = (ExtentTicket(*last), oneshot::channel());
            waiting.insert(ticket, sender);
            table.request(ticket, ExtentRequest { fid, client, needs: range, write }, now, actions);
            Step::Extent(Waiting { mds: self, ticket }, turn)
        } else if let Some(place) = place {
            Step::PlaceAgain(place.modifier, locks.wait_for(place.modifier))
        } else {
            let (modifier, turn) = locks.new_modifier();
            locks.table.enter_lock(modifier, SHARED, fid, SHARED_BITS, &mut locks.actions);
            Step::Place(Entered { mds: self, modifier }, turn)
        };
        self.carry_out(state, When::Now);
        Ok(step)
    }

    async fn wait_for_extent(&self, mut turn: oneshot::Receiver<Turn>) -> Result<Turn, Errno> {
        let begun = self.env.clock.now();
        let turn = match turn.try_recv() {
            Ok(turn) => Ok(turn),
            // The sender goes only with the table itself.
            Err(_) => turn.await.map_err(|_| Errno::ESHUTDOWN),
        };
        if let Some(stats) = self.lock_stats.get() {
            stats.wait.record(crate::lock_stats::micros(begun, self.env.clock.now()));
        }
        turn
    }

    /// While the MDT recovers: the client gets back what it had.
    fn restore_extent(&self, request: &mut RequestContext<'_>, fid: Fid, extent: Extent) -> Result<MdsReply, Errno> {
        {
            let now = self.env.clock.now();
            let mut state = self.state.lock();
            alive(request.export)?;
            let Locks { table, actions, shared_writers, .. } = &mut state.locks;
            if table.writer(fid) != Some(SHARED) && table.grant(fid, SHARED, SHARED_BITS, now, actions) != SHARED_BITS
                || !shared_writers.table.restore(fid, request.export.client(), (extent.range, extent.write), now)
            {
                tracing::error!(%fid, client = %request.export.client().brief(), ?extent, "somebody else has what this client had");
                return Err(Errno::EBUSY);
            }
        }
        self.show_extents(request, fid, vec![extent.range], extent.write)
    }

    /// The extents are the client's. No cut changes the record while they are, so the record may be
    /// shown from now on. Leases of other clients that exclude this client's use are over; a lease
    /// that is requested later calls the extents back first.
    fn show_extents(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        ranges: Vec<ByteRange>,
        write: bool,
    ) -> Result<MdsReply, Errno> {
        let export = request.export;
        let entry: Entry = self.show(request, |records| {
            alive(export)?;
            let entry = records.entry(fid)?.ok_or(Errno::ESTALE)?;
            records.used(export.client(), fid, write);
            Ok(entry)
        })?;
        Ok(MdsReply::Extents { entry: Box::new(entry), ranges, write })
    }
}
