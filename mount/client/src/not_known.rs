//! Directories that programs use, and that no MDT knows any more.
//!
//! Such a directory was removed, or it has another inode by now, and the MDT that had the old one
//! has restarted since: it does not say which. The kernel finds out. Told ESTALE, it looks up the
//! whole path again, once, and asks again. A directory that went has another node then, as it was
//! not seen to go. If a thread comes back with the same node, that is its working directory, or one
//! that it has open, and it is told ENOENT, as anywhere of a removed directory.
//!
//! Bound: [`TOLD_MAX`]. A program is told ESTALE where the oldest was forgotten, and if its thread
//! has no number: it is of another PID namespace.

use data::node::NodeId;
use parking_lot::Mutex;
use std::collections::VecDeque;
use types::errno::Errno;

/// Threads that were told ESTALE, and of which directory. Those that come back do so at once.
const TOLD_MAX: usize = 256;

/// See the module.
#[derive(Default)]
pub(crate) struct NotKnown {
    told: Mutex<VecDeque<(u32, NodeId)>>,
}

impl NotKnown {
    /// What a thread is told that uses names in such a directory.
    pub(crate) fn errno(&self, thread: u32, dir: NodeId) -> Errno {
        if thread == 0 {
            return Errno::ESTALE;
        }
        let mut told = self.told.lock();
        if told.contains(&(thread, dir)) {
            return Errno::ENOENT;
        }
        if told.len() >= TOLD_MAX {
            told.pop_front();
        }
        told.push_back((thread, dir));
        Errno::ESTALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_looks_again_before_a_directory_counts_as_removed() {
        let known = NotKnown::default();
        let errnos = |thread| [1, 1, 2, 1, 2].map(|dir| known.errno(thread, NodeId(dir)));
        let (again, gone) = (Errno::ESTALE, Errno::ENOENT);
        assert_eq!(errnos(7), [again, gone, again, gone, gone]);
        assert_eq!(errnos(8), [again, gone, again, gone, gone], "each thread looks by itself");
        assert_eq!(errnos(0), [again; 5], "any thread");
    }

    #[test]
    fn threads_that_do_not_come_back_are_forgotten() {
        let known = NotKnown::default();
        let newest = TOLD_MAX as u32 + 1;
        for thread in 1..=newest {
            assert_eq!(known.errno(thread, NodeId(5)), Errno::ESTALE);
        }
        assert_eq!(known.told.lock().len(), TOLD_MAX);
        assert_eq!(known.errno(newest, NodeId(5)), Errno::ENOENT);
        assert_eq!(known.errno(1, NodeId(5)), Errno::ESTALE, "the oldest");
    }
}
