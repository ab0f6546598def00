//! Files that several clients write at once. `dlm::extents` decides which client has which bytes;
//! this module plays the shared owner in the table of locks (docs/locks/protocol.md, "Shared-write
//! files").
//!
//! [`SHARED`] is a virtual client of the MDT that holds DATA, UPDATE and WRITE of such files.
//! Callbacks to it go to its members; their answers go to the table in its name. It is a part of
//! [`Locks`](crate::locks::Locks): its actions are carried out with those of the table.

use crate::locks::Locks;
use dlm::extents::{ExtentAction, ExtentTable, ExtentTicket};
use dlm::ibits::{Heat, IbitsTable};
use env::clock::Monotonic;
use foldhash::HashMap;
use tokio::sync::oneshot;
use types::fid::Fid;
use types::lock::InodeBits;
use types::ranges::ByteRange;
use types::session::ClientUuid;

/// The client that holds the shared part of a shared-write file. No client draws this number for
/// itself.
pub(crate) const SHARED: ClientUuid = ClientUuid(u128::MAX);
/// Bits that it holds of a file.
pub(crate) const SHARED_BITS: InodeBits =
    InodeBits::DATA.union(InodeBits::UPDATE).union(InodeBits::WRITE);
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
    pub(super) waiting: HashMap<ExtentTicket, oneshot::Sender<Turn>>,
    pub(super) last: u64,
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
pub(super) fn is_at_rest(table: &IbitsTable, fid: Fid) -> bool {
    table.writer(fid) == Some(SHARED) && !table.is_asked(fid, SHARED, SHARED_BITS)
}

impl Locks {
    /// All clients but this one that know size and times of a file, because they write it.
    pub(crate) fn writers_of(&self, fid: Fid, client: ClientUuid) -> Vec<ClientUuid> {
        match self.table.writer(fid) {
            None => Vec::new(),
            Some(SHARED) => {
                self.shared_writers.table.writers(fid).filter(|writer| *writer != client).collect()
            }
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
    pub(super) fn becomes_shared(&mut self, fid: Fid, client: ClientUuid, now: Monotonic) -> bool {
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
            let change =
                dlm::ibits::Change { fid, bits: InodeBits::DATA, names: Default::default() };
            self.enter_and_leave(client, vec![change], now);
        }
    }
}
