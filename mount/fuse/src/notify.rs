//! Telling the kernel what to forget.
//!
//! The kernel may block in a notification. Dropping a name waits for the parent's lock, which a
//! lookup, create, unlink or readdir of this very mount holds. Dropping data waits for reads in
//! flight and for dirty mmap pages that this daemon must take. So notifications go out from a
//! thread of their own, never from one that serves requests, and a task that waits for one must not
//! hold what serving needs.
//!
//! Attributes alone (`offset` -1) and [`Notification::IncEpoch`] never wait. So there are three
//! threads, one for these, one for names and one for data: a notification never waits behind one
//! that waits for something else. Where writes hold pages, data has other threads
//! ([`crate::notify_apart`]). The queues are bounded; [`Notifier::tell`] waits for room and for
//! the kernel's answer.

use crate::abi::flags::misc;
use crate::abi::outbound::*;
use crate::device::Device;
use crate::limits::{NOTIFICATIONS_MAX, PRUNE_NODES_MAX};
use crate::notification::Notification;
use bytes::Bytes;
use env::tasks::Tasks;
use std::io::IoSlice;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use types::errno::Errno;
use types::name::Name;
use zerocopy::IntoBytes;

/// Why a notification was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The queue is full.
    #[error("{NOTIFICATIONS_MAX} notifications wait already")]
    Full,
    /// The mount is gone.
    #[error("the mount is gone")]
    Ended,
}

type Done = Option<oneshot::Sender<Result<bool, Errno>>>;

/// Threads, by what they may wait for.
const LANES: [&str; 3] = ["fuse-notify", "fuse-notify-name", "fuse-notify-data"];

impl Notification {
    /// Number of the thread that sends it.
    fn lane(&self) -> usize {
        match self {
            Notification::InvalInode { offset, .. } if *offset < 0 => 0,
            Notification::IncEpoch | Notification::Resend => 0,
            Notification::InvalEntry { .. }
            | Notification::ExpireEntry { .. }
            | Notification::Delete { .. }
            | Notification::Prune { .. } => 1,
            Notification::InvalInode { .. } | Notification::Store { .. } => 2,
        }
    }
}

/// What the thread is given.
#[derive(Debug)]
enum Order {
    Send(Notification, Done),
    End,
}

/// A notification on its way to the kernel, after those queued earlier for the same thread.
#[derive(Debug)]
pub struct Queued(oneshot::Receiver<Result<bool, Errno>>);

impl Queued {
    /// Ready when the kernel has done it. `false`: it had nothing to forget, or no place for it.
    ///
    /// # Errors
    /// ENODEV: the mount is gone; EINVAL: this kernel does not know it.
    pub async fn answer(self) -> Result<bool, Errno> {
        self.0.await.unwrap_or(Err(Errno::ENODEV))
    }
}

/// Sends notifications; cheap to clone.
#[derive(Clone, Debug)]
pub struct Notifier {
    lanes: [mpsc::Sender<Order>; LANES.len()],
}

impl Notifier {
    /// Queues one without waiting for anything.
    ///
    /// # Errors
    /// [`NotTaken`]; nothing was sent then.
    pub fn post(&self, notification: Notification) -> Result<(), NotTaken> {
        self.enqueue(notification, None)
    }

    /// As [`Notifier::post`], for a caller that must know when the kernel has done it.
    ///
    /// # Errors
    /// [`NotTaken`]; nothing was sent then.
    pub fn begin(&self, notification: Notification) -> Result<Queued, NotTaken> {
        let (done, answer) = oneshot::channel();
        self.enqueue(notification, Some(done))?;
        Ok(Queued(answer))
    }

    fn enqueue(&self, notification: Notification, done: Done) -> Result<(), NotTaken> {
        self.lanes[notification.lane()].try_send(Order::Send(notification, done)).map_err(|error| {
            match error {
                mpsc::error::TrySendError::Full(_) => NotTaken::Full,
                mpsc::error::TrySendError::Closed(_) => NotTaken::Ended,
            }
        })
    }

    /// Queues one, waiting for room but not for the kernel.
    ///
    /// # Errors
    /// The mount is gone.
    pub async fn queue(&self, notification: Notification) -> Result<(), NotTaken> {
        self.lanes[notification.lane()]
            .send(Order::Send(notification, None))
            .await
            .map_err(|_| NotTaken::Ended)
    }

    /// Ready when the kernel has done it. `false`: it had nothing to forget.
    ///
    /// # Errors
    /// ENODEV: the mount is gone; EINVAL: this kernel does not know it.
    pub async fn tell(&self, notification: Notification) -> Result<bool, Errno> {
        let (done, answer) = oneshot::channel();
        let lane = &self.lanes[notification.lane()];
        lane.send(Order::Send(notification, Some(done))).await.map_err(|_| Errno::ENODEV)?;
        Queued(answer).answer().await
    }

    /// Ends the threads, even if others still hold a notifier. A full queue needs no message: the
    /// next write finds the mount gone.
    pub(crate) fn end(&self) {
        for lane in &self.lanes {
            if let Err(error) = lane.try_send(Order::End) {
                tracing::debug!(%error, "the notifications end by themselves");
            }
        }
    }
}

