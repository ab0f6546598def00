//! The job that a caller belongs to: Lustre's `jobid_var` and `jobid_name`.
//!
//! `disable` names none and costs one load. `procname_uid` and `nodelocal` are made of the ids that
//! come with a request and of the program's name. The name is read afresh for each request, because
//! a process keeps its number when it becomes another program. Any other word is the name of an
//! environment variable. A process' value of it is kept for [`KEPT`], for at most
//! [`STATUS_FILES_MAX`] threads. A close does not look at the environment: execve(2) closes files
//! while it holds a lock that readers of the environment wait for, and it waits for the close. The
//! kernel itself (write-back) and other pid namespaces have no job.

use crate::limits::STATUS_FILES_MAX;
use env::clock::{Clock, Monotonic};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use types::errno::Errno;
use types::job::{JOB_ID_BYTES_MAX, JobId};

/// How long a value of an environment variable is used.
const KEPT: Duration = Duration::from_secs(5);
/// Environment that is looked through, bytes.
const ENVIRON_BYTES_MAX: u64 = 128 << 10;
/// Longest name of a variable, longest pattern, bytes.
const WORD_BYTES_MAX: usize = 255;
/// The pattern at start; also what `procname_uid` means.
const PROCNAME_UID: &str = "%e.%u";

/// Source of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    Disable,
    ProcnameUid,
    NodeLocal,
    Variable(String),
}

struct How {
    source: Source,
    pattern: String,
}

/// Names jobs; one for all mounts of a process.
pub struct JobNames {
    clock: Arc<dyn Clock>,
    host: String,
    on: AtomicBool,
    how: RwLock<How>,
    /// Each thread's value of the variable, and the time until which it is used.
    kept: Mutex<HashMap<u32, (JobId, Monotonic)>>,
}

impl std::fmt::Debug for JobNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobNames").field("var", &self.var()).finish_non_exhaustive()
    }
}

/// Identity of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// Thread of the caller; 0: the kernel, or unknown.
    pub thread: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// It closes a file (FLUSH), perhaps within execve(2).
    pub closes: bool,
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= WORD_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic())
}

impl JobNames {
    /// Names none yet. `host`: name of this host.
    pub fn new(clock: Arc<dyn Clock>, host: &str) -> JobNames {
        let how = How { source: Source::Disable, pattern: PROCNAME_UID.to_owned() };
        let (on, how) = (AtomicBool::new(false), RwLock::new(how));
        JobNames { clock, host: host.to_owned(), on, how, kept: Mutex::default() }
    }

    /// `jobid_var`.
    pub fn var(&self) -> String {
        match &self.how.read().source {
            Source::Disable => "disable".to_owned(),
            Source::ProcnameUid => "procname_uid".to_owned(),
            Source::NodeLocal => "nodelocal".to_owned(),
            Source::Variable(name) => name.clone(),
        }
    }

    /// Sets `jobid_var`.
    ///
    /// # Errors
    /// EINVAL: no such word. EOPNOTSUPP: `session`.
    pub fn set_var(&self, value: &str) -> Result<(), Errno> {
        let source = match value.trim() {
            "disable" => Source::Disable,
            "procname_uid" => Source::ProcnameUid,
            "nodelocal" => Source::NodeLocal,
            "session" => return Err(Errno::EOPNOTSUPP),
            name if is_word(name) && !name.contains('=') => Source::Variable(name.to_owned()),
            _ => return Err(Errno::EINVAL),
        };
        let mut how = self.how.write();
        self.on.store(source != Source::Disable, Relaxed);
        how.source = source;
        self.kept.lock().clear();
        Ok(())
    }

    /// `jobid_name`.
    pub fn pattern(&self) -> String {
        self.how.read().pattern.clone()
    }

    /// Sets `jobid_name`.
    ///
    /// # Errors
    /// EINVAL: no such pattern.
    pub fn set_pattern(&self, value: &str) -> Result<(), Errno> {
        let value = value.trim();
        let mut letters = value.chars();
        let mut known = true;
        while let Some(letter) = letters.next() {
            known &= letter != '%' || letters.next().is_some_and(|key| "eghHjpu%".contains(key));
        }
        if !known || !is_word(value) {
            return Err(Errno::EINVAL);
        }
        self.how.write().pattern = value.to_owned();
        self.kept.lock().clear();
        Ok(())
    }

    /// The job of this caller.
    pub fn of(&self, asker: Asker) -> JobId {
        if !self.on.load(Relaxed) || asker.thread == 0 {
            return JobId::NONE;
        }
        let how = self.how.read();
        match &how.source {
            Source::Disable => JobId::NONE,
            Source::ProcnameUid => self.expand(PROCNAME_UID, asker, ""),
            Source::NodeLocal => self.expand(&how.pattern, asker, ""),
            Source::Variable(name) => {
                let value = self.kept_value(name, asker);
                match (value.is_none(), how.pattern.contains("%j")) {
                    (false, false) => value,
                    _ => self.expand(&how.pattern, asker, value.as_str()),
                }
            }
        }
    }

