//! What the kernel has under the names that it takes away or replaces (docs/locks/kernel.md, R34
//! and R41).
//!
//! The kernel looks a name up, then sends UNLINK, RMDIR or RENAME, and applies the change to the
//! inode that it found: it counts down its links, or marks it as dead. If another client gives the
//! name to another inode in between, that is the wrong one. So the request names the inode. If the
//! MDT finds another one it changes nothing and answers ESTALE; the kernel then looks the name up
//! again, and tries once more. A second ESTALE would reach the program, which did nothing wrong. So
//! the second try names no inode. Until it comes the MDT keeps others from changing these names.
//!
//! The kernel's second look may end the call without a second try: the name is gone, or leads to
//! what the call does not change. The client sees that look, and does not take a later call for the
//! try.
//!
//! A name may pass to another stripe between the two tries, where no MDT kept it from being
//! changed. Of files the second try counts nevertheless: a wrong link count is mended (R12), and a
//! program shall not see ESTALE for what others did. It names the inode that is moved, though, for
//! the kernel moves the name of the one that it knows. Of directories it names all, as the kernel
//! would mark a directory as dead that lives.

use crate::caller::Caller;
use crate::client::Client;
use data::node::NodeId;
use parking_lot::Mutex;
use session::error::ClientError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{Expect, RenameFlags};

/// Threads that are about to try again; beyond it the oldest may see ESTALE.
const MISSED_MAX: usize = 256;

/// What a call changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NameChange {
    /// unlink(2)
    Unlink,
    /// rmdir(2)
    Rmdir,
    /// rename(2) to this name.
    Rename(Fid, Name, RenameFlags),
}

/// A call of the kernel: its thread, the directory and the name, and what becomes of that.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Call {
    thread: u32,
    dir: Fid,
    name: Name,
    change: NameChange,
}

/// A call whose first try met another inode than the kernel had.
#[derive(Clone)]
struct Miss {
    call: Call,
    /// The stripes that had its names then.
    stripes: [Fid; 2],
    /// Whether the name to be moved is that of a directory, by the kernel's second look.
    moves_directory: Option<bool>,
}

impl Miss {
    /// True if the kernel ends the call because it found this under that name.
    fn is_ended_by(&mut self, dir: Fid, name: &Name, found: Option<FileType>) -> bool {
        let directory = found.map(|found| found == FileType::Directory);
        let first = (self.call.dir, &self.call.name) == (dir, name);
        match &self.call.change {
            NameChange::Unlink => first && directory != Some(false),
            NameChange::Rmdir => first && directory != Some(true),
            NameChange::Rename(..) if first => {
                self.moves_directory = directory;
                directory.is_none()
            }
            NameChange::Rename(new_dir, new_name, flags) if (*new_dir, new_name) == (dir, name) => {
                match directory {
                    None => flags.exchange,
                    Some(_) if flags.exchange => false,
                    Some(_) if flags.no_replace => true,
                    Some(replaced) => self.moves_directory.is_some_and(|moved| moved != replaced),
                }
            }
            NameChange::Rename(..) => false,
        }
    }

    /// True if nothing that its names lead to is a directory, as far as the kernel knows.
    fn is_of_files(&self) -> bool {
        match &self.call.change {
            NameChange::Unlink => true,
            NameChange::Rmdir => false,
            NameChange::Rename(_, _, flags) => {
                self.moves_directory == Some(false) && !flags.exchange
            }
        }
    }
}

/// Calls that may be tried once more, at most one of each thread.
#[derive(Default)]
pub(crate) struct Missed {
    calls: Mutex<VecDeque<Miss>>,
    /// There are some: most looks need no lock.
    any: AtomicBool,
}

impl Missed {
    fn note(&self, miss: Miss) {
        let mut calls = self.calls.lock();
        calls.retain(|other| other.call.thread != miss.call.thread);
        if calls.len() >= MISSED_MAX {
            calls.pop_front();
        }
        calls.push_back(miss);
        self.any.store(true, Ordering::Release);
    }