/// Starts the threads. They end on request, when the last [`Notifier`] is gone, or when the mount
/// is. `started` is called for each, and the function it returns when that thread ends.
pub fn start<E: FnOnce() + Send + 'static>(
    tasks: &dyn Tasks,
    device: &Arc<Device>,
    mut started: impl FnMut() -> E,
) -> Notifier {
    let lanes = LANES.map(|name| {
        let (queue, waiting) = mpsc::channel::<Order>(NOTIFICATIONS_MAX);
        let (device, ended) = (device.clone(), started());
        tasks.spawn_thread(
            name,
            Box::new(move || {
                serve(&device, waiting);
                ended();
            }),
        );
        queue
    });
    Notifier { lanes }
}

fn serve(device: &Device, mut waiting: mpsc::Receiver<Order>) {
    while let Some(Order::Send(notification, done)) = waiting.blocking_recv() {
        let result = send_logged(device, &notification);
        if let Some(done) = done {
            // The receiver may be gone; then the answer is not needed.
            let _ = done.send(result);
        }
        if result == Err(Errno::ENODEV) {
            break;
        }
    }
}

/// Writes one; a refusal is logged.
pub(crate) fn send_logged(device: &Device, notification: &Notification) -> Result<bool, Errno> {
    let result = send(device, notification);
    match result {
        Ok(_) | Err(Errno::ENODEV) => {}
        Err(errno) => tracing::warn!(?notification, %errno, "the kernel refuses a notification"),
    }
    result
}

/// Writes one; may block as the module says. `false`: there was nothing to forget.
fn send(device: &Device, notification: &Notification) -> Result<bool, Errno> {
    let message = encode(notification)?;
    match device.write(&[IoSlice::new(&message.head), IoSlice::new(&message.tail)]) {
        Ok(()) => Ok(true),
        // Not cached.
        Err(rustix::io::Errno::NOENT) => Ok(false),
        // A directory that is not empty, or a name that leads elsewhere by now: DELETE has nothing
        // to do.
        Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::BUSY) => Ok(true),
        Err(rustix::io::Errno::NOTCONN) => Err(Errno::ENODEV),
        Err(error) => Err(Errno(error.raw_os_error())),
    }
}

struct Message {
    head: Vec<u8>,
    tail: Bytes,
}

fn encode(notification: &Notification) -> Result<Message, Errno> {
    let entry = |parent: &u64, name: &Name, flags: u32| {
        let body = NotifyInvalEntryOut { parent: *parent, namelen: name.len() as u32, flags };
        message(notify::INVAL_ENTRY, body.as_bytes(), &terminated(name), Bytes::new())
    };
    Ok(match notification {
        Notification::InvalInode { node, offset, len } => {
            let body = NotifyInvalInodeOut { ino: *node, off: *offset, len: *len };
            message(notify::INVAL_INODE, body.as_bytes(), &[], Bytes::new())
        }
        Notification::InvalEntry { parent, name } => entry(parent, name, 0),
        Notification::ExpireEntry { parent, name } => entry(parent, name, misc::EXPIRE_ONLY),
        Notification::Delete { parent, child, name } => {
            let body = NotifyDeleteOut {
                parent: *parent,
                child: *child,
                namelen: name.len() as u32,
                padding: 0,
            };
            message(notify::DELETE, body.as_bytes(), &terminated(name), Bytes::new())
        }
        Notification::IncEpoch => message(notify::INC_EPOCH, &[], &[], Bytes::new()),
        Notification::Prune { nodes } => {
            if nodes.len() > PRUNE_NODES_MAX {
                return Err(Errno::E2BIG);
            }
            let body = NotifyPruneOut { count: nodes.len() as u32, padding: 0, spare: 0 };
            message(notify::PRUNE, body.as_bytes(), nodes.as_bytes(), Bytes::new())
        }
        Notification::Resend => message(notify::RESEND, &[], &[], Bytes::new()),
        Notification::Store { node, offset, data } => {
            let size = u32::try_from(data.len()).map_err(|_| Errno::E2BIG)?;
            let body = NotifyStoreOut { nodeid: *node, offset: *offset, size, padding: 0 };
            message(notify::STORE, body.as_bytes(), &[], data.clone())
        }
    })
}

fn terminated(name: &Name) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

fn message(code: i32, body: &[u8], rest: &[u8], tail: Bytes) -> Message {
    let len = size_of::<OutHeader>() + body.len() + rest.len() + tail.len();
    let header = OutHeader { len: len as u32, error: code, unique: 0 };
    Message { head: [header.as_bytes(), body, rest].concat(), tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_notifications() {
        let name = Name::new(b"ab").unwrap();
        let expire = encode(&Notification::ExpireEntry { parent: 1, name: name.clone() }).unwrap();
        let expected = [
            &[35, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0],
            b"ab\0",
        ]
        .concat();
        assert_eq!(expire.head, expected);
        let epoch = encode(&Notification::IncEpoch).unwrap();
        assert_eq!(epoch.head, [16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let prune = encode(&Notification::Prune { nodes: vec![5] }).unwrap();
        assert_eq!(prune.head.len(), 16 + 16 + 8);
        assert_eq!(prune.head[32..], [5, 0, 0, 0, 0, 0, 0, 0]);
        let delete = encode(&Notification::Delete { parent: 1, child: 2, name }).unwrap();
        assert_eq!(delete.head.len(), 16 + 24 + 3);
    }

    #[test]
    fn too_much_is_refused() {
        let nodes = vec![1; PRUNE_NODES_MAX + 1];
        assert_eq!(encode(&Notification::Prune { nodes }).err(), Some(Errno::E2BIG));
    }
}
