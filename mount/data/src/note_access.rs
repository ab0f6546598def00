//! What programs read is noted, and told to the MDTs ([`crate::accessed`]).

use crate::path::DataPath;
use futures_util::{StreamExt, stream};
use std::sync::Weak;
use std::time::Duration;
use types::attr::{AccessTimes, Attr};
use types::credentials::Credentials;
use types::fid::Fid;
use types::time::Timestamp;
use wire::mds::{Accessed, MdsOp};

/// How long accesses are collected before the MDTs are told, at least and at most.
const DELAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(4));
/// Round trips to the MDT that is farthest away, for which they are collected there: so what is
/// told in the background is a small part of what crosses a long line.
const ROUND_TRIPS: u32 = 8;
/// Accesses in one request.
const BATCH: usize = 256;
/// Requests of these that are on their way.
const REQUESTS_MAX: usize = 16;

impl DataPath {
    /// `true`: the access time moves, as far as is known.
    pub fn note_access(&self, fid: Fid) -> bool {
        let times = self.accesses.times;
        if times == AccessTimes::Off || fid.is_shown_only() {
            return false;
        }
        let now = self.session.env.clock.wall();
        let at = match self.locks.attr(fid) {
            // Whether the time moves shows with the attributes.
            None => now,
            Some(entry) if entry.noatime => return false,
            Some(entry) => {
                // The clock of this host may be behind that of the host which made the change.
                let at = now.max(entry.attr.ctime.next());
                if !entry.attr.takes_access(at, times) {
                    return false;
                }
                at
            }
        };
        if self.accesses.note(fid, at) {
            self.session.env.tasks.spawn("tell access times", Box::pin(tell(self.weak())));
        }
        true
    }

    /// True if the access time moves with the next read of an inode that has these attributes.
    pub fn next_access_counts(&self, attr: &Attr) -> bool {
        attr.takes_access(self.session.env.clock.wall().max(attr.ctime.next()), self.accesses.times)
    }

    /// Tells the MDTs what is noted. `false`: nothing was.
    pub async fn tell_all_accesses(&self) -> bool {
        let all = self.accesses.all();
        let batches = stream::iter(all.values().flat_map(|of_mdt| of_mdt.chunks(BATCH)));
        let tell = |some| async move {
            self.tell_accesses(some).await;
            self.accesses.told(some);
        };
        batches.for_each_concurrent(REQUESTS_MAX, tell).await;
        !all.is_empty()
    }

    /// How long accesses are collected.
    fn accesses_collected(&self) -> Duration {
        let delays = self.session.targets.mdcs().into_iter().map(|mdc| mdc.import().delay());
        let farthest = delays.max().unwrap_or_default();
        (farthest * ROUND_TRIPS).clamp(DELAY.0, DELAY.1)
    }

    /// Tells one MDT. If it does not answer, these accesses are not recorded.
    async fn tell_accesses(&self, some: &[(Fid, Timestamp)]) {
        let Some((first, _)) = some.first() else { return };
        let ops = some.iter().map(|(fid, at)| {
            // The MDT does not know yet when this mount wrote what it has not stored.
            let strict =
                self.accesses.times == AccessTimes::Strict || self.writeback.is_dirty(*fid);
            MdsOp::Accessed(Accessed { fid: *fid, at: *at, strict })
        });
        let told = match self.session.mdc(*first) {
            Ok(mdc) => {
                mdc.ask(&Credentials::root(), ops.collect()).await.map_err(|error| error.errno())
            }
            Err(error) => Err(error.errno()),
        };
        let results = told.map(|results| results.into_iter().find_map(Result::err));
        if let Err(errno) | Ok(Some(errno)) = results {
            tracing::debug!(%first, count = some.len(), %errno, "access times are not recorded");
        }
    }
}

/// Tells the MDTs from time to time, as long as anything is noted.
async fn tell(path: Weak<DataPath>) {
    loop {
        let Some((clock, delay)) =
            path.upgrade().map(|path| (path.session.env.clock.clone(), path.accesses_collected()))
        else {
            return;
        };
        clock.sleep(delay).await;
        let Some(path) = path.upgrade().filter(|path| !path.session.is_ending()) else { return };
        if !path.tell_all_accesses().await {
            return;
        }
    }
}
