//! Work that rests on locks of an MDT, and must not outlive them.

use crate::error::ClientError;
use crate::session::Session;
use crate::validity;
use rpc::deadline;
use rpc::error::RpcError;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use types::fid::Fid;

/// Longest interval between two checks whether a lock is still this mount's.
const TRUST_LOOK: Duration = Duration::from_secs(60);
/// Pause while this mount leaves the MDT without an answer for long.
pub const UNANSWERED_PAUSE: Duration = Duration::from_millis(100);

/// An epoch of locks of an MDT: an eviction ends all of them, and work begun under them begins
/// again under others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionEpoch(u64);

impl Session {
    /// The epoch of now.
    pub fn epoch(&self, fid: Fid) -> SessionEpoch {
        SessionEpoch(self.targets.evictions(fid.mdt()))
    }

    /// Does work under locks of an inode that it gets, and once more if they were lost meanwhile
    /// with a session. They are not asked for again in the middle of it.
    ///
    /// # Errors
    /// Result of `work`, if its epoch lasts.
    pub async fn in_epoch<T, Work: Future<Output = Result<T, ClientError>>>(
        &self,
        fid: Fid,
        work: impl Fn(SessionEpoch) -> Work,
    ) -> Result<T, ClientError> {
        loop {
            let epoch = self.epoch(fid);
            let answer = work(epoch).await;
            if self.epoch(fid) == epoch {
                return answer;
            }
        }
    }

    /// Works on objects under a lock of this inode and epoch. A request that could arrive later
    /// than the MDT surely keeps the lock for this mount is given up, and its target refuses it:
    /// the bytes may belong to another client then. Work for which a program waits stands still
    /// instead until the MDT is heard of again: the lock is held as long as the epoch lasts.
    ///
    /// # Errors
    /// Timeout or Evicted, of the MDT.
    pub async fn while_trusted<T>(
        &self,
        fid: Fid,
        SessionEpoch(evictions): SessionEpoch,
        work: impl Future<Output = T>,
    ) -> Result<T, RpcError> {
        let import =
            self.mdc(fid).map_err(|error| RpcError::Errno(error.errno()))?.import().clone();
        let target = import.target();
        let mut work = pin!(work);
        let mut work = pin!(poll_fn(|context| {
            // The present trust may be that of an unrelated session.
            if import.evictions() != evictions {
                return Poll::Ready(Err(RpcError::Evicted { target }));
            }
            let trusted = self.valid(fid, true);
            let until = (trusted != validity::WITHOUT_END).then(|| self.env.clock.now() + trusted);
            deadline::within(until, || work.as_mut().poll(context)).map(Ok)
        }));
        loop {
            let trusted = self.valid(fid, true).min(TRUST_LOOK);
            if trusted.is_zero() {
                if import.evictions() != evictions {
                    return Err(RpcError::Evicted { target });
                }
                if !self.targets.waits_for_ever() {
                    return Err(RpcError::Timeout { target, seconds: validity::trust().as_secs() });
                }
                self.env.clock.sleep(UNANSWERED_PAUSE).await;
                continue;
            }
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.env.clock.sleep(trusted) => {}
            }
        }
    }
}
