//! The applier: a thread that merges layers into the tree, waits for room on a full disk, and
//! brings the tree to rest in the end.

use super::{Shared, Stop, View, place_of};
use crate::engine::KEY_END;
use crate::error::StoreError;
use crate::merge::Layers;
use disk::journal::Applied;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;

/// Pause before a full disk is tried again.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// Free bytes of a disk below which it may have cut a write short, beside those that were written.
const ROOM_BYTES_MIN: u64 = 1 << 20;

impl Shared {
    /// The applier thread.
    pub(super) fn run(&self) {
        let mut view = self.view.lock();
        loop {
            if view.stop == Stop::Drop || view.failure.is_some() && view.stop != Stop::No {
                break;
            }
            if let Some(left) = self.due(&view) {
                if left == Duration::MAX {
                    self.work.wait(&mut view);
                } else {
                    self.work.wait_for(&mut view, left);
                }
                continue;
            }
            if view.layers.is_empty() || view.failure.is_some() {
                if view.stop == Stop::No {
                    view.oldest = None;
                    view.urgent = false;
                    continue;
                }
                break;
            }
            match self.apply_waiting(&mut view) {
                Ok(()) => {
                    if view.full.take().is_some() {
                        tracing::info!(dir = %self.dir.display(), "the disk has room again");
                    }
                }
                // The tree took nothing over and nothing is lost: the log has it. Deleting makes
                // room.
                Err(why @ StoreError::DiskFull { .. }) if view.stop == Stop::No => {
                    if view.full.is_none() {
                        tracing::warn!("apply: {why}");
                    }
                    view.full = Some(why);
                }
                Err(why @ StoreError::DiskFull { .. }) => {
                    tracing::warn!(
                        "apply: {why}; the log keeps what the tree has not until the next opening"
                    );
                    view.full = Some(why);
                    break;
                }
                Err(error) => {
                    tracing::error!("apply: {error}; the journal keeps what the tree has not");
                    view.failure = Some(StoreError::Poisoned { cause: error.to_string().into() });
                }
            }
            self.done.notify_all();
            if view.full.is_some() {
                // Each commit wakes this thread, and one that waits for room in the log does so
                // after each attempt.
                let goes_on = |view: &mut View| view.stop == Stop::No;
                self.work.wait_while_for(&mut view, goes_on, FULL_PAUSE);
            }
        }
        if view.stop == Stop::Rest && view.failure.is_none() && view.full.is_none() {
            let applied = view.applied;
            // Without the note the next opening searches the journal: slower, but just as safe.
            let noted = view.tree.as_ref().and_then(|tree| tree.rest(&applied).err());
            let noted = noted.map(|error| self.explained(error, 0));
            view.failure = noted.filter(|error| !matches!(error, StoreError::DiskFull { .. }));
        }
        view.readers.clear();
        view.tree = None;
        view.held = None;
        view.ended = true;
        self.done.notify_all();
    }

    /// [`StoreError::DiskFull`] if that is why the tree could not take so many bytes; else the
    /// error itself. LMDB tells a write that the disk cut short as EIO. Its transaction is void
    /// then, and trying again writes all of its pages anew.
    fn explained(&self, error: StoreError, bytes: u64) -> StoreError {
        let is_full = match error.errno() {
            Errno::ENOSPC | Errno::EDQUOT => true,
            Errno::EIO if matches!(error, StoreError::Io { .. }) => {
                // Pages split half full.
                let wanted = bytes * 2 + ROOM_BYTES_MIN;
                let volume = self.env.disk.space(&self.dir);
                volume.is_ok_and(|volume| volume.bytes_available < wanted)
            }
            _ => false,
        };
        if is_full { StoreError::DiskFull { dir: self.dir.clone() } } else { error }
    }

    /// `None`: the applier has something to do now; else the time until then.
    fn due(&self, view: &View) -> Option<Duration> {
        let bytes = self.options.apply_bytes.unwrap_or(view.applied.capacity / 4);
        let presses = view.urgent || view.full.is_some() || view.bytes >= bytes;
        if view.stop != Stop::No || view.failure.is_none() && presses {
            return None;
        }
        let Some(oldest) = view.oldest else { return Some(Duration::MAX) };
        let left = (oldest + self.options.apply_interval).saturating_sub(self.env.clock.now());
        (!left.is_zero()).then_some(left)
    }

    /// Merges all layers into the tree. [`StoreError::DiskFull`]: nothing is changed, and it may
    /// be tried again.
    fn apply_waiting(&self, view: &mut MutexGuard<'_, View>) -> Result<(), StoreError> {
        let layers = view.layers.clone();
        let (count, bytes) = (layers.len(), view.bytes);
        let tree = view.tree.clone().ok_or(StoreError::Closed)?;
        let last = layers.last().expect("checked by the caller");
        let applied = Applied {
            sequence: last.end.number,
            transno: last.end.transno.0,
            next: last.end.at,
            fence: last.fence.0,
            ..view.applied
        };
        view.applying = count;
        view.urgent = false;
        let done = MutexGuard::unlocked(view, || {
            let all = Layers::new(layers.iter().rev().map(|l| &*l.batch), &[], &KEY_END);
            tree.apply(all, &applied).map_err(|error| self.explained(error, bytes))?;
            if let Err(error) = self.log.trim(place_of(&applied)) {
                tracing::warn!(
                    "trim the log: {error}; it keeps what the tree has until the next time"
                );
            }
            Ok(())
        });
        view.applying = 0;
        done?;
        view.applied = applied;
        Arc::make_mut(&mut view.layers).drain(..count);
        view.bytes = view.layers.iter().map(|l| l.batch.bytes() as u64).sum();
        view.oldest = (!view.layers.is_empty()).then(|| self.env.clock.now());
        view.readers.clear();
        view.generation += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::engine::{Engine, Fence};
    use crate::journalled::{Journalled, JournalledOptions};
    use env::real::{RealConfig, RealEnv};
    use std::time::Instant;

    #[test]
    fn a_full_disk_is_tried_after_pauses_however_often_commits_wake_the_applier() {
        let (env, _guard) =
            RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let apply_interval = Duration::from_millis(1);
        let options = JournalledOptions { apply_interval, ..JournalledOptions::default() };
        Journalled::create(&env, dir.path(), 7, &options).unwrap();
        let engine = Journalled::open(&env, dir.path(), 7, options.clone()).unwrap();
        let (shared, tree) = (&engine.shared, engine.shared.view.lock().tree.clone().unwrap());
        let usual = tree.limit(1 << 20);
        let mut batch = Batch::new();
        batch.put(b"key", &[1; 2 << 20]);
        batch.freeze();
        engine.commit(&Arc::new(batch), Fence(0)).unwrap();

        let until = Instant::now() + FULL_PAUSE * 5 / 2;
        let mut attempts = 0;
        let mut view = shared.view.lock();
        while !shared.done.wait_until(&mut view, until).timed_out() {
            attempts += 1;
            // As a commit does that waits for room in the log.
            view.urgent = true;
            shared.work.notify_one();
        }
        assert!(matches!(view.full, Some(StoreError::DiskFull { .. })));
        assert!((2..=3).contains(&attempts), "{attempts} attempts");

        // It rests between two attempts: LMDB must not be at work now.
        tree.limit(usual);
        drop(view);
        let patience = Instant::now() + FULL_PAUSE * 10;
        while engine.hindrance().is_some() {
            assert!(Instant::now() < patience, "it does not go on");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(engine.bytes_behind(), 0);
        drop(tree);
        engine.close().unwrap();
    }
}
