//! Extents: ranges of bytes of a file with shared writers (docs/locks/protocol.md, "Shared-write
//! files").
//!
//! A virtual client of the MDT, the shared owner, holds DATA, UPDATE and WRITE of such a file in
//! [`crate::ibits`]. This table shares the bytes among the members, the clients that write the
//! file. A request names the bytes that it needs, for reading or for writing. It waits until no
//! other member holds bytes that conflict with it. Requests are served first come, first served:
//! none overtakes an earlier request that it conflicts with.
//!
//! A grant reaches beyond the needed bytes as far as nothing held or waited for is in the way.
//! While members meet in the file it grows less, and then not at all, so members that write by
//! turns hold just what they write. A member that then asks for equal pieces at equal distances, as
//! the ranks of a parallel program do, is granted the next pieces ahead.
//!
//! **Invariant:** bytes that a member holds for writing are held by no other member. **Invariant:**
//! a member holds at most [`EXTENTS_PER_HOLDER_MAX`] ranges for reading and as many for writing.
//! Near the bound some are called back, and at it requests wait.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use types::fid::Fid;
use types::limits::{EXTENTS_PER_HOLDER_MAX, EXTENTS_PER_REPLY_MAX, SHARED_FILES_MAX};
use types::ranges::{ByteRange, Ranges};
use types::session::ClientUuid;

/// Members meet in a file if an extent was called back for another member within this time.
pub const MEETS: Duration = Duration::from_secs(1);
/// How far extents grow to each side in a file in which members met once, bytes.
pub const REACH: u64 = 4 << 20;
/// A member that was alone for this long may have the whole file.
pub const ALONE: Duration = Duration::from_secs(3);
/// Pieces that are granted ahead at most.
const AHEAD_MAX: u64 = EXTENTS_PER_REPLY_MAX as u64 - 1;
/// Extents that are called back at once near the bound.
const BATCH: usize = EXTENTS_PER_HOLDER_MAX / 4;

/// The caller's name for one request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExtentTicket(pub u64);

/// What the caller must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExtentAction {
    /// Ask the member to give these bytes back; report its answer with [`ExtentTable::released`].
    Revoke(ClientUuid, Fid, ByteRange),
    /// The request has come to its turn: these extents are granted; the first one has the needed
    /// bytes.
    Granted(ExtentTicket, SmallVec<[ByteRange; 1]>),
    /// The shared owner gives the file up, or the member is gone: the request ends, and its caller
    /// asks again.
    Again(ExtentTicket),
    /// No member holds or waits for anything of the file any more: it is no longer shared.
    Over(Fid),
}

/// What one member holds.
#[derive(Default)]
struct Holder {
    read: Ranges,
    write: Ranges,
    /// Of both, what it was asked for.
    asked: Ranges,
    steps: Steps,
}

/// Where a member works while members meet.
#[derive(Default)]
struct Steps {
    last: Option<(ByteRange, bool)>,
    /// From the start of the piece before to that of the last one, bytes; 0 if there is no such
    /// distance.
    distance: u64,
    /// How often the distance was the same.
    same: u32,
}

impl Steps {
    /// A piece is asked for. Returns how many more are likely to be.
    fn note(&mut self, needs: ByteRange, write: bool) -> u64 {
        let len = |range: ByteRange| range.end - range.start;
        let goes_on = |(last, wrote): (ByteRange, bool)| {
            wrote == write && len(last) == len(needs) && last.end < needs.start
        };
        let distance =
            self.last.filter(|last| goes_on(*last)).map_or(0, |(last, _)| needs.start - last.start);
        self.same = if distance != 0 && distance == self.distance { self.same + 1 } else { 0 };
        (self.distance, self.last) = (distance, Some((needs, write)));
        // 2, 4, 8, as long as it goes on.
        match self.same {
            0 => 0,
            same => AHEAD_MAX.min(1 << same.min(8)),
        }
    }
}

/// Bytes that a member needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentRequest {
    /// The file.
    pub fid: Fid,
    /// The member.
    pub client: ClientUuid,
    /// The bytes.
    pub needs: ByteRange,
    /// It writes them.
    pub write: bool,
}

struct Waiting {
    ticket: ExtentTicket,
    client: ClientUuid,
    needs: ByteRange,
    write: bool,
}

