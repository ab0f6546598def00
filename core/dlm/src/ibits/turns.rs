//! Entering, answers of holders, and leaving.

use super::locks::Lock;
use super::{Action, Change, EXCLUSIVE, IbitsTable, Modifier, NONE, Resource, UNDER_WRITE};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::time::Duration;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;

/// One operation from entering to leaving.
pub(super) struct Entered {
    /// Number of its client; [`NONE`]: the target itself, or a client that is gone.
    author: u32,
    /// What it changes. For a request for a lock: the bits that no other client may hold with it.
    changes: SmallVec<[Change; 4]>,
    /// Busy directories among them: holders of UPDATE are not told the names there, but drop it.
    busy: SmallVec<[Fid; 2]>,
    /// A request for a lock: what it wants.
    wants: InodeBits,
    /// The holders that have not answered, with the bits.
    pending: BTreeMap<(Fid, u32), InodeBits>,
    ready: bool,
}

impl Entered {
    /// It asks no holder yet.
    fn new(
        author: u32,
        changes: SmallVec<[Change; 4]>,
        busy: SmallVec<[Fid; 2]>,
        wants: InodeBits,
    ) -> Entered {
        Entered { author, changes, busy, wants, pending: BTreeMap::new(), ready: false }
    }
}

/// What an operation waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitOf {
    /// The client of the operation; `None` for the target itself.
    pub client: Option<ClientUuid>,
    /// Inodes, with the bits that it changes or wants to lock.
    pub changes: Vec<(Fid, InodeBits)>,
    /// Holders that have not answered yet, with the bits.
    pub holders: Vec<(Fid, ClientUuid, InodeBits)>,
    /// Clients of operations that entered earlier for the same inodes: their turn may come first.
    pub ahead: Vec<ClientUuid>,
}

impl Entered {
    pub(super) fn is_lock(&self) -> bool {
        !self.wants.is_empty()
    }

    fn changed(&self, fid: Fid) -> InodeBits {
        let here = self.changes.iter().filter(|change| change.fid == fid);
        here.fold(InodeBits::NONE, |all, change| all.union(change.bits))
    }

    /// What the operation forbids this client to be granted of an inode.
    pub(super) fn changes_for(&self, fid: Fid, number: u32) -> impl Iterator<Item = &Change> {
        let foreign = self.author != number;
        self.changes.iter().filter(move |change| foreign && change.fid == fid)
    }

    /// Bits that it forbids this client to be granted.
    pub(super) fn closes(&self, fid: Fid, number: u32) -> InodeBits {
        if self.author == number {
            return InodeBits::NONE;
        }
        let changed = self.changed(fid);
        match !changed.intersects(UNDER_WRITE) {
            true => changed,
            false => changed.union(InodeBits::WRITE),
        }
    }
}

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

