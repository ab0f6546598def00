//! Files to settle, and when.

use env::clock::Monotonic;
use std::collections::BTreeMap;
use std::time::Duration;
use types::fid::Fid;

/// A file to settle.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// Number of times it was added: an answer that was asked for before the last time is stale.
    times: u64,
    /// Not before this time.
    due: Monotonic,
}

/// Files to settle. A file stays here until it is settled, or written again. Bounded by the writer
/// marks.
#[derive(Debug, Default)]
pub struct Unsettled(BTreeMap<Fid, Doubt>);

impl Unsettled {
    /// The marks that a started MDT finds. Cuts wait until living clients have reopened the files
    /// they write.
    pub fn after_start(
        marked: Vec<(Fid, bool)>,
        now: Monotonic,
        clients_return: Duration,
    ) -> Unsettled {
        let doubt = |cut| Doubt { times: 1, due: if cut { now + clients_return } else { now } };
        Unsettled(marked.into_iter().map(|(fid, cut)| (fid, doubt(cut))).collect())
    }

    /// True if the file is here, and so has a mark.
    pub fn has(&self, fid: Fid) -> bool {
        self.0.contains_key(&fid)
    }

    pub(super) fn add(&mut self, fid: Fid, due: Monotonic) {
        let doubt = self.0.entry(fid).or_insert(Doubt { times: 0, due });
        *doubt = Doubt { times: doubt.times + 1, due: doubt.due.min(due) };
    }

    /// The file is settled, or its last close will say that it is not.
    pub(super) fn remove(&mut self, fid: Fid) {
        self.0.remove(&fid);
    }

    /// Makes a listed file due; an answer that is under way stays valid.
    pub(super) fn hasten(&mut self, fid: Fid, now: Monotonic) {
        if let Some(doubt) = self.0.get_mut(&fid) {
            doubt.due = doubt.due.min(now);
        }
    }

    pub(super) fn is_current(&self, fid: Fid, times: u64) -> bool {
        self.0.get(&fid).is_some_and(|doubt| doubt.times == times)
    }

    /// The files that are due, and the time of the next ones.
    pub(super) fn due(&self, now: Monotonic) -> (Vec<(Fid, u64)>, Option<Monotonic>) {
        let due =
            self.0.iter().filter(|(_, d)| d.due <= now).map(|(fid, d)| (*fid, d.times)).collect();
        (due, self.0.values().map(|d| d.due).filter(|due| *due > now).min())
    }
}
