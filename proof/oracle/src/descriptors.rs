//! Several descriptors of one open file: a copy that is closed, and a process that inherits all,
//! uses one and ends.
//!
//! Closing a copy does not affect the others: the file stays open, and bytes written through any of
//! them are there for all. The answers are those of an ordinary close and write, so the checker
//! needs no rule of its own for them.

use crate::history::{Action, Answer, SLOT};
use crate::marks;
use crate::perform::{Open, Performer};
use std::os::fd::{AsRawFd, IntoRawFd};

/// A child's status for a short write; error numbers are smaller.
const SHORT: i32 = 255;

impl Performer<'_> {
    /// Closes a second descriptor of an open file.
    pub fn close_a_copy(&mut self, open: &Open) {
        let fd = match open.file.try_clone() {
            Ok(copy) => copy.into_raw_fd(),
            Err(error) => panic!("dup: {error}"),
        };
        self.simple(Action::Close { ino: open.ino }, |_| {
            // SAFETY: the descriptor was ours and is given up here.
            let result = unsafe { libc::close(fd) };
            if result == 0 { Answer::Done } else { Answer::Failed(last_error()) }
        });
    }

    /// A process that inherits all descriptors of this one writes through one of them, and ends. So
    /// it closes a copy of everything that any thread has open, while it is in use.
    pub fn write_in_a_child(&mut self, open: &Open, slot: u64, slots: u64, id: u64) {
        let bytes = marks::fill(id, slots);
        let (fd, start) = (open.file.as_raw_fd(), (slot * SLOT) as libc::off_t);
        self.simple(Action::Write { ino: open.ino, slot, slots, id }, |_| {
            // SAFETY: after fork in a process with threads the child may call only what is safe in
            // a signal handler. pwrite and _exit are, and the bytes are in memory already.
            let child = unsafe {
                match libc::fork() {
                    0 => {
                        let written = libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), start);
                        libc::_exit(match usize::try_from(written) {
                            Ok(all) if all == bytes.len() => 0,
                            Ok(_) => SHORT,
                            Err(_) => *libc::__errno_location(),
                        });
                    }
                    child => child,
                }
            };
            assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
            match exit_status(child) {
                0 => Answer::Done,
                SHORT => Answer::Short(0),
                errno => Answer::Failed(errno),
            }
        });
    }
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn exit_status(child: libc::pid_t) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: waits for a child of this process; `status` lives as long as the call.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        match waited {
            pid if pid == child => break,
            _ if last_error() == libc::EINTR => {}
            _ => panic!("waitpid: {}", std::io::Error::last_os_error()),
        }
    }
    assert!(libc::WIFEXITED(status), "a child ended with status {status:#x}");
    libc::WEXITSTATUS(status)
}
