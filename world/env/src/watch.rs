//! A value that many tasks can wait on: the newest counts, earlier ones may be missed.
//!
//! As `tokio::sync::watch`, but waiters are woken in the order in which they began to wait. tokio
//! wakes in an order that it draws from a hidden random number, so a simulated run could not be
//! repeated.

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// The sender is gone: the value will not change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody changes this value any more")]
pub struct Closed;

/// A look at the value. The sender waits meanwhile: do not hold it across an await.
pub struct Ref<'a, T>(RwLockReadGuard<'a, T>);

impl<T> std::ops::Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[derive(Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

struct Shared<T> {
    value: RwLock<T>,
    version: AtomicU64,
    closed: AtomicBool,
    receivers: AtomicUsize,
    /// Receivers that wait for a change, one entry each, and the sender's own wait for the last of
    /// them to go.
    waiting: Mutex<Waiting>,
}

impl<T> Shared<T> {
    fn wake_all(&self) {
        let wakers = std::mem::take(&mut self.waiting.lock().wakers);
        wakers.into_values().for_each(Waker::wake);
    }

    /// Ready with what `look` finds; looks again at each change.
    async fn wait<R>(&self, mut look: impl FnMut() -> Option<R>) -> R {
        let mut place = Place { shared: self, number: None };
        std::future::poll_fn(|cx| {
            // In line first, then the look: a change in between is not missed.
            place.stand(cx);
            look().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// A waiter's place in the line; given up when dropped.
struct Place<'a, T> {
    shared: &'a Shared<T>,
    number: Option<u64>,
}

impl<T> Place<'_, T> {
    fn stand(&mut self, cx: &mut Context<'_>) {
        let waiting = &mut *self.shared.waiting.lock();
        let number = *self.number.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        waiting.wakers.insert(number, cx.waker().clone());
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let removed = self.shared.waiting.lock().wakers.remove(&number);
            drop(removed);
        }
    }
}

/// Changes the value.
pub struct Sender<T>(Arc<Shared<T>>);

/// Sees the value.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// A value with its first receiver.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// A value without a receiver yet.
    pub fn new(value: T) -> Sender<T> {
        Sender(Arc::new(Shared {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            receivers: AtomicUsize::new(0),
            waiting: Mutex::default(),
        }))
    }

    /// One more receiver; the present value counts as seen.
    pub fn subscribe(&self) -> Receiver<T> {
        self.0.receivers.fetch_add(1, Ordering::AcqRel);
        Receiver { shared: self.0.clone(), seen: self.0.version.load(Ordering::Acquire) }
    }

    /// Changes the value in place and wakes all waiters.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        {
            let mut value = self.0.value.write();
            change(&mut value);
            self.0.version.fetch_add(1, Ordering::AcqRel);
        }
        self.0.wake_all();
    }

    /// A new value; the one before.
    pub fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_modify(|now| std::mem::swap(now, &mut value));
        value
    }

    /// The value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.0.value.read())
    }

    /// Ready when there is no receiver any more.
    pub async fn closed(&self) {
        let shared = &*self.0;
        shared.wait(|| (shared.receivers.load(Ordering::Acquire) == 0).then_some(())).await;
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.wake_all();
    }
}

