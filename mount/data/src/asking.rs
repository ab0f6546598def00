//! Locks of one file that this mount is asking the MDT for.
//!
//! A callback takes what is on its way to this mount, too: each task of many that ask at once may
//! lose its lock before it has used it. So of those that want the same bytes one asks, and the
//! others look again when it is done.

use crate::locks::data_guards::DataAccess;
use parking_lot::Mutex;
use tokio::sync::Notify;
use types::ranges::ByteRange;

/// What is being asked for. At most one entry for each task that works with the file.
#[derive(Default)]
pub(crate) struct Asking(Mutex<Vec<DataAccess>>);

/// A task asks. Dropping it ends that, and wakes those that look again.
pub(crate) struct Ask<'a> {
    asking: &'a Asking,
    access: DataAccess,
    changed: &'a Notify,
}

impl Asking {
    /// Begins to ask. `None`: another task asks for the same bits of some of these bytes; `changed`
    /// is notified when it is done.
    pub(crate) fn begin<'a>(&'a self, access: DataAccess, changed: &'a Notify) -> Option<Ask<'a>> {
        let mut asking = self.0.lock();
        if asking.iter().any(|other| meets(*other, access)) {
            return None;
        }
        asking.push(access);
        Some(Ask { asking: self, access, changed })
    }
}

impl Drop for Ask<'_> {
    fn drop(&mut self) {
        let mut asking = self.asking.0.lock();
        if let Some(at) = asking.iter().position(|other| *other == self.access) {
            asking.swap_remove(at);
        }
        drop(asking);
        self.changed.notify_waiters();
    }
}

/// True if both want the same bits of some byte.
fn meets(one: DataAccess, other: DataAccess) -> bool {
    let everything = ByteRange::new(0, u64::MAX);
    let bytes = |access: DataAccess| access.range.unwrap_or(everything);
    one.bits == other.bits && bytes(one).overlaps(bytes(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn one_asks_for_the_same_bytes_and_the_others_are_told_when_it_is_done() {
        let (asking, changed) = (Asking::default(), Notify::new());
        let first = asking.begin(DataAccess::read(0, 10), &changed).expect("nobody asks");
        for same in [DataAccess::read(9, 20), DataAccess::READ_ALL] {
            assert!(asking.begin(same, &changed).is_none(), "{same:?}");
        }
        for other in [DataAccess::read(10, 20), DataAccess::write(0, 10), DataAccess::WRITE_ALL] {
            drop(asking.begin(other, &changed).unwrap_or_else(|| panic!("{other:?} waits")));
        }
        let mut told = pin!(changed.notified());
        assert!(told.as_mut().enable() || poll(told.as_mut()).is_pending());
        drop(first);
        assert!(poll(told).is_ready());
        assert!(asking.begin(DataAccess::READ_ALL, &changed).is_some());
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }
}
