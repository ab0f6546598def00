//! The check itself: rounds over everything, a second look at each suspicion, repairs.
//!
//! A round reads all records, then all objects. Suspicious records are then read again, alone, in
//! an order that makes the answer certain (`check::judge`). Those that changed meanwhile are left
//! to the next round. An object without a file is looked at once more after the destroy log: a
//! removal that was under way is in the log, or done by then.

use crate::error::FsckError;
use crate::page::behind;
use crate::report::{Outcome, Report, Told};
use crate::source::Source;
use check::check::{Check, Counts, FIRST, THEN, TooMany};
use check::finding::Finding;
use check::judge::{Records, Verdict, clear, judge};
use disk::destroy_log;
use disk::key::{self, Tag};
use std::collections::BTreeSet;
use types::fid::Fid;
use types::object::ObjectId;

/// Rounds of one check: repairs may show what was hidden, and busy inodes get another chance.
pub const ROUNDS_MAX: u32 = 6;

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Put right what is wrong.
    pub repair: bool,
    /// Remove damaged inodes with what belongs to them.
    pub clear: bool,
}

/// Checks, and repairs if asked. `step` is called with each step.
///
/// # Errors
/// A metadata target cannot be read, or a repair cannot be made. An OST that cannot be read is
/// named in the report.
pub async fn run(
    source: &Source,
    options: Options,
    step: &mut dyn FnMut(&str),
) -> Result<Report, FsckError> {
    let volumes = source.volumes(options.repair)?;
    let mut report = Report { what: source.describe(), volumes, ..Report::default() };
    loop {
        report.rounds += 1;
        report.trouble.clear();
        let (findings, counts) = look(source, report.rounds, &mut report.trouble, step).await?;
        report.counts = counts;
        let mut round =
            Round { source, options, left: Vec::new(), repaired: Vec::new(), unsettled: 0 };
        step(&format!("looking again at {} findings", findings.len()));
        let (objects, records): (Vec<_>, Vec<_>) = findings
            .into_iter()
            .partition(|finding| matches!(finding, Finding::OrphanObject { .. }));
        for finding in records {
            round.settle(finding).await?;
        }
        round.settle_objects(objects).await?;
        let again = !round.repaired.is_empty() || round.unsettled > 0;
        report.told.append(&mut round.repaired);
        report.unsettled = round.unsettled;
        if !again || report.rounds == ROUNDS_MAX {
            report.told.append(&mut round.left);
            return Ok(report);
        }
    }
}

/// Reads everything once.
async fn look(
    source: &Source,
    round: u32,
    trouble: &mut Vec<String>,
    step: &mut dyn FnMut(&str),
) -> Result<(Vec<Finding>, Counts), FsckError> {
    let mut check = Check::default();
    let mdts = source.mdts();
    let mut read = 0u64;
    for tags in [&FIRST[..], &THEN[..]] {
        for mdt in &mdts {
            for tag in tags {
                let (start, end) = key::all(*tag);
                let mut next = Some(start.to_vec());
                while let Some(from) = next {
                    let page = source.scan(*mdt, &from, &end).await?;
                    for (key, value) in &page.records {
                        check.record(*mdt, key, value).map_err(|TooMany| FsckError::TooMany)?;
                    }
                    read += page.records.len() as u64;
                    step(&format!("round {round}: {read} records of MDT{mdt:04x}"));
                    next = page.next;
                }
            }
        }
    }
    for ost in source.osts() {
        let (mut after, mut more, mut read) = (None, true, 0);
        while more {
            match source.objects(ost, after).await {
                Ok((objects, goes_on)) => {
                    after = objects.last().map(|(object, ..)| *object);
                    more = goes_on;
                    read += objects.len();
                    // Files of metadata targets that are not here cannot be judged. One that has
                    // come from such a target, which may be gone for good, is here.
                    let is_here = |object: ObjectId| {
                        let fids = [object.fid, check.file_of(object)];
                        fids.iter().any(|fid| mdts.contains(&fid.mdt()))
                    };
                    let here: Vec<_> =
                        objects.into_iter().filter(|(object, ..)| is_here(*object)).collect();
                    for (object, size, blocks) in here {
                        check.object(ost, object, size, blocks);
                    }
                    step(&format!("round {round}: {read} objects of OST{:04x}", ost.0));
                    if !more {
                        check.all_objects_of(ost);
                    }
                }
                Err(error) => {
                    trouble.push(error.to_string());
                    break;
                }
            }
        }
    }
    Ok(check.finish())
}

