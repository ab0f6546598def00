//! The known space of the OSTs, read at every create.

use layout::placement::OstSpace;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use types::target::TargetIndex;

/// Pause before an OST that did not answer is asked again; doubles up to `space_interval`.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Space of all OSTs, ordered by index.
#[derive(Default)]
pub struct Spaces {
    known: RwLock<Arc<Vec<OstSpace>>>,
    /// Numbers of the requests that were answered last: several may be under way, and an older
    /// answer may come later.
    heard: Mutex<BTreeMap<TargetIndex, u64>>,
    asked: AtomicU64,
}

impl Spaces {
    /// The space that was last reported.
    pub fn get(&self) -> Arc<Vec<OstSpace>> {
        self.known.read().clone()
    }

    /// The number of a request; the next one has a higher number.
    pub(super) fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes the answer to request `asked`, unless a later one was answered already.
    pub(super) fn set(&self, asked: u64, space: OstSpace) {
        let mut heard = self.heard.lock();
        let last = heard.entry(space.index).or_default();
        if asked < *last {
            return;
        }
        *last = asked;
        let mut spaces = self.known.write();
        let spaces = Arc::make_mut(&mut spaces);
        match spaces.binary_search_by_key(&space.index, |s| s.index) {
            Ok(at) => spaces[at] = space,
            Err(at) => spaces.insert(at, space),
        }
    }

    /// OSTs that were removed from the file system get no objects any more.
    pub(super) fn retain(&self, osts: &[TargetIndex]) {
        Arc::make_mut(&mut *self.known.write()).retain(|ost| osts.contains(&ost.index));
        self.heard.lock().retain(|ost, _| osts.contains(ost));
    }

    pub(super) fn all_answer(&self) -> bool {
        self.known.read().iter().all(|ost| ost.active)
    }

    pub(super) fn known(&self, index: TargetIndex) -> Option<OstSpace> {
        self.known.read().iter().find(|o| o.index == index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_answer_that_comes_later_does_not_count() {
        let spaces = Spaces::default();
        let ost = |n, free| OstSpace { index: TargetIndex(n), free, total: 100, active: true };
        let (older, newer) = (spaces.ask(), spaces.ask());
        spaces.set(newer, ost(0, 10));
        spaces.set(older, ost(0, 50));
        spaces.set(older, ost(1, 50));
        assert_eq!(*spaces.get(), [ost(0, 10), ost(1, 50)]);
        spaces.set(spaces.ask(), ost(0, 60));
        assert_eq!(spaces.known(TargetIndex(0)), Some(ost(0, 60)));
    }
}
