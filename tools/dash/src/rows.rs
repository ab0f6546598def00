//! Content of the page and of `top`: a row for each target, client and process, and one closer
//! look, all at one moment.
//!
//! It is also the JSON of `/api/cluster` and `/api/detail`: removing a field or changing its
//! meaning breaks the readers.

use crate::chain::Chain;
use crate::rates::Rates;
use serde::{Deserialize, Serialize};
use wire::report::{Counts, JobCount, LogHostReport, OperationCount, Recovery, SpaceReport};

/// One target as the page shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct TargetRow {
    /// `sheen-OST0001`
    pub name: String,
    /// `mgt`, `mdt`, `ost`
    pub kind: String,
    /// `up`, `starting`, `stopping`, `recovering`, `silent`, `down`, `failed`, `stopped`
    pub state: String,
    /// Why, if that needs words.
    pub note: String,
    /// Host and home of the process that serves it.
    pub host: String,
    /// Home.
    pub place: String,
    /// Process id.
    pub pid: u32,
    /// Addresses that it is reached at.
    pub nids: Vec<String>,
    /// Space.
    pub space: Option<SpaceReport>,
    /// Sessions of clients.
    pub sessions: u32,
    /// Open handles.
    pub open_files: u64,
    /// Locks that clients hold.
    pub locks: u64,
    /// Operations that wait for locks.
    pub lock_waits: u32,
    /// Applied and not yet durable, bytes.
    pub uncommitted_bytes: u64,
    /// Granted to clients, bytes.
    pub granted_bytes: u64,
    /// Commits so far.
    pub commits: u64,
    /// Their mean time, microseconds.
    pub commit_micros: u64,
    /// Waiting for clients of its last life.
    pub recovery: Option<Recovery>,
    /// Totals.
    pub counts: Counts,
    /// Over the last two seconds.
    pub rates: Rates,
}

/// One client as the page shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct ClientRow {
    /// UUID.
    pub client: String,
    /// Mount point.
    pub at: String,
    /// File system.
    pub fsname: String,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// `up`, `silent`, `down`
    pub state: String,
    /// Open files.
    pub open_files: u64,
    /// Inodes that the kernel remembers.
    pub inodes: u64,
    /// Requests of the kernel that wait.
    pub waiting: u32,
    /// Inodes of which it holds locks.
    pub locks: u64,
    /// Written and not yet stored by OSTs, bytes.
    pub dirty_bytes: u64,
    /// Granted by OSTs and not taken by a write yet, bytes.
    pub granted_bytes: u64,
    /// Sessions, and how many of them are in service.
    pub sessions: u32,
    /// In service.
    pub sessions_full: u32,
    /// Totals over all sessions.
    pub counts: Counts,
    /// Over the last two seconds.
    pub rates: Rates,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct ProcessRow {
    /// Host.
    pub host: String,
    /// Home or mount point.
    pub place: String,
    /// Process id.
    pub pid: u32,
    /// Version.
    pub version: String,
    /// `up`, `silent`, `down`, `starting`, `stopping`
    pub state: String,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Age of its report.
    pub age_ms: u64,
    /// Resident memory.
    pub memory_bytes: u64,
    /// Cores that it keeps busy.
    pub cores: f32,
    /// Address at which it answers HTTP.
    pub http: String,
}

/// The log of a target that other hosts can take over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct LogRow {
    /// `MGS`, `sheen-MDT0000`
    pub target: String,
    /// The newest epoch.
    pub epoch: u64,
    /// Number of the oldest entry that is kept.
    pub first: u64,
    /// Number of the newest entry.
    pub head: u64,
    /// Hosts that have its tree, or get it; the owner is one of them.
    pub hosts: Vec<LogHostReport>,
    /// What hosts say is wrong with its etcd, each with its name.
    pub trouble: Vec<String>,
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct Picture {
    /// The time, milliseconds since 1970.
    pub time_ms: u64,
    /// Which processes may connect to that of the MGS: `secured` (those with a key of the cluster),
    /// `open` (those of every host that reaches it), `local` (those of its host).
    #[serde(default)]
    pub security: String,
    /// Targets by kind and name.
    pub targets: Vec<TargetRow>,
    /// Clients by host and mount point.
    pub clients: Vec<ClientRow>,
    /// Processes by host and place.
    pub processes: Vec<ProcessRow>,
    /// Waits of more than a second, the longest first.
    pub chains: Vec<Chain>,
    /// Logs that hosts share, by target.
    #[serde(default)]
    pub logs: Vec<LogRow>,
}

/// One series of the last hour, in columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct History {
    /// Seconds since 1970.
    pub time: Vec<u64>,
    /// Requests per second.
    pub requests: Vec<f32>,
    /// Bytes read per second.
    pub read: Vec<f32>,
    /// Bytes written per second.
    pub written: Vec<f32>,
    /// Mean time of a request, microseconds.
    pub micros: Vec<f32>,
    /// 99 of 100 requests took at most this, microseconds.
    pub p99: Vec<f32>,
}

/// A closer look at one target or client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct Detail {
    /// `target/sheen-OST0000`, `client/INSTANCE`, or `all`: all targets together.
    pub of: String,
    /// Operations, the most frequent first.
    pub operations: Vec<OperationCount>,
    /// Of a client: its sessions. Of a target: its clients' sessions with it.
    pub sessions: Vec<SessionRow>,
    /// Of a target: its busiest jobs.
    pub jobs: Vec<JobCount>,
    /// The last hour.
    pub history: History,
}

/// A session between a client and a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct SessionRow {
    /// Name of the other end.
    pub with: String,
    /// The other end, as [`Detail::of`].
    pub of: String,
    /// `FULL`, ...
    pub state: String,
    /// Requests that may be in flight; 0: no network between.
    pub window: u32,
    /// Of an OST: granted to the client and not taken by a write yet, bytes.
    pub granted_bytes: u64,
    /// Totals.
    pub counts: Counts,
}
