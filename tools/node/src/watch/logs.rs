//! Logs that other hosts share, as this process sees them.
//!
//! A thread per log asks its etcd each [`LOOK`]; readers get what it saw last.

use crate::watch::status::{LogHost, LogStatus};
use etcd::bucket::Bucket;
use etcd::client::Etcd;
use etcd::s3::S3;
use etcd::url::Members;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::blobs::Blobs;
use store::kv::KvError;
use store::shared_log::{HostTree, SharedLog, Shown};
use types::target::TargetName;

/// How often a log is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is seen whether the store of blobs answers.
const LOOK_AT_BLOBS: Duration = Duration::from_secs(10);
/// A folder without blobs.
const NONE: &str = "sheen/none";
/// How soon the thread ends.
const STEP: Duration = Duration::from_millis(50);

/// A log, and what was seen of it last.
pub struct WatchedLog {
    target: TargetName,
    members: Members,
    /// Name of the copy of the tree on this host.
    replica: String,
    seen: Mutex<LogStatus>,
    /// Why this host does not use it, if so.
    refused: Mutex<Option<String>>,
}

impl WatchedLog {
    /// Not looked at yet.
    pub fn new(target: TargetName, members: Members, replica: String) -> Arc<WatchedLog> {
        let seen = LogStatus {
            target: target.to_string(),
            etcd: Members { blobs: None, ..members.clone() }.to_string(),
            blobs: members.blobs.as_ref().map(Bucket::place),
            trouble: Some("it did not answer yet".to_owned()),
            ..LogStatus::default()
        };
        Arc::new(WatchedLog {
            target,
            members,
            replica,
            seen: Mutex::new(seen),
            refused: Mutex::default(),
        })
    }

    /// The target.
    pub fn target(&self) -> TargetName {
        self.target
    }

    /// What was seen of it last.
    pub fn seen(&self) -> LogStatus {
        self.seen.lock().clone()
    }

    /// Why this host does not use it; `None`: it does. `false`: as before.
    pub fn refuse(&self, why: Option<String>) -> bool {
        let mut refused = self.refused.lock();
        let is_news = *refused != why;
        *refused = why;
        is_news
    }

    /// Looks at it until it is told to stop. Blocks.
    pub fn watch(&self, stopped: &AtomicBool) {
        let kv = match Etcd::new(self.members.clone(), Etcd::DEADLINE) {
            Ok(kv) => Arc::new(kv),
            Err(error) => {
                self.seen.lock().trouble = Some(error.to_string());
                return;
            }
        };
        let log = self.log(&kv);
        let blobs = self.members.blobs.as_ref().map(S3::new).transpose();
        let (mut next, mut next_blobs, mut trouble) = (Instant::now(), Instant::now(), None);
        while !stopped.load(Ordering::Acquire) {
            if Instant::now() >= next_blobs {
                trouble = match &blobs {
                    Ok(None) => None,
                    Ok(Some(blobs)) => blobs.list(NONE, "").err().map(|error| error.to_string()),
                    Err(error) => Some(error.to_string()),
                };
                next_blobs = Instant::now() + LOOK_AT_BLOBS;
            }
            if Instant::now() >= next {
                self.look(&kv, &log, trouble.clone());
                next = Instant::now() + LOOK;
            }
            std::thread::sleep(STEP);
        }
    }

    fn log(&self, kv: &Arc<Etcd>) -> SharedLog {
        // Only its keys are looked at: of which store its entries are does not matter.
        SharedLog::new(
            kv.clone(),
            &self.members.keys_of(&self.target.to_string()),
            0,
            &self.replica,
            &self.replica,
        )
    }

    fn look(&self, kv: &Etcd, log: &SharedLog, blobs: Option<String>) {
        let shown = log.show();
        let alarms = match kv.alarms() {
            Ok(alarms) if alarms.is_empty() => None,
            Ok(alarms) => Some(format!("etcd has the alarm {}", alarms.join(", "))),
            // A user of etcd may not be allowed to see them.
            Err(KvError::Refused(_)) => None,
            Err(error) => Some(error.to_string()),
        };
        let mut seen = self.seen.lock();
        match shown {
            Ok(Shown { fence, first, head, owner, replicas, checkpoint }) => {
                let owner = owner.map(|owner| owner.place);
                let owns = |host: &str| owner.as_deref().is_some_and(|place| is_at(host, place));
                let host = |HostTree { host, applied }: HostTree| LogHost {
                    owner: owns(&host),
                    own: host == self.replica,
                    host,
                    applied,
                };
                seen.hosts = replicas.into_iter().map(host).collect();
                (seen.owner, seen.epoch, seen.first, seen.head) = (owner, fence.0, first, head);
                seen.checkpoint = checkpoint.map(|checkpoint| checkpoint.number);
                seen.trouble = self.refused.lock().clone().or(alarms).or(blobs);
            }
            Err(error) => seen.trouble = Some(error.to_string()),
        }
    }

    /// The log need not keep anything for this host any more. Blocks.
    ///
    /// # Errors
    /// Why it cannot be done.
    pub fn remove_replica(&self, host: &str) -> Result<(), Unremoved> {
        let kv = Etcd::new(self.members.clone(), Etcd::DEADLINE);
        let kv = Arc::new(kv.map_err(|error| Unremoved::Log(error.to_string()))?);
        let log = self.log(&kv);
        // As of now: what was seen last may be of another owner.
        let owner = log.owner().map_err(|error| Unremoved::Log(error.to_string()))?;
        if owner.is_some_and(|owner| is_at(host, &owner.place)) {
            return Err(Unremoved::Owner(host.to_owned()));
        }
        match log.remove_replica(host) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Unremoved::Unknown(host.to_owned())),
            Err(error) => Err(Unremoved::Log(error.to_string())),
        }
    }
}

/// True if an owner at this place is this copy of the tree.
fn is_at(replica: &str, place: &str) -> bool {
    place.rsplit_once(" at ").is_some_and(|(owner, _)| owner == replica)
}

/// A host stays among those that the log is kept for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unremoved {
    /// It owns the target.
    #[error("{0} owns the target")]
    Owner(String),
    /// There is no such host.
    #[error("the log is not kept for {0}; `sheen status` names the hosts")]
    Unknown(String),
    /// The log.
    #[error("{0}")]
    Log(String),
}