impl<T> Receiver<T> {
    /// The value; it does not count as seen by this receiver.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.value.read())
    }

    /// True if the value was changed since this receiver last saw it.
    ///
    /// # Errors
    /// [`Closed`].
    pub fn has_changed(&self) -> Result<bool, Closed> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(Closed);
        }
        Ok(self.shared.version.load(Ordering::Acquire) != self.seen)
    }

    /// Ready when the value was changed since it was last seen; then it counts as seen.
    ///
    /// # Errors
    /// [`Closed`], and there was no such change.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let (shared, seen) = (&*self.shared, &mut self.seen);
        shared
            .wait(|| {
                let closed = shared.closed.load(Ordering::Acquire);
                let version = shared.version.load(Ordering::Acquire);
                if version != *seen {
                    *seen = version;
                    return Some(Ok(()));
                }
                closed.then_some(Err(Closed))
            })
            .await
    }

    /// Ready when `is_so` holds for the value; it counts as seen.
    ///
    /// # Errors
    /// [`Closed`], and the last value is not so.
    pub async fn wait_for(
        &mut self,
        mut is_so: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, Closed> {
        let (shared, seen) = (&*self.shared, &mut self.seen);
        shared
            .wait(|| {
                let closed = shared.closed.load(Ordering::Acquire);
                let value = shared.value.read();
                *seen = shared.version.load(Ordering::Acquire);
                if is_so(&value) {
                    return Some(Ok(()));
                }
                closed.then_some(Err(Closed))
            })
            .await?;
        Ok(Ref(self.shared.value.read()))
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.shared.receivers.fetch_add(1, Ordering::AcqRel);
        Receiver { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.shared.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::task::noop_waker_ref;
    use std::pin::pin;
    use std::task::Wake;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(noop_waker_ref()))
    }

    #[test]
    fn a_change_is_seen_once_and_the_newest_counts() {
        let (sender, mut receiver) = channel(1);
        assert_eq!(receiver.changed().now_or_never(), None);
        sender.send_replace(2);
        assert_eq!(sender.send_replace(3), 2);
        assert_eq!(receiver.has_changed(), Ok(true));
        assert_eq!(receiver.changed().now_or_never(), Some(Ok(())));
        assert_eq!((*receiver.borrow(), receiver.has_changed()), (3, Ok(false)));
        assert_eq!(receiver.changed().now_or_never(), None);
        sender.send_modify(|value| *value += 1);
        drop(sender);
        assert_eq!(receiver.changed().now_or_never(), Some(Ok(())), "the last change first");
        assert_eq!(receiver.changed().now_or_never(), Some(Err(Closed)));
        assert_eq!(receiver.has_changed(), Err(Closed));
        assert_eq!(
            receiver.wait_for(|value| *value == 4).now_or_never().map(|found| *found.unwrap()),
            Some(4)
        );
        assert!(receiver.wait_for(|value| *value == 5).now_or_never().unwrap().is_err());
    }

    #[test]
    fn it_waits_for_a_value_and_for_the_last_receiver() {
        let (sender, mut receiver) = channel(0);
        let other = receiver.clone();
        {
            let mut wait = pin!(receiver.wait_for(|value| *value > 1));
            assert!(poll(wait.as_mut()).is_pending());
            sender.send_replace(1);
            assert!(poll(wait.as_mut()).is_pending());
            sender.send_replace(2);
            assert!(poll(wait.as_mut()).is_ready());
        }
        let mut gone = pin!(sender.closed());
        assert!(poll(gone.as_mut()).is_pending());
        drop(receiver);
        assert!(poll(gone.as_mut()).is_pending());
        drop(other);
        assert!(poll(gone.as_mut()).is_ready());
    }

    #[test]
    fn who_waits_is_woken_in_order_and_who_gives_up_is_forgotten() {
        struct Note(usize, Arc<Mutex<Vec<usize>>>);
        impl Wake for Note {
            fn wake(self: Arc<Self>) {
                self.1.lock().push(self.0);
            }
        }
        let (sender, receiver) = channel(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut receivers: Vec<_> = (0..20).map(|_| receiver.clone()).collect();
        let mut waits: Vec<_> =
            receivers.iter_mut().map(|receiver| Box::pin(receiver.changed())).collect();
        for (number, wait) in waits.iter_mut().enumerate() {
            let waker = Waker::from(Arc::new(Note(number, order.clone())));
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(waits.remove(3));
        sender.send_replace(1);
        assert_eq!(*order.lock(), (0..20).filter(|n| *n != 3).collect::<Vec<_>>());
        drop(waits);
        assert!(sender.0.waiting.lock().wakers.is_empty());
    }

    #[test]
    fn threads_lose_no_change() {
        let (sender, receiver) = channel(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut receiver = receiver.clone();
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    runtime.block_on(async {
                        assert!(receiver.wait_for(|value| *value == 10_000).await.is_ok())
                    });
                });
            }
            (0..10_000).for_each(|_| sender.send_modify(|value| *value += 1));
        });
    }
}
