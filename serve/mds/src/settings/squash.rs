//! The ids as which callers act, as the administrator set them last.

use idmap::rules::Rules;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module. Read by every request.
#[derive(Default)]
pub(crate) struct Squashing {
    now: RwLock<(Arc<Rules>, u32)>,
    /// Some callers may be squashed.
    on: AtomicBool,
}

impl Squashing {
    /// What holds; `None`: all act as themselves.
    pub(crate) fn in_use(&self) -> Option<Arc<Rules>> {
        self.on.load(Ordering::Acquire).then(|| self.now().0)
    }

    /// What holds, and how often it changed in this life of the MDT.
    pub(crate) fn now(&self) -> (Arc<Rules>, u32) {
        self.now.read().clone()
    }

    /// Changes it; returns what held before, `None` if that is the same.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Rules)) -> Option<Arc<Rules>> {
        let mut now = self.now.write();
        let mut rules = Rules::clone(&now.0);
        change(&mut rules);
        if rules == *now.0 {
            return None;
        }
        self.on.store(!rules.are_off(), Ordering::Release);
        let changes = now.1 + 1;
        Some(std::mem::replace(&mut *now, (Arc::new(rules), changes)).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::credentials::Ids;

    #[test]
    fn only_changes_count() {
        let squashing = Squashing::default();
        assert!(squashing.in_use().is_none());
        assert_eq!(squashing.change(|rules| rules.root = None), None);
        let ids = Some(Ids { uid: 99, gid: 99 });
        assert_eq!(squashing.change(|rules| rules.root = ids).as_deref(), Some(&Rules::default()));
        assert_eq!(squashing.in_use().unwrap().root, ids);
        assert_eq!(squashing.change(|rules| rules.root = ids), None);
        assert!(squashing.change(|rules| rules.root = None).is_some());
        assert_eq!((squashing.in_use(), squashing.now().1), (None, 2));
    }
}
