//! What each process tells the MGS of itself, so that one page can show the whole cluster
//! (docs/dash.md).
//!
//! A report is a picture of one moment: totals since the process started counting, never rates; a
//! reader that keeps two of them makes rates. Names are texts in their usual forms. The sender
//! keeps to the bounds below, the receiver cuts ([`NodeReport::clip`]): a report is small whatever
//! a process does.

use serde::{Deserialize, Serialize};

/// Targets of one process in a report.
pub const TARGETS_PER_REPORT_MAX: usize = 256;
/// Mounts of one process in a report.
pub const MOUNTS_PER_REPORT_MAX: usize = 64;
/// Sessions of one mount in a report.
pub const SESSIONS_PER_MOUNT_MAX: usize = 512;
/// Operations of one list.
pub const OPERATIONS_PER_LIST_MAX: usize = 96;
/// Jobs of one target in a report: the busiest.
pub const JOBS_PER_TARGET_MAX: usize = 32;
/// What waits, of one process: the longest ones.
pub const WAITS_PER_REPORT_MAX: usize = 256;
/// Holders of one lock that is waited for.
pub const HOLDERS_PER_WAIT_MAX: usize = 16;
/// Hosts of one log in a report.
pub const HOSTS_PER_LOG_MAX: usize = 32;
/// Buckets of a histogram: bucket `n` holds `2^(n-1)..2^n` microseconds, bucket 0 holds 0.
pub const BUCKETS_MAX: usize = 40;
/// Longest text, bytes.
pub const TEXT_BYTES_MAX: usize = 512;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct NodeReport {
    /// Host.
    pub host: String,
    /// Its home, or its mount point.
    pub place: String,
    /// Process id on that host.
    pub pid: u32,
    /// Version of the program.
    pub version: String,
    /// `starting`, `up`, `stopping`
    pub state: String,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Where it answers HTTP; empty: nowhere.
    pub http: String,
    /// Resident memory, bytes.
    pub memory_bytes: u64,
    /// CPU time so far, milliseconds.
    pub cpu_ms: u64,
    /// Where it can be reached.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub nids: Vec<String>,
    /// Targets that it serves.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub targets: Vec<TargetReport>,
    /// What it mounts.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub mounts: Vec<MountReport>,
    /// What waits for longer than a second, the longest first.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub waits: Vec<Wait>,
    /// Logs of targets that it serves or may serve, and that other hosts can take over.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub logs: Vec<LogReport>,
}

/// The log of a target that other hosts can take over, as one of them sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct LogReport {
    /// `MGS`, `sheen-MDT0000`
    pub target: String,
    /// The newest epoch.
    pub epoch: u64,
    /// Number of the oldest entry that is kept.
    pub first: u64,
    /// Number of the newest entry.
    pub head: u64,
    /// Hosts that have its tree, or get it.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub hosts: Vec<LogHostReport>,
    /// What is wrong with its etcd; empty: it answers.
    pub trouble: String,
}

/// A host that has the tree of a target, or gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct LogHostReport {
    /// Host and folder.
    pub host: String,
    /// It owns the target.
    pub owner: bool,
    /// Number of the newest entry that is durable in its tree.
    pub applied: u64,
}

/// Requests of one session or target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Counts {
    /// Answered requests.
    pub requests: u64,
    /// Their times together, microseconds.
    pub micros: u64,
    /// Data read, bytes.
    pub read_bytes: u64,
    /// Data written, bytes.
    pub written_bytes: u64,
    /// Without an answer now.
    pub in_flight: u32,
    /// How many took how long, see [`BUCKETS_MAX`]; without the empty ones at the end.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub times: Vec<u64>,
}

/// One operation, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct OperationCount {
    /// Its name in `stats`.
    pub name: String,
    /// How often.
    pub count: u64,
    /// Time of all together, microseconds; 0 where only the number is counted.
    pub micros: u64,
}

/// Space of a target, bytes and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SpaceReport {
    /// Bytes in all.
    pub bytes_total: u64,
    /// Bytes free.
    pub bytes_free: u64,
    /// Inodes or objects that could exist.
    pub files_total: u64,
    /// Those that can still be made.
    pub files_free: u64,
}

