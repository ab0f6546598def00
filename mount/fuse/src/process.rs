//! The process behind a request: its supplementary groups, its job, and whether a signal is killing it.
//!
//! The kernel tells user, group and thread id of a caller; the rest is in `/proc/<tid>/status`. Open status files are kept
//! (at most `STATUS_FILES_MAX`): an open one stays bound to its thread even if the id is reused, and each read gives
//! the truth of this moment, which the caller, blocked in its request, cannot change. The superuser's groups are not
//! looked up: they decide nothing. (The extension that brings a group with creates is not enough: it names one group, and
//! only for creates.)

use crate::jobs::{Asker, JobNames};
use crate::limits::STATUS_FILES_MAX;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use types::credentials::Credentials;
use types::job::JobId;
use types::limits::GROUPS_MAX;

/// Longest status that is read, bytes: GROUPS_MAX groups of 11 characters and everything before them.
const STATUS_BYTES_MAX: usize = 16 << 10;

/// Looks callers up.
#[derive(Debug, Default)]
pub struct Processes {
    open: Mutex<OpenFiles>,
    jobs: Option<Arc<JobNames>>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    by_thread: HashMap<u32, Arc<OwnedFd>>,
    oldest: VecDeque<u32>,
}

impl Processes {
    /// Looks jobs up, too.
    pub fn with_jobs(jobs: Arc<JobNames>) -> Processes {
        Processes { jobs: Some(jobs), ..Processes::default() }
    }

    /// For which job a request is.
    pub fn job(&self, asker: Asker) -> JobId {
        self.jobs.as_ref().map_or(JobId::NONE, |jobs| jobs.of(asker))
    }

    /// On whose behalf a request acts. `extra_group` is a group that the kernel vouches for; it is all that is
    /// known of callers in other pid namespaces (`thread` 0).
    pub fn credentials(&self, uid: u32, gid: u32, thread: u32, extra_group: Option<u32>) -> Credentials {
        let mut credentials = Credentials { uid, gid, groups: Default::default() };
        if uid == 0 {
            return credentials;
        }
        match self.status(thread) {
            Ok(status) => credentials.groups.extend(groups(&status).take(GROUPS_MAX)),
            // In another pid namespace, or ended since: the request is asynchronous and needs no groups.
            Err(Errno::NOENT | Errno::SRCH) => {}
            Err(error) => tracing::error!(thread, %error, "cannot read the groups of a caller: it acts without"),
        }
        if let Some(group) = extra_group
            && !credentials.in_group(group)
        {
            credentials.groups.push(group);
        }
        credentials
    }

    /// Is a signal pending that will end this thread, whatever its request answers?
    pub fn is_being_killed(&self, thread: u32) -> bool {
        match self.status(thread) {
            Ok(status) => fatal_signal(&status),
            // Thread 0 is nobody that could be killed; any other that is not there any more does not wait.
            Err(Errno::NOENT | Errno::SRCH) => thread != 0,
            // Cannot be seen now (no descriptors left): then it lives.
            Err(_) => false,
        }
    }

    /// ENOENT or ESRCH: there is no such thread.
    fn status(&self, thread: u32) -> Result<Vec<u8>, Errno> {
        if thread == 0 {
            return Err(Errno::SRCH);
        }
        let known = self.open.lock().by_thread.get(&thread).cloned();
        match known.map(|file| read(&file)) {
            Some(Err(Errno::SRCH)) => {
                // That thread ended; its id may have been given to another.
                self.open.lock().by_thread.remove(&thread);
            }
            Some(result) => return result,
            None => {}
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(format!("/proc/{thread}/status"), flags, Mode::empty())?;
        let status = read(&file)?;
        self.keep(thread, file);
        Ok(status)
    }

    fn keep(&self, thread: u32, file: OwnedFd) {
        let mut open = self.open.lock();
        if open.by_thread.insert(thread, Arc::new(file)).is_none() {
            open.oldest.push_back(thread);
        }
        // Ids removed in between stay in the queue until they come to its head.
        while open.oldest.len() > STATUS_FILES_MAX {
            let Some(thread) = open.oldest.pop_front() else { break };
            open.by_thread.remove(&thread);
        }
    }
}

/// Memory reclaim in a thread that serves a mount must not wait for that mount. For the calling thread and those it starts
/// later. Needs CAP_SYS_RESOURCE; without it a risk stays under memory pressure, so a refusal is no error.
pub fn set_io_flusher() {
    /// `linux/prctl.h`; not in libc.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: this prctl takes plain numbers and changes only the calling thread's flags.
    let result = unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
    if result != 0 {
        tracing::debug!(error = %std::io::Error::last_os_error(), "PR_SET_IO_FLUSHER");
    }
}

fn read(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut status = vec![0; STATUS_BYTES_MAX];
    // One read is enough: procfs makes the whole text at the first and gives what fits.
    let len = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *status, 0))?;
    status.truncate(len);
    if len > 0 { Ok(status) } else { Err(Errno::SRCH) }
}

