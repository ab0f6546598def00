//! What the tickets that one client has shown, or was given, let it do with the bytes of files.
//! Pure. Bounded by [`SHOWN_TICKETS_MAX`] files: those are forgotten that were not used for the
//! longest.

use types::fid::Fid;
use types::generations::Generations;
use types::limits::SHOWN_TICKETS_MAX;
use types::object_ticket::{ObjectTicket, Rights};

/// Until when each right holds, seconds since 1970; 0: it was never shown.
#[derive(Clone, Copy, Default)]
struct Until {
    read: u64,
    write: u64,
}

impl Until {
    fn has(self, rights: Rights, is_good: impl Fn(u64) -> bool) -> bool {
        let (read, write) = (is_good(self.read), is_good(self.write));
        match (rights.contains(Rights::READ), rights.contains(Rights::WRITE)) {
            (false, false) => read || write,
            (reads, writes) => (read || !reads) && (write || !writes),
        }
    }
}

/// See the module.
pub struct ShownTickets(Generations<Fid, Until>);

impl Default for ShownTickets {
    fn default() -> ShownTickets {
        ShownTickets(Generations::new(SHOWN_TICKETS_MAX))
    }
}

impl ShownTickets {
    /// A good ticket was shown, or given.
    pub fn learn(&mut self, ticket: &ObjectTicket) {
        let until = self.0.entry(ticket.fid, Until::default);
        for (right, known) in [(Rights::READ, &mut until.read), (Rights::WRITE, &mut until.write)] {
            if ticket.rights.contains(right) {
                *known = ticket.expires.max(*known);
            }
        }
    }

    /// True if these tickets give all of these rights now; `NONE`: any right.
    pub fn give(&mut self, fid: Fid, rights: Rights, now: u64) -> bool {
        self.0.get_mut(fid).is_some_and(|until| until.has(rights, |until| now < until))
    }

    /// As [`ShownTickets::give`], but their time may be over.
    pub fn gave(&mut self, fid: Fid, rights: Rights) -> bool {
        self.0.get_mut(fid).is_some_and(|until| until.has(rights, |until| until != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fid(oid: u32) -> Fid {
        Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }
    }

    fn ticket(oid: u32, rights: Rights, expires: u64) -> ObjectTicket {
        ObjectTicket { fid: fid(oid), rights, epoch: 0, expires, mac: 1 }
    }

    fn shown(tickets: &[ObjectTicket]) -> ShownTickets {
        let mut shown = ShownTickets::default();
        tickets.iter().for_each(|ticket| shown.learn(ticket));
        shown
    }

    #[test]
    fn a_right_holds_until_its_own_ticket_ends() {
        let mut shown = shown(&[ticket(1, Rights::ALL, 100), ticket(1, Rights::READ, 200)]);
        let asked = [Rights::READ, Rights::WRITE, Rights::ALL, Rights::NONE];
        let gives =
            |shown: &mut ShownTickets, now| asked.map(|rights| shown.give(fid(1), rights, now));
        assert_eq!(gives(&mut shown, 99), [true; 4]);
        assert_eq!(gives(&mut shown, 100), [true, false, false, true]);
        assert_eq!(gives(&mut shown, 200), [false; 4]);
        assert!(shown.gave(fid(1), Rights::ALL), "it was shown once");
        // An older ticket takes nothing away.
        shown.learn(&ticket(1, Rights::READ, 150));
        assert!(shown.give(fid(1), Rights::READ, 199));
    }

    #[test]
    fn a_ticket_gives_nothing_else() {
        let mut shown = shown(&[ticket(1, Rights::READ, 100)]);
        assert!(!shown.give(fid(1), Rights::WRITE, 0) && !shown.gave(fid(1), Rights::WRITE));
        assert!(!shown.give(fid(2), Rights::READ, 0) && !shown.gave(fid(2), Rights::NONE));
        assert!(shown.give(fid(1), Rights::NONE, 99) && !shown.give(fid(1), Rights::NONE, 100));
        shown.learn(&ticket(2, Rights::NONE, 100));
        assert!(!shown.give(fid(2), Rights::NONE, 0), "a ticket for nothing");
    }

    #[test]
    fn they_are_bounded() {
        let mut shown = ShownTickets::default();
        for oid in 1..=SHOWN_TICKETS_MAX as u32 + 1 {
            shown.learn(&ticket(oid, Rights::READ, 9));
        }
        assert!(shown.0.len() <= SHOWN_TICKETS_MAX);
        assert!(!shown.give(fid(1), Rights::READ, 0));
        assert!(shown.give(fid(SHOWN_TICKETS_MAX as u32), Rights::READ, 0));
    }
}
