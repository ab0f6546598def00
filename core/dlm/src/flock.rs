//! fcntl(2), flock(2) and group locks at a metadata target.
//!
//! A [`FlockTable`] knows, per inode, the granted ranges of each owner and the waiting requests,
//! oldest first. Each request carries a [`FlockTicket`]; the table answers it with one
//! [`FlockAction`], at once or after a later event. A request waits only for granted locks, never
//! for other waiters, as in Linux. When a range is freed, waiters are tried from the oldest on.
//! POSIX, BSD and group locks never see each other.
//!
//! **Invariant:** no two owners hold overlapping ranges of one flavour unless both are shared, or
//! clients of one group. **Invariant:** a request waits only while a granted lock conflicts with
//! it.

mod ranges;
#[cfg(test)]
mod tests;

use ranges::{Held, Ranges};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::FLOCKS_PER_RESOURCE_MAX;
use types::lock::{Flock, FlockFlavor, FlockKind};
use types::session::ClientUuid;

/// The owner of a lock or of a request: a process (POSIX), an open file description (BSD), or all
/// members of a group of one client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockOwner {
    /// Client of the owner.
    pub client: ClientUuid,
    /// The interface.
    pub flavor: FlockFlavor,
    /// Name of the owner within the client; of a group, everywhere.
    pub owner: u64,
}

impl LockOwner {
    /// True if a lock of the other owner may be in the way.
    fn is_rival(&self, other: &LockOwner) -> bool {
        let same_group = self.flavor == FlockFlavor::Group && self.owner == other.owner;
        self != other && self.flavor == other.flavor && !same_group
    }
}

/// The caller's name for one request, until it is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlockTicket(pub u64);

/// Answer to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlockAction {
    /// The lock is held (or released).
    Granted(FlockTicket),
    /// Results of a request that does not get the lock:
    /// - EAGAIN: in conflict, and the caller does not wait;
    /// - EDEADLK: waiting would never end;
    /// - ENOLCK: the inode has too many locks;
    /// - EINVAL: the range is empty;
    /// - EINTR: given up while waiting, or its owner is gone.
    Refused(FlockTicket, Errno),
}

struct Waiter {
    owner: LockOwner,
    wanted: Held,
    ticket: FlockTicket,
}

#[derive(Default)]
struct Resource {
    granted: BTreeMap<LockOwner, Ranges>,
    /// Ranges in `granted`.
    granted_count: usize,
    /// Oldest first.
    waiting: VecDeque<Waiter>,
}

/// All locks of one target.
#[derive(Default)]
pub struct FlockTable {
    resources: BTreeMap<Fid, Resource>,
    /// Where POSIX owners wait, for deadlock detection: (owner, inode) -> number of requests.
    waits: BTreeMap<(LockOwner, Fid), usize>,
}

/// flock(2) and groups lock the file as a whole, whatever the range says.
fn normal(client: ClientUuid, lock: &Flock) -> (LockOwner, Held) {
    let (start, end) = match lock.flavor {
        FlockFlavor::Posix => (lock.start, lock.end),
        FlockFlavor::Bsd | FlockFlavor::Group => (0, u64::MAX),
    };
    let owner = LockOwner { client, flavor: lock.flavor, owner: lock.owner };
    (owner, Held { kind: lock.kind, pid: lock.pid, start, end })
}

impl FlockTable {
    /// An empty table.
    pub fn new() -> FlockTable {
        FlockTable::default()
    }

    /// True if no lock is held and no request waits.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Every held lock: its inode, and the lock as it would be asked for.
    pub fn held(&self) -> impl Iterator<Item = (Fid, Flock)> {
        self.resources.iter().flat_map(|(fid, resource)| {
            resource.granted.iter().flat_map(|(owner, ranges)| {
                ranges.overlapping(0, u64::MAX).map(|held| {
                    let Held { kind, pid, start, end } = *held;
                    (
                        *fid,
                        Flock { flavor: owner.flavor, kind, owner: owner.owner, pid, start, end },
                    )
                })
            })
        })
    }

