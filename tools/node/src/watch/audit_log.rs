//! The audit of this process' MDTs (docs/security.md, "Audit"): `log/audit.log` in its home, one
//! line of JSON for each change and each refusal of clients of audited nodemaps; the newest lines
//! also in memory, for `lctl get_param mdt.*.audit`.
//!
//! A thread of its own writes, so that no request waits for the disk. Bounds: [`QUEUE_MAX`] lines
//! that wait for it, beyond which lines are counted and left out; [`FILE_BYTES_MAX`] bytes of the
//! file, which then becomes `audit.log.1`, over the one before.

use crate::watch::recent::Recent;
use env::Env;
use env::tasks::Tasks;
use mds::audit::{Audit, Line, What};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use types::fid::Fid;

/// Lines that wait to be written.
pub const QUEUE_MAX: usize = 16_384;
/// Bytes of the file.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// See the module. The thread ends with it, when all lines are written.
pub struct AuditLog {
    tasks: Arc<dyn Tasks>,
    shared: Arc<Shared>,
    queue: OnceLock<SyncSender<Box<Line>>>,
}

/// What the thread has, too.
struct Shared {
    path: PathBuf,
    recent: Recent,
    left_out: AtomicU64,
}

impl AuditLog {
    /// In this file, which is made with the first line; nothing runs before that.
    pub fn new(env: &Env, path: PathBuf) -> Arc<AuditLog> {
        let (recent, left_out) = (Recent::new(), AtomicU64::new(0));
        let shared = Arc::new(Shared { path, recent, left_out });
        Arc::new(AuditLog { tasks: env.tasks.clone(), shared, queue: OnceLock::new() })
    }

