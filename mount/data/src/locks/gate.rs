//! The ticket gate of one MDT: which grants of a reply still hold when the reply arrives.
//!
//! A callback travels beside replies and can overtake the one that grants what it calls back. So
//! each request takes a ticket when it is sent. Bits that are called back, given up or changed by
//! this client are noted, and a reply whose ticket is older than a note loses the noted bits. A
//! note goes when all tickets older than it have come back. Bits that are being given up stay noted
//! until the MDT has answered, because requests sent meanwhile may be served before it.
//!
//! A gap in a reply may date from before this client's own request that makes a name in it. So it
//! is cut after the names of own requests that are under way, or that were answered since the
//! ticket was taken.
//!
//! Pure: no clock, no lock, no I/O.

use foldhash::HashMap;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::names::NameRange;
use types::ranges::ByteRange;

/// Notes of one MDT, about 100 bytes each: four times the locks that this mount may be giving up at
/// once (`upkeep`). Beyond it (one request waits very long) all requests under way lose
/// all grants: that costs round trips, never correctness. The MDT counts what they lost as held,
/// until it calls back the oldest.
const NOTES_MAX: usize = 131_072;

/// Names of requests that ended without an answer. Each may still be created at any time. Beyond
/// this number no gap is taken any more.
const UNANSWERED_MAX: usize = 1024;

/// Number of a request, in the order of sending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// See the module.
#[derive(Default)]
pub struct Gate {
    next: u64,
    out: BTreeSet<Ticket>,
    /// Each note concerns tickets below its number.
    notes: HashMap<Fid, SmallVec<[(Ticket, InodeBits); 2]>>,
    /// As `notes`, for bytes of files.
    ranges: HashMap<Fid, SmallVec<[(Ticket, ByteRange); 2]>>,
    /// As `notes`, for names that own requests made.
    names: HashMap<Fid, SmallVec<[(Ticket, Name); 2]>>,
    /// Names that own requests may be making now, each with the number of those requests.
    making: HashMap<Fid, Vec<Name>>,
    /// How many of these belong to requests that ended without an answer.
    unanswered: usize,
    order: VecDeque<(Ticket, Fid)>,
    /// Tickets below this one lose everything.
    all: u64,
    /// Being given up: how many times, and what.
    giving: HashMap<Fid, (u32, InodeBits)>,
}

