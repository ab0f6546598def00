//! What clients hold of the records: grants to the client of an operation, and what others must
//! give back before it changes something.

use super::{ALL_NAMES, Records};
use crate::acks::AckEvent;
use crate::acks::unacked::Look;
use crate::held_names::InTheWay;
use crate::locks::Locks;
use crate::locks::context::{LockRequest, OF_WRITERS, Obstacle, Storing, owned};
use crate::locks::shared_writers::SHARED_BITS;
use crate::state::State;
use disk::key;
use namespace::view::Change;
use observe::mutant::{Mutant, is_mutant};
use smallvec::SmallVec;
use std::ops::{Bound, ControlFlow};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;
use wire::mds::Entry;
use wire::message::Gap;

impl Records<'_> {
    /// Grants the client those of these bits that nothing is in the way of; returns them.
    pub(crate) fn grant(&mut self, fid: Fid, bits: InodeBits) -> InodeBits {
        let asked = bits.intersection(self.lock_context.asked.mask);
        let granted = self.try_grant(fid, self.lock_context.outcome.refused.others(fid, asked));
        self.lock_context.outcome.refused.note(fid, asked.difference(granted));
        granted
    }

    fn try_grant(&mut self, fid: Fid, bits: InodeBits) -> InodeBits {
        let mut bits = self.state.bundles.pins.grantable(fid, bits);
        if self.state.locks.groups.shut_out(fid, self.lock_context.asked.client) {
            bits = bits.difference(InodeBits::DATA.union(InodeBits::WRITE));
        }
        if bits.is_empty() || !self.lock_context.outcome.has_room() {
            return InodeBits::NONE;
        }
        let Locks { table, actions, .. } = &mut self.state.locks;
        let granted = table.grant(
            fid,
            self.lock_context.asked.client,
            bits,
            self.lock_context.asked.now,
            actions,
        );
        self.lock_context.outcome.granted(fid, granted);
        granted
    }

    /// The client is told that a directory has no such name, and does not hold UPDATE of it. It may
    /// cache that there is no name up to the next one, as far as no other change is in the way.
    ///
    /// # Errors
    /// EIO.
    pub(crate) fn grant_gap(&mut self, dir: Fid, name: &[u8]) -> Result<(), Errno> {
        let LockRequest { client, mask, now, .. } = self.lock_context.asked;
        let State { locks: Locks { table, actions, .. }, acks, bundles, .. } = &mut *self.state;
        if !mask.contains(InodeBits::GAP)
            || table.shown(dir, client).contains(InodeBits::UPDATE)
            || bundles.pins.grantable(dir, InodeBits::GAP).is_empty()
        {
            return Ok(());
        }
        let reach = table.gap_at(dir, client, name, now);
        let end = match reach.end() {
            [] => key::dirents_end(dir).to_vec(),
            end => [&key::dirent(dir, b""), end].concat(),
        };
        let mut names = Some(reach);
        self.tx.scan(&key::dirent(dir, name), &end, |key, _| {
            names = names.take().and_then(|names| names.below(key::name_of(key)?));
            ControlFlow::Break(())
        })?;
        for pinned in bundles.pins.names_in(dir) {
            names = names.and_then(|names| names.below(pinned));
        }
        // The author of a recent change is called back only for a client that asks for these names.
        for changed in acks.unacked().names(client, dir) {
            names = names.and_then(|names| names.below(changed));
        }
        let granted = names.and_then(|names| table.grant_gap(dir, client, names, actions));
        if let Some(names) = &granted {
            // Names that others have removed are among them.
            let end = match names.end() {
                [] => Bound::Unbounded,
                end => Bound::Excluded(end),
            };
            self.show_names(dir, (Bound::Included(name), end));
        }
        self.lock_context.outcome.gap = granted.map(|names| Gap { dir, names });
        Ok(())
    }

    /// Shows the client an inode, with these locks. Another client may know size and times better:
    /// the lock context says so.
    ///
    /// # Errors
    /// EIO: the record is damaged.
    pub(crate) fn show(&mut self, fid: Fid, bits: InodeBits) -> Result<Option<Entry>, Errno> {
        self.settled(fid)?;
        let entry = self.entry(fid)?;
        if let Some(entry) = &entry {
            let of_directory = if entry.attr.is_dir() { InodeBits::PERM } else { InodeBits::NONE };
            self.offer(fid, bits.union(of_directory));
        }
        Ok(entry)
    }

    /// Runs `store`, by which the client stores bytes of a file. If the file is shared and the
    /// client is one of its writers, the shared owner is not in its way. The client must not wait
    /// for others, neither here nor for the answer to its request, if it stores bytes that were
    /// called back (mapped pages become known only then), or if any of its locks on the file's data
    /// is being called back: the others are told.
    ///
    /// # Errors
    /// Those of `store`.
    pub(crate) fn storing<R>(
        &mut self,
        fid: Fid,
        store: impl FnOnce(&mut Self) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let (locks, client) = (&self.state.locks, self.lock_context.asked.client);
        let shared_writers = &locks.shared_writers.table;
        let shared = !shared_writers.is_empty() && shared_writers.is_writer(fid, client);
        let of_data = InodeBits::DATA.union(InodeBits::WRITE);
        let urgent =
            locks.table.is_asked(fid, client, of_data) || shared_writers.is_member(fid, client);
        self.lock_context.asked.storing =
            Some(Storing { shared_file: shared.then_some(fid), urgent });
        self.lock_context.outcome.urgent |= urgent;
        let result = store(self);
        self.lock_context.asked.storing = None;
        result
    }

    /// The client is shown an inode that was read already.
    pub(crate) fn shown(&mut self, fid: Fid, bits: InodeBits) {
        self.look(fid, Look::Attr);
        self.show_names(fid, ALL_NAMES);
        self.offer(fid, bits);
    }

    /// Grants the client locks on an inode that it is shown, now or when its writers have told what
    /// they know.
    fn offer(&mut self, fid: Fid, bits: InodeBits) {
        let LockRequest { client, now, .. } = self.lock_context.asked;
        let written_elsewhere = &mut self.lock_context.outcome.written_elsewhere;
        let writer = self.state.locks.table.writer(fid).filter(|writer| *writer != client);
        // Or a writer was there when the same operation showed it before.
        if writer.is_some() || written_elsewhere.contains_key(&fid) {
            written_elsewhere.insert(fid, bits);
            if writer.is_some() {
                self.state.locks.end_if_alone(fid, client, now);
            }
            self.grant(fid, bits.difference(OF_WRITERS));
        } else {
            self.grant(fid, bits);
        }
    }

    /// The author of a removal holds OPEN of the removed inode: the reply says so, as a grant. The
    /// author may not know, because the reply that granted OPEN is still on its way or was not
    /// trusted any more; but only the author can give it back.
    pub(super) fn tell_author_of_open(&mut self, fid: Fid) {
        let held = self
            .state
            .locks
            .table
            .shown(fid, self.lock_context.asked.client)
            .intersection(InodeBits::OPEN);
        if !is_mutant(Mutant::OpenNotTold) {
            self.lock_context.outcome.granted(fid, held);
        }
    }

    /// Succeeds if no other client holds what is to be changed; otherwise the operation is run
    /// again when that is so.
    pub(super) fn holders_know(&mut self, changes: &[Change<'_>]) -> Result<(), Errno> {
        self.free_of(self.state.bundles.pins.meets(self.lock_context.asked.bundle, changes))?;
        if let Some(held) = self.names_held(changes) {
            self.lock_context.outcome.obstacle = Some(Obstacle::Held(held));
            return Err(Errno::EAGAIN);
        }
        if self.state.locks.table.is_empty() {
            return Ok(());
        }
        let storing = self.lock_context.asked.storing.unwrap_or_default();
        let not_shared: SmallVec<[Change<'_>; 1]>;
        let changes = match storing.shared_file {
            None => changes,
            // The shared owner holds what the members change together, and no other client holds
            // anything of that.
            Some(shared) => {
                let of_shared = |change: &Change<'_>| {
                    if change.fid == shared { SHARED_BITS } else { InodeBits::NONE }
                };
                let without = |change: &Change<'_>| change.bits.difference(of_shared(change));
                let rest = changes.iter().map(|change| Change { bits: without(change), ..*change });
                not_shared = rest.collect();
                &not_shared
            }
        };
        let table = &mut self.state.locks.table;
        let LockRequest { modifier, now, .. } = self.lock_context.asked;
        let client = self.lock_context.asked.spared();
        let with_names = changes.iter().map(|change| (change.fid, change.bits, change.names));
        if !table.is_free_with_names(client, modifier, with_names) {
            if !storing.urgent {
                return Err(self.lock_context.outcome.held_up(changes));
            }
            self.state.locks.enter_and_leave(client, owned(changes)?, now);
            self.note_author(changes);
            return Ok(());
        }
        for change in changes.iter().filter(|change| change.names[0].is_some()) {
            table.names_change(change.fid, client, change.names.into_iter().flatten(), now);
        }
        self.note_author(changes);
        Ok(())
    }

    /// Whether another client holds a name that is to be changed.
    fn names_held(&self, changes: &[Change<'_>]) -> Option<InTheWay> {
        let (client, now) = (self.lock_context.asked.tries(), self.lock_context.asked.now);
        let held = &self.state.held_names;
        if held.is_empty() || client == ClientUuid::default() {
            return None;
        }
        changes.iter().find_map(|change| {
            held.in_the_way(client, change.fid, change.names.into_iter().flatten(), now)
        })
    }

    /// Succeeds if no client holds a name of this directory, some of whose names are to pass to
    /// other stripes: a client's second try must come to the stripe of the first one. Else the
    /// bundle begins anew: what it has pinned elsewhere would be in the way of the second try.
    pub(crate) fn names_may_pass(&mut self, dir: Fid) -> Result<(), Errno> {
        let LockRequest { pass_held, now, .. } = self.lock_context.asked;
        let wait = !pass_held && self.state.held_names.any_in(dir, now);
        if wait { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    /// A name changes for which others were called back before, and which was pinned since.
    pub(crate) fn change_now(&mut self, dir: Fid, name: &[u8]) {
        let LockRequest { client, now, .. } = self.lock_context.asked;
        self.state.locks.table.names_change(dir, client, [name], now);
        self.note_author(&[Change::name(dir, name)]);
    }

    /// The client is about to change this. Its own mount may show the state before until it has the
    /// answer.
    pub(super) fn note_author(&mut self, changes: &[Change<'_>]) {
        let (client, xid) = self.lock_context.asked.of();
        if self.state.locks.may_show_old(client, changes) {
            self.state.acknowledge(AckEvent::Changes { client, xid, changes });
        }
    }

    /// Other clients give these bits back before the operation goes on. It has changed nothing and
    /// is run again then.
    pub(crate) fn call_back(&mut self, fid: Fid, bits: InodeBits) -> Result<(), Errno> {
        let LockRequest { client, modifier, .. } = self.lock_context.asked;
        match self.state.locks.table.is_free(client, modifier, [(fid, bits)]) {
            true => Ok(()),
            false => Err(self.lock_context.outcome.held_up(&[Change::of(fid, bits)])),
        }
    }

    /// A client uses a file; `writes`: it changes it. Leases of others that exclude this use are
    /// over.
    pub(crate) fn used(&mut self, client: ClientUuid, fid: Fid, writes: bool) {
        self.state.locks.leases.used(fid, writes, |(holder, _)| *holder == client);
    }

    /// Changes of data and layouts end leases of other clients, except changes that the MDT makes
    /// by itself.
    pub(super) fn end_leases(&mut self, changes: &[Change<'_>]) {
        let client = self.lock_context.asked.client;
        if self.state.locks.leases.is_empty() || client == ClientUuid::default() {
            return;
        }
        let of_data = InodeBits::DATA.union(InodeBits::LAYOUT);
        for change in changes.iter().filter(|change| change.bits.intersects(of_data)) {
            self.used(client, change.fid, true);
        }
    }
}
