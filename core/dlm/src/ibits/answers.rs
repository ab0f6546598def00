//! Answers of holders, and holders that are gone: what waits for them goes on.

use super::locks::Lock;
use super::{Action, IbitsTable, Modifier, NONE, UNDER_WRITE};
use smallvec::SmallVec;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;

/// The client is gone, or the inode is: no answer is waited for.
fn owes_nothing(lock: &mut Lock) {
    (lock.revoking, lock.changing) = (InodeBits::NONE, 0);
}

impl IbitsTable {
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
}
