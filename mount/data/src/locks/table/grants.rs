//! Grants that arrive.

use super::{GAP, Held, Table};
use crate::locks::gate::Ticket;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::message::Grant;

impl Table {
    /// Takes the grants of a reply in; returns those that still hold.
    pub fn arrived(&mut self, mdt: u16, ticket: Ticket, grants: &[Grant]) -> Held {
        let mut held = Held::default();
        self.whole_again(grants);
        for grant in grants {
            // The ranges of GAP come separately.
            let bits = self.gate(mdt).admit(ticket, grant.fid, grant.bits.difference(GAP));
            // An MDT grants only what is its own.
            if !bits.is_empty() && grant.fid.mdt() == mdt {
                let next = self.data_tenures + 1;
                let slot = self.slot(grant.fid);
                let begins = bits.difference(slot.bits).contains(InodeBits::DATA);
                if begins {
                    slot.data_tenure = next;
                }
                slot.bits = slot.bits.union(bits);
                self.data_tenures += u64::from(begins);
                let known = held.entry(grant.fid).or_default();
                *known = known.union(bits);
            }
        }
        held
    }

    /// Number of the time for which DATA of an inode is held, above that of every earlier time; 0:
    /// it is not held.
    pub(crate) fn data_tenure(&self, fid: Fid) -> u64 {
        let slot = self.slots.get(&fid).filter(|slot| slot.bits.contains(InodeBits::DATA));
        slot.map_or(0, |slot| slot.data_tenure)
    }
}