struct Round<'a> {
    source: &'a Source,
    options: Options,
    left: Vec<Told>,
    repaired: Vec<Told>,
    unsettled: u64,
}

impl Round<'_> {
    async fn records(&self, finding: &Finding) -> Result<Records, FsckError> {
        let mut records = Records::default();
        for key in finding.keys() {
            // The MDT to which a file went says so of objects that are named after its first inode.
            let mdts = match key.first() == Some(&(Tag::ObjectsAt as u8)) {
                true => self.source.mdts(),
                false => vec![finding.mdt()],
            };
            for mdt in mdts {
                let page = self.source.scan(mdt, &key, &behind(&key)).await?;
                page.records.into_iter().for_each(|(key, value)| records.insert(key, value));
            }
        }
        Ok(records)
    }

    /// Looks again at what records decide, and repairs it.
    async fn settle(&mut self, finding: Finding) -> Result<(), FsckError> {
        let records = self.records(&finding).await?;
        let mend = match judge(&finding, &records) {
            Verdict::Gone => return Ok(()),
            Verdict::Changed => {
                self.unsettled += 1;
                return Ok(());
            }
            Verdict::Confirmed(mend) => mend,
        };
        let (mend, what) = match (&finding, mend, finding.remedy()) {
            (Finding::Damaged { key, .. }, None, _) if self.options.clear => {
                (clear(key, &records), "record removed")
            }
            (_, mend, remedy) => (mend, remedy.unwrap_or("")),
        };
        let Some(mend) = mend.filter(|_| self.options.repair) else {
            self.leave(finding);
            return Ok(());
        };
        if self.source.mend(finding.mdt(), &mend).await? {
            self.repaired.push(Told { finding, outcome: Outcome::Repaired { what } });
        } else {
            // A client was quicker.
            self.unsettled += 1;
        }
        Ok(())
    }

    fn leave(&mut self, finding: Finding) {
        let advice = match self.options.repair && finding.remedy().is_some() {
            true => "it cannot be repaired as it is: is /lost+found something else?",
            false => finding.advice(),
        };
        self.left.push(Told { finding, outcome: Outcome::Left { advice } });
    }

    /// Objects without a file: no inode, then no log record of its removal, then still there.
    async fn settle_objects(&mut self, findings: Vec<Finding>) -> Result<(), FsckError> {
        let mut suspects = Vec::new();
        for finding in findings {
            let records = self.records(&finding).await?;
            if matches!(judge(&finding, &records), Verdict::Confirmed(_)) {
                suspects.push(finding);
            }
        }
        if suspects.is_empty() {
            return Ok(());
        }
        let destroying = self.destroying().await?;
        for finding in suspects {
            let Finding::OrphanObject { ost, object, .. } = finding else { continue };
            if destroying.contains(&object.fid) || !self.source.has_object(ost, object).await? {
                continue;
            }
            if !self.options.repair {
                self.leave(finding);
                continue;
            }
            self.source.destroy(ost, object).await?;
            let what = finding.remedy().unwrap_or("");
            self.repaired.push(Told { finding, outcome: Outcome::Repaired { what } });
        }
        Ok(())
    }

    /// Files whose objects the destroy logs name.
    async fn destroying(&self) -> Result<BTreeSet<Fid>, FsckError> {
        let mut fids = BTreeSet::new();
        for mdt in self.source.mdts() {
            let (start, end) = key::all(Tag::Destroy);
            let mut next = Some(start.to_vec());
            while let Some(from) = next {
                let page = self.source.scan(mdt, &from, &end).await?;
                let logs =
                    page.records.iter().filter_map(|(_, value)| destroy_log::decode(value).ok());
                fids.extend(logs.flatten().map(|(_, object)| object.fid));
                next = page.next;
            }
        }
        Ok(fids)
    }
}