    /// A thread changes names. Returns the first try if this is the second one; told once. Any
    /// other call means that the one before is over.
    fn take(&self, call: &Call) -> Option<Miss> {
        let mut calls = self.calls.lock();
        let at = calls.iter().position(|miss| miss.call.thread == call.thread);
        let miss = at.and_then(|at| calls.remove(at));
        self.any.store(!calls.is_empty(), Ordering::Release);
        miss.filter(|miss| miss.call == *call)
    }

    /// A thread found this under a name.
    fn looked(&self, thread: u32, dir: Fid, name: &Name, found: Option<FileType>) {
        let mut calls = self.calls.lock();
        let ended = |(at, miss): (usize, &mut Miss)| {
            (miss.call.thread == thread && miss.is_ended_by(dir, name, found)).then_some(at)
        };
        let at = calls.iter_mut().enumerate().find_map(ended);
        at.map(|at| calls.remove(at));
        self.any.store(!calls.is_empty(), Ordering::Release);
    }
}

/// One attempt of the kernel to change names.
#[derive(Clone)]
pub(crate) struct Attempt {
    call: Call,
    /// It is the second one; this was the first.
    again: Option<Miss>,
}

/// One request of an attempt.
pub(crate) struct Sent {
    attempt: Attempt,
    stripes: [Fid; 2],
    expects: bool,
}

impl Client {
    /// The kernel asks for a change of this name of a directory, and of the one to which it is
    /// moved.
    pub(crate) fn attempt(
        &self,
        caller: &Caller,
        dir: Fid,
        name: &Name,
        change: NameChange,
    ) -> Attempt {
        let call = Call { thread: caller.pid, dir, name: name.clone(), change };
        let again =
            if self.missed.any.load(Ordering::Acquire) { self.missed.take(&call) } else { None };
        Attempt { call, again }
    }

    /// An attempt is sent to the MDTs of these stripes, which have its names (the second one: the
    /// new name of a rename). Also returns which inodes the kernel has under them.
    pub(crate) fn sends(&self, attempt: Attempt, stripes: [Fid; 2]) -> (Sent, Vec<Expect>) {
        let mut expected = Vec::new();
        let Call { thread, dir: _, name, change } = &attempt.call;
        let (moved, replaced) = match &attempt.again {
            Some(first) if first.stripes == stripes => (false, false),
            Some(first) if first.is_of_files() => (matches!(change, NameChange::Rename(..)), false),
            _ => (true, true),
        };
        let mut expect = |parent, name: &Name, inode: Option<Fid>| {
            expected.extend(inode.map(|inode| Expect { parent, name: name.clone(), inode }));
        };
        // A thread of another PID namespace has no number, and would not be known again.
        if *thread != 0 && moved {
            expect(stripes[0], name, self.locks.expected(stripes[0], name));
        }
        if *thread != 0
            && replaced
            && let NameChange::Rename(new_dir, new_name, _) = change
        {
            let own = self.last_looks.of(*thread, *new_dir, new_name);
            let inode = own.unwrap_or_else(|| self.locks.expected(stripes[1], new_name));
            expect(stripes[1], new_name, inode);
        }
        (Sent { stripes, expects: !expected.is_empty(), attempt }, expected)
    }

    /// The answer of the MDT to an attempt.
    pub(crate) fn attempted<T>(
        &self,
        sent: Sent,
        answer: Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        if let Err(error) = &answer
            && error.errno() == Errno::ESTALE
            && sent.expects
        {
            let Sent { attempt: Attempt { call, .. }, stripes, .. } = sent;
            self.missed.note(Miss { call, stripes, moves_directory: None });
        }
        answer
    }

