//! Inode-bit locks at a metadata target: what clients may keep in their caches.
//!
//! A reply that shows a client an inode may grant it some bits of it, shared: the client may use what it was shown
//! until it is told otherwise. An operation that changes bits *enters* first: clients that hold them are revoked, and
//! until the operation *leaves*, nobody else gets these bits. A reader that comes meanwhile is answered without a
//! lock. Once all holders have answered, the operation is told that it is ready.
//!
//! Changing operations do not exclude each other here: the target applies one at a time anyway. Locks that wait, or
//! that are exclusive, come with a full lock manager behind the same events.
//!
//! A callback can overtake the reply that grants its lock. So a client that is told to drop bits it does not hold,
//! while requests of its own are on the way, must also drop them from the replies of those.
//!
//! **Invariant:** while an operation is ready and has not left, no other client holds a bit that it changes.
//! **Invariant:** at most so many locks per client and in all as [`IbitsTable::with_bounds`] was told; one lock is
//! one client and one inode. Near the bound the least recently granted ones are revoked.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use types::fid::Fid;
use types::limits::{IBITS_LOCKS_MAX, IBITS_LOCKS_PER_CLIENT_MAX};
use types::lock::InodeBits;
use types::session::ClientUuid;

/// The caller's name for one changing operation, from entering to leaving.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Modifier(pub u64);

/// What the caller must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Ask the client to drop these bits; report its answer with [`IbitsTable::released`].
    Revoke(ClientUuid, Fid, InodeBits),
    /// Nobody else holds what the operation changes: it may go on.
    Ready(Modifier),
}

#[derive(Clone, Copy)]
struct Holding {
    bits: InodeBits,
    /// Those of `bits` that the client was asked to drop.
    revoking: InodeBits,
    /// When it was granted last.
    turn: u64,
}

#[derive(Default)]
struct Resource {
    holders: BTreeMap<ClientUuid, Holding>,
    /// Operations that entered, with the bits they change here.
    entered: BTreeMap<Modifier, InodeBits>,
}

struct Entered {
    client: ClientUuid,
    fids: Vec<Fid>,
    ready: bool,
}

/// All inode-bit locks of one target.
pub struct IbitsTable {
    resources: BTreeMap<Fid, Resource>,
    modifiers: BTreeMap<Modifier, Entered>,
    /// Locks by the time of their last grant, oldest first: in all, and of each client.
    by_turn: BTreeMap<u64, (ClientUuid, Fid)>,
    by_client: BTreeMap<ClientUuid, BTreeMap<u64, Fid>>,
    turn: u64,
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

impl IbitsTable {
    /// No locks; at most so many of one client, and in all.
    pub fn with_bounds(per_client_max: usize, all_max: usize) -> IbitsTable {
        IbitsTable {
            resources: BTreeMap::new(),
            modifiers: BTreeMap::new(),
            by_turn: BTreeMap::new(),
            by_client: BTreeMap::new(),
            turn: 0,
            per_client_max,
            all_max,
        }
    }

    /// Locks there are.
    pub fn len(&self) -> usize {
        self.by_turn.len()
    }

    /// No lock at all?
    pub fn is_empty(&self) -> bool {
        self.by_turn.is_empty()
    }

    /// What a client may rely on, as far as this table knows.
    pub fn held(&self, fid: Fid, client: ClientUuid) -> InodeBits {
        let holding = self.resources.get(&fid).and_then(|r| r.holders.get(&client));
        holding.map_or(InodeBits::NONE, |h| h.bits.without(h.revoking))
    }

    /// A reply shows `client` these bits of `fid`. Answers those it is granted: not the ones another client is
    /// about to change, nor the ones it was itself asked to drop; none at all when the table is full.
    pub fn grant(&mut self, fid: Fid, client: ClientUuid, bits: InodeBits, out: &mut Vec<Action>) -> InodeBits {
        let resource = self.resources.get(&fid);
        let held = resource.and_then(|r| r.holders.get(&client)).copied();
        let others = resource.into_iter().flat_map(|r| &r.entered);
        let closed = others.filter(|(m, _)| self.modifiers[*m].client != client);
        let closed = closed.fold(InodeBits::NONE, |all, (_, bits)| all.union(*bits));
        let revoking = held.map_or(InodeBits::NONE, |h| h.revoking);
        let granted = bits.without(closed).without(revoking);
        if granted.is_empty() || held.is_none() && !self.has_room(client, out) {
            return InodeBits::NONE;
        }
        self.turn += 1;
        let turn = self.turn;
        let holding = self.resources.entry(fid).or_default().holders.entry(client);
        let holding = holding.or_insert(Holding { bits: InodeBits::NONE, revoking, turn });
        let turn_before = std::mem::replace(&mut holding.turn, turn);
        holding.bits = holding.bits.union(granted);
        self.by_turn.remove(&turn_before);
        self.by_turn.insert(turn, (client, fid));
        let own = self.by_client.entry(client).or_default();
        own.remove(&turn_before);
        own.insert(turn, fid);
        granted
    }