impl Gate {
    /// A request is sent.
    pub fn send(&mut self) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.out.insert(ticket);
        ticket
    }

    /// The part of a grant that stands when the reply to this request arrives.
    pub fn admit(&self, ticket: Ticket, fid: Fid, bits: InodeBits) -> InodeBits {
        if ticket.0 < self.all {
            return InodeBits::NONE;
        }
        let mut left = bits;
        for (at, noted) in self.notes.get(&fid).into_iter().flatten() {
            if ticket < *at {
                left = left.difference(*noted);
            }
        }
        match self.giving.get(&fid) {
            Some((_, giving)) => left.difference(*giving),
            None => left,
        }
    }

    /// True if an extent in the reply to this request still stands.
    pub(crate) fn admit_range(&self, ticket: Ticket, fid: Fid, range: ByteRange) -> bool {
        let of_data = InodeBits::DATA.union(InodeBits::WRITE);
        let giving = self.giving.get(&fid).is_some_and(|(_, bits)| bits.intersects(of_data));
        let mut noted = self.ranges.get(&fid).into_iter().flatten();
        ticket.0 >= self.all
            && !giving
            && !noted.any(|(at, noted)| ticket < *at && noted.overlaps(range))
    }

    /// The part of a gap that stands when the reply to this request arrives.
    pub(crate) fn admit_names(
        &self,
        ticket: Ticket,
        dir: Fid,
        names: &NameRange,
    ) -> Option<NameRange> {
        if self.admit(ticket, dir, InodeBits::GAP).is_empty() || self.unanswered > UNANSWERED_MAX {
            return None;
        }
        let made = self
            .names
            .get(&dir)
            .into_iter()
            .flatten()
            .filter(|(at, _)| ticket < *at)
            .map(|(_, name)| name);
        let making = self.making.get(&dir).into_iter().flatten();
        made.chain(making).try_fold(names.clone(), |left, name| left.behind(name))
    }

    /// A request is sent that may make this name.
    pub fn makes(&mut self, dir: Fid, name: Name) {
        self.making.entry(dir).or_default().push(name);
    }

    /// The request was answered: the name is there, or will not be. Or its caller no longer waits
    /// for the answer (`answered` is false), and so it may come at any time.
    pub fn made(&mut self, dir: Fid, name: Name, answered: bool) {
        if !answered {
            self.unanswered += 1;
            return;
        }
        if let Some(making) = self.making.get_mut(&dir) {
            if let Some(at) = making.iter().position(|other| *other == name) {
                making.swap_remove(at);
            }
            if making.is_empty() {
                self.making.remove(&dir);
            }
        }
        let at = Ticket(self.next);
        if self.out.is_empty() {
            return;
        }
        if self.order.len() >= NOTES_MAX {
            return self.note_all();
        }
        self.names.entry(dir).or_default().push((at, name));
        self.order.push_back((at, dir));
    }

    /// The request came back, or will never.
    pub(crate) fn came_back(&mut self, ticket: Ticket) {
        self.out.remove(&ticket);
        let oldest = self.out.first().copied().unwrap_or(Ticket(self.next));
        while let Some((at, fid)) = self.order.front().copied()
            && at <= oldest
        {
            self.order.pop_front();
            drop_until(&mut self.notes, fid, oldest);
            drop_until(&mut self.ranges, fid, oldest);
            drop_until(&mut self.names, fid, oldest);
        }
    }

    /// These bits are called back, or changed: replies under way lose them.
    pub fn note(&mut self, fid: Fid, bits: InodeBits) {
        let at = Ticket(self.next);
        if self.out.is_empty() || bits.is_empty() {
            return;
        }
        if self.order.len() >= NOTES_MAX {
            return self.note_all();
        }
        let notes = self.notes.entry(fid).or_default();
        match notes.last_mut().filter(|(last, _)| *last == at) {
            Some((_, noted)) => *noted = noted.union(bits),
            None => {
                notes.push((at, bits));
                self.order.push_back((at, fid));
            }
        }
    }

    /// These bytes are called back: replies under way lose extents with any of them.
    pub(crate) fn note_range(&mut self, fid: Fid, range: ByteRange) {
        let at = Ticket(self.next);
        if self.out.is_empty() {
            return;
        }
        if self.order.len() >= NOTES_MAX {
            return self.note_all();
        }
        self.ranges.entry(fid).or_default().push((at, range));
        self.order.push_back((at, fid));
    }

    /// The session ended: replies under way lose everything.
    pub(crate) fn note_all(&mut self) {
        self.all = self.next;
        self.notes.clear();
        self.ranges.clear();
        self.names.clear();
        self.order.clear();
    }

    /// These bits are being given up; [`Gate::given`] follows.
    pub(crate) fn giving(&mut self, fid: Fid, bits: InodeBits) {
        let (count, giving) = self.giving.entry(fid).or_default();
        *count += 1;
        *giving = giving.union(bits);
    }

    /// The MDT knows (or the session is gone).
    pub fn given(&mut self, fid: Fid) {
        let Some((count, bits)) = self.giving.get_mut(&fid) else { return };
        let bits = *bits;
        *count -= 1;
        if *count == 0 {
            self.giving.remove(&fid);
        }
        self.note(fid, bits);
    }

    #[cfg(test)]
    fn size(&self) -> (usize, usize) {
        (self.notes.len() + self.ranges.len() + self.names.len(), self.order.len())
    }
}