    fn expand(&self, pattern: &str, asker: Asker, variable: &str) -> JobId {
        let mut text = String::with_capacity(2 * JOB_ID_BYTES_MAX);
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            let key = if letter == '%' { letters.next() } else { None };
            match key {
                None => text.push(letter),
                Some('e') => text += &program(asker.thread),
                Some('u') => text += &asker.uid.to_string(),
                Some('g') => text += &asker.gid.to_string(),
                Some('h') => text += &self.host,
                Some('H') => text += self.host.split('.').next().unwrap_or_default(),
                Some('j') => text += variable,
                Some('p') => text += &process(asker.thread).to_string(),
                Some(other) => text.push(other),
            }
        }
        JobId::new(text.as_bytes())
    }

    fn kept_value(&self, name: &str, asker: Asker) -> JobId {
        let (now, thread) = (self.clock.now(), asker.thread);
        match self.kept.lock().get(&thread) {
            Some((job, until)) if now < *until || asker.closes => return *job,
            _ if asker.closes => return JobId::NONE,
            _ => {}
        }
        let job = variable(thread, name).map_or(JobId::NONE, |value| JobId::new(&value));
        let mut kept = self.kept.lock();
        if kept.len() >= STATUS_FILES_MAX {
            kept.retain(|_, (_, until)| now < *until);
        }
        if kept.len() < STATUS_FILES_MAX {
            kept.insert(thread, (job, now + KEPT));
        }
        job
    }
}

/// The wanted part of a file of `/proc/THREAD`; empty if the thread has ended.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel, on no disk")]
fn proc_file(thread: u32, name: &str, max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = File::open(format!("/proc/{thread}/{name}"))
        .and_then(|file| file.take(max).read_to_end(&mut bytes));
    if let Err(error) = read {
        tracing::debug!(thread, name, %error, "the job of a caller is not known");
    }
    bytes
}

fn program(thread: u32) -> String {
    String::from_utf8_lossy(&proc_file(thread, "comm", 64)).trim_end().to_owned()
}

/// The process of a thread.
fn process(thread: u32) -> u32 {
    let status = proc_file(thread, "status", 1024);
    let lines = status.split(|byte| *byte == b'\n');
    let tgid = lines.filter_map(|line| {
        std::str::from_utf8(line).ok()?.strip_prefix("Tgid:")?.trim().parse().ok()
    });
    tgid.into_iter().next().unwrap_or(thread)
}

/// Value of an environment variable of a thread's process, as it was when its program started.
fn variable(thread: u32, name: &str) -> Option<Vec<u8>> {
    let environ = proc_file(thread, "environ", ENVIRON_BYTES_MAX);
    let mut entries = environ.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    value.map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time stands still.
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Monotonic {
            Duration::ZERO
        }

        fn wall(&self) -> types::time::Timestamp {
            types::time::Timestamp::default()
        }

        fn sleep(&self, _: Duration) -> env::BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn names() -> JobNames {
        JobNames::new(Arc::new(Still), "node1.cluster")
    }

    fn me() -> Asker {
        Asker { thread: std::process::id(), uid: 500, gid: 100, closes: false }
    }

    #[test]
    fn nothing_is_named_unless_it_is_wanted() {
        let names = names();
        assert_eq!((names.var().as_str(), names.pattern().as_str()), ("disable", "%e.%u"));
        assert!(names.of(me()).is_none());
        names.set_var("procname_uid").unwrap();
        assert!(names.of(Asker { thread: 0, ..me() }).is_none(), "the kernel itself");
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(names.of(me()), JobId::new(format!("{}.500", comm.trim_end()).as_bytes()));
        names.set_var("disable").unwrap();
        assert!(names.of(me()).is_none());
    }

    #[test]
    fn a_pattern_says_how() {
        let names = names();
        names.set_var("nodelocal\n").unwrap();
        names.set_pattern("%H:%h.%g-%u%%%p").unwrap();
        let expected = format!("node1:node1.cluster.100-500%{}", std::process::id());
        assert_eq!(names.of(me()), JobId::new(expected.as_bytes()));
        for bad in ["", "%", "a%x", "a b", &"x".repeat(WORD_BYTES_MAX + 1)] {
            assert_eq!(names.set_pattern(bad), Err(Errno::EINVAL), "{bad}");
        }
    }

    #[test]
    fn a_variable_of_the_program_s_environment_is_the_job() {
        let names = names();
        let with = |job: Option<&str>| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env_clear().env("OTHER_JOB_ID", "wrong");
            command.envs(job.map(|job| ("JOB_ID", job))).spawn().unwrap()
        };
        names.set_var("JOB_ID").unwrap();
        let (mut child, mut bare) = (with(Some("4711 [a]")), with(None));
        let asker = |child: &std::process::Child| Asker {
            thread: child.id(),
            uid: 7,
            gid: 8,
            closes: false,
        };
        // Between fork and exec it still has this process' environment.
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while variable(bare.id(), "OTHER_JOB_ID").is_none()
            || variable(child.id(), "JOB_ID").is_none()
        {
            assert!(std::time::Instant::now() < until);
        }
        let closes = Asker { closes: true, ..asker(&child) };
        assert_eq!(names.of(closes).as_str(), "sleep.7", "a close does not look");
        assert_eq!(names.of(asker(&child)).as_str(), "4711_[a]");
        assert_eq!(names.of(closes).as_str(), "4711_[a]", "known by now");
        assert_eq!(
            names.of(asker(&bare)).as_str(),
            "sleep.7",
            "who has no such variable is named by the pattern"
        );
        names.set_pattern("%j/%u").unwrap();
        assert_eq!(names.of(asker(&child)).as_str(), "4711_[a]/7");
        for child in [&mut child, &mut bare] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(names.of(asker(&child)).as_str(), "4711_[a]/7", "believed for a while");
    }

    #[test]
    fn words_are_checked() {
        let names = names();
        for bad in ["", "a=b", "a b", &"x".repeat(WORD_BYTES_MAX + 1)] {
            assert_eq!(names.set_var(bad), Err(Errno::EINVAL), "{bad}");
        }
        assert_eq!(names.set_var("session"), Err(Errno::EOPNOTSUPP));
        assert_eq!(names.var(), "disable", "a refused word changes nothing");
    }
}