/// One shared-write file.
#[derive(Default)]
struct File {
    holders: BTreeMap<ClientUuid, Holder>,
    /// Oldest first.
    waiting: Vec<Waiting>,
    /// Everything is called back.
    closing: bool,
    /// When members met last, and the time before.
    met: [Option<Duration>; 2],
    /// When a member last asked while others held something; at first, when the file came to be
    /// shared.
    shared: Duration,
}

/// All extents of one target.
#[derive(Default)]
pub struct ExtentTable {
    files: HashMap<Fid, File, FixedState>,
    /// For each member, the files in which it holds or waits for something.
    members: BTreeMap<ClientUuid, BTreeSet<Fid>>,
    tickets: BTreeMap<ExtentTicket, Fid>,
}

impl Holder {
    fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }

    fn len(&self) -> usize {
        self.read.len().max(self.write.len())
    }

    /// The ranges that are in the way of another member that reads or writes.
    fn in_the_way(&self, write: bool) -> impl Iterator<Item = &Ranges> {
        [&self.write, &self.read].into_iter().take(1 + usize::from(write))
    }

    /// Notes that all of a range is asked for, and returns the part that was not yet. So no byte is
    /// asked for by two callbacks at a time, and the answer to one says nothing about extents
    /// granted since the other.
    fn ask(&mut self, range: ByteRange) -> Ranges {
        let mut new: Ranges = [range].into_iter().collect();
        self.asked.overlapping(range).for_each(|asked| new.remove(asked));
        self.asked.insert(range);
        new
    }
}

impl Waiting {
    fn conflicts(&self, other: &Waiting) -> bool {
        self.client != other.client
            && (self.write || other.write)
            && self.needs.overlaps(other.needs)
    }
}

impl File {
    /// How far extents may grow to each side, bytes.
    fn reach(&self, now: Duration) -> u64 {
        let met = |at: &Option<Duration>| at.is_some_and(|at| now.saturating_sub(at) < MEETS);
        match self.met.iter().filter(|at| met(at)).count() {
            0 => u64::MAX,
            1 => REACH,
            _ => 0,
        }
    }

    /// True if an earlier request stands before this one, or its member must first give back bytes
    /// that it was asked for.
    fn must_wait(&self, at: usize) -> bool {
        let own = &self.waiting[at];
        let holder = self.holders.get(&own.client);
        self.waiting[..at].iter().any(|earlier| earlier.conflicts(own))
            || holder.is_some_and(|held| {
                held.asked.overlaps(own.needs) || held.len() >= EXTENTS_PER_HOLDER_MAX
            })
    }

    /// Asks other members for what is in the way of a request; `false`: nothing is.
    fn ask_others(
        &mut self,
        fid: Fid,
        at: usize,
        now: Duration,
        out: &mut Vec<ExtentAction>,
    ) -> bool {
        let Waiting { client, needs, write, .. } = self.waiting[at];
        let (mut any, mut met) = (false, false);
        for (other, held) in self.holders.iter_mut().filter(|(other, _)| **other != client) {
            let conflicts: Vec<ByteRange> =
                held.in_the_way(write).flat_map(|set| set.overlapping(needs)).collect();
            for range in conflicts {
                any = true;
                for new in held.ask(range).iter() {
                    met = true;
                    out.push(ExtentAction::Revoke(*other, fid, new));
                }
            }
        }
        if met {
            self.met = [Some(now), self.met[0]];
        }
        any
    }

    /// The range that the request gets: the bytes it needs, and as much around them as no other
    /// member holds or waits for.
    fn grown(&self, at: usize, now: Duration) -> ByteRange {
        let Waiting { client, needs, write, .. } = self.waiting[at];
        let reach = self.reach(now);
        let mut room =
            ByteRange::new(needs.start.saturating_sub(reach), needs.end.saturating_add(reach));
        let mut bound = |taken: &Ranges| {
            let free = taken.room_around(needs);
            room = ByteRange::new(room.start.max(free.start), room.end.min(free.end));
        };
        for (other, held) in &self.holders {
            match *other == client {
                true => bound(&held.asked),
                false => held.in_the_way(write).for_each(&mut bound),
            }
        }
        let others =
            self.waiting.iter().filter(|other| other.client != client && (write || other.write));
        // A request that needs some of the same bytes comes later; the grant does not grow into the
        // rest of its range.
        for other in others.map(|other| other.needs) {
            if other.start < needs.start {
                room.start = room.start.max(other.end.min(needs.start));
            }
            if other.end > needs.end {
                room.end = room.end.min(other.start.max(needs.end));
            }
        }
        room
    }