fn field<'a>(status: &'a [u8], name: &str) -> Option<&'a str> {
    let line = status.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(name.as_bytes()))?;
    std::str::from_utf8(line).ok().map(str::trim)
}

fn groups(status: &[u8]) -> impl Iterator<Item = u32> + '_ {
    field(status, "Groups:").unwrap_or_default().split_ascii_whitespace().filter_map(|group| group.parse().ok())
}

/// Signals whose default action ends the process (signal(7)); real-time signals, 33 and up, do so too.
const ENDS_BY_DEFAULT: u64 = {
    let harmless = [libc::SIGCHLD, libc::SIGCONT, libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let mut mask = !(bit(libc::SIGURG) | bit(libc::SIGWINCH));
    let mut i = 0;
    while i < harmless.len() {
        mask &= !bit(harmless[i]);
        i += 1;
    }
    mask
};

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn fatal_signal(status: &[u8]) -> bool {
    let mask = |name| field(status, name).and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    let pending = mask("SigPnd:") | mask("ShdPnd:");
    let survived = mask("SigBlk:") | mask("SigIgn:") | mask("SigCgt:");
    // SIGKILL can be none of these; the kernel also gives it to every thread of a process that another signal ends.
    pending & bit(libc::SIGKILL) != 0 || pending & ENDS_BY_DEFAULT & !survived != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tcat\nGroups:\t4 24 1000 \nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n\
        SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n";

    fn with(field: &str, mask: u64) -> Vec<u8> {
        STATUS.replace(&format!("{field}:\t0000000000000000"), &format!("{field}:\t{mask:016x}")).into_bytes()
    }

    #[test]
    fn groups_are_read_from_status() {
        assert_eq!(groups(STATUS.as_bytes()).collect::<Vec<_>>(), [4, 24, 1000]);
        assert_eq!(groups(b"Name:\tx\n").count(), 0);
    }

    #[test]
    fn only_signals_that_kill_are_fatal() {
        assert!(!fatal_signal(STATUS.as_bytes()));
        assert!(fatal_signal(&with("SigPnd", bit(libc::SIGKILL))));
        assert!(fatal_signal(&with("ShdPnd", bit(libc::SIGINT))));
        assert!(!fatal_signal(&with("ShdPnd", bit(libc::SIGCHLD))));
        let caught = String::from_utf8(with("ShdPnd", bit(libc::SIGINT))).unwrap();
        let caught = caught.replace("SigCgt:\t0000000000000000", "SigCgt:\t0000000000000002");
        assert!(!fatal_signal(caught.as_bytes()), "a handler runs, the process lives on");
    }

    #[test]
    fn this_process_is_alive_and_has_its_groups() {
        let processes = Processes::default();
        let me = std::process::id();
        assert!(!processes.is_being_killed(me));
        let mine: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|g| g.as_raw()).collect();
        assert_eq!(processes.credentials(1, 1, me, None).groups.to_vec(), mine);
        assert_eq!(processes.credentials(1, 1, 0, Some(9)).groups.to_vec(), [9]);
        assert!(processes.credentials(0, 0, me, Some(9)).groups.is_empty());
    }

    #[test]
    fn a_thread_that_ended_is_noticed() {
        let processes = Processes::default();
        let (send, receive) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = ended.recv();
        });
        let tid = receive.recv().unwrap();
        assert!(!processes.is_being_killed(tid));
        drop(end);
        thread.join().unwrap();
        // join() returns just before the thread has left /proc.
        let gone = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            processes.is_being_killed(tid)
        });
        assert!(gone);
    }
}