/// Notes that concern no ticket from `oldest` on go.
fn drop_until<T>(notes: &mut HashMap<Fid, SmallVec<[(Ticket, T); 2]>>, fid: Fid, oldest: Ticket) {
    if let Some(of_inode) = notes.get_mut(&fid) {
        of_inode.retain(|(noted, _)| *noted > oldest);
        if of_inode.is_empty() {
            notes.remove(&fid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const B: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 2, ver: 0 };
    const BOTH: InodeBits = InodeBits::LOOKUP.union(InodeBits::UPDATE);

    #[test]
    fn a_callback_that_overtakes_takes_its_bits_from_the_reply() {
        let mut gate = Gate::default();
        let early = gate.send();
        gate.note(A, InodeBits::UPDATE);
        let late = gate.send();
        assert_eq!(gate.admit(early, A, BOTH), InodeBits::LOOKUP);
        assert_eq!(gate.admit(early, B, BOTH), BOTH);
        assert_eq!(gate.admit(late, A, BOTH), BOTH, "sent after the callback: granted after it");
    }

    #[test]
    fn a_note_goes_when_all_older_tickets_are_back() {
        let mut gate = Gate::default();
        let (first, second) = (gate.send(), gate.send());
        gate.note(A, InodeBits::UPDATE);
        let third = gate.send();
        gate.note(B, InodeBits::UPDATE);
        gate.came_back(second);
        assert_eq!(gate.size(), (2, 2), "the oldest is still out");
        gate.came_back(first);
        assert_eq!(gate.size(), (1, 1));
        assert_eq!(gate.admit(third, B, BOTH), InodeBits::LOOKUP);
        gate.came_back(third);
        assert_eq!(gate.size(), (0, 0));
        gate.note(A, BOTH);
        assert_eq!(gate.size(), (0, 0), "nothing is out that it could concern");
    }

    #[test]
    fn notes_of_one_inode_add_up() {
        let mut gate = Gate::default();
        let first = gate.send();
        gate.note(A, InodeBits::UPDATE);
        gate.note(A, InodeBits::LOOKUP);
        let second = gate.send();
        gate.note(A, InodeBits::XATTR);
        let all = BOTH.union(InodeBits::XATTR);
        assert_eq!(gate.admit(first, A, all), InodeBits::NONE);
        assert_eq!(gate.admit(second, A, all), BOTH);
    }

    #[test]
    fn what_is_being_given_up_is_not_taken_from_replies_until_the_mdt_knows() {
        let mut gate = Gate::default();
        let before = gate.send();
        gate.giving(A, InodeBits::UPDATE);
        // Sent later, but the MDT may serve it before the Unlock.
        let between = gate.send();
        assert_eq!(gate.admit(before, A, BOTH), InodeBits::LOOKUP);
        assert_eq!(gate.admit(between, A, BOTH), InodeBits::LOOKUP);
        gate.given(A);
        let after = gate.send();
        assert_eq!(gate.admit(before, A, BOTH), InodeBits::LOOKUP);
        assert_eq!(gate.admit(between, A, BOTH), InodeBits::LOOKUP);
        assert_eq!(gate.admit(after, A, BOTH), BOTH);
    }

    #[test]
    fn a_gap_is_cut_above_names_that_are_being_made() {
        let (name, all) =
            (|text: &str| Name::new(text.as_bytes()).unwrap(), NameRange::at(b"b", 0));
        let behind = |text: &str| all.clone().behind(text.as_bytes());
        let mut gate = Gate::default();
        let lookup = gate.send();
        gate.makes(A, name("c"));
        let create = gate.send();
        assert_eq!(gate.admit_names(lookup, A, &all), behind("c"), "under way");
        gate.makes(A, name("a"));
        assert_eq!(
            (gate.admit_names(lookup, A, &all), gate.admit_names(lookup, B, &all)),
            (behind("c"), Some(all.clone()))
        );
        let between = gate.send();
        gate.made(A, name("c"), true);
        gate.came_back(create);
        let later = gate.send();
        assert_eq!(gate.admit_names(lookup, A, &all), behind("c"), "of the time before, perhaps");
        assert_eq!(gate.admit_names(between, A, &all), behind("c"));
        assert_eq!(gate.admit_names(later, A, &all), Some(all.clone()));
        gate.came_back(lookup);
        gate.note(A, InodeBits::GAP);
        gate.came_back(between);
        assert_eq!(gate.admit_names(later, A, &all), None, "called back");
        gate.came_back(later);
        assert_eq!(gate.size(), (0, 0));
    }

    #[test]
    fn a_name_of_a_request_without_an_answer_is_in_no_gap_for_good() {
        let (name, all) =
            (|text: &str| Name::new(text.as_bytes()).unwrap(), NameRange::at(b"b", 0));
        let mut gate = Gate::default();
        gate.makes(A, name("c"));
        gate.made(A, name("c"), false);
        gate.note_all();
        let ticket = gate.send();
        assert_eq!(gate.admit_names(ticket, A, &all), all.clone().behind(b"c"));
        for n in 0..UNANSWERED_MAX {
            let name = name(&format!("x{n}"));
            gate.makes(B, name.clone());
            gate.made(B, name, false);
        }
        assert_eq!(gate.admit_names(ticket, A, &all), None);
    }

    #[test]
    fn a_lost_session_takes_all_that_was_under_way() {
        let mut gate = Gate::default();
        let old = gate.send();
        gate.note(A, InodeBits::UPDATE);
        gate.note_all();
        let new = gate.send();
        assert_eq!(gate.admit(old, B, BOTH), InodeBits::NONE);
        assert_eq!(gate.admit(new, A, BOTH), BOTH);
    }

    #[test]
    fn notes_are_bounded_and_the_bound_errs_on_the_safe_side() {
        let mut gate = Gate::default();
        let old = gate.send();
        for oid in 0..=NOTES_MAX as u32 {
            gate.note(Fid { oid, ..A }, InodeBits::UPDATE);
        }
        assert!(gate.size().1 <= NOTES_MAX);
        assert_eq!(gate.admit(old, Fid { oid: 5, ..A }, BOTH), InodeBits::NONE);
    }

    /// All orders of sending, serving, calling back and arriving of two requests. If a client
    /// believes that it holds a lock after all has arrived, the server's book says so, too.
    #[test]
    fn in_no_order_does_the_client_believe_to_hold_what_the_server_called_back() {
        // Events of one request: sent, served (the server grants), arrived. And one callback: the
        // server takes the lock away and the client hears of it. The callback is heard at once;
        // replies arrive at any time.
        let mut checked = 0;
        for order in 0..4usize.pow(7) {
            let (mut gate, mut held_there, mut held_here) = (Gate::default(), false, false);
            let mut tickets = [None::<Ticket>; 2];
            let mut served = [false; 2];
            let mut arrived = [false; 2];
            let mut rest = order;
            for _ in 0..7 {
                let event = rest % 4;
                rest /= 4;
                match event {
                    0 | 1 => {
                        let r = event;
                        match (tickets[r], served[r], arrived[r]) {
                            (None, ..) => tickets[r] = Some(gate.send()),
                            (_, false, _) => {
                                served[r] = true;
                                held_there = true;
                            }
                            (Some(ticket), true, false) => {
                                arrived[r] = true;
                                held_here |= !gate.admit(ticket, A, InodeBits::UPDATE).is_empty();
                                gate.came_back(ticket);
                            }
                            _ => {}
                        }
                    }
                    2 => {
                        held_there = false;
                        gate.note(A, InodeBits::UPDATE);
                        held_here = false;
                    }
                    _ => {}
                }
                assert!(!held_here || held_there, "order {order}");
                checked += 1;
            }
        }
        assert!(checked > 100_000);
    }
}
