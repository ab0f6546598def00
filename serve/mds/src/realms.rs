//! How far the trees are marked that the filesets of nodemaps are ([`crate::background::realms`]).

use crate::background::tasks::Wake;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use types::errno::Errno;

/// How far the trees of filesets are. At MDT0000.
#[derive(Default)]
pub(crate) struct Realms {
    pub(crate) work: Wake,
    pub(crate) state: Mutex<Marking>,
}

/// See [`Realms`].
#[derive(Default)]
pub(crate) struct Marking {
    /// Realms whose trees are marked, as recorded.
    pub(crate) done: BTreeSet<u32>,
    /// The one whose tree is being marked.
    pub(crate) walk: Option<Walk>,
    /// Why others are not marked yet.
    pub(crate) failed: BTreeMap<u32, Errno>,
}

/// A tree that is being marked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Walk {
    /// Its realm.
    pub(crate) realm: u32,
    /// Walks so far, this one among them.
    pub(crate) walks: u64,
    /// Batches of this walk.
    pub(crate) batches: u64,
    /// Inodes that were marked, by all walks of this life.
    pub(crate) marked: u64,
}

impl Realms {
    /// Filesets may have changed.
    pub(crate) fn wake(&self) {
        self.work.wake();
    }

    /// True if the tree of a realm is marked.
    pub(crate) fn is_done(&self, realm: u32) -> bool {
        self.state.lock().done.contains(&realm)
    }
}
