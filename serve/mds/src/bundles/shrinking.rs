//! Directories that became small again are merged by themselves (docs/dne.md, section 12): those
//! that were split by themselves, have few names, and were left alone for a while.
//!
//! The MDT of the directory itself looks at those in which names were made since it started.

use super::restripe::{Restripe, stripes_of};
use crate::mds::Mds;
use namespace::view::View;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;

/// A directory with at most this part of `dir_split_count` is small.
const SMALL: u32 = 4;
/// How often in the time for which a directory must have been left alone it is looked at.
const LOOKS: u32 = 6;
/// Shortest and longest time between two looks.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

impl Mds {
    /// How long a directory must have been left alone to be merged by itself, seconds; 0: none is.
    pub fn merge_idle(&self) -> u32 {
        self.tunables.merge_idle.load(Relaxed)
    }

    /// Sets it.
    pub fn set_merge_idle(&self, seconds: u32) {
        self.tunables.merge_idle.store(seconds, Relaxed);
        self.passing.wake();
    }

    /// The time until directories are looked at; `None`: they are not.
    pub(super) fn next_look(&self) -> Option<Duration> {
        let idle = Duration::from_secs(self.merge_idle().into());
        let looks = !idle.is_zero() && self.auto_split() && !self.peers.is_empty();
        looks.then(|| (idle / LOOKS).clamp(BETWEEN.0, BETWEEN.1))
    }

    /// Has directories merged that are small and were left alone.
    pub(super) async fn merge_small(&self) {
        let watched = self.state.lock().growth.watched();
        for fid in watched {
            match self.merge_if_small(fid).await {
                Ok(false) => {}
                Ok(true) => tracing::info!(target = %self.name, %fid, "directory is merged"),
                // It was removed, names move already, or an MDT is away.
                Err(errno) => {
                    tracing::debug!(target = %self.name, %fid, %errno, "directory is not merged");
                }
            }
        }
    }

    async fn merge_if_small(&self, fid: Fid) -> Result<bool, Errno> {
        let now = self.env.clock.wall();
        let (master, count) = self.read(|records| {
            let Some(inode) = records.inode(fid)?.filter(|inode| inode.attr.nlink > 0) else {
                return Ok((fid, 0));
            };
            // Of a shard the MDT of the directory itself thinks.
            let Ok(Some(stripes)) = stripes_of(&inode) else { return Ok((fid, 0)) };
            let idle = i64::from(self.merge_idle());
            let rests = now.sec.saturating_sub(inode.attr.mtime.sec) >= idle;
            let by_itself = stripes.is_by_itself() && stripes.moving().is_none();
            Ok((fid, if rests && by_itself { stripes.count() } else { 0 }))
        })?;
        if count < 2 {
            return Ok(false);
        }
        // Hashes deal names out evenly: the other stripes have as many.
        let few = self.split_count() / SMALL / u32::from(count);
        if self.has_more(master, few as usize).await? {
            return Ok(false);
        }
        let wanted = Restripe { count: 1, hash: None, by_itself: true };
        self.restripe(&Credentials::root(), None, master, wanted).await?;
        Ok(true)
    }
}