/// One served target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct TargetReport {
    /// `sheen-OST0001`
    pub name: String,
    /// Why it cannot work (its store has failed); empty: it works.
    pub failure: String,
    /// Space; absent for the MGT.
    pub space: Option<SpaceReport>,
    /// Sessions of clients.
    pub sessions: u32,
    /// Requests.
    pub counts: Counts,
    /// By operation, as in `md_stats`, `stats`.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub operations: Vec<OperationCount>,
    /// Commits of its store and their times together.
    pub commits: OperationCount,
    /// Records applied and not yet durable, bytes.
    pub uncommitted_bytes: u64,
    /// Locks that clients hold.
    pub locks: u64,
    /// Operations that wait for holders of locks, or for file locks.
    pub lock_waits: u32,
    /// Open handles.
    pub open_files: u64,
    /// Space that clients were granted, bytes.
    pub granted_bytes: u64,
    /// While it waits for clients of its last life.
    pub recovery: Option<Recovery>,
    /// Of an MDT: directories whose names move, and operations that wait for other MDTs, in words.
    #[serde(default, deserialize_with = "types::bounded::vec")]
    pub moves: Vec<String>,
    /// What jobs did there, as far as mounts name them (`jobid_var`); the busiest.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub jobs: Vec<JobCount>,
}

/// One job at one target, since it was seen there first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct JobCount {
    /// Its name.
    pub job: String,
    /// Operations.
    pub operations: u64,
    /// Data read, bytes.
    pub read_bytes: u64,
    /// Data written, bytes.
    pub written_bytes: u64,
}

/// A restarted target that waits for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Recovery {
    /// Clients that are expected.
    pub expected: u32,
    /// Those of them that came back.
    pub back: u32,
    /// It ends at the latest in so many milliseconds.
    pub left_ms: u64,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct MountReport {
    /// UUID by which servers know it.
    pub client: String,
    /// File system.
    pub fsname: String,
    /// Mount point.
    pub at: String,
    /// Open files and directories.
    pub open_files: u64,
    /// Inodes that its kernel remembers.
    pub inodes: u64,
    /// Requests of the kernel that wait.
    pub waiting: u32,
    /// Inodes of which it holds locks.
    pub locks: u64,
    /// Written and not yet stored by OSTs, bytes.
    pub dirty_bytes: u64,
    /// What programs asked for.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub operations: Vec<OperationCount>,
    /// Its sessions with targets.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub sessions: Vec<SessionReport>,
}

/// A mount's session with one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SessionReport {
    /// The target.
    pub target: String,
    /// `FULL`, `DISCONN`, ...
    pub state: String,
    /// Requests that may be in flight; 0: no network between.
    pub window: u32,
    /// Space that the OST granted and that no write has taken yet, bytes.
    pub granted_bytes: u64,
    /// Requests.
    pub counts: Counts,
}

/// Something that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Its number within its process.
    pub id: u64,
    /// Number of the cause, within its process, that it works for; 0: none.
    pub cause: u64,
    /// For how long, milliseconds.
    pub age_ms: u64,
    /// What it is.
    pub what: Waiting,
}

/// What waits, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// A program waits for its mount.
    Program {
        /// UUID of the mount.
        client: String,
        /// Mount point.
        at: String,
        /// Process; 0: the kernel itself (write-back, read-ahead).
        pid: u32,
        /// Thread.
        thread: u32,
        /// Name of the program.
        program: String,
        /// `OPEN`, `WRITE`, ...
        operation: String,
        /// The inode; empty: not known any more.
        fid: String,
    },
    /// A mount or server waits for the answer of a target.
    Request {
        /// The client or server that asks.
        client: String,
        /// The target that is asked.
        target: String,
        /// Number of the request in their session; 0: not sent yet.
        xid: u64,
        /// Its first operation.
        operation: String,
        /// The inode or object of that operation; may be empty.
        fid: String,
        /// State of the session.
        session: String,
    },
    /// A target works on a request.
    Served {
        /// The client or server that asked.
        client: String,
        /// The target that works.
        target: String,
        /// Number of the request in their session.
        xid: u64,
        /// Its first operation.
        operation: String,
        /// The inode or object; may be empty.
        fid: String,
    },
    /// An operation waits for the holders of locks on what it changes.
    Lock {
        /// The client that it is for; empty: the target itself.
        client: String,
        /// Where.
        target: String,
        /// The inode.
        fid: String,
        /// What it wants: `LOOKUP|UPDATE`.
        bits: String,
        /// The holders that it waits for.
        #[serde(deserialize_with = "types::bounded::vec")]
        holders: Vec<Holder>,
    },
    /// A program waits for a lock of flock(2) or fcntl(2).
    FileLock {
        /// Its client.
        client: String,
        /// Where.
        target: String,
        /// The file.
        fid: String,
        /// First byte.
        start: u64,
        /// Last byte.
        end: u64,
        /// Its holders.
        #[serde(deserialize_with = "types::bounded::vec")]
        holders: Vec<Holder>,
    },
}

