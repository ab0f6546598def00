//! Inode-bit locks at a metadata target: what clients may keep in their caches
//! (docs/locks/overview.md).
//!
//! A reply that shows a client an inode may grant the client some bits of it. The client may use
//! what it was shown until the bits are called back. An operation that changes bits *enters* first:
//! the clients that hold them are asked to drop them. Until the operation *leaves*, no other client
//! gets these bits; a reader that comes meanwhile is answered without a lock. Once all holders have
//! answered, the operation is [`Action::Ready`]. Where no client holds anything,
//! [`IbitsTable::is_free`] says so, and nothing has to enter.
//!
//! Changing operations do not exclude each other here: the target applies one at a time anyway.
//! Requests for a lock ([`IbitsTable::enter_lock`]) queue, first come, first served, and close the
//! bits they ask for to newcomers. What they wait for is given back or over in bounded time, so
//! each gets its turn.
//!
//! **Invariant:** WRITE excludes DATA, UPDATE and WRITE of other clients, and is held only together
//! with DATA and UPDATE.
//!
//! **Invariant:** a client that was asked to drop a bit is not granted it before it has answered
//! that very question, even if it gave the bit back meanwhile, by itself or with the answer to
//! another question. So an answer never speaks of what was granted after its question.
//!
//! **Invariant:** while an operation is ready and has not left, no other client holds a bit that it
//! changes, except clients that answered that they keep it: UPDATE of a directory without the
//! changed names, OPEN of a removed inode.
//!
//! **Invariant:** a client, and the whole table, has at most as many locks as
//! [`IbitsTable::with_bounds`] was given, except locks that were asked for by name. One lock is one
//! client and one inode. Near the bound the oldest are revoked.
//!
//! **Invariant:** while an operation is ready and has not left, no name that it changes is in a gap
//! of another client. A lock has GAP if, and only if, `gaps` has its ranges.

mod answers;
mod entered;
mod gaps;
mod heat;
mod locks;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
mod turns;

pub use entered::WaitOf;
pub use heat::{BUSY, Heat};

use entered::Entered;
use foldhash::fast::FixedState;
use gaps::Gaps;
use locks::{Locks, NONE};
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use types::fid::Fid;
use types::limits::{GAPS_PER_DIRECTORY_MAX, IBITS_LOCKS_MAX, IBITS_LOCKS_PER_CLIENT_MAX};
use types::lock::InodeBits;
use types::name::Name;
use types::names::NameRange;
use types::session::ClientUuid;

/// The bits that a writing client has to itself.
const EXCLUSIVE: InodeBits = InodeBits::DATA.union(InodeBits::UPDATE).union(InodeBits::WRITE);
/// The bits that must be held together with WRITE.
const UNDER_WRITE: InodeBits = InodeBits::DATA.union(InodeBits::UPDATE);
/// Old locks that are revoked at once when the table is nearly full.
const RECLAIM: usize = 64;

/// The caller's name for one operation, from entering to leaving.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Modifier(pub u64);

/// Names of a directory that an operation changes.
pub type Names = SmallVec<[Name; 2]>;

/// What an operation changes of one inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The inode.
    pub fid: Fid,
    /// The bits that change.
    pub bits: InodeBits,
    /// If not empty, only these names of a directory change, and with them its attributes. Then
    /// holders that forget just these names keep UPDATE, and holders keep GAP if the names are not
    /// in their ranges.
    pub names: Names,
}

/// What the caller must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Ask the client to drop these bits; report its answer with [`IbitsTable::dropped`], or with
    /// [`IbitsTable::kept`] what it keeps and then the rest.
    Revoke(ClientUuid, Fid, InodeBits),
    /// Ask the client to forget these names of a directory, and its attributes; report its answer
    /// with [`IbitsTable::forgot`], or with [`IbitsTable::dropped_names`] if it drops UPDATE.
    Changing(Modifier, ClientUuid, Fid, Names),
    /// No other client is in the operation's way any more: it may go on.
    Ready(Modifier),
    /// The client of a request for a lock is gone: the request ends.
    Cancelled(Modifier),
}

/// Locks and operations of one inode.
#[derive(Default)]
struct Resource {
    /// (client number, slot of its lock), in order of numbers.
    holders: SmallVec<[(u32, u32); 2]>,
    /// Operations that entered, oldest first.
    entered: Vec<Modifier>,
}

