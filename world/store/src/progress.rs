//! Tasks that wait for commits.
//!
//! Tasks wait for a transno to become durable, or for room in the open group. The commit thread
//! wakes those whose turn has come. The numbers live in the store; only the wakers are here. Bound:
//! one entry per waiting request.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use types::session::Transno;

#[derive(Default)]
struct Waiters {
    next: u64,
    wakers: BTreeMap<(Transno, u64), Waker>,
}

/// Tasks that wait, by the transno they wait for.
#[derive(Default)]
pub struct Progress {
    waiters: Mutex<Waiters>,
}

impl Progress {
    /// Waits until `ready` answers. It is asked now, when `transno` or a later one becomes durable,
    /// and at [`Progress::wake_all`].
    pub async fn wait<T>(&self, transno: Transno, ready: impl Fn() -> Option<T>) -> T {
        let mut place = Place { progress: self, key: None };
        poll_fn(|context| {
            // Asked under the lock: a commit that happens afterwards finds the waker.
            let mut waiters = self.waiters.lock();
            if let Some(answer) = ready() {
                return Poll::Ready(answer);
            }
            let key = *place.key.get_or_insert_with(|| {
                waiters.next += 1;
                (transno, waiters.next)
            });
            waiters.wakers.insert(key, context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Everything up to `committed` is durable.
    pub fn wake_through(&self, committed: Transno) {
        let mut waiters = self.waiters.lock();
        if waiters.wakers.is_empty() {
            return;
        }
        let later = waiters.wakers.split_off(&(Transno(committed.0 + 1), 0));
        let woken = std::mem::replace(&mut waiters.wakers, later);
        drop(waiters);
        woken.into_values().for_each(Waker::wake);
    }

    /// The store is poisoned or closed: all waiters must look.
    pub fn wake_all(&self) {
        let woken = std::mem::take(&mut self.waiters.lock().wakers);
        woken.into_values().for_each(Waker::wake);
    }
}

/// A place in the queue, given up when its task goes away.
struct Place<'a> {
    progress: &'a Progress,
    key: Option<(Transno, u64)>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.progress.waiters.lock().wakers.remove(&key);
        }
    }
}