    /// The kernel was told what is under a name, `None` for nothing: perhaps its second look.
    pub(crate) fn kernel_looked(
        &self,
        thread: u32,
        parent: NodeId,
        name: &Name,
        found: Option<(Fid, FileType)>,
    ) {
        let Some(dir) = self.nodes.fid(parent) else { return };
        self.last_looks.note(thread, dir, name, found.map(|(fid, _)| fid));
        if self.missed.any.load(Ordering::Acquire) {
            self.missed.looked(thread, dir, name, found.map(|(_, file_type)| file_type));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NameChange::{Rename, Rmdir, Unlink};
    use super::*;
    use FileType::{Directory, Regular};

    const OTHER: Fid = Fid { oid: Fid::ROOT.oid + 1, ..Fid::ROOT };

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn call(thread: u32, text: &str, change: NameChange) -> Call {
        Call { thread, dir: Fid::ROOT, name: name(text), change }
    }

    fn miss(thread: u32, change: NameChange) -> Miss {
        let call = call(thread, "a", change);
        Miss { call, stripes: [Fid::ROOT, OTHER], moves_directory: None }
    }

    fn moved(flags: RenameFlags) -> NameChange {
        Rename(OTHER, name("b"), flags)
    }

    #[test]
    fn a_thread_tries_once_more() {
        let missed = Missed::default();
        let take = |thread, text, change| missed.take(&call(thread, text, change)).is_some();
        missed.note(miss(7, Unlink));
        assert!(!take(8, "a", Unlink));
        assert!(take(7, "a", Unlink) && !take(7, "a", Unlink));
        for other in [("b", Unlink), ("a", Rmdir)] {
            missed.note(miss(7, Unlink));
            assert!(!take(7, other.0, other.1), "a later call");
            assert!(!take(7, "a", Unlink), "the call before is over");
        }
    }

    /// As in seed 1795624855826 of the oracle.
    #[test]
    fn a_call_that_the_second_look_ends_is_not_tried_again() {
        let plain = RenameFlags::default();
        let exchange = RenameFlags { exchange: true, ..plain };
        let no_replace = RenameFlags { no_replace: true, ..plain };
        let (first, second) = ((Fid::ROOT, "a"), (OTHER, "b"));
        let cases = [
            (Unlink, vec![(first, Some(Regular))], true),
            (Unlink, vec![(first, Some(Directory))], false),
            (Unlink, vec![(first, None)], false),
            (Unlink, vec![(second, None)], true),
            (Rmdir, vec![(first, Some(Directory))], true),
            (Rmdir, vec![(first, Some(Regular))], false),
            (Rmdir, vec![(first, None)], false),
            (moved(plain), vec![(first, Some(Regular)), (second, Some(Regular))], true),
            (moved(plain), vec![(first, Some(Regular)), (second, None)], true),
            (moved(plain), vec![(first, None)], false),
            (moved(plain), vec![(first, Some(Directory)), (second, Some(Regular))], false),
            (moved(plain), vec![(first, Some(Regular)), (second, Some(Directory))], false),
            (moved(no_replace), vec![(first, Some(Regular)), (second, Some(Regular))], false),
            (moved(exchange), vec![(first, Some(Regular)), (second, Some(Directory))], true),
            (moved(exchange), vec![(first, Some(Regular)), (second, None)], false),
        ];
        for (change, looks, tried) in cases {
            let missed = Missed::default();
            missed.note(miss(7, change.clone()));
            for ((dir, text), found) in &looks {
                missed.looked(8, *dir, &name(text), None);
                missed.looked(7, *dir, &name(text), *found);
            }
            assert_eq!(
                missed.take(&call(7, "a", change.clone())).is_some(),
                tried,
                "{change:?} {looks:?}"
            );
            assert!(!missed.any.load(Ordering::Acquire));
        }
    }

    #[test]
    fn what_the_second_look_found_says_whether_it_is_of_files() {
        let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
        let of_files = |change, found| {
            let mut miss = miss(7, change);
            assert!(!miss.is_ended_by(Fid::ROOT, &name("a"), Some(found)));
            miss.is_of_files()
        };
        assert!(of_files(Unlink, Regular) && !of_files(Rmdir, Directory));
        let renames = |found| of_files(moved(RenameFlags::default()), found);
        assert!(renames(Regular) && !renames(Directory) && !of_files(moved(exchange), Regular));
        assert!(!miss(7, moved(RenameFlags::default())).is_of_files(), "it did not look yet");
    }

    #[test]
    fn as_many_are_known_as_there_is_room_for() {
        let missed = Missed::default();
        (0..=MISSED_MAX as u32).for_each(|thread| missed.note(miss(thread, Unlink)));
        let take = |thread| missed.take(&call(thread, "a", Unlink)).is_some();
        assert!(!take(0));
        assert!((1..=MISSED_MAX as u32).all(take));
    }
}
