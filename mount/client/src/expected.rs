//! What the kernel has under the names that it takes away or replaces (docs/locks/kernel.md, R34
//! and R41).
//!
//! The kernel looks a name up, then sends UNLINK, RMDIR or RENAME, and applies the change to the
//! inode that it found: it counts down its links, or marks it as dead. If another client gives the
//! name to another inode in between, that is the wrong one. So the request names the inode. If the
//! MDT finds another one it changes nothing and answers ESTALE; the kernel then looks the name up
//! again, and tries once more. A second ESTALE would reach the program, which did nothing wrong. So
//! the second try names no inode.

use crate::caller::Caller;
use crate::client::Client;
use parking_lot::Mutex;
use session::error::ClientError;
use std::collections::VecDeque;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::Expect;

/// Threads that are about to try again; beyond it the oldest may see ESTALE.
const MISSED_MAX: usize = 256;

/// Threads that met another inode than the kernel had, and what they tried to change.
#[derive(Default)]
pub(crate) struct Missed(Mutex<VecDeque<(u32, Fid, Name)>>);

impl Missed {
    fn note(&self, thread: u32, (dir, name): (Fid, Name)) {
        let mut missed = self.0.lock();
        if missed.len() >= MISSED_MAX {
            missed.pop_front();
        }
        missed.push_back((thread, dir, name));
    }

    /// True if the thread tries again; told once.
    fn take(&self, thread: u32, dir: Fid, name: &Name) -> bool {
        let mut missed = self.0.lock();
        let at = missed.iter().position(|(who, in_dir, text)| (*who, *in_dir) == (thread, dir) && text == name);
        at.is_some_and(|at| missed.remove(at).is_some())
    }
}

/// One attempt of the kernel to change names.
pub(crate) struct Attempt {
    thread: u32,
    place: (Fid, Name),
    expects: bool,
}

impl Client {
    /// The kernel asks for a change of these names. The first one tells attempts of a thread apart.
    /// Also returns which inodes the kernel has under them.
    pub(crate) fn attempt(
        &self,
        caller: &Caller,
        first: (Fid, &Name),
        second: Option<(Fid, &Name)>,
    ) -> (Attempt, Vec<Expect>) {
        let (thread, (dir, name)) = (caller.pid, first);
        let mut expected = Vec::new();
        // A thread of another PID namespace has no number, and would not be known again.
        if thread != 0 && !self.missed.take(thread, dir, name) {
            for (parent, name) in [Some(first), second].into_iter().flatten() {
                let inode = self.locks.expected(parent, name);
                expected.extend(inode.map(|inode| Expect { parent, name: name.clone(), inode }));
            }
        }
        (Attempt { thread, place: (dir, name.clone()), expects: !expected.is_empty() }, expected)
    }

    /// The answer of the MDT to an attempt.
    pub(crate) fn attempted<T>(&self, attempt: Attempt, answer: Result<T, ClientError>) -> Result<T, ClientError> {
        if let Err(error) = &answer
            && error.errno() == Errno::ESTALE
            && attempt.expects
        {
            self.missed.note(attempt.thread, attempt.place);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_thread_tries_once_more() {
        let missed = Missed::default();
        missed.note(7, (Fid::ROOT, name("a")));
        for (thread, text) in [(8, "a"), (7, "b")] {
            assert!(!missed.take(thread, Fid::ROOT, &name(text)));
        }
        assert!(missed.take(7, Fid::ROOT, &name("a")));
        assert!(!missed.take(7, Fid::ROOT, &name("a")));
    }

    #[test]
    fn as_many_are_known_as_there_is_room_for() {
        let missed = Missed::default();
        (0..=MISSED_MAX as u32).for_each(|thread| missed.note(thread, (Fid::ROOT, name("a"))));
        assert!(!missed.take(0, Fid::ROOT, &name("a")));
        assert!((1..=MISSED_MAX as u32).all(|thread| missed.take(thread, Fid::ROOT, &name("a"))));
    }
}