    /// The locks that one owner has on the bytes of `lock`, clipped to them.
    pub fn owned(&self, fid: Fid, owner: LockOwner, lock: &Flock) -> impl Iterator<Item = Flock> {
        let (_, wanted) = normal(owner.client, lock);
        let ranges = self.resources.get(&fid).and_then(|resource| resource.granted.get(&owner));
        ranges.into_iter().flat_map(move |ranges| ranges.overlapping(wanted.start, wanted.end)).map(
            move |held| {
                let (start, end) = (held.start.max(wanted.start), held.end.min(wanted.end));
                Flock {
                    flavor: owner.flavor,
                    kind: held.kind,
                    owner: owner.owner,
                    pid: held.pid,
                    start,
                    end,
                }
            },
        )
    }

    /// Clients that hold a group lock of this inode.
    pub fn group_members(&self, fid: Fid) -> Vec<ClientUuid> {
        let owners =
            self.resources.get(&fid).into_iter().flat_map(|resource| resource.granted.keys());
        owners
            .filter(|owner| owner.flavor == FlockFlavor::Group)
            .map(|owner| owner.client)
            .collect()
    }

    /// F_GETLK: a lock that is in the way of `lock`, the one with the lowest first byte; `None` =
    /// free.
    pub fn test(&self, fid: Fid, client: ClientUuid, lock: &Flock) -> Option<Flock> {
        let (owner, wanted) = normal(client, lock);
        let resource = self.resources.get(&fid)?;
        let (holder, held) =
            resource.conflicts(owner, wanted).min_by_key(|(_, held)| held.start)?;
        let Held { kind, pid, start, end } = *held;
        Some(Flock { flavor: holder.flavor, kind, owner: holder.owner, pid, start, end })
    }

    /// The holders that are in the way of `lock`, with their locks; at most `max`.
    pub fn holders(
        &self,
        fid: Fid,
        client: ClientUuid,
        lock: &Flock,
        max: usize,
    ) -> Vec<(ClientUuid, Flock)> {
        let (owner, wanted) = normal(client, lock);
        let Some(resource) = self.resources.get(&fid) else { return Vec::new() };
        let lock = |(holder, held): (LockOwner, &Held)| {
            let Held { kind, pid, start, end } = *held;
            (
                holder.client,
                Flock { flavor: holder.flavor, kind, owner: holder.owner, pid, start, end },
            )
        };
        resource.conflicts(owner, wanted).take(max).map(lock).collect()
    }

    /// F_SETLK, F_SETLKW, flock(2): takes or releases. Answered at once unless `wait` and in
    /// conflict.
    ///
    /// A flock(2) request that meets a conflict has lost the owner's old lock, even if it is
    /// refused: flock(2) says so of conversions. A POSIX request that is refused has changed
    /// nothing.
    pub fn set(
        &mut self,
        fid: Fid,
        (client, lock): (ClientUuid, &Flock),
        wait: bool,
        ticket: FlockTicket,
        out: &mut Vec<FlockAction>,
    ) {
        let (owner, wanted) = normal(client, lock);
        if wanted.start > wanted.end {
            out.push(FlockAction::Refused(ticket, Errno::EINVAL));
            return;
        }
        let resource = self.resources.entry(fid).or_default();
        if resource.conflicts(owner, wanted).next().is_none() {
            let freed = resource.grant(owner, wanted, ticket, out);
            self.settle(fid, freed, out);
            return;
        }
        let mut freed = false;
        if owner.flavor == FlockFlavor::Bsd {
            freed = resource.forget(|o| *o == owner);
        }
        if !wait {
            out.push(FlockAction::Refused(ticket, Errno::EAGAIN));
        } else if resource.len() >= FLOCKS_PER_RESOURCE_MAX {
            out.push(FlockAction::Refused(ticket, Errno::ENOLCK));
        } else if owner.flavor == FlockFlavor::Posix && self.would_deadlock(fid, owner, wanted) {
            out.push(FlockAction::Refused(ticket, Errno::EDEADLK));
        } else {
            self.enqueue(fid, Waiter { owner, wanted, ticket });
        }
        self.settle(fid, freed, out);
    }