    /// The pieces that a member gets ahead, up to the first one that another member holds or waits
    /// for.
    fn ahead(
        &mut self,
        client: ClientUuid,
        needs: ByteRange,
        write: bool,
        now: Duration,
    ) -> SmallVec<[ByteRange; 1]> {
        let mut ahead = SmallVec::new();
        let meets = self.reach(now) == 0;
        let Some(held) = self.holders.get_mut(&client) else { return ahead };
        let count = if meets { held.steps.note(needs, write) } else { 0 };
        let distance = held.steps.distance;
        for n in 1..=count {
            let (Some(start), Some(end)) =
                (needs.start.checked_add(n * distance), needs.end.checked_add(n * distance))
            else {
                break;
            };
            let piece = ByteRange::new(start, end);
            let is_free = self.holders.iter().all(|(other, held)| match *other == client {
                true => !held.asked.overlaps(piece) && held.len() + 1 < EXTENTS_PER_HOLDER_MAX,
                false => held.in_the_way(write).all(|set| !set.overlaps(piece)),
            });
            let is_wanted = self
                .waiting
                .iter()
                .any(|other| other.client != client && other.needs.overlaps(piece));
            let Some(held) = self.holders.get_mut(&client).filter(|_| is_free && !is_wanted) else {
                break;
            };
            match write {
                true => held.write.insert(piece),
                false => held.read.insert(piece),
            }
            held.steps.last = Some((piece, write));
            ahead.push(piece);
        }
        ahead
    }

    /// Near the bound: asks a member for some of its extents, those farthest from where it works
    /// now.
    fn make_room(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        works: ByteRange,
        out: &mut Vec<ExtentAction>,
    ) {
        let Some(held) = self.holders.get_mut(&client) else { return };
        let set = if held.write.len() >= held.read.len() { &held.write } else { &held.read };
        if set.len() + BATCH / 2 < EXTENTS_PER_HOLDER_MAX || !held.asked.is_empty() {
            return;
        }
        let before = set.iter().take_while(|range| range.end <= works.start).count();
        let far: Vec<ByteRange> = match before * 2 >= set.len() {
            true => set.iter().take(BATCH).collect(),
            false => set.iter().rev().take(BATCH).collect(),
        };
        for range in far {
            if !range.overlaps(works) {
                out.extend(
                    held.ask(range).iter().map(|new| ExtentAction::Revoke(client, fid, new)),
                );
            }
        }
    }

    /// Grants each request whose turn has come, or calls back what others hold of it.
    fn advance(
        &mut self,
        fid: Fid,
        now: Duration,
        granted: &mut Vec<ExtentTicket>,
        out: &mut Vec<ExtentAction>,
    ) {
        let mut at = 0;
        while at < self.waiting.len() {
            if self.must_wait(at) || self.ask_others(fid, at, now, out) {
                at += 1;
                continue;
            }
            let range = self.grown(at, now);
            let Waiting { ticket, client, needs, write } = self.waiting.remove(at);
            let held = self.holders.entry(client).or_default();
            match write {
                true => held.write.insert(range),
                false => held.read.insert(range),
            }
            granted.push(ticket);
            let mut ranges = self.ahead(client, needs, write, now);
            ranges.insert(0, range);
            out.push(ExtentAction::Granted(ticket, ranges));
            self.make_room(fid, client, needs, out);
        }
    }
}

impl ExtentTable {
    /// Shared files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True if no file is shared.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// True if one more file may be shared.
    pub fn has_room(&self) -> bool {
        self.files.len() < SHARED_FILES_MAX
    }

    /// Extents of all files and members.
    pub fn extents(&self) -> usize {
        self.files
            .values()
            .flat_map(|file| file.holders.values())
            .map(|held| held.read.len() + held.write.len())
            .sum()
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.tickets.len()
    }

    fn holder(&self, fid: Fid, client: ClientUuid) -> Option<&Holder> {
        self.files.get(&fid)?.holders.get(&client)
    }