/// All inode-bit locks of one target.
pub struct IbitsTable {
    resources: HashMap<Fid, Resource, FixedState>,
    locks: Locks,
    modifiers: BTreeMap<Modifier, Entered>,
    /// The holder of WRITE of each inode.
    writers: HashMap<Fid, u32, FixedState>,
    heat: Heat,
    gaps: Gaps,
    per_client_max: usize,
    all_max: usize,
}

impl Default for IbitsTable {
    fn default() -> IbitsTable {
        IbitsTable::with_bounds(IBITS_LOCKS_PER_CLIENT_MAX, IBITS_LOCKS_MAX)
    }
}

/// Number of locks from which on old ones are revoked.
fn soft(max: usize) -> usize {
    max - max / 16
}

/// The bits that a holder of `held` must drop before another client changes `changed`.
fn clash(held: InodeBits, changed: InodeBits) -> InodeBits {
    let clash = held.intersection(changed);
    match !changed.intersects(UNDER_WRITE) {
        true => clash,
        false => clash.union(held.intersection(InodeBits::WRITE)),
    }
}

impl IbitsTable {
    /// An empty table with bounds on the locks of one client and on all locks.
    pub fn with_bounds(per_client_max: usize, all_max: usize) -> IbitsTable {
        IbitsTable {
            resources: HashMap::default(),
            locks: Locks::default(),
            modifiers: BTreeMap::new(),
            writers: HashMap::default(),
            heat: Heat::default(),
            gaps: Gaps::default(),
            per_client_max,
            all_max,
        }
    }

    /// A session began: its client may be granted locks. Nothing happens if it may already.
    pub fn connect(&mut self, client: ClientUuid) {
        self.locks.connect(client);
    }

    /// True if the client may be granted locks.
    pub fn is_connected(&self, client: ClientUuid) -> bool {
        self.locks.number(client).is_some()
    }

    /// Locks there are.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// True if there is no lock.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Operations that entered and have not left.
    pub fn entered(&self) -> usize {
        self.modifiers.len()
    }

    /// The bits under which a client may still answer its programs: those it holds, even if it was
    /// asked to drop them and has not answered.
    pub fn shown(&self, fid: Fid, client: ClientUuid) -> InodeBits {
        self.lock_of(fid, client).map_or(InodeBits::NONE, |(bits, _)| bits)
    }

    /// True if the client has been asked to drop any of these bits and has not answered.
    pub fn is_asked(&self, fid: Fid, client: ClientUuid, bits: InodeBits) -> bool {
        self.lock_of(fid, client).is_some_and(|(_, revoking)| revoking.intersects(bits))
    }

    /// The bits that a client may rely on, as far as this table knows.
    #[cfg(test)]
    fn held(&self, fid: Fid, client: ClientUuid) -> InodeBits {
        self.lock_of(fid, client)
            .map_or(InodeBits::NONE, |(bits, revoking)| bits.difference(revoking))
    }

    /// Bits of the lock, and those of them that are being revoked.
    fn lock_of(&self, fid: Fid, client: ClientUuid) -> Option<(InodeBits, InodeBits)> {
        let slot = self.resources.get(&fid)?.slot(self.locks.number(client)?)?;
        let lock = self.locks.get(slot);
        Some((lock.bits, lock.revoking))
    }

    /// True if any client holds one of these bits, even if it was asked to drop it.
    pub fn is_held(&self, fid: Fid, bits: InodeBits) -> bool {
        let held = |(_, slot): &(u32, u32)| self.locks.get(*slot).bits.intersects(bits);
        self.resources.get(&fid).is_some_and(|resource| resource.holders.iter().any(held))
    }

    /// The holder of WRITE, even if it was asked to drop it: it knows size and times.
    pub fn writer(&self, fid: Fid) -> Option<ClientUuid> {
        // Usually no client holds WRITE of any file.
        if self.writers.is_empty() {
            return None;
        }
        self.writers.get(&fid).map(|number| self.locks.uuid(*number))
    }