    /// The owner gives up a request that waits for exactly this lock (a signal came): its answer is
    /// EINTR. A request that does not wait (any longer) is left alone: its answer is already on its
    /// way.
    pub fn cancel(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        lock: &Flock,
        out: &mut Vec<FlockAction>,
    ) {
        let (owner, wanted) = normal(client, lock);
        let same = |w: &Waiter| {
            w.owner == owner
                && (w.wanted.kind, w.wanted.start, w.wanted.end)
                    == (wanted.kind, wanted.start, wanted.end)
        };
        let Some(at) = self.resources.get(&fid).and_then(|r| r.waiting.iter().position(same))
        else {
            return;
        };
        self.give_up(fid, at, out);
    }

    /// The owner let go of the inode: its locks there go, and its waiting requests are answered
    /// EINTR.
    pub fn release_owner(&mut self, fid: Fid, owner: LockOwner, out: &mut Vec<FlockAction>) {
        self.release_where(fid, |o| *o == owner, out);
    }

    /// The client is gone: so is everything it held and waited for. Its waiting requests are
    /// answered EINTR.
    pub fn release_client(&mut self, client: ClientUuid, out: &mut Vec<FlockAction>) {
        let theirs = |o: &LockOwner| o.client == client;
        let touched = |r: &Resource| {
            r.granted.keys().any(theirs) || r.waiting.iter().any(|w| theirs(&w.owner))
        };
        let fids: Vec<Fid> =
            self.resources.iter().filter(|(_, r)| touched(r)).map(|(fid, _)| *fid).collect();
        for fid in fids {
            self.release_where(fid, theirs, out);
        }
    }

    fn release_where(
        &mut self,
        fid: Fid,
        theirs: impl Fn(&LockOwner) -> bool,
        out: &mut Vec<FlockAction>,
    ) {
        while let Some(at) =
            self.resources.get(&fid).and_then(|r| r.waiting.iter().position(|w| theirs(&w.owner)))
        {
            self.give_up(fid, at, out);
        }
        let Some(resource) = self.resources.get_mut(&fid) else { return };
        let freed = resource.forget(theirs);
        self.settle(fid, freed, out);
    }

    fn give_up(&mut self, fid: Fid, at: usize, out: &mut Vec<FlockAction>) {
        let waiter = self.dequeue(fid, at);
        out.push(FlockAction::Refused(waiter.ticket, Errno::EINTR));
        self.settle(fid, false, out);
    }

    fn enqueue(&mut self, fid: Fid, waiter: Waiter) {
        if waiter.owner.flavor == FlockFlavor::Posix {
            *self.waits.entry((waiter.owner, fid)).or_default() += 1;
        }
        self.resources.entry(fid).or_default().waiting.push_back(waiter);
    }

    fn dequeue(&mut self, fid: Fid, at: usize) -> Waiter {
        let resource = self.resources.get_mut(&fid).expect("has a waiter");
        let waiter = resource.waiting.remove(at).expect("index just found");
        if let Some(n) = self.waits.get_mut(&(waiter.owner, fid)) {
            *n -= 1;
            if *n == 0 {
                self.waits.remove(&(waiter.owner, fid));
            }
        }
        waiter
    }