    /// The newest lines of an MDT, oldest first.
    pub fn newest(&self, target: &str) -> String {
        let of_target = format!("\"target\":\"{target}\"");
        let lines = self.shared.recent.lines();
        let lines = lines.iter().filter(|line| line.contains(&of_target));
        lines.flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

impl Audit for AuditLog {
    fn write(&self, line: Line) {
        let queue = self.queue.get_or_init(|| {
            let (queue, lines) = sync_channel(QUEUE_MAX);
            let shared = self.shared.clone();
            self.tasks.spawn_thread("audit", Box::new(move || write_all(&shared, &lines)));
            queue
        });
        match queue.try_send(Box::new(line)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.shared.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn write_all(log: &Shared, lines: &Receiver<Box<Line>>) {
    let mut file = Appended::default();
    while let Ok(mut line) = lines.recv() {
        let left_out = log.left_out.swap(0, Ordering::Relaxed);
        line.left_out = line.left_out.saturating_add(left_out);
        let text = text_of(&line);
        log.recent.push(&text);
        if let Err(error) = file.append(&log.path, &text) {
            log.left_out.fetch_add(1 + line.left_out, Ordering::Relaxed);
            if !std::mem::replace(&mut file.failed, true) {
                tracing::error!(path = %log.path.display(), %error, "cannot write the audit log; lines are left out");
            }
        } else {
            file.failed = false;
        }
    }
}

/// The file, and how long it is.
#[derive(Default)]
struct Appended {
    file: Option<(File, u64)>,
    failed: bool,
}

impl Appended {
    fn append(&mut self, path: &Path, text: &str) -> io::Result<()> {
        if self.file.as_ref().is_some_and(|(_, bytes)| *bytes >= FILE_BYTES_MAX) {
            self.file = None;
            fs::rename(path, path.with_extension("log.1"))?;
        }
        let (file, bytes) = match &mut self.file {
            Some(open) => open,
            none => none.insert(open(path)?),
        };
        let written = file.write_all(text.as_bytes());
        *bytes += text.len() as u64;
        if written.is_err() {
            self.file = None;
        }
        written
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// A line of JSON with its end.
fn text_of(line: &Line) -> String {
    let Line { at, target, nid, key, client, what, left_out } = line;
    let mut told = serde_json::Map::new();
    let mut tell = |name: &str, value: serde_json::Value| _ = told.insert(name.to_owned(), value);
    tell("time", format!("{}.{:09}", at.sec, at.nsec).into());
    tell("target", target.to_string().into());
    tell("nid", nid.as_str().into());
    if !key.is_empty() {
        tell("key", key.as_str().into());
    }
    tell("client", client.as_str().into());
    if let Some(What { operation, claimed, acted, fid, names, found, refused }) = what {
        tell("operation", (*operation).into());
        tell("uid", claimed.0.into());
        tell("gid", claimed.1.into());
        tell("acts_uid", acted.0.into());
        tell("acts_gid", acted.1.into());
        tell("fid", fid.to_string().into());
        if let Some((_, name)) = names.first() {
            tell("name", name.to_string().into());
        }
        if let Some((dir, name)) = names.get(1) {
            tell("to", dir.to_string().into());
            tell("to_name", name.to_string().into());
        }
        if *found != Fid::NONE {
            tell("found", found.to_string().into());
        }
        let result = refused.map_or_else(|| "done".to_owned(), |errno| format!("{errno:?}"));
        tell("result", result.into());
    }
    if *left_out > 0 {
        tell("left_out", (*left_out).into());
    }
    format!("{}\n", serde_json::Value::Object(told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::real::{RealConfig, RealEnv};
    use types::errno::Errno;
    use types::name::Name;
    use types::target::TargetName;
    use types::time::Timestamp;

    fn line(name: &[u8]) -> Line {
        let names = [(Fid::ROOT, Name::new(name).unwrap())].into_iter().collect();
        let what = What {
            operation: "mds_unlink",
            claimed: (1000, 100),
            acted: (5000, 6000),
            fid: Fid::ROOT,
            names,
            found: Fid::NONE,
            refused: Some(Errno::EROFS),
        };
        Line {
            at: Timestamp { sec: 7, nsec: 5 },
            target: TargetName::mdt(Default::default(), 0),
            nid: "10.0.0.1@tcp".to_owned(),
            key: "node7".to_owned(),
            client: "abcd".to_owned(),
            what: Some(what),
            left_out: 3,
        }
    }

    #[test]
    fn a_line_is_one_line_of_json_whatever_the_name() {
        let text = text_of(&line(b"a\n\"\xff"));
        assert_eq!(text.matches('\n').count(), 1);
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["name"], "a\\n\\\"\\xff");
        assert_eq!((&told["time"], &told["uid"]), (&"7.000000005".into(), &1000.into()));
        assert_eq!((&told["result"], &told["left_out"]), (&"EROFS".into(), &3.into()));
        assert_eq!(told["key"], "node7");
        let ended = text_of(&Line { what: None, key: String::new(), ..line(b"a") });
        let told: serde_json::Value = serde_json::from_str(&ended).unwrap();
        assert!(told.get("operation").is_none() && told.get("key").is_none());
    }

    #[test]
    fn a_long_file_is_put_aside_while_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log").join("audit.log");
        let mut file = Appended::default();
        file.append(&path, "one\n").unwrap();
        file.file.as_mut().unwrap().1 = FILE_BYTES_MAX;
        file.append(&path, "two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(fs::read_to_string(path.with_extension("log.1")).unwrap(), "one\n");
        let again = open(&path).unwrap();
        assert_eq!(again.1, 4, "a new life goes on with it");
    }

    #[test]
    fn lines_are_written_and_the_newest_are_shown_by_target() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let (env, _guard) =
            RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let log = AuditLog::new(&env, path.clone());
        assert!(!path.exists());
        log.write(line(b"a"));
        let other = Line { target: TargetName::mdt(Default::default(), 1), ..line(b"b") };
        log.write(other);
        let written = || fs::read_to_string(&path).unwrap_or_default().lines().count();
        while written() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(log.newest("sheen-MDT0001").lines().count(), 1);
        assert!(log.newest("sheen-MDT0001").contains("\"name\":\"b\""));
        assert!(log.newest("sheen-MDT0002").is_empty());
    }
}
