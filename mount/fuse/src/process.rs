//! The process behind a request: its supplementary groups, its job, whether a signal is killing it,
//! and what it called.
//!
//! The kernel sends user, group and thread id of a caller; the rest is in `/proc/<tid>/status` and
//! `/proc/<tid>/syscall`. Open files are kept (at most `STATUS_FILES_MAX` of each). An open one
//! stays bound to its thread even if the id is reused. Each read gives the truth of this moment,
//! which the caller, blocked in its request, cannot change. The superuser's groups are not looked
//! up: they decide nothing. (The extension that brings a group with creates is not enough: it names
//! one group, and only for creates.)

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

/// Longest status that is read, bytes: GROUPS_MAX groups of 11 characters and everything before
/// them.
const STATUS_BYTES_MAX: usize = 16 << 10;
/// Longest text of a system call, bytes: ten numbers.
const SYSCALL_BYTES_MAX: usize = 256;

/// Looks callers up.
#[derive(Debug)]
pub struct Processes {
    status: Kept,
    syscall: Kept,
    jobs: Option<Arc<JobNames>>,
}

impl Default for Processes {
    fn default() -> Processes {
        let kept = |name, bytes_max| Kept { name, bytes_max, open: Mutex::default() };
        let (status, syscall) =
            (kept("status", STATUS_BYTES_MAX), kept("syscall", SYSCALL_BYTES_MAX));
        Processes { status, syscall, jobs: None }
    }
}

/// Open files of one name in the folders of threads.
#[derive(Debug)]
struct Kept {
    name: &'static str,
    /// Longest text that is read.
    bytes_max: usize,
    open: Mutex<OpenFiles>,
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

    /// Credentials of a request's caller. `extra_group` is a group that the kernel vouches for; for
    /// callers in other pid namespaces (`thread` 0) it is the only known one.
    pub fn credentials(
        &self,
        uid: u32,
        gid: u32,
        thread: u32,
        extra_group: Option<u32>,
    ) -> Credentials {
        let mut credentials = Credentials { uid, gid, groups: Default::default() };
        if uid == 0 {
            return credentials;
        }
        match self.status.of(thread) {
            Ok(status) => credentials.groups.extend(groups(&status).take(GROUPS_MAX)),
            // In another pid namespace, or ended since: the request is asynchronous and needs no
            // groups.
            Err(Errno::NOENT | Errno::SRCH) => {}
            Err(error) => {
                tracing::error!(thread, %error, "cannot read the groups of a caller: it acts without")
            }
        }
        if let Some(group) = extra_group
            && !credentials.in_group(group)
        {
            credentials.groups.push(group);
        }
        credentials
    }

    /// True if a signal is pending that will end this thread, whatever its request answers.
    pub fn is_being_killed(&self, thread: u32) -> bool {
        match self.status.of(thread) {
            Ok(status) => fatal_signal(&status),
            // Thread 0 cannot be killed; any other thread that no longer exists does not wait.
            Err(Errno::NOENT | Errno::SRCH) => thread != 0,
            // Cannot be seen now (no descriptors left): then it lives.
            Err(_) => false,
        }
    }

    /// True if this thread is in a system call that does not show its program the attributes of a
    /// directory. Then its request for those is for the kernel's check of permissions. `false` also
    /// if that cannot be told.
    pub fn only_walks(&self, thread: u32) -> bool {
        self.syscall
            .of(thread)
            .is_ok_and(|text| call_number(&text).is_some_and(|call| WALKS.contains(&call)))
    }
}

impl Kept {
    /// Present content of the file. ENOENT or ESRCH: there is no such thread.
    fn of(&self, thread: u32) -> Result<Vec<u8>, Errno> {
        if thread == 0 {
            return Err(Errno::SRCH);
        }
        let known = self.open.lock().by_thread.get(&thread).cloned();
        match known.map(|file| self.read(&file)) {
            Some(Err(Errno::SRCH)) => {
                // That thread ended; its id may have been given to another.
                self.open.lock().by_thread.remove(&thread);
            }
            Some(result) => return result,
            None => {}
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(format!("/proc/{thread}/{}", self.name), flags, Mode::empty())?;
        let text = self.read(&file)?;
        self.keep(thread, file);
        Ok(text)
    }

    fn read(&self, file: &OwnedFd) -> Result<Vec<u8>, Errno> {
        let mut text = vec![0; self.bytes_max];
        // One read is enough: procfs makes the whole text at the first one and gives what fits.
        let len = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *text, 0))?;
        text.truncate(len);
        if len > 0 { Ok(text) } else { Err(Errno::SRCH) }
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

/// System calls that find, make, move and remove names. They do not show the attributes of
/// directories to programs. Not rmdir: in a 32-bit program its number is that of a stat.
const WALKS: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
];

