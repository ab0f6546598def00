//! State of a node, as it reports it. The keys of the JSON form are stable: scripts read them.

use crate::host::authority::standing::KeysStatus;
use serde::{Deserialize, Serialize};

/// State of a node as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Parts are being started.
    Starting,
    /// In service.
    Up,
    /// Parts are being stopped.
    Stopping,
    /// There is no process.
    Down,
}

/// One target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// `MGS`, `sheen-OST0001`
    pub name: String,
    /// `mgt`, `mdt`, `ost`
    pub kind: String,
    /// Directory of the target.
    pub dir: String,
    /// Space in bytes; absent for the MGT.
    pub space: Option<Space>,
}

/// Space of a target, bytes and files (inodes of an MDT, objects of an OST).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Bytes in all.
    pub bytes_total: u64,
    /// Bytes free.
    pub bytes_free: u64,
    /// Bytes that unprivileged users can have.
    pub bytes_available: u64,
    /// Files that could exist.
    pub files_total: u64,
    /// Files that can still be made.
    pub files_free: u64,
}

/// The log of a target that other hosts can take over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStatus {
    /// `MGS`, `sheen-MDT0000`
    pub target: String,
    /// The etcd that has it.
    pub etcd: String,
    /// Its owner, and where that is reached; absent: it has none.
    pub owner: Option<String>,
    /// The newest epoch.
    pub epoch: u64,
    /// Number of the oldest entry that is kept.
    pub first: u64,
    /// Number of the newest entry.
    pub head: u64,
    /// Hosts that have its tree, or get it.
    pub hosts: Vec<LogHost>,
    /// Where large entries and checkpoints are; absent: it has no store of blobs.
    #[serde(default)]
    pub blobs: Option<String>,
    /// Number of the entry up to which the newest checkpoint has the log; absent: there is none.
    #[serde(default)]
    pub checkpoint: Option<u64>,
    /// What is wrong with the etcd or the store of blobs; absent: they answer.
    pub trouble: Option<String>,
}

/// A host that has the tree of a target, or gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHost {
    /// Host and folder.
    pub host: String,
    /// It owns the target.
    pub owner: bool,
    /// It is the one that tells this.
    pub own: bool,
    /// Number of the newest entry that is durable in its tree.
    pub applied: u64,
}

/// One mount of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStatus {
    /// Directory.
    pub at: String,
    /// `NID[,NID]:/FSNAME`
    pub source: String,
    /// As in fstab.
    pub options: String,
    /// The kernel still has it.
    pub mounted: bool,
}

/// One client that the MGS knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Description that the client gives of itself: host and mount point, or the server that acts
    /// as a client.
    pub description: String,
    /// NID that it connected from.
    pub nid: String,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Directory of the node.
    pub home: String,
    /// State of the node.
    pub state: NodeState,
    /// Process id.
    pub pid: u32,
    /// Of the program.
    pub version: String,
    /// Seconds since the process started.
    pub uptime_seconds: u64,
    /// File system.
    pub fsname: String,
    /// NIDs at which it can be reached, `0@lo` first.
    pub nids: Vec<String>,
    /// The bound address; absent if it does not listen.
    pub listen: Option<String>,
    /// NIDs beyond this host at which it takes connections of everybody: no key is asked for.
    #[serde(default)]
    pub open: Vec<String>,
    /// Its key, for people, if every connection must show one.
    #[serde(default)]
    pub secured: Option<String>,
    /// How far the keys of the cluster are, if the authority is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysStatus>,
    /// Address of its HTTP server (`/metrics`, at the MGS also the page of the cluster); absent if
    /// there is none.
    pub http: Option<String>,
    /// SHA-256 of the certificate that it shows; absent: it speaks plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<String>,
    /// Targets it serves.
    pub targets: Vec<TargetStatus>,
    /// Logs of the targets that it serves or may serve, and that other hosts can take over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogStatus>,
    /// Mounts of the node.
    pub mounts: Vec<MountStatus>,
    /// Clients, if this node serves the MGS.
    pub clients: Vec<ClientStatus>,
    /// Targets that something here waits for: another MDT for its part of an operation, or one that
    /// cannot be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<WaitsFor>,
    /// Parts that could not be asked, and stores that have stopped or lack space: a sentence each.
    pub trouble: Vec<String>,
}

/// A target that something waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsFor {
    /// `sheen-MDT0002`
    pub target: String,
    /// How many operations wait.
    pub operations: u64,
    /// Seconds that the longest of them has waited.
    pub seconds: u64,
}
