//! Notifications about pages that a write of this mount may hold while it waits for its lock.
//!
//! Where the kernel opens files without requests, it keeps pages of what it writes. Until a write
//! is answered it holds the last page, if it does not fill that and the page was not read before. A
//! notification about that page waits for the write. The write may wait for another client, and
//! that one for a callback to this mount. So such a notification must keep no other one waiting:
//! each goes out from a thread that has nothing else to do, and whether the kernel lets it wait is
//! seen by the state of that thread.

use crate::device::Device;
use crate::notification::Notification;
use crate::notify::send_logged;
use env::clock::Clock;
use env::tasks::Tasks;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::thread::gettid;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use types::errno::Errno;

/// Notifications on their way at a time. Each that waits needs a write that waits; beyond this
/// number the next one is sent when one of them is done.
const THREADS_MAX: usize = 512;
/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(1);
/// Pause before the state of a thread is looked at; twice as long before each further look, up to
/// `LOOK_MAX`.
const LOOK_MIN: Duration = Duration::from_micros(50);
const LOOK_MAX: Duration = Duration::from_millis(2);

/// As much of a thread's `stat` as is read, bytes: its state stands near the beginning.
const STAT_BYTES_MAX: usize = 128;
/// No thread works on it now.
const NOBODY: i32 = 0;

/// Sends notifications, each from a thread of its own.
#[derive(Clone)]
pub struct Apart(Arc<Inner>);

struct Inner {
    /// Open as long as the mount is served.
    device: Weak<Device>,
    tasks: Arc<dyn Tasks>,
    clock: Arc<dyn Clock>,
    room: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    thread: i32,
    queue: mpsc::SyncSender<Order>,
}

struct Order {
    notification: Notification,
    sent: Sent,
    _room: OwnedSemaphorePermit,
}

/// The thread's side of a notification.
struct Sent {
    thread: Arc<AtomicI32>,
    done: oneshot::Sender<Result<bool, Errno>>,
}

/// A notification on its way.
pub struct OnItsWay {
    thread: Arc<AtomicI32>,
    done: oneshot::Receiver<Result<bool, Errno>>,
    clock: Arc<dyn Clock>,
}

impl Apart {
    /// Over the device of one mount.
    pub fn new(device: Weak<Device>, tasks: Arc<dyn Tasks>, clock: Arc<dyn Clock>) -> Apart {
        let room = Arc::new(Semaphore::new(THREADS_MAX));
        Apart(Arc::new(Inner { device, tasks, clock, room, idle: Mutex::default() }))
    }

    /// Sends one. It is on its way when this returns.
    pub async fn begin(&self, notification: Notification) -> OnItsWay {
        let inner = &self.0;
        let thread = Arc::new(AtomicI32::new(NOBODY));
        let (done, answer) = oneshot::channel();
        let way = OnItsWay { thread: thread.clone(), done: answer, clock: inner.clock.clone() };
        // The semaphore is never closed.
        let Ok(_room) = inner.room.clone().acquire_owned().await else { return way };
        let Some(device) = inner.device.upgrade() else { return way };
        let order = Order { notification, sent: Sent { thread, done }, _room };
        let order = match inner.idle.lock().pop() {
            Some(idle) => match idle.queue.send(order) {
                Ok(()) => return way,
                Err(mpsc::SendError(order)) => order,
            },
            None => order,
        };
        let weak = Arc::downgrade(inner);
        inner.tasks.spawn_thread("fuse-notify-page", Box::new(move || serve(device, &weak, order)));
        way
    }
}

fn serve(device: Arc<Device>, inner: &Weak<Inner>, first: Order) {
    let me = gettid().as_raw_nonzero().get();
    let mut next = Some((device, first));
    while let Some((device, Order { notification, sent, _room })) = next {
        sent.thread.store(me, Ordering::SeqCst);
        let result = send_logged(&device, &notification);
        sent.thread.store(NOBODY, Ordering::SeqCst);
        // The receiver may be gone; then the answer is not needed.
        let _ = sent.done.send(result);
        drop((device, _room));
        next = wait(inner, me).and_then(|order| Some((inner.upgrade()?.device.upgrade()?, order)));
    }
}

/// The next order for this thread; `None`: there is none for a while.
fn wait(inner: &Weak<Inner>, me: i32) -> Option<Order> {
    let (queue, orders) = mpsc::sync_channel(1);
    inner.upgrade()?.idle.lock().push(Idle { thread: me, queue });
    if let Ok(order) = orders.recv_timeout(IDLE) {
        return Some(order);
    }
    inner.upgrade()?.idle.lock().retain(|idle| idle.thread != me);
    // One may have come just now; otherwise no task can send one any more.
    orders.recv().ok()
}

impl OnItsWay {
    /// Ready when the kernel has done it, as
    /// [`Notifier::tell`](crate::notify::Notifier::tell).
    ///
    /// # Errors
    /// ENODEV: the mount is gone; EINVAL: this kernel does not know it.
    pub async fn answer(self) -> Result<bool, Errno> {
        self.done.await.unwrap_or(Err(Errno::ENODEV))
    }

    /// Ready when the kernel has done it, or when it lets the notification wait for a page: then
    /// the notification is returned.
    pub async fn answer_or_wait(mut self) -> Option<OnItsWay> {
        let mut pause = LOOK_MIN;
        loop {
            tokio::select! {
                biased;
                _ = &mut self.done => return None,
                () = self.clock.sleep(pause) => {}
            }
            if self.is_waiting() {
                return Some(self);
            }
            pause = (2 * pause).min(LOOK_MAX);
        }
    }

    /// True if the thread sleeps in the kernel, where no signal wakes it: that is how the kernel
    /// waits for a page.
    fn is_waiting(&self) -> bool {
        let thread = self.thread.load(Ordering::SeqCst);
        thread != NOBODY
            && state(thread) == Some('D')
            && self.thread.load(Ordering::SeqCst) == thread
    }
}

/// State of a thread of this process, as `/proc` has it.
fn state(thread: i32) -> Option<char> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file =
        rustix::fs::open(format!("/proc/self/task/{thread}/stat"), flags, Mode::empty()).ok()?;
    let mut stat = [0; STAT_BYTES_MAX];
    let len = rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut stat, 0)).ok()?;
    state_in(str::from_utf8(&stat[..len]).ok()?)
}

/// The third field. The second one is a name in parentheses, which may contain anything.
fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_thread_stands_behind_its_name() {
        assert_eq!(state_in("17 (fuse-notify-page) D 1 17 17 0 -1"), Some('D'));
        assert_eq!(state_in("17 (a) D) S 1 17"), Some('S'));
        assert_eq!(state_in("17"), None);
        assert_eq!(state(gettid().as_raw_nonzero().get()), Some('R'));
    }
}