    /// Names of the directory are changed by `author`. `now`: any clock that never goes back.
    pub fn names_change<'n>(
        &mut self,
        dir: Fid,
        author: ClientUuid,
        names: impl IntoIterator<Item = &'n [u8]>,
        now: Duration,
    ) {
        self.heat.note(dir, author, now);
        if let Some(number) = self.locks.number(author) {
            names.into_iter().for_each(|name| self.gaps.cut(dir, number, name));
        }
    }

    /// A reply shows `client` these bits of `fid`. Returns those it is granted. These bits are left
    /// out: those that another client is about to change or waits for, those that the client was
    /// asked to drop, those that WRITE excludes, and UPDATE of a busy directory. None is granted
    /// when the table is full. `now` as in [`IbitsTable::names_change`].
    pub fn grant(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        bits: InodeBits,
        now: Duration,
        out: &mut Vec<Action>,
    ) -> InodeBits {
        let Some(number) = self.locks.number(client) else { return InodeBits::NONE };
        let room = self.make_room(number, out);
        let busy = bits.contains(InodeBits::UPDATE) && self.heat.is_busy(fid, now);
        let bits = bits.difference(InodeBits::GAP);
        self.lend(fid, number, if busy { bits.difference(EXCLUSIVE) } else { bits }, room, false)
    }

    /// A reply shows `client` that a directory has no such name. Returns how far a gap that begins
    /// there could reach, by what is remembered of others. `now` as in
    /// [`IbitsTable::names_change`].
    pub fn gap_at(&self, dir: Fid, client: ClientUuid, name: &[u8], now: Duration) -> NameRange {
        self.gaps.reach(dir, self.locks.number(client).unwrap_or(NONE), name, now)
    }

    /// The same reply shows that there is no name in this range. Returns how much of it the client
    /// is granted under GAP: nothing that another client is about to change. `None` also if the
    /// table is full, or if the client was asked to drop GAP.
    pub fn grant_gap(
        &mut self,
        dir: Fid,
        client: ClientUuid,
        names: NameRange,
        out: &mut Vec<Action>,
    ) -> Option<NameRange> {
        let number = self.locks.number(client)?;
        let names = self.not_entered(dir, number, names)?;
        if self.gaps.of(dir, number).is_some_and(|ranges| ranges.len() >= GAPS_PER_DIRECTORY_MAX) {
            // The client's ranges start afresh.
            let slot = self.resources.get(&dir)?.slot(number)?;
            let lock = self.locks.get_mut(slot);
            if !lock.revoking.contains(InodeBits::GAP) {
                lock.revoking = lock.revoking.union(InodeBits::GAP);
                out.push(Action::Revoke(client, dir, InodeBits::GAP));
            }
            return None;
        }
        let room = self.make_room(number, out);
        if !self.gaps.has_room(dir, number)
            || self.lend(dir, number, InodeBits::GAP, room, false).is_empty()
        {
            return None;
        }
        self.gaps.add(dir, number, names.clone());
        Some(names)
    }

    /// The part of a range before the names that others are about to change.
    fn not_entered(&self, dir: Fid, number: u32, mut names: NameRange) -> Option<NameRange> {
        let entered = self.resources.get(&dir).into_iter().flat_map(|resource| &resource.entered);
        for entered in entered.map(|modifier| &self.modifiers[modifier]) {
            for change in entered
                .changes_for(dir, number)
                .filter(|change| change.bits.contains(InodeBits::UPDATE))
            {
                if change.names.is_empty() {
                    return None;
                }
                for name in &change.names {
                    names = names.below(name)?;
                }
            }
        }
        Some(names)
    }

    /// Records the bits that can be granted. `room`: a new lock is allowed. `turn`: the lock was
    /// waited for, and no earlier request is before it.
    fn lend(
        &mut self,
        fid: Fid,
        number: u32,
        bits: InodeBits,
        room: bool,
        turn: bool,
    ) -> InodeBits {
        let mut occupied = match self.resources.entry(fid) {
            Entry::Occupied(occupied) => occupied,
            Entry::Vacant(vacant) => {
                let granted = whole(bits, bits);
                if !granted.is_empty() && room {
                    let slot = self.locks.add(fid, number, granted);
                    vacant.insert(Resource {
                        holders: SmallVec::from_slice(&[(number, slot)]),
                        entered: Vec::new(),
                    });
                    note_writer(&mut self.writers, fid, number, granted);
                    return granted;
                }
                return InodeBits::NONE;
            }
        };
        let resource = occupied.get_mut();
        let place = resource.holders.binary_search_by_key(&number, |(number, _)| *number);
        let own = place.ok().map(|at| resource.holders[at].1);
        let (held, revoking) = own.map_or_else(Default::default, |slot| {
            let lock = self.locks.get(slot);
            (lock.bits, lock.asked())
        });
        let mut granted = bits.difference(revoking);
        for modifier in &resource.entered {
            let entered = &self.modifiers[modifier];
            if !(turn && entered.is_lock()) {
                granted = granted.difference(entered.closes(fid, number));
            }
        }
        if granted.intersection(EXCLUSIVE) != InodeBits::NONE
            && resource.holders.len() > usize::from(own.is_some())
        {
            if self.writers.get(&fid).is_some_and(|writer| *writer != number) {
                granted = granted.difference(EXCLUSIVE);
            } else if granted.contains(InodeBits::WRITE) {
                let others = resource.holders.iter().filter(|(other, _)| *other != number);
                let mut others =
                    others.map(|(_, slot)| self.locks.get(*slot).bits.intersection(EXCLUSIVE));
                if others.any(|bits| !bits.is_empty()) {
                    granted = granted.difference(InodeBits::WRITE);
                }
            }
        }
        granted = whole(granted, held.difference(revoking).union(granted));
        if granted.is_empty() || own.is_none() && !room {
            return InodeBits::NONE;
        }
        match place {
            Ok(at) => {
                let (_, slot) = resource.holders[at];
                self.locks.touch(slot);
                let lock = self.locks.get_mut(slot);
                lock.bits = lock.bits.union(granted);
            }
            Err(at) => resource.holders.insert(at, (number, self.locks.add(fid, number, granted))),
        }
        note_writer(&mut self.writers, fid, number, granted);
        granted
    }

    /// True if there is room for one more lock of the client. Near a bound, old locks are revoked
    /// meanwhile: the client's own, or among all those of the client that has the most.
    fn make_room(&mut self, number: u32, out: &mut Vec<Action>) -> bool {
        let (own, all) = (self.locks.count(number), self.locks.len());
        if own < soft(self.per_client_max) && all < soft(self.all_max) {
            return true;
        }
        if own >= soft(self.per_client_max) {
            self.reclaim(number, own - soft(self.per_client_max), self.per_client_max, out);
        }
        if all >= soft(self.all_max)
            && let Some(largest) = self.locks.largest()
        {
            self.reclaim(largest, all - soft(self.all_max), self.all_max, out);
        }
        own < self.per_client_max && all < self.all_max
    }

    /// Asks a client to drop all that it holds: what it was shown is out of date.
    pub fn revoke_all(&mut self, client: ClientUuid, out: &mut Vec<Action>) {
        let Some(number) = self.locks.number(client) else { return };
        let slots: Vec<u32> = self.locks.of(number).collect();
        self.revoke_slots(client, &slots, out);
    }

    fn revoke_slots(&mut self, client: ClientUuid, slots: &[u32], out: &mut Vec<Action>) {
        for slot in slots {
            let lock = self.locks.get_mut(*slot);
            let more = lock.bits.difference(lock.revoking);
            if !more.is_empty() {
                lock.revoking = lock.revoking.union(more);
                out.push(Action::Revoke(client, lock.fid, more));
            }
        }
    }

    /// Revokes a batch of the client's oldest locks: one batch each time that the table has grown
    /// by one, so that the work per grant stays small. `beyond`: locks beyond the soft bound.
    fn reclaim(&mut self, number: u32, beyond: usize, max: usize, out: &mut Vec<Action>) {
        let batch = (max / 16).clamp(1, RECLAIM);
        let asked =
            |slot: &u32| self.locks.get(*slot).revoking.contains(self.locks.get(*slot).bits);
        if !beyond.is_multiple_of(batch)
            || self.locks.of(number).take(beyond + 1).all(|slot| asked(&slot))
        {
            return;
        }
        let oldest: SmallVec<[u32; RECLAIM]> =
            self.locks.of(number).filter(|slot| !asked(slot)).take(batch).collect();
        let uuid = self.locks.uuid(number);
        self.revoke_slots(uuid, &oldest, out);
    }
}

impl Resource {
    fn slot(&self, number: u32) -> Option<u32> {
        let at = self.holders.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.holders[at].1)
    }
}

/// `bits` without WRITE, if DATA and UPDATE are not held with it.
fn whole(bits: InodeBits, with: InodeBits) -> InodeBits {
    if with.contains(UNDER_WRITE) { bits } else { bits.difference(InodeBits::WRITE) }
}

fn note_writer(
    writers: &mut HashMap<Fid, u32, FixedState>,
    fid: Fid,
    number: u32,
    granted: InodeBits,
) {
    if granted.contains(InodeBits::WRITE) {
        writers.insert(fid, number);
    }
}
