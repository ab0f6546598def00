//! Entering, waiting for a turn, and leaving.

use super::entered::{Entered, WaitOf};
use super::{Action, Change, EXCLUSIVE, IbitsTable, Modifier, NONE, Resource};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::time::Duration;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;

/// One change of each inode, so that each holder is asked once, with all names.
fn by_inode(changes: impl IntoIterator<Item = Change>) -> SmallVec<[Change; 4]> {
    let mut all: SmallVec<[Change; 4]> = SmallVec::new();
    let whole =
        |change: &Change| change.names.is_empty() && change.bits.contains(InodeBits::UPDATE);
    for change in changes {
        let Some(known) = all.iter_mut().find(|known| known.fid == change.fid) else {
            all.push(change);
            continue;
        };
        if whole(known) || whole(&change) {
            known.names.clear();
        } else {
            known.names.extend(change.names);
        }
        known.bits = known.bits.union(change.bits);
    }
    all
}

impl IbitsTable {
    /// True if no client but `client` holds what is to be changed. An operation that entered as
    /// `entered` and is ready finds free what it entered for.
    pub fn is_free(
        &self,
        client: ClientUuid,
        entered: Option<Modifier>,
        changes: impl IntoIterator<Item = (Fid, InodeBits)>,
    ) -> bool {
        let changes = changes.into_iter().map(|(fid, bits)| (fid, bits, [None, None]));
        self.is_free_with_names(client, entered, changes)
    }