/// The holder of what another client waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Holder {
    /// Instance number of the client.
    pub client: String,
    /// What it says of itself: host and mount point.
    pub description: String,
    /// Where it calls from.
    pub nid: String,
    /// What it holds: bits, or `read lock`, `write lock`.
    pub holds: String,
    /// Process there, of a file lock; 0: not known.
    pub pid: u32,
}

/// A report that the MGS keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptReport {
    /// How old it is, milliseconds.
    pub age_ms: u64,
    /// The connection of its sender stands.
    pub connected: bool,
    /// What it said.
    pub report: NodeReport,
}

fn cut(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
}

fn cut_all<const N: usize>(texts: [&mut String; N]) {
    texts.into_iter().for_each(cut);
}

impl Counts {
    fn clip(&mut self) {
        self.times.truncate(BUCKETS_MAX);
    }
}

fn clip_operations(operations: &mut Vec<OperationCount>) {
    operations.truncate(OPERATIONS_PER_LIST_MAX);
    operations.iter_mut().for_each(|operation| cut(&mut operation.name));
}

impl NodeReport {
    /// About how many bytes it has on the network.
    pub fn weight(&self) -> usize {
        let counts = |counts: &Counts| 40 + 8 * counts.times.len();
        let target = |t: &TargetReport| {
            300 + counts(&t.counts) + 40 * t.operations.len() + 40 * t.jobs.len()
        };
        let session = |s: &SessionReport| 80 + counts(&s.counts);
        let mount = |m: &MountReport| {
            200 + 40 * m.operations.len() + m.sessions.iter().map(session).sum::<usize>()
        };
        let targets: usize = self.targets.iter().map(target).sum();
        let mounts: usize = self.mounts.iter().map(mount).sum();
        let log = |log: &LogReport| 100 + log.trouble.len() + 80 * log.hosts.len();
        let logs: usize = self.logs.iter().map(log).sum();
        300 + targets + mounts + 600 * self.waits.len() + logs
    }

    /// Cuts what is beyond the bounds.
    pub fn clip(&mut self) {
        cut_all([
            &mut self.host,
            &mut self.place,
            &mut self.version,
            &mut self.state,
            &mut self.http,
        ]);
        self.nids.truncate(TARGETS_PER_REPORT_MAX);
        self.nids.iter_mut().for_each(cut);
        self.targets.truncate(TARGETS_PER_REPORT_MAX);
        for target in &mut self.targets {
            cut_all([&mut target.name, &mut target.failure, &mut target.commits.name]);
            target.counts.clip();
            clip_operations(&mut target.operations);
            target.jobs.truncate(JOBS_PER_TARGET_MAX);
            target.jobs.iter_mut().for_each(|job| cut(&mut job.job));
        }
        self.mounts.truncate(MOUNTS_PER_REPORT_MAX);
        for mount in &mut self.mounts {
            cut_all([&mut mount.client, &mut mount.fsname, &mut mount.at]);
            clip_operations(&mut mount.operations);
            mount.sessions.truncate(SESSIONS_PER_MOUNT_MAX);
            for session in &mut mount.sessions {
                cut_all([&mut session.target, &mut session.state]);
                session.counts.clip();
            }
        }
        self.waits.truncate(WAITS_PER_REPORT_MAX);
        self.waits.iter_mut().for_each(|wait| wait.what.clip());
        self.logs.truncate(TARGETS_PER_REPORT_MAX);
        for log in &mut self.logs {
            cut_all([&mut log.target, &mut log.trouble]);
            log.hosts.truncate(HOSTS_PER_LOG_MAX);
            log.hosts.iter_mut().for_each(|host| cut(&mut host.host));
        }
    }
}