    /// After a change: grants what became possible, oldest first, and forgets a resource without
    /// locks.
    fn settle(&mut self, fid: Fid, mut freed: bool, out: &mut Vec<FlockAction>) {
        while freed {
            // Again from the start after each grant: it may itself have freed something (a
            // downgrade).
            let Some(resource) = self.resources.get(&fid) else { return };
            let possible = |w: &Waiter| resource.conflicts(w.owner, w.wanted).next().is_none();
            let Some(at) = resource.waiting.iter().position(possible) else { break };
            let waiter = self.dequeue(fid, at);
            let resource = self.resources.get_mut(&fid).expect("seen above");
            resource.grant(waiter.owner, waiter.wanted, waiter.ticket, out);
            freed = true;
        }
        if self.resources.get(&fid).is_some_and(|r| r.len() == 0) {
            self.resources.remove(&fid);
        }
    }

    /// True if `owner`, waiting for `wanted`, would wait for itself through others. A process with
    /// several threads may be refused although another of its threads would have released in time;
    /// Linux refuses it too.
    fn would_deadlock(&self, fid: Fid, owner: LockOwner, wanted: Held) -> bool {
        let mut seen = BTreeSet::new();
        let mut stack: Vec<LockOwner> = Vec::new();
        let mut visit = |fid: &Fid, owner: LockOwner, wanted: Held, stack: &mut Vec<LockOwner>| {
            if let Some(resource) = self.resources.get(fid) {
                stack.extend(
                    resource.conflicts(owner, wanted).map(|(o, _)| o).filter(|o| seen.insert(*o)),
                );
            }
        };
        visit(&fid, owner, wanted, &mut stack);
        while let Some(blocker) = stack.pop() {
            if blocker == owner {
                return true;
            }
            for ((_, fid), _) in
                self.waits.range((blocker, Fid::NONE)..).take_while(|((o, _), _)| *o == blocker)
            {
                let waiting = self.resources.get(fid).into_iter().flat_map(|r| &r.waiting);
                for waiter in waiting.filter(|w| w.owner == blocker) {
                    visit(fid, blocker, waiter.wanted, &mut stack);
                }
            }
        }
        false
    }
}

impl Resource {
    fn len(&self) -> usize {
        self.granted_count + self.waiting.len()
    }

    /// Granted locks of others that forbid `wanted`.
    fn conflicts(
        &self,
        owner: LockOwner,
        wanted: Held,
    ) -> impl Iterator<Item = (LockOwner, &Held)> {
        let rival = move |o: &LockOwner| owner.is_rival(o) && wanted.kind != FlockKind::Unlock;
        let forbids =
            move |h: &&Held| h.kind == FlockKind::Write || wanted.kind == FlockKind::Write;
        self.granted.iter().filter(move |(holder, _)| rival(holder)).flat_map(
            move |(holder, ranges)| {
                ranges
                    .overlapping(wanted.start, wanted.end)
                    .filter(forbids)
                    .map(|held| (*holder, held))
            },
        )
    }

    /// Applies a request that nothing forbids. Returns whether waiters may succeed now.
    fn grant(
        &mut self,
        owner: LockOwner,
        wanted: Held,
        ticket: FlockTicket,
        out: &mut Vec<FlockAction>,
    ) -> bool {
        let own = self.granted.entry(owner).or_default();
        let change = ranges::replace(own.touching(wanted.start, wanted.end).copied(), wanted);
        let count_after = self.granted_count + change.added.len() - change.removed.len();
        let grows = count_after > self.granted_count;
        let answer = if grows && count_after + self.waiting.len() > FLOCKS_PER_RESOURCE_MAX {
            FlockAction::Refused(ticket, Errno::ENOLCK)
        } else {
            own.apply(&change);
            self.granted_count = count_after;
            FlockAction::Granted(ticket)
        };
        if own.len() == 0 {
            self.granted.remove(&owner);
        }
        out.push(answer);
        change.freed
    }

    /// Drops all granted locks of some owners. Returns whether there were any.
    fn forget(&mut self, whose: impl Fn(&LockOwner) -> bool) -> bool {
        let before = self.granted_count;
        self.granted.retain(|owner, _| !whose(owner));
        self.granted_count = self.granted.values().map(Ranges::len).sum();
        self.granted_count != before
    }
}
