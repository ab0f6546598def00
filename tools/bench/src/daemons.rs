//! The SheenFS daemons behind a mount, whose CPU and memory are counted.
//!
//! The registry of the host (`/run/sheen`, as `lctl` uses it) is asked which daemon has the mount
//! and which serve targets of the same file system. A daemon that it does not know is looked for in
//! `/proc` by the mount point in its command line.

use crate::failure::BenchError;
use crate::measure;
use node::local;
use node::manage::control::{self, Answer, Request};
use node::watch::status::NodeStatus;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// A process that serves the place that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// Process id.
    pub pid: i32,
    /// Roles of the process: `mount MGS MDT0000 OST0000`.
    pub name: String,
    /// Address at which it shows its metrics.
    pub http: Option<SocketAddr>,
}

impl Daemon {
    /// A daemon without metrics.
    pub fn new(pid: i32, name: &str) -> Daemon {
        Daemon { pid, name: name.to_owned(), http: None }
    }
}

/// The CPU time of each by name; two of the same name are added.
///
/// # Errors
/// A daemon has ended.
pub fn cpu(daemons: &[Daemon]) -> Result<BTreeMap<String, Duration>, BenchError> {
    let mut all = BTreeMap::new();
    for daemon in daemons {
        *all.entry(daemon.name.clone()).or_default() += measure::cpu_of(daemon.pid)?;
    }
    Ok(all)
}

/// Resident memory of each by name, bytes.
///
/// # Errors
/// A daemon has ended.
pub fn resident(daemons: &[Daemon]) -> Result<BTreeMap<String, u64>, BenchError> {
    let mut all = BTreeMap::new();
    for daemon in daemons {
        *all.entry(daemon.name.clone()).or_default() += measure::resident_of(daemon.pid)?.all;
    }
    Ok(all)
}

/// Daemons of this host that serve `fsname` or have one of these mount points; ordered by process
/// id.
pub fn of(fsname: &str, mounts: &[&Path]) -> Vec<Daemon> {
    let mut found: Vec<Daemon> = Vec::new();
    for home in local::daemons() {
        // A daemon that does not answer has ended, or belongs to another user.
        let Ok((Answer::Status(status), pid)) = control::ask(&home, &Request::Status) else {
            continue;
        };
        if let Some(name) = part_in(&status, fsname, mounts)
            && !found.iter().any(|d| d.pid == pid)
        {
            let http = status.http.as_ref().and_then(|addr| addr.parse().ok());
            found.push(Daemon { pid, name, http });
        }
    }
    for mount in mounts {
        for pid in mounted_by(mount) {
            if !found.iter().any(|d| d.pid == pid) {
                found.push(Daemon::new(pid, "mount"));
            }
        }
    }
    found.sort_by_key(|daemon| daemon.pid);
    found
}

fn part_in(status: &NodeStatus, fsname: &str, mounts: &[&Path]) -> Option<String> {
    let mine = status.mounts.iter().any(|m| mounts.contains(&Path::new(&m.at)));
    let serves = status.fsname == fsname && !status.targets.is_empty();
    let prefix = format!("{fsname}-");
    let mount = mine.then_some("mount");
    let targets = status.targets.iter().map(|t| t.name.strip_prefix(&prefix).unwrap_or(&t.name));
    // A node of the same name that mounts something else itself is another cluster on this host.
    let other = !mine && status.mounts.iter().any(|m| m.mounted);
    (mine || (serves && !other))
        .then(|| mount.into_iter().chain(targets).collect::<Vec<_>>().join(" "))
}

/// Processes of this program behind a mount at this path.
pub fn mounted_by(path: &Path) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|b| *b == 0).skip(1);
        comm.trim_end() == "sheen"
            && words.next() == Some(b"mount-daemon")
            && words.any(|w| w == path.as_os_str().as_bytes())
    };
    pids.filter(has).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::watch::status::{MountStatus, NodeState, TargetStatus};

    fn status(fsname: &str, targets: &[&str], mounts: &[&str]) -> NodeStatus {
        let target = |name: &&str| TargetStatus {
            name: (*name).to_owned(),
            kind: "ost".to_owned(),
            dir: String::new(),
            space: None,
        };
        let mount = |at: &&str| MountStatus {
            at: (*at).to_owned(),
            source: String::new(),
            options: String::new(),
            mounted: true,
        };
        NodeStatus {
            home: String::new(),
            state: NodeState::Up,
            pid: 1,
            version: String::new(),
            uptime_seconds: 0,
            fsname: fsname.to_owned(),
            nids: vec![],
            listen: None,
            open: vec![],
            secured: None,
            keys: None,
            http: None,
            https: None,
            targets: targets.iter().map(target).collect(),
            mounts: mounts.iter().map(mount).collect(),
            clients: vec![],
            logs: vec![],
            waits_for: Vec::new(),
            trouble: vec![],
        }
    }

    #[test]
    fn daemons_are_told_apart_by_mount_and_file_system() {
        let mounts = [Path::new("/mnt/a")];
        let part = |s: &NodeStatus| part_in(s, "sheen", &mounts);
        assert_eq!(
            part(&status("sheen", &["MGS", "sheen-MDT0000"], &["/mnt/a"])),
            Some("mount MGS MDT0000".into())
        );
        assert_eq!(part(&status("sheen", &["sheen-OST0000"], &[])), Some("OST0000".into()));
        assert_eq!(part(&status("sheen", &[], &["/mnt/a"])), Some("mount".into()));
        assert_eq!(part(&status("sheen", &[], &["/mnt/b"])), None);
        assert_eq!(part(&status("other", &["other-OST0000"], &[])), None);
        // Another cluster of the same name.
        assert_eq!(part(&status("sheen", &["sheen-MDT0000"], &["/mnt/b"])), None);
    }
}