    /// An operation of `client` is going to change these bits. Clients that hold them are to be revoked; when none
    /// does (at once, or after the last [`IbitsTable::released`] or [`IbitsTable::gone`]) it is [`Action::Ready`].
    /// Every operation that entered must leave, also one that failed.
    ///
    /// # Panics
    /// If it has entered already: our own bug.
    pub fn enter(
        &mut self,
        modifier: Modifier,
        client: ClientUuid,
        changes: &[(Fid, InodeBits)],
        out: &mut Vec<Action>,
    ) {
        let fids = changes.iter().map(|(fid, _)| *fid).collect();
        let before = self.modifiers.insert(modifier, Entered { client, fids, ready: false });
        assert!(before.is_none(), "{modifier:?} enters twice");
        for (fid, bits) in changes {
            let resource = self.resources.entry(*fid).or_default();
            let entered = resource.entered.entry(modifier).or_default();
            *entered = entered.union(*bits);
            for (holder, holding) in resource.holders.iter_mut().filter(|(holder, _)| **holder != client) {
                let more = holding.bits.intersection(*bits).without(holding.revoking);
                if !more.is_empty() {
                    holding.revoking = holding.revoking.union(more);
                    out.push(Action::Revoke(*holder, *fid, more));
                }
            }
        }
        self.tell_if_ready(modifier, out);
    }

    /// The operation is over.
    pub fn leave(&mut self, modifier: Modifier) {
        let Some(entered) = self.modifiers.remove(&modifier) else { return };
        for fid in entered.fids {
            if let Some(resource) = self.resources.get_mut(&fid) {
                resource.entered.remove(&modifier);
            }
            self.forget_if_unused(fid);
        }
    }

    /// The client holds these bits no longer: it answered a revoke, or dropped them by itself.
    pub fn released(&mut self, fid: Fid, client: ClientUuid, bits: InodeBits, out: &mut Vec<Action>) {
        let Some(resource) = self.resources.get_mut(&fid) else { return };
        let Some(holding) = resource.holders.get_mut(&client) else { return };
        holding.bits = holding.bits.without(bits);
        holding.revoking = holding.revoking.without(bits);
        if holding.bits.is_empty() {
            let turn = holding.turn;
            resource.holders.remove(&client);
            self.by_turn.remove(&turn);
            if let Some(own) = self.by_client.get_mut(&client) {
                own.remove(&turn);
                if own.is_empty() {
                    self.by_client.remove(&client);
                }
            }
        }
        let waiting: Vec<Modifier> = resource.entered.keys().copied().collect();
        waiting.into_iter().for_each(|m| self.tell_if_ready(m, out));
        self.forget_if_unused(fid);
    }

    /// The client is gone, and all its locks with it. Its operations that entered must still leave.
    pub fn gone(&mut self, client: ClientUuid, out: &mut Vec<Action>) {
        let fids = self.by_client.get(&client).into_iter().flat_map(|own| own.values()).copied();
        for fid in fids.collect::<Vec<_>>() {
            self.released(fid, client, InodeBits(u32::MAX), out);
        }
    }

    /// Is there room for one more lock of the client? Near a bound the oldest lock is revoked meanwhile.
    fn has_room(&mut self, client: ClientUuid, out: &mut Vec<Action>) -> bool {
        let own = self.by_client.get(&client);
        let own_count = own.map_or(0, BTreeMap::len);
        if own_count >= soft(self.per_client_max) {
            let oldest = own.into_iter().flatten().map(|(_, fid)| (client, *fid));
            self.revoke_first(oldest.take(own_count - soft(self.per_client_max) + 1).collect(), out);
        }
        if self.len() >= soft(self.all_max) {
            let oldest = self.by_turn.values().copied();
            self.revoke_first(oldest.take(self.len() - soft(self.all_max) + 1).collect(), out);
        }
        own_count < self.per_client_max && self.len() < self.all_max
    }

    /// Revokes the first of these locks that is not being revoked as a whole already.
    fn revoke_first(&mut self, locks: Vec<(ClientUuid, Fid)>, out: &mut Vec<Action>) {
        for (client, fid) in locks {
            let holding = self.resources.get_mut(&fid).and_then(|r| r.holders.get_mut(&client));
            let Some(holding) = holding else { continue };
            let more = holding.bits.without(holding.revoking);
            if !more.is_empty() {
                holding.revoking = holding.bits;
                out.push(Action::Revoke(client, fid, more));
                return;
            }
        }
    }

    fn tell_if_ready(&mut self, modifier: Modifier, out: &mut Vec<Action>) {
        let Some(entered) = self.modifiers.get(&modifier) else { return };
        if !entered.ready && !self.in_the_way(modifier, entered) {
            out.push(Action::Ready(modifier));
            self.modifiers.get_mut(&modifier).expect("just seen").ready = true;
        }
    }

    /// Does another client hold a bit that the operation changes?
    fn in_the_way(&self, modifier: Modifier, entered: &Entered) -> bool {
        entered.fids.iter().filter_map(|fid| self.resources.get(fid)).any(|resource| {
            let changes = resource.entered.get(&modifier).copied().unwrap_or_default();
            let others = resource.holders.iter().filter(|(holder, _)| **holder != entered.client);
            others.into_iter().any(|(_, holding)| !holding.bits.intersection(changes).is_empty())
        })
    }

    fn forget_if_unused(&mut self, fid: Fid) {
        if self.resources.get(&fid).is_some_and(|r| r.holders.is_empty() && r.entered.is_empty()) {
            self.resources.remove(&fid);
        }
    }
}
