//! The end of a run of the model: everything comes to rest, and is judged.

use super::super::is_mutant;
use super::mdt::{Deed, Life, Mdt};
use super::{Judged, MDTS, World, at};
use std::time::Duration;
use types::target::TargetIndex;

impl World {
    /// Lets everything come to an end without further harm, and judges.
    pub(super) fn settle(mut self) -> Judged {
        for round in 0..20 {
            self.recover_all()?;
            for mdt in 0..MDTS {
                if self.mdts[mdt].life == Life::Open {
                    for id in self.mdts[mdt].participant.overdue(Duration::MAX) {
                        // Its time is over, some day.
                        if self.mdts[at(id.coordinator)].boot != id.boot || round > 3 {
                            self.stop(mdt, id);
                        }
                    }
                    self.again(mdt);
                }
            }
            self.drain()?;
            if self.is_at_rest() {
                self.judge()?;
                return self.forget_all();
            }
        }
        Err(format!("it does not come to rest: {:?}", self.mdts))
    }

    /// Each MDT comes back into service.
    fn recover_all(&mut self) -> Judged {
        while self.mdts.iter().any(|mdt| mdt.life != Life::Open) {
            for mdt in 0..MDTS {
                self.recover(mdt)?;
                self.may_ask(mdt).into_iter().for_each(|peer| self.exchange(mdt, peer));
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> Judged {
        for _ in 0..10_000 {
            let Some(route) = self.wires.keys().next().copied() else { return Ok(()) };
            self.deliver(route)?;
        }
        Err("messages without end".into())
    }

    fn is_at_rest(&self) -> bool {
        let rests =
            |mdt: &Mdt| mdt.life == Life::Open && mdt.pins.is_empty() && mdt.planned.is_empty();
        self.wires.is_empty() && self.mdts.iter().all(rests)
    }

    fn judge(&self) -> Judged {
        for (id, all) in &self.bundles {
            let deed = Deed::Bundle(*id);
            let times: Vec<u8> = all.iter().map(|mdt| self.times(*mdt, deed)).collect();
            if times.iter().any(|times| *times > 1) || times.iter().any(|n| *n != times[0]) {
                return Err(format!("{id} was done {times:?} times at {all:?}"));
            }
        }
        for (deed, (_, all)) in &self.told {
            if all.iter().any(|mdt| self.times(*mdt, *deed) == 0) {
                return Err(format!("{deed:?} was told and is lost"));
            }
        }
        Ok(())
    }

    fn times(&self, mdt: TargetIndex, deed: Deed) -> u8 {
        self.mdts[at(mdt)].memory.done.get(&deed).copied().unwrap_or_default()
    }

    /// At rest, all records go.
    fn forget_all(mut self) -> Judged {
        for _ in 0..4 {
            for mdt in 0..MDTS {
                self.mdts[mdt].commit();
                self.again(mdt);
                self.tell(mdt);
            }
            self.drain()?;
        }
        self.judge()?;
        match self
            .mdts
            .iter()
            .find(|mdt| !mdt.memory.records.is_empty() && !is_mutant!(NoRecordAtParticipants))
        {
            None => Ok(()),
            Some(mdt) => Err(format!("records stay: {:?} of {:?}", mdt.memory.records, mdt.me)),
        }
    }
}