/// The number that `/proc/<tid>/syscall` begins with; there is none while the thread runs.
fn call_number(text: &[u8]) -> Option<libc::c_long> {
    let first = text.split(|b| *b == b' ').next()?;
    std::str::from_utf8(first).ok()?.parse().ok()
}

/// Memory reclaim in a thread that serves a mount must not wait for that mount. For the calling
/// thread and those it starts later. Needs CAP_SYS_RESOURCE; without it a risk stays under memory
/// pressure, so a refusal is no error.
pub fn set_io_flusher() {
    /// `linux/prctl.h`; not in libc.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: this prctl takes plain numbers and changes only the calling thread's flags.
    let result = unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
    if result != 0 {
        tracing::debug!(error = %std::io::Error::last_os_error(), "PR_SET_IO_FLUSHER");
    }
}

fn field<'a>(status: &'a [u8], name: &str) -> Option<&'a str> {
    let line = status.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(name.as_bytes()))?;
    std::str::from_utf8(line).ok().map(str::trim)
}

fn groups(status: &[u8]) -> impl Iterator<Item = u32> + '_ {
    field(status, "Groups:")
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|group| group.parse().ok())
}

/// Signals whose default action ends the process (signal(7)); that of real-time signals, 33 and up,
/// does too.
const ENDS_BY_DEFAULT: u64 = {
    let harmless =
        [libc::SIGCHLD, libc::SIGCONT, libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
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
    let mask =
        |name| field(status, name).and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    let pending = mask("SigPnd:") | mask("ShdPnd:");
    let survived = mask("SigBlk:") | mask("SigIgn:") | mask("SigCgt:");
    // SIGKILL can be none of these; the kernel also gives it to every thread of a process that
    // another signal ends.
    pending & bit(libc::SIGKILL) != 0 || pending & ENDS_BY_DEFAULT & !survived != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tcat\nGroups:\t4 24 1000 \nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n\
        SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n";

    fn with(field: &str, mask: u64) -> Vec<u8> {
        STATUS
            .replace(&format!("{field}:\t0000000000000000"), &format!("{field}:\t{mask:016x}"))
            .into_bytes()
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
        let mine: Vec<u32> =
            rustix::process::getgroups().unwrap().iter().map(|g| g.as_raw()).collect();
        assert_eq!(processes.credentials(1, 1, me, None).groups.to_vec(), mine);
        assert_eq!(processes.credentials(1, 1, 0, Some(9)).groups.to_vec(), [9]);
        assert!(processes.credentials(0, 0, me, Some(9)).groups.is_empty());
    }

    #[test]
    fn the_number_of_a_call_is_read() {
        assert_eq!(call_number(b"257 0xffffff9c 0x7ffd"), Some(257));
        assert_eq!(call_number(b"running\n"), None);
        assert_eq!(call_number(b"-1 0x7ffd 0x7f"), Some(-1));
        assert_eq!(call_number(b""), None);
    }

    #[test]
    fn who_reads_a_pipe_does_not_only_walk_and_who_opens_one_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        let processes = Processes::default();
        let (send, receive) = std::sync::mpsc::channel();
        let opened = path.clone();
        let thread = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            // Waits for a writer, first in open(2), then in read(2).
            std::fs::read(&opened).unwrap()
        });
        let tid = receive.recv().unwrap();
        let becomes = |walks: bool| {
            (0..500).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                processes.only_walks(tid) == walks
            })
        };
        assert!(becomes(true));
        let writer = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        assert!(becomes(false));
        drop(writer);
        thread.join().unwrap();
        assert!(!processes.only_walks(tid) && !processes.only_walks(0));
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