    /// True if the member holds bytes for writing, even if it was asked for them.
    pub fn is_writer(&self, fid: Fid, client: ClientUuid) -> bool {
        self.holder(fid, client).is_some_and(|held| !held.write.is_empty())
    }

    /// True if the member holds anything of the file, even if it was asked for it.
    pub fn is_member(&self, fid: Fid, client: ClientUuid) -> bool {
        self.holder(fid, client).is_some_and(|held| !held.is_empty())
    }

    /// Members that hold bytes for writing, in order: they know size and times.
    pub fn writers(&self, fid: Fid) -> impl Iterator<Item = ClientUuid> + '_ {
        let holders = self.files.get(&fid).into_iter().flat_map(|file| &file.holders);
        holders.filter(|(_, held)| !held.write.is_empty()).map(|(client, _)| *client)
    }

    /// True if no other client has held or wanted anything for some time.
    pub fn is_alone(&self, fid: Fid, client: ClientUuid, now: Duration) -> bool {
        self.files.get(&fid).is_some_and(|file| {
            let others =
                file.holders.keys().chain(file.waiting.iter().map(|waiting| &waiting.client));
            now.saturating_sub(file.shared) >= ALONE
                && others.into_iter().all(|other| *other == client)
        })
    }

    /// A member needs bytes. The shared owner holds the file, and no client has asked it back. The
    /// answer is [`ExtentAction::Granted`] when they are the member's, at once if no other member
    /// is in the way. `now`: any clock that never goes back.
    ///
    /// # Panics
    /// If a request with this ticket waits already, which is a bug of the caller.
    pub fn request(
        &mut self,
        ticket: ExtentTicket,
        wanted: ExtentRequest,
        now: Duration,
        out: &mut Vec<ExtentAction>,
    ) {
        let ExtentRequest { fid, client, needs, write } = wanted;
        let file = self.files.entry(fid).or_insert_with(|| File { shared: now, ..File::default() });
        if file.closing {
            return out.push(ExtentAction::Again(ticket));
        }
        if file.holders.keys().any(|other| *other != client) {
            file.shared = now;
        }
        file.waiting.push(Waiting { ticket, client, needs, write });
        let before = self.tickets.insert(ticket, fid);
        assert!(before.is_none(), "{ticket:?} asks twice");
        self.members.entry(client).or_default().insert(fid);
        self.advance(fid, now, out);
    }

    /// Gives a member back exactly what it held before the target restarted. If the shared owner
    /// has been asked for the file meanwhile, that is called back at once. `false` if another
    /// member has it.
    pub fn restore(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        (range, write): (ByteRange, bool),
        now: Duration,
        out: &mut Vec<ExtentAction>,
    ) -> bool {
        let file = self.files.entry(fid).or_insert_with(|| File { shared: now, ..File::default() });
        let mut others = file.holders.iter().filter(|(other, _)| **other != client);
        if others.any(|(_, held)| held.in_the_way(write).any(|set| set.overlaps(range))) {
            return false;
        }
        let held = file.holders.entry(client).or_default();
        match write {
            true => held.write.insert(range),
            false => held.read.insert(range),
        }
        if file.closing {
            let new = held.ask(range);
            out.extend(new.iter().map(|new| ExtentAction::Revoke(client, fid, new)));
        }
        self.members.entry(client).or_default().insert(fid);
        true
    }

    /// A request is given up.
    pub fn cancel(&mut self, ticket: ExtentTicket, now: Duration, out: &mut Vec<ExtentAction>) {
        let Some(fid) = self.tickets.remove(&ticket) else { return };
        if let Some(file) = self.files.get_mut(&fid) {
            file.waiting.retain(|waiting| waiting.ticket != ticket);
            self.advance(fid, now, out);
        }
    }

    /// A member gives these bytes back by itself. Bytes that it was asked for stay its own until it
    /// has answered.
    pub fn given_back(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        range: ByteRange,
        now: Duration,
        out: &mut Vec<ExtentAction>,
    ) {
        let Some(held) = self.holder(fid, client) else { return };
        let mut rest: Ranges = [range].into_iter().collect();
        held.asked.overlapping(range).for_each(|asked| rest.remove(asked));
        rest.iter().for_each(|range| self.released(fid, client, range, now, out));
    }

    /// A member no longer holds these bytes, as it was asked.
    pub fn released(
        &mut self,
        fid: Fid,
        client: ClientUuid,
        range: ByteRange,
        now: Duration,
        out: &mut Vec<ExtentAction>,
    ) {
        let Some(file) = self.files.get_mut(&fid) else { return };
        if let Some(held) = file.holders.get_mut(&client) {
            held.read.remove(range);
            held.write.remove(range);
            held.asked.remove(range);
            if held.is_empty() {
                file.holders.remove(&client);
            }
            self.advance(fid, now, out);
        }
        self.forget_member(fid, client);
    }

    /// The shared owner is asked for the file: all extents are called back. When the last one is
    /// back it is [`ExtentAction::Over`].
    pub fn call_back(&mut self, fid: Fid, out: &mut Vec<ExtentAction>) {
        let Some(file) = self.files.get_mut(&fid) else { return out.push(ExtentAction::Over(fid)) };
        file.closing = true;
        for (client, held) in &mut file.holders {
            let all: Ranges = held.read.iter().chain(held.write.iter()).collect();
            for range in all.iter() {
                out.extend(
                    held.ask(range).iter().map(|new| ExtentAction::Revoke(*client, fid, new)),
                );
            }
        }
        self.turn_away(fid, out);
        self.end_if_over(fid, out);
    }

    /// The inode was destroyed.
    pub fn forget(&mut self, fid: Fid, out: &mut Vec<ExtentAction>) {
        self.turn_away(fid, out);
        if let Some(file) = self.files.remove(&fid) {
            file.holders.keys().for_each(|client| self.forget_member(fid, *client));
        }
    }

    /// The client's session ended: its extents are free. Returns the files in which it held
    /// something for writing.
    pub fn gone(
        &mut self,
        client: ClientUuid,
        now: Duration,
        out: &mut Vec<ExtentAction>,
    ) -> Vec<Fid> {
        let mut written = Vec::new();
        for fid in self.members.remove(&client).unwrap_or_default() {
            let Some(file) = self.files.get_mut(&fid) else { continue };
            if file.holders.remove(&client).is_some_and(|held| !held.write.is_empty()) {
                written.push(fid);
            }
            let (own, others) =
                std::mem::take(&mut file.waiting).into_iter().partition(|w| w.client == client);
            file.waiting = others;
            let own: Vec<Waiting> = own;
            for waiting in own {
                self.tickets.remove(&waiting.ticket);
                out.push(ExtentAction::Again(waiting.ticket));
            }
            self.advance(fid, now, out);
        }
        written
    }

    /// Ends all requests that wait for the file.
    fn turn_away(&mut self, fid: Fid, out: &mut Vec<ExtentAction>) {
        let Some(file) = self.files.get_mut(&fid) else { return };
        for waiting in std::mem::take(&mut file.waiting) {
            self.tickets.remove(&waiting.ticket);
            out.push(ExtentAction::Again(waiting.ticket));
            self.forget_member(fid, waiting.client);
        }
    }

    fn advance(&mut self, fid: Fid, now: Duration, out: &mut Vec<ExtentAction>) {
        let Some(file) = self.files.get_mut(&fid) else { return };
        let mut granted = Vec::new();
        file.advance(fid, now, &mut granted, out);
        granted.iter().for_each(|ticket| _ = self.tickets.remove(ticket));
        self.end_if_over(fid, out);
    }

    fn end_if_over(&mut self, fid: Fid, out: &mut Vec<ExtentAction>) {
        if self
            .files
            .get(&fid)
            .is_some_and(|file| file.holders.is_empty() && file.waiting.is_empty())
        {
            self.files.remove(&fid);
            out.push(ExtentAction::Over(fid));
        }
    }

    fn forget_member(&mut self, fid: Fid, client: ClientUuid) {
        let is_in = |file: &File| {
            file.holders.contains_key(&client)
                || file.waiting.iter().any(|waiting| waiting.client == client)
        };
        if !self.files.get(&fid).is_some_and(is_in)
            && let Some(files) = self.members.get_mut(&client)
        {
            files.remove(&fid);
            if files.is_empty() {
                self.members.remove(&client);
            }
        }
    }
}