impl Waiting {
    fn clip(&mut self) {
        match self {
            Waiting::Program { client, at, program, operation, fid, .. } => {
                cut_all([client, at, program, operation, fid])
            }
            Waiting::Request { client, target, operation, fid, session, .. } => {
                cut_all([client, target, operation, fid, session]);
            }
            Waiting::Served { client, target, operation, fid, .. } => {
                cut_all([client, target, operation, fid])
            }
            Waiting::Lock { client, target, fid, bits, holders } => {
                cut_all([client, target, fid, bits]);
                clip_holders(holders);
            }
            Waiting::FileLock { client, target, fid, holders, .. } => {
                cut_all([client, target, fid]);
                clip_holders(holders);
            }
        }
    }
}

fn clip_holders(holders: &mut Vec<Holder>) {
    holders.truncate(HOLDERS_PER_WAIT_MAX);
    for holder in holders {
        cut_all([&mut holder.client, &mut holder.description, &mut holder.nid, &mut holder.holds]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_beyond_the_bounds_after_clipping() {
        let long = "\u{e9}".repeat(TEXT_BYTES_MAX);
        let holder = Holder { holds: long.clone(), ..Holder::default() };
        let what = Waiting::Lock {
            client: "1".into(),
            target: long.clone(),
            fid: String::new(),
            bits: String::new(),
            holders: vec![holder; HOLDERS_PER_WAIT_MAX + 1],
        };
        let counts = Counts { times: vec![1; BUCKETS_MAX + 1], ..Counts::default() };
        let session = SessionReport { counts: counts.clone(), ..SessionReport::default() };
        let operations = vec![
            OperationCount { name: long.clone(), count: 1, micros: 1 };
            OPERATIONS_PER_LIST_MAX + 1
        ];
        let jobs =
            vec![JobCount { job: long.clone(), ..JobCount::default() }; JOBS_PER_TARGET_MAX + 1];
        let target = TargetReport {
            counts,
            operations: operations.clone(),
            jobs,
            ..TargetReport::default()
        };
        let sessions = vec![session; SESSIONS_PER_MOUNT_MAX + 1];
        let mount = MountReport { operations, sessions, ..MountReport::default() };
        let mut report = NodeReport {
            host: long,
            targets: vec![target; TARGETS_PER_REPORT_MAX + 1],
            mounts: vec![mount; 2],
            waits: vec![Wait { id: 1, cause: 0, age_ms: 2, what }; WAITS_PER_REPORT_MAX + 1],
            ..NodeReport::default()
        };
        report.clip();
        assert_eq!(report.host.len(), TEXT_BYTES_MAX);
        assert_eq!(
            (report.targets.len(), report.waits.len()),
            (TARGETS_PER_REPORT_MAX, WAITS_PER_REPORT_MAX)
        );
        assert_eq!(report.targets[0].counts.times.len(), BUCKETS_MAX);
        assert_eq!(report.targets[0].operations.len(), OPERATIONS_PER_LIST_MAX);
        let jobs = &report.targets[0].jobs;
        assert_eq!((jobs.len(), jobs[0].job.len()), (JOBS_PER_TARGET_MAX, TEXT_BYTES_MAX));
        assert_eq!(report.mounts[1].sessions.len(), SESSIONS_PER_MOUNT_MAX);
        assert_eq!(report.mounts[1].sessions[0].counts.times.len(), BUCKETS_MAX);
        let Waiting::Lock { target, holders, .. } = &report.waits[0].what else { panic!("a lock") };
        assert_eq!((target.len(), holders.len()), (TEXT_BYTES_MAX, HOLDERS_PER_WAIT_MAX));
        assert_eq!(holders[0].holds.len(), TEXT_BYTES_MAX);
    }
}