    /// As [`IbitsTable::is_free`]; with the names, if only these change.
    pub fn is_free_with_names<'n>(
        &self,
        client: ClientUuid,
        entered: Option<Modifier>,
        changes: impl IntoIterator<Item = (Fid, InodeBits, [Option<&'n [u8]>; 2])>,
    ) -> bool {
        if self.is_empty() {
            return true;
        }
        let author = self.locks.number(client).unwrap_or(NONE);
        let entered = entered
            .and_then(|modifier| self.modifiers.get(&modifier))
            .filter(|entered| entered.ready);
        changes.into_iter().all(|(fid, bits, names)| {
            // An operation that entered for UPDATE entered for the names too.
            let covered = entered.map_or(InodeBits::NONE, |entered| entered.changed(fid));
            let bits = bits.difference(covered);
            let in_the_way = |resource| self.is_in_the_way(resource, author, fid, bits, names);
            bits.is_empty() || !self.resources.get(&fid).is_some_and(in_the_way)
        })
    }

    fn is_in_the_way(
        &self,
        resource: &Resource,
        author: u32,
        fid: Fid,
        bits: InodeBits,
        names: [Option<&[u8]>; 2],
    ) -> bool {
        let mut others = resource.holders.iter().filter(|(holder, _)| *holder != author);
        others.any(|(holder, slot)| {
            let held = self.locks.get(*slot).bits;
            !self.gaps.clash_of(*holder, held, fid, bits, names.into_iter().flatten()).is_empty()
        })
    }

    /// An operation of `client` is going to change these bits. Clients that hold them are asked to
    /// drop them. The operation is [`Action::Ready`] when all have answered (at once, if there are
    /// none). Every operation that entered must leave, also one that failed. A client that is not
    /// connected holds nothing, as does the target itself.
    ///
    /// # Panics
    /// If the operation has entered already, which is a bug of the caller.
    pub fn enter(
        &mut self,
        modifier: Modifier,
        client: ClientUuid,
        changes: impl IntoIterator<Item = Change>,
        now: Duration,
        out: &mut Vec<Action>,
    ) {
        let changes = by_inode(changes);
        let mut busy = SmallVec::new();
        for change in changes.iter().filter(|change| !change.names.is_empty()) {
            self.heat.note(change.fid, client, now);
            if self.heat.is_busy(change.fid, now) {
                busy.push(change.fid);
            }
            self.meet(client, change, now);
        }
        let entered = Entered::new(self.author(client), changes, busy, InodeBits::NONE);
        self.begin(modifier, entered, out);
    }

    /// These names are foreign to all other holders of gaps.
    fn meet(&mut self, client: ClientUuid, change: &Change, now: Duration) {
        let author = self.locks.number(client).unwrap_or(NONE);
        let holders =
            self.resources.get(&change.fid).into_iter().flat_map(|resource| &resource.holders);
        for (holder, _) in holders.filter(|(holder, _)| *holder != author) {
            change.names.iter().for_each(|name| self.gaps.meets(change.fid, *holder, name, now));
        }
    }

    /// `client` asks for a lock (WRITE with DATA and UPDATE, or DATA with UPDATE) and waits for its
    /// turn. When it is [`Action::Ready`], take it with [`IbitsTable::take`], and leave.
    ///
    /// # Panics
    /// As [`IbitsTable::enter`].
    pub fn enter_lock(
        &mut self,
        modifier: Modifier,
        client: ClientUuid,
        fid: Fid,
        wants: InodeBits,
        out: &mut Vec<Action>,
    ) {
        let excludes = if wants.contains(InodeBits::WRITE) { EXCLUSIVE } else { InodeBits::WRITE };
        let change = Change { fid, bits: excludes, names: SmallVec::new() };
        let entered = Entered::new(
            self.author(client),
            SmallVec::from_iter([change]),
            SmallVec::new(),
            wants,
        );
        self.begin(modifier, entered, out);
    }

    /// Number of a client; [`NONE`] if it is not connected.
    fn author(&self, client: ClientUuid) -> u32 {
        self.locks.number(client).unwrap_or(NONE)
    }

    fn begin(&mut self, modifier: Modifier, entered: Entered, out: &mut Vec<Action>) {
        for change in &entered.changes {
            let resource = self.resources.entry(change.fid).or_default();
            if !resource.entered.contains(&modifier) {
                resource.entered.push(modifier);
            }
        }
        let before = self.modifiers.insert(modifier, entered);
        assert!(before.is_none(), "{modifier:?} enters twice");
        self.advance(modifier, out);
    }

    /// Another client looks at what `client` changed a moment ago: the latter is asked to drop what
    /// it holds of these bits. It keeps the bits of an inode under WRITE unless `bits` has WRITE,
    /// because it is asked for size and times. `false` if it holds none of the bits; then nothing
    /// has entered. Once it has answered, the operation is [`Action::Ready`], and leaves like any
    /// other.
    ///
    /// # Panics
    /// As [`IbitsTable::enter`].
    pub fn ask_back(
        &mut self,
        modifier: Modifier,
        client: ClientUuid,
        bits: &BTreeMap<Fid, InodeBits>,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(number) = self.locks.number(client) else { return false };
        let (mut changes, mut pending) = (SmallVec::new(), BTreeMap::new());
        for (fid, bits) in bits {
            let Some(resource) = self.resources.get_mut(fid) else { continue };
            let Some(slot) = resource.slot(number) else { continue };
            let lock = self.locks.get_mut(slot);
            let keeps = lock.bits.contains(InodeBits::WRITE) && !bits.contains(InodeBits::WRITE);
            let kept = if keeps { EXCLUSIVE } else { InodeBits::NONE };
            let asked = lock.bits.intersection(*bits).difference(kept);
            if asked.is_empty() {
                continue;
            }
            pending.insert((*fid, number), asked);
            let more = asked.difference(lock.revoking);
            if !more.is_empty() {
                lock.revoking = lock.revoking.union(more);
                out.push(Action::Revoke(client, *fid, more));
            }
            // The operation changes nothing, so it closes nothing.
            changes.push(Change { fid: *fid, bits: InodeBits::NONE, names: SmallVec::new() });
            resource.entered.push(modifier);
        }
        if pending.is_empty() {
            return false;
        }
        let (busy, wants) = (SmallVec::new(), InodeBits::NONE);
        let entered = Entered { author: NONE, changes, busy, wants, pending, ready: false };
        let before = self.modifiers.insert(modifier, entered);
        assert!(before.is_none(), "{modifier:?} enters twice");
        true
    }

    /// The request for a lock is [`Action::Ready`]: grants the lock, whatever the bounds say.
    /// `false` if a conflict came in between: the request becomes ready again later.
    pub fn take(&mut self, modifier: Modifier, out: &mut Vec<Action>) -> bool {
        let Some(entered) = self.modifiers.get_mut(&modifier) else { return false };
        entered.ready = false;
        let (author, fid, wants) = (entered.author, entered.changes[0].fid, entered.wants);
        if author == NONE {
            return false;
        }
        let mut told = Vec::new();
        self.advance(modifier, &mut told);
        let is_free = told == [Action::Ready(modifier)];
        if is_free {
            let granted = self.lend(fid, author, wants, true, true);
            assert_eq!(granted, wants, "nothing is in the way of {modifier:?}");
        } else {
            out.append(&mut told);
        }
        is_free
    }

    /// What an operation that entered still waits for. `None` if it waits for nothing or has not
    /// entered.
    pub fn wait_of(&self, modifier: Modifier) -> Option<WaitOf> {
        let entered = self.modifiers.get(&modifier).filter(|entered| !entered.ready)?;
        let author = |number: u32| (number != NONE).then(|| self.locks.uuid(number));
        let holders = entered
            .pending
            .iter()
            .map(|((fid, number), bits)| (*fid, self.locks.uuid(*number), *bits));
        let mut wait = WaitOf {
            client: author(entered.author),
            changes: Vec::new(),
            holders: holders.collect(),
            ahead: Vec::new(),
        };
        for change in &entered.changes {
            wait.changes
                .push((change.fid, if entered.is_lock() { entered.wants } else { change.bits }));
            let queue =
                self.resources.get(&change.fid).map_or(&[][..], |resource| &resource.entered);
            let ahead = queue.iter().take_while(|other| **other != modifier);
            wait.ahead.extend(ahead.filter_map(|other| author(self.modifiers.get(other)?.author)));
        }
        Some(wait)
    }

    /// The operation is over.
    pub fn leave(&mut self, modifier: Modifier, out: &mut Vec<Action>) {
        let Some(entered) = self.modifiers.remove(&modifier) else { return };
        for change in &entered.changes {
            let Some(resource) = self.resources.get_mut(&change.fid) else { continue };
            resource.entered.retain(|other| *other != modifier);
            self.next_turn(change.fid, out);
            self.forget_if_unused(change.fid);
        }
    }

    /// Requests for locks may have come to their turn.
    pub(super) fn next_turn(&mut self, fid: Fid, out: &mut Vec<Action>) {
        let entered = self.resources.get(&fid).into_iter().flat_map(|resource| &resource.entered);
        let next: SmallVec<[Modifier; 8]> =
            entered.copied().filter(|other| self.modifiers[other].is_lock()).collect();
        next.into_iter().for_each(|other| self.advance(other, out));
    }

    /// Asks holders, unless it must wait for its turn first, and reports if it is ready.
    pub(super) fn advance(&mut self, modifier: Modifier, out: &mut Vec<Action>) {
        let entered = &self.modifiers[&modifier];
        let waits = entered.is_lock() && (entered.author == NONE || !self.is_first(modifier));
        if !entered.ready && !waits {
            self.ask_holders(modifier, out);
            self.tell_if_ready(modifier, out);
        }
    }

    fn ask_holders(&mut self, modifier: Modifier, out: &mut Vec<Action>) {
        let IbitsTable { resources, locks, modifiers, gaps, .. } = self;
        let Some(Entered { author, changes, busy, pending, .. }) = modifiers.get_mut(&modifier)
        else {
            return;
        };
        for change in changes.iter() {
            let Some(resource) = resources.get(&change.fid) else { continue };
            for (holder, slot) in resource.holders.iter().filter(|(holder, _)| holder != author) {
                let uuid = locks.uuid(*holder);
                let lock = locks.get_mut(*slot);
                let clash = gaps.clash(*holder, lock.bits, change);
                if clash.is_empty() {
                    continue;
                }
                let waits = pending.entry((change.fid, *holder)).or_default();
                let new = clash.difference(*waits);
                *waits = waits.union(clash);
                let mut more = new.difference(lock.revoking);
                let told = !change.names.is_empty() && !busy.contains(&change.fid);
                if told && more.contains(InodeBits::UPDATE) {
                    more = more.difference(InodeBits::UPDATE);
                    lock.changing += 1;
                    out.push(Action::Changing(modifier, uuid, change.fid, change.names.clone()));
                }
                if !more.is_empty() {
                    lock.revoking = lock.revoking.union(more);
                    out.push(Action::Revoke(uuid, change.fid, more));
                }
            }
        }
    }

    pub(super) fn tell_if_ready(&mut self, modifier: Modifier, out: &mut Vec<Action>) {
        let Some(entered) = self.modifiers.get(&modifier) else { return };
        if entered.ready || !entered.pending.is_empty() {
            return;
        }
        if entered.is_lock()
            && (entered.author == NONE || !self.is_first(modifier) || self.is_closed(modifier))
        {
            return;
        }
        out.push(Action::Ready(modifier));
        self.modifiers.get_mut(&modifier).expect("just seen").ready = true;
    }

    /// True if no older request of another client stands before this request for a lock.
    pub(super) fn is_first(&self, modifier: Modifier) -> bool {
        let own = &self.modifiers[&modifier];
        let older = self.resources[&own.changes[0].fid]
            .entered
            .iter()
            .take_while(|other| **other != modifier);
        let stands_before = |other: &Entered| {
            let conflict = other.wants.union(own.wants).contains(InodeBits::WRITE);
            other.is_lock() && conflict && other.author != own.author && other.author != NONE
        };
        !older.into_iter().any(|other| stands_before(&self.modifiers[other]))
    }

    /// True if another operation is about to change what this request for a lock wants, or if its
    /// own client must drop that first.
    pub(super) fn is_closed(&self, modifier: Modifier) -> bool {
        let own = &self.modifiers[&modifier];
        let fid = own.changes[0].fid;
        let slot = self.resources[&fid].slot(own.author);
        if slot.is_some_and(|slot| self.locks.get(slot).asked().intersects(own.wants)) {
            return true;
        }
        let others = self.resources[&fid].entered.iter().map(|other| &self.modifiers[other]);
        let closes = |other: &Entered| other.closes(fid, own.author).intersects(own.wants);
        others.into_iter().any(|other| !other.is_lock() && closes(other))
    }

    pub(super) fn forget_if_unused(&mut self, fid: Fid) {
        if self.resources.get(&fid).is_some_and(|r| r.holders.is_empty() && r.entered.is_empty()) {
            self.resources.remove(&fid);
        }
    }
}