/// The client is gone, or the inode is: no answer is waited for.
fn owes_nothing(lock: &mut Lock) {
    (lock.revoking, lock.changing) = (InodeBits::NONE, 0);
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
    fn next_turn(&mut self, fid: Fid, out: &mut Vec<Action>) {
        let entered = self.resources.get(&fid).into_iter().flat_map(|resource| &resource.entered);
        let next: SmallVec<[Modifier; 8]> =
            entered.copied().filter(|other| self.modifiers[other].is_lock()).collect();
        next.into_iter().for_each(|other| self.advance(other, out));
    }

    /// The client dropped these bits by itself. What waits for that goes on. The client still owes
    /// the answers to what it was asked. WRITE goes with DATA or UPDATE. Returns the bits that it
    /// held.
    pub fn released(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        bits: InodeBits,
        out: &mut Vec<Action>,
    ) -> InodeBits {
        self.no_longer_held(fid, client, bits, |_| (), out)
    }

    /// Answer to [`Action::Revoke`]: the client has dropped these bits, which are those that it was
    /// asked for without those that it keeps. As [`IbitsTable::released`].
    pub fn dropped(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        bits: InodeBits,
        out: &mut Vec<Action>,
    ) -> InodeBits {
        self.no_longer_held(
            fid,
            client,
            bits,
            |lock| lock.revoking = lock.revoking.difference(bits),
            out,
        )
    }

    /// Answer to [`Action::Changing`]: the client has dropped UPDATE of the directory. As
    /// [`IbitsTable::released`].
    pub fn dropped_names(
        &mut self,
        dir: Fid,
        client: ClientUuid,
        out: &mut Vec<Action>,
    ) -> InodeBits {
        let answer = |lock: &mut Lock| lock.changing = lock.changing.saturating_sub(1);
        self.no_longer_held(dir, client, InodeBits::UPDATE, answer, out)
    }

    /// The client no longer holds these bits. `answer` notes what it has answered.
    fn no_longer_held(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        bits: InodeBits,
        answer: impl FnOnce(&mut Lock),
        out: &mut Vec<Action>,
    ) -> InodeBits {
        let Some(number) = self.locks.number(client) else { return InodeBits::NONE };
        let bits = match !bits.intersects(UNDER_WRITE) {
            true => bits,
            false => bits.union(InodeBits::WRITE),
        };
        let Some(resource) = self.resources.get_mut(&fid) else { return InodeBits::NONE };
        let Some(slot) = resource.slot(number) else { return InodeBits::NONE };
        let lock = self.locks.get_mut(slot);
        let had = lock.bits.intersection(bits);
        lock.bits = lock.bits.difference(bits);
        answer(lock);
        if had.contains(InodeBits::GAP) {
            self.gaps.remove(fid, number);
        }
        self.end_if_over(fid, number);
        if had.contains(InodeBits::WRITE) {
            self.writers.remove(&fid);
        }
        self.answered(fid, number, bits, out);
        self.forget_if_unused(fid);
        had
    }

    /// Removes a lock without bits whose client owes no answer.
    fn end_if_over(&mut self, fid: Fid, number: u32) {
        let Some(resource) = self.resources.get_mut(&fid) else { return };
        if let Some(slot) = resource.slot(number).filter(|slot| self.locks.get(*slot).is_over()) {
            self.locks.remove(slot);
            resource.holders.retain(|(holder, _)| *holder != number);
        }
    }

    /// Answer to a revoke: programs of the client use the inode, so OPEN stays. A removal may go
    /// on.
    pub fn kept(&mut self, fid: Fid, client: ClientUuid, out: &mut Vec<Action>) {
        let Some(number) = self.locks.number(client) else { return };
        let Some(slot) = self.resources.get(&fid).and_then(|resource| resource.slot(number)) else {
            return;
        };
        let lock = self.locks.get_mut(slot);
        lock.revoking = lock.revoking.difference(InodeBits::OPEN);
        self.end_if_over(fid, number);
        self.answered(fid, number, InodeBits::OPEN, out);
        self.forget_if_unused(fid);
    }

    /// Answer to [`Action::Changing`]: the names and the attributes of the directory are forgotten.
    pub fn forgot(
        &mut self,
        modifier: Modifier,
        client: ClientUuid,
        dir: Fid,
        out: &mut Vec<Action>,
    ) {
        let Some(number) = self.locks.number(client) else { return };
        if let Some(slot) = self.resources.get(&dir).and_then(|resource| resource.slot(number)) {
            let lock = self.locks.get_mut(slot);
            lock.changing = lock.changing.saturating_sub(1);
        }
        self.end_if_over(dir, number);
        self.answered_one(modifier, dir, number, InodeBits::UPDATE);
        self.tell_if_ready(modifier, out);
        // Requests of this very client may have waited for its answer.
        self.next_turn(dir, out);
        self.forget_if_unused(dir);
    }

    /// The client is gone, and with it all its locks: callbacks for them count as answered. Its
    /// operations that entered must still leave.
    pub fn gone(&mut self, client: ClientUuid, out: &mut Vec<Action>) -> Vec<(Fid, InodeBits)> {
        let Some(number) = self.locks.number(client) else { return Vec::new() };
        let slots: Vec<u32> = self.locks.of(number).collect();
        let held: Vec<_> = slots
            .iter()
            .map(|slot| (self.locks.get(*slot).fid, self.locks.get(*slot).bits))
            .collect();
        let mut given_up: Vec<Fid> = Vec::new();
        for (modifier, entered) in
            self.modifiers.iter_mut().filter(|(_, entered)| entered.author == number)
        {
            entered.author = NONE;
            if entered.is_lock() {
                out.push(Action::Cancelled(*modifier));
                given_up.push(entered.changes[0].fid);
            }
        }
        for (fid, _) in &held {
            self.no_longer_held(*fid, client, InodeBits::ALL, owes_nothing, out);
        }
        self.locks.disconnect(client);
        // Not before: a request whose turn comes would ask the client for what it held, and a later
        // session of it would answer.
        given_up.into_iter().for_each(|fid| self.next_turn(fid, out));
        held
    }

    /// The inode was destroyed, and its locks with it; no client is asked. Clients that `show` a
    /// name of it keep LOOKUP and UPDATE, and with them its attributes, until the answer that is
    /// under way reaches them.
    pub fn destroyed(
        &mut self,
        fid: Fid,
        show: impl Fn(ClientUuid) -> bool,
        out: &mut Vec<Action>,
    ) {
        let Some(resource) = self.resources.get(&fid) else { return };
        let holders: SmallVec<[u32; 4]> =
            resource.holders.iter().map(|(holder, _)| *holder).collect();
        for holder in holders {
            let client = self.locks.uuid(holder);
            let keeps = if show(client) {
                InodeBits::LOOKUP.union(InodeBits::UPDATE)
            } else {
                InodeBits::NONE
            };
            let answer = |lock: &mut Lock| {
                if keeps.is_empty() {
                    owes_nothing(lock);
                }
            };
            self.no_longer_held(fid, client, InodeBits::ALL.difference(keeps), answer, out);
        }
    }

    /// A holder dropped bits, or answered that it keeps them: fewer answers are waited for.
    fn answered(&mut self, fid: Fid, number: u32, bits: InodeBits, out: &mut Vec<Action>) {
        let Some(resource) = self.resources.get(&fid) else { return };
        let waiting: SmallVec<[Modifier; 8]> = resource.entered.iter().copied().collect();
        for modifier in waiting {
            self.answered_one(modifier, fid, number, bits);
            match self.modifiers[&modifier].is_lock() {
                true => self.advance(modifier, out),
                false => self.tell_if_ready(modifier, out),
            }
        }
    }

    fn answered_one(&mut self, modifier: Modifier, fid: Fid, number: u32, bits: InodeBits) {
        let Some(entered) = self.modifiers.get_mut(&modifier) else { return };
        if let Some(pending) = entered.pending.get_mut(&(fid, number)) {
            *pending = pending.difference(bits);
            if pending.is_empty() {
                entered.pending.remove(&(fid, number));
            }
        }
    }

    /// Asks holders, unless it must wait for its turn first, and reports if it is ready.
    fn advance(&mut self, modifier: Modifier, out: &mut Vec<Action>) {
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

    fn tell_if_ready(&mut self, modifier: Modifier, out: &mut Vec<Action>) {
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
    fn is_first(&self, modifier: Modifier) -> bool {
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
    fn is_closed(&self, modifier: Modifier) -> bool {
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

    fn forget_if_unused(&mut self, fid: Fid) {
        if self.resources.get(&fid).is_some_and(|r| r.holders.is_empty() && r.entered.is_empty()) {
            self.resources.remove(&fid);
        }
    }
}

#[cfg(test)]
impl Entered {
    /// True if its client is gone.
    pub(super) fn is_orphaned(&self) -> bool {
        self.author == NONE
    }

    /// Every holder of what it changes was asked and is waited for, or kept it. If the operation is
    /// not ready, a holder is missing.
    pub(super) fn check(
        &self,
        fid: Fid,
        table: &IbitsTable,
        holders: &[(u32, u32)],
        modifier: Modifier,
    ) {
        for (holder, slot) in holders.iter().filter(|(holder, _)| *holder != self.author) {
            let held = table.locks.get(*slot).bits;
            let here = self.changes.iter().filter(|change| change.fid == fid);
            let clash = here.fold(super::clash(held, self.changed(fid)), |clash, change| {
                clash.union(table.gaps.clash(*holder, held, change))
            });
            let pending = self.pending.get(&(fid, *holder)).copied().unwrap_or_default();
            let keepers = InodeBits::UPDATE.union(InodeBits::OPEN);
            let asks_back = self.changed(fid).is_empty();
            // The holder may meanwhile have cut the gap that it was asked for.
            assert!(asks_back || clash.union(held.intersection(InodeBits::GAP)).contains(pending));
            let asks = !self.is_lock() || table.is_first(modifier);
            if asks && self.author != NONE {
                assert!(
                    pending.contains(clash.difference(keepers)),
                    "{modifier:?} does not wait for {clash:?}"
                );
            }
        }
        if !self.ready && self.pending.is_empty() && !self.changes.is_empty() {
            assert!(
                self.is_lock()
                    && (self.author == NONE
                        || !table.is_first(modifier)
                        || table.is_closed(modifier))
            );
        }
        assert!(!self.ready || self.pending.is_empty());
    }
}
