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
        let mut pause = Duration::ZERO;
        loop {
            if view.stop == Stop::Drop || view.failure.is_some() && view.stop != Stop::No {
                break;
            }
            if !pause.is_zero() {
                self.work.wait_for(&mut view, pause);
                pause = Duration::ZERO;
            } else if let Some(left) = self.due(&view) {
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
                Err(error) if self.lacks_room(&error, view.bytes) => {
                    // The tree took nothing over and nothing is lost: the log has it. Deleting
                    // makes room.
                    let why = StoreError::DiskFull { dir: self.dir.clone() };
                    if view.stop != Stop::No {
                        tracing::warn!(
                            "apply: {why}; the log keeps what the tree has not until the next opening"
                        );
                        view.full = Some(why);
                        break;
                    }
                    if view.full.is_none() {
                        tracing::warn!("apply: {why}");
                    }
                    (pause, view.full) = (FULL_PAUSE, Some(why));
                }
                Err(error) => {
                    tracing::error!("apply: {error}; the journal keeps what the tree has not");
                    view.failure = Some(StoreError::Poisoned { cause: error.to_string().into() });
                }
            }
            self.done.notify_all();
        }
        if view.stop == Stop::Rest && view.failure.is_none() && view.full.is_none() {
            let applied = view.applied;
            // Without the note the next opening searches the journal: slower, but just as safe.
            let noted = view.tree.as_ref().and_then(|tree| tree.rest(&applied).err());
            view.failure = noted.filter(|error| !self.lacks_room(error, 0));
        }
        view.readers.clear();
        view.tree = None;
        view.held = None;
        view.ended = true;
        self.done.notify_all();
    }

    /// True if the tree could not take these bytes because the disk is full. LMDB tells a write
    /// that the disk cut short as EIO. Its transaction is void then, and trying again writes all of
    /// its pages anew.
    fn lacks_room(&self, error: &StoreError, bytes: u64) -> bool {
        match error.errno() {
            Errno::ENOSPC | Errno::EDQUOT => true,
            Errno::EIO if matches!(error, StoreError::Io { .. }) => {
                // Pages split half full.
                let wanted = bytes * 2 + ROOM_BYTES_MIN;
                let volume = self.env.disk.space(&self.dir);
                volume.is_ok_and(|volume| volume.bytes_available < wanted)
            }
            _ => false,
        }
    }

    /// `None`: the applier has something to do now; else the time until then.
    fn due(&self, view: &View) -> Option<Duration> {
        let bytes = self.options.apply_bytes.unwrap_or(view.applied.capacity / 4);
        if view.stop != Stop::No || view.failure.is_none() && (view.urgent || view.bytes >= bytes) {
            return None;
        }
        let Some(oldest) = view.oldest else { return Some(Duration::MAX) };
        let left = (oldest + self.options.apply_interval).saturating_sub(self.env.clock.now());
        (!left.is_zero()).then_some(left)
    }

    /// Merges all layers into the tree.
    fn apply_waiting(&self, view: &mut MutexGuard<'_, View>) -> Result<(), StoreError> {
        let layers = view.layers.clone();
        let (count, tree) = (layers.len(), view.tree.clone().ok_or(StoreError::Closed)?);
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
            tree.apply(all, &applied)?;
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
