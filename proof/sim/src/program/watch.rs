//! Programs that only look, at names that others move from one MDT to another.
//!
//! Such a program finds a directory once and then uses what it found, as one whose working
//! directory it is: that the directory has other stripes by now it learns from what it asks in it.

use super::{DIRS, FILES, Held, PAUSE_MAX_US, Program};
use crate::history::Kind;
use std::time::Duration;

/// So many of 1000 programs only list what they found. A name that they looked at could tell their
/// mount of other stripes.
const LISTS: u64 = 500;
/// In so many of 1000 cases the names in the directory are looked at before those in the root.
const BELOW_FIRST: u64 = 700;
/// How often names are looked at in a directory that was found, at least and at most.
const LOOKS: (u64, u64) = (4, 12);
/// How often it is listed: some splits take that long.
const LISTINGS: (u64, u64) = (15, 40);
/// A program that changes names does so many operations meanwhile.
const CHANGES: usize = 6;
const CHANGES_LISTED: usize = 15;

impl Program {
    /// Looks for about as long as others of its workload change something.
    pub(super) async fn watch(mut self) {
        let lists = self.rng.chance(LISTS);
        let changes = if lists { CHANGES_LISTED } else { CHANGES };
        for _ in 0..self.workload.count / changes {
            self.pause().await;
            let Some(root) = self.root else { return };
            let text = *self.rng.pick(&DIRS);
            let Some((dir, kind)) = self.lookup(root, text).await else { continue };
            if kind == Kind::Dir {
                match lists {
                    true => self.list(dir).await,
                    false => self.look_into(root, dir).await,
                }
            }
            self.client.forget(dir.node, 1);
        }
    }

    async fn pause(&mut self) {
        let pause = self.rng.below(PAUSE_MAX_US);
        self.env.clock.sleep(Duration::from_micros(pause)).await;
    }

    async fn list(&mut self, dir: Held) {
        for _ in 0..self.rng.between(LISTINGS.0, LISTINGS.1) {
            self.pause().await;
            // It may have been removed, or gone to other MDTs.
            if self.readdir(dir).await.is_none() {
                return;
            }
        }
    }

    async fn look_into(&mut self, root: Held, dir: Held) {
        for _ in 0..self.rng.between(LOOKS.0, LOOKS.1) {
            self.pause().await;
            // Without a pause between: what is under way has not ended.
            let order = if self.rng.chance(BELOW_FIRST) { [dir, root] } else { [root, dir] };
            for at in order {
                for text in &FILES[..self.workload.files] {
                    if let Some((found, _)) = self.lookup(at, text).await {
                        self.client.forget(found.node, 1);
                    }
                }
            }
        }
    }
}
