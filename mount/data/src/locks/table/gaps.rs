//! Gaps of busy directories: ranges of absent names (docs/locks/protocol.md, "Busy directories and
//! gap locks").
//!
//! The gaps here are a part of those that the MDT knows: a name cuts them here when it is sent, and
//! there when it is made. **Invariant:** no name that this mount may have made since it learnt a
//! gap is in that gap.

use super::{GAP, Table};
use crate::locks::gate::Ticket;
use types::fid::Fid;
use types::limits::GAPS_PER_DIRECTORY_MAX;
use types::name::Name;
use wire::message::Gap;

/// Size of all gaps of one directory, about, bytes.
const GAPS_BYTES: usize = 1024;

impl Table {
    /// A reply brought a gap.
    pub(crate) fn arrived_gap(&mut self, mdt: u16, ticket: Ticket, gap: &Gap) {
        let Gap { dir, names } = gap;
        // A server speaks for what is its own.
        if dir.mdt() != mdt {
            return;
        }
        let Some(left) = self.gate(mdt).admit_names(ticket, *dir, names) else { return };
        let slot = self.slot(*dir);
        slot.bits = slot.bits.union(GAP);
        let is_first = slot.gaps.is_none();
        let gaps = slot.gaps.get_or_insert_default();
        gaps.add(left);
        if gaps.len() > GAPS_PER_DIRECTORY_MAX {
            gaps.drop_oldest();
        }
        if is_first {
            self.heavier(*dir, GAPS_BYTES);
        }
    }

    /// This mount sends a request that may make this name: from now on the MDT is asked for it.
    pub fn makes(&mut self, dir: Fid, name: &Name) {
        self.gate(dir.mdt()).makes(dir, name.clone());
        if let Some(gaps) = self.slots.get_mut(&dir).and_then(|slot| slot.gaps.as_mut()) {
            gaps.cut(name);
        }
    }

    /// GAP is gone.
    pub(crate) fn take_gaps(&mut self, dir: Fid) {
        if let Some(slot) = self.slots.get_mut(&dir)
            && slot.gaps.take().is_some()
        {
            slot.weight = slot.weight.saturating_sub(GAPS_BYTES);
            self.weight = self.weight.saturating_sub(GAPS_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::locks::learn::learn;
    use crate::locks::table::{GAP, Invalidations, Known, Table, UPDATE};
    use types::errno::Errno;
    use types::fid::Fid;
    use types::lock::InodeBits;
    use types::name::Name;
    use types::names::NameRange;
    use wire::mds::{Lookup, MdsOp};
    use wire::message::{Gap, Grant};

    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const MDT: u16 = 0;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    /// A lookup that found nothing, and its reply with the gap up to `end`.
    fn look_up(table: &mut Table, text: &str, end: &str, sent_before: impl FnOnce(&mut Table)) {
        let ticket = table.gate(MDT).send();
        sent_before(table);
        let held = table.arrived(MDT, ticket, &[]);
        learn(
            table,
            &MdsOp::Lookup(Lookup { parent: DIR, name: name(text) }),
            Err(Errno::ENOENT),
            &[],
            &held,
        );
        let names = NameRange::new(text.as_bytes(), end.as_bytes()).unwrap();
        table.arrived_gap(MDT, ticket, &Gap { dir: DIR, names });
        table.gate(MDT).came_back(ticket);
    }

    fn knows(table: &mut Table, names: [&str; 4]) -> [bool; 4] {
        names.map(|text| match table.name(DIR, &name(text)) {
            Known::Absent => true,
            Known::Nothing => false,
            Known::To(fid) => panic!("{fid}"),
        })
    }

    #[test]
    fn names_in_a_gap_are_absent_until_it_is_called_back() {
        let mut table = Table::default();
        look_up(&mut table, "b", "d", |_| {});
        assert_eq!(knows(&mut table, ["a", "b", "c", "d"]), [false, true, true, false]);
        assert!(
            !table.trust_name(DIR, &name("c"), None, crate::kernel_view::recent::Asked::First),
            "the kernel keeps nothing of it"
        );
        look_up(&mut table, "x", "", |_| {});
        assert_eq!(knows(&mut table, ["b", "c", "x", "z"]), [true; 4], "one more");
        let mut invalidations = Invalidations::default();
        table.take(DIR, UPDATE, &mut invalidations);
        assert_eq!(knows(&mut table, ["b", "c", "x", "z"]), [true; 4]);
        table.take(DIR, GAP, &mut invalidations);
        assert_eq!(
            (knows(&mut table, ["b", "c", "x", "z"]), invalidations),
            ([false; 4], Invalidations::default())
        );
        assert_eq!(table.size(), (0, 0));
    }

    #[test]
    fn a_name_that_is_sent_is_asked_for() {
        let mut table = Table::default();
        look_up(&mut table, "b", "", |_| {});
        table.makes(DIR, &name("c"));
        assert_eq!(knows(&mut table, ["b", "c", "ca", "d"]), [false, false, true, true]);
        // It is under way: an earlier gap does not hide it.
        look_up(&mut table, "a", "", |_| {});
        assert_eq!(knows(&mut table, ["a", "c", "ca", "d"]), [false, false, true, true]);
        // The answer came while a lookup was under way, so it may be older.
        look_up(&mut table, "a", "", |table| table.gate(MDT).made(DIR, name("c"), true));
        assert_eq!(knows(&mut table, ["a", "c", "ca", "d"]), [false, false, true, true]);
        look_up(&mut table, "a", "c", |_| {});
        assert_eq!(knows(&mut table, ["a", "b", "c", "d"]), [true, true, false, true]);
    }

    #[test]
    fn a_gap_that_was_overtaken_is_not_taken() {
        let overtaken = |happens: fn(&mut Table)| {
            let mut table = Table::default();
            look_up(&mut table, "a", "", happens);
            knows(&mut table, ["a", "b", "c", "d"])
        };
        assert_eq!(overtaken(|table| table.gate(MDT).note(DIR, GAP)), [false; 4]);
        assert_eq!(overtaken(|table| table.gate(MDT).giving(DIR, InodeBits::ALL)), [false; 4]);
        assert_eq!(overtaken(|table| _ = table.lose(MDT)), [false; 4]);
        assert_eq!(
            overtaken(|table| table.gate(MDT).note(DIR, UPDATE)),
            [true; 4],
            "that is something else"
        );
    }

    #[test]
    fn a_gap_comes_as_such_only_and_from_its_own_server() {
        let mut table = Table::default();
        let ticket = table.gate(MDT).send();
        table.arrived(MDT, ticket, &[Grant { fid: DIR, bits: GAP }]);
        assert_eq!(table.bits(DIR), InodeBits::NONE);
        table.arrived_gap(MDT + 1, ticket, &Gap { dir: DIR, names: NameRange::at(b"a", 0) });
        assert_eq!(table.size(), (0, 0));
    }
}
